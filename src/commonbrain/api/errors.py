"""What each error of the house becomes at each door.

`ERRORS` is the table, most special first: class, exit code of the command line, HTTP status.
"""

from dataclasses import dataclass
from typing import Final

from commonbrain.model.errors import (
    CommonbrainError,
    Corrupt,
    Invalid,
    Limited,
    NotFound,
    Refused,
    Unavailable,
    Unknown,
)

EXIT_REFUSED: Final = 3
EXIT_CORRUPT: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """How one class of errors is shown; HTTP statuses follow RFC 9110."""

    error: type[CommonbrainError]
    exit_code: int
    http_status: int


ERRORS: Final = (
    Fault(error=Invalid, exit_code=2, http_status=422),
    Fault(error=Unknown, exit_code=EXIT_REFUSED, http_status=401),
    Fault(error=Refused, exit_code=EXIT_REFUSED, http_status=403),
    Fault(error=Limited, exit_code=5, http_status=429),
    Fault(error=NotFound, exit_code=4, http_status=404),
    Fault(error=Unavailable, exit_code=5, http_status=503),
    Fault(error=Corrupt, exit_code=EXIT_CORRUPT, http_status=500),
    Fault(error=CommonbrainError, exit_code=1, http_status=500),
)


def fault_of(error: CommonbrainError) -> Fault:
    """Find how an error is shown."""
    return next(fault for fault in ERRORS if isinstance(error, fault.error))


def describe(error: CommonbrainError) -> dict[str, str | int]:
    """Write an error as JSON values: its code, what is wrong, and the next step."""
    told: dict[str, str | int] = {
        "code": error.code,
        "message": error.message,
        "hint": error.hint,
    }
    if isinstance(error, Limited) and error.retry_after_s is not None:
        told["retry_after_s"] = error.retry_after_s
    return told
