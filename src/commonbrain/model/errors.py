"""The one tree of errors: what the caller must mend, what may be retried, what must stop.

CommonbrainError
├── InvalidInputError    the call is malformed: mend the arguments
├── AuthenticationError  nobody can be told from the credential: give another one
├── RejectedError        the gate or a policy said no: mend the content or the authority, then
resend ├── LimitExceededError   too much or too often: wait, or make room, then resend
├── NotFoundError        no such memory, or none that the caller may see
├── UnavailableError     a dependency did not answer in time: nothing was changed, retry
└── StoreCorruptError    the store cannot be trusted or understood: stop, see the hint
"""

import re
from enum import StrEnum
from typing import ClassVar, TypeVar


class CommonbrainError(Exception):
    """Anything Commonbrain raises on purpose: a stable `code`, what is wrong, and the next step."""

    default_code: ClassVar[str] = "error"

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class InvalidInputError(CommonbrainError):
    """The call is malformed; nothing was done."""

    default_code = "invalid"


class AuthenticationError(CommonbrainError):
    """The credential is missing, wrong, over or revoked; nothing was done."""

    default_code = "invalid_credential"


class RejectedError(CommonbrainError):
    """The gate or a policy refused the call; nothing was done."""

    default_code = "refused"


class LimitExceededError(CommonbrainError):
    """A rate or a quota is used up; nothing was done."""

    default_code = "rate_limited"

    def __init__(
        self, message: str, *, code: str = "", hint: str = "", retry_after_s: int | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after_s = retry_after_s
        """Whole seconds after which it may succeed; None where time alone does not help."""


class NotFoundError(CommonbrainError):
    """No such memory, or none that the caller may see; the two cannot be told apart."""

    default_code = "not_found"


class UnavailableError(CommonbrainError):
    """A dependency is down, locked or too slow; nothing was changed and a retry may succeed."""

    default_code = "store_down"


class StoreCorruptError(CommonbrainError):
    """The store is damaged, foreign or newer than this program; it was left as found."""

    default_code = "store_corrupt"


_Set = TypeVar("_Set", bound=StrEnum)


def parse_choice(choices: type[_Set], given: str) -> _Set:
    """Give the member of that name, or say which there are.

    Raises:
        InvalidInputError: there is none of that name.

    """
    try:
        return choices(given.strip())
    except ValueError:
        raise InvalidInputError(
            f"{given[:40]!r} is not a {_spoken(choices)}.",
            hint=f"Choose one of {', '.join(choices)}.",
        ) from None


def _spoken(choices: type[StrEnum]) -> str:
    """Give the name of a set as words: TaskStatus is a task status."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", choices.__name__).lower()
