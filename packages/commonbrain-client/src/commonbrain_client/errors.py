"""What a call can raise; all are subclasses of `ClientError`."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import httpx2

from commonbrain_client.generated.models import Problem, ProblemDetail


class ClientError(Exception):
    """Base class of all errors."""


class ConnectionFailedError(ClientError):
    """The server did not answer: it cannot be reached, or the timeout passed."""

    def __init__(self, message: str, *, was_sent: bool) -> None:
        super().__init__(message)
        self.was_sent: Final = was_sent
        """Whether the server may have received the request, and done it."""


class UnexpectedResponseError(ClientError):
    """The response is a proxy's, or one of a server of another version."""

    def __init__(self, status: int) -> None:
        super().__init__(f"The response, of status {status}, is not one that this client knows.")
        self.status: Final = status


class ProblemError(ClientError):
    """The server refused a request or failed; `code` is stable, `hint` is the next step."""

    def __init__(self, problem: Problem, *, retry_after_s: int | None = None) -> None:
        super().__init__(f"{problem.code}: {problem.detail} {problem.hint}".rstrip())
        self.code: Final = problem.code
        self.hint: Final = problem.hint
        self.detail: Final = problem.detail
        self.status: Final = problem.status
        self.invalid_fields: Final[tuple[ProblemDetail, ...]] = tuple(problem.errors or ())
        """The fields of the request that are not valid."""
        self.retry_after_s: Final = retry_after_s
        """Seconds after which the server may accept the request, if it says so."""


class InvalidRequestError(ProblemError):
    """The request is not valid; nothing was done."""


class AuthenticationError(ProblemError):
    """The credential is missing or not valid."""


class PermissionDeniedError(ProblemError):
    """The caller is not allowed to do this."""


class NotFoundError(ProblemError):
    """There is no such memory, job or path, or the caller may not see it."""


class RateLimitedError(ProblemError):
    """A rate limit or quota is used up; nothing was done."""


class ServerError(ProblemError):
    """The server failed."""


class UnavailableError(ServerError):
    """A service that the server needs does not answer; the request may have been done."""


_BY_STATUS: Final[Mapping[int, type[ProblemError]]] = {
    HTTPStatus.UNAUTHORIZED: AuthenticationError,
    HTTPStatus.FORBIDDEN: PermissionDeniedError,
    HTTPStatus.MISDIRECTED_REQUEST: PermissionDeniedError,
    HTTPStatus.NOT_FOUND: NotFoundError,
    HTTPStatus.TOO_MANY_REQUESTS: RateLimitedError,
    HTTPStatus.SERVICE_UNAVAILABLE: UnavailableError,
}


def to_error(response: httpx2.Response) -> ClientError:
    """Convert the response to a failed request to an error."""
    try:
        problem = Problem.from_dict(response.json())
    except (ValueError, KeyError, TypeError, AttributeError):
        return UnexpectedResponseError(response.status_code)
    usual = ServerError if response.is_server_error else InvalidRequestError
    waits = response.headers.get("Retry-After", "")
    error = _BY_STATUS.get(response.status_code, usual)
    return error(problem, retry_after_s=int(waits) if waits.isdecimal() else None)
