"""The exit code and HTTP status of each error.

`ERRORS` is the table, most specific first: class, exit code of the command line, HTTP status.
"""

from typing import Final

from commonbrain.model import errors
from commonbrain.model.values import dataclass

EXIT_REFUSED: Final = 3
EXIT_CORRUPT: Final = 6
EXIT_INTERRUPTED: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportError:
    """The exit code and HTTP status of a class of errors; statuses follow RFC 9110."""

    error: type[errors.CommonbrainError]
    exit_code: int
    http_status: int


ERRORS: Final = (
    TransportError(error=errors.InvalidInputError, exit_code=2, http_status=422),
    TransportError(error=errors.AuthenticationError, exit_code=EXIT_REFUSED, http_status=401),
    TransportError(error=errors.RejectedError, exit_code=EXIT_REFUSED, http_status=403),
    TransportError(error=errors.LimitExceededError, exit_code=5, http_status=429),
    TransportError(error=errors.NotFoundError, exit_code=4, http_status=404),
    TransportError(error=errors.UnavailableError, exit_code=5, http_status=503),
    TransportError(error=errors.StoreCorruptError, exit_code=EXIT_CORRUPT, http_status=500),
    TransportError(error=errors.InterruptedCallError, exit_code=EXIT_INTERRUPTED, http_status=500),
    TransportError(error=errors.CommonbrainError, exit_code=1, http_status=500),
)


def to_transport_error(error: errors.CommonbrainError) -> TransportError:
    """Find the row of an error."""
    return next(mapping for mapping in ERRORS if isinstance(error, mapping.error))


def describe_error(error: errors.CommonbrainError) -> dict[str, str | int]:
    """Convert an error to JSON values: code, message and next step."""
    reply: dict[str, str | int] = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }
    if (
        isinstance(error, errors.LimitExceededError | errors.BusyError)
        and error.retry_after_s is not None
    ):
        reply["retry_after_s"] = error.retry_after_s
    return reply
