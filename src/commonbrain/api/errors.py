"""The exit code and HTTP status of each error.

`ERRORS` is the table, most specific first: class, exit code of the command line, HTTP status.
"""

from typing import Final

from commonbrain.model.errors import (
    AuthenticationError,
    BusyError,
    CommonbrainError,
    InterruptedCallError,
    InvalidInputError,
    LimitExceededError,
    NotFoundError,
    RejectedError,
    StoreCorruptError,
    UnavailableError,
)
from commonbrain.model.values import dataclass

EXIT_REFUSED: Final = 3
EXIT_CORRUPT: Final = 6
EXIT_INTERRUPTED: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportError:
    """The exit code and HTTP status of a class of errors; statuses follow RFC 9110."""

    error: type[CommonbrainError]
    exit_code: int
    http_status: int


ERRORS: Final = (
    TransportError(error=InvalidInputError, exit_code=2, http_status=422),
    TransportError(error=AuthenticationError, exit_code=EXIT_REFUSED, http_status=401),
    TransportError(error=RejectedError, exit_code=EXIT_REFUSED, http_status=403),
    TransportError(error=LimitExceededError, exit_code=5, http_status=429),
    TransportError(error=NotFoundError, exit_code=4, http_status=404),
    TransportError(error=UnavailableError, exit_code=5, http_status=503),
    TransportError(error=StoreCorruptError, exit_code=EXIT_CORRUPT, http_status=500),
    TransportError(error=InterruptedCallError, exit_code=EXIT_INTERRUPTED, http_status=500),
    TransportError(error=CommonbrainError, exit_code=1, http_status=500),
)


def to_transport_error(error: CommonbrainError) -> TransportError:
    """Find the row of an error."""
    return next(mapping for mapping in ERRORS if isinstance(error, mapping.error))


def describe_error(error: CommonbrainError) -> dict[str, str | int]:
    """Convert an error to JSON values: code, message and next step."""
    reply: dict[str, str | int] = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }
    if isinstance(error, LimitExceededError | BusyError) and error.retry_after_s is not None:
        reply["retry_after_s"] = error.retry_after_s
    return reply
