"""The client: a connection to a server, with its credential, session, timeout and retries."""

import asyncio
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Final, Self
from uuid import uuid4

import httpx2
from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception,
    stop_after_attempt,
    wait_random_exponential,
)

from commonbrain_client.errors import (
    ConnectionFailedError,
    ProblemError,
    RateLimitedError,
    UnavailableError,
    UnexpectedResponseError,
    to_error,
)
from commonbrain_client.generated.operations import Operations, Reply
from commonbrain_client.generated.repeatable import REPEATABLE

TIMEOUT_S: Final = 35.0
"""A server ends a call after 30 seconds by default, and says so in its response."""
RETRIES: Final = 4
RETRY_AFTER_S_MAX: Final = 30
"""An error that asks for a longer wait, such as a daily quota, is raised at once."""
_BACKOFF: Final = wait_random_exponential(multiplier=0.25, max=8)
_KEY_HEADER: Final = "Idempotency-Key"
_SESSION_HEADER: Final = "Commonbrain-Session"
# These are raised before a byte of the request leaves.
_NOT_SENT: Final = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class CommonbrainClient(Operations):
    """An async client of one server; its methods are the server's operations.

    Requests that fail because of a rate limit or an outage are repeated if that is safe:
    `remember` is, because each call has an idempotency key.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        session: str | None = None,
        timeout_s: float = TIMEOUT_S,
        retries: int = RETRIES,
    ) -> None:
        """Make a client; it connects when it is first used.

        Args:
            url: the server's address, such as `http://127.0.0.1:8377`.
            key: an API key or a token; none for a server that was started with `--open`.
            session: the agent's session; by default the one that `boot` starts.
            timeout_s: seconds of one attempt.
            retries: how often a request is repeated at most.

        """
        self.session_name = session
        """The session of the next calls."""
        self._attempts = retries + 1
        headers = {"Authorization": f"Bearer {key}"} if key else None
        self._http = httpx2.AsyncClient(base_url=url, headers=headers, timeout=timeout_s)

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _call(
        self,
        operation: str,
        request: dict[str, Any],
        *,
        parse: Callable[[httpx2.Response], Reply],
    ) -> Reply:
        response = await self._send(operation, request)
        try:
            return parse(response)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise UnexpectedResponseError(response.status_code) from error

    async def _send(self, operation: str, request: dict[str, Any]) -> httpx2.Response:
        headers: dict[str, str] = request.setdefault("headers", {})
        if operation == "remember":
            own = request.get("json", {}).get("idempotency_key")
            headers.setdefault(_KEY_HEADER, own or uuid4().hex)
        if "content" in request:
            # A repeated request needs the file from its start.
            request["content"] = await asyncio.to_thread(request["content"].read)
        if self.session_name:
            headers[_SESSION_HEADER] = self.session_name
        attempts = AsyncRetrying(
            stop=stop_after_attempt(self._attempts),
            wait=_wait_s,
            retry=retry_if_exception(
                partial(_may_repeat, is_repeatable=_is_repeatable(operation, request))
            ),
            reraise=True,
        )
        response: httpx2.Response = await attempts(self._attempt, request)
        self.session_name = self.session_name or response.headers.get(_SESSION_HEADER)
        return response

    async def _attempt(self, request: dict[str, Any]) -> httpx2.Response:
        try:
            response = await self._http.request(**request)
        except httpx2.RequestError as error:
            was_sent = not isinstance(error, _NOT_SENT)
            reason = str(error) or type(error).__name__
            raise ConnectionFailedError(
                f"{self._http.base_url} did not answer: {reason}", was_sent=was_sent
            ) from error
        if not response.is_success:
            raise to_error(response)
        return response


def _is_repeatable(operation: str, request: dict[str, Any]) -> bool:
    """Return whether a request may run twice."""
    if _KEY_HEADER in request["headers"]:
        return True
    repeatable = REPEATABLE[operation]
    return repeatable if isinstance(repeatable, bool) else request["json"]["op"] in repeatable


def _may_repeat(error: BaseException, *, is_repeatable: bool) -> bool:
    match error:
        case RateLimitedError() | UnavailableError() if (
            error.retry_after_s or 0
        ) > RETRY_AFTER_S_MAX:
            return False
        case RateLimitedError():
            return error.retry_after_s is not None
        case UnavailableError():
            return is_repeatable
        case ConnectionFailedError():
            return is_repeatable or not error.was_sent
        case _:
            return False


def _wait_s(state: RetryCallState) -> float:
    """Wait as long as the server asks for, and a little longer each time."""
    error = state.outcome.exception() if state.outcome else None
    asked_s = error.retry_after_s if isinstance(error, ProblemError) else None
    return (asked_s or 0) + _BACKOFF(state)
