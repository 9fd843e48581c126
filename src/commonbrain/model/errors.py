"""The errors: what the caller must fix, what may be retried, what must stop.

Each is a `CommonbrainError`:

- InvalidInputError: the call is malformed; fix the arguments.
- AuthenticationError: the credential is not valid; use another.
- RejectedError: validation or a policy refused it; fix the content or the authority, and resend.
  LimitExceededError is one: a rate or quota is used up; wait or free some.
- NotFoundError: there is no such memory, or the caller may not see it.
- UnavailableError: a dependency did not answer in time; nothing was changed, retry.
- StoreCorruptError: the store cannot be trusted or understood; stop, and read the hint.
"""

import re
from collections.abc import Collection
from enum import StrEnum
from typing import ClassVar, Final, TypeVar


class CommonbrainError(Exception):
    """Base of all errors raised on purpose: a stable `code`, the problem, and the next step."""

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
    """The credential is missing, wrong, expired or revoked; nothing was done."""

    default_code = "invalid_credential"


class RejectedError(CommonbrainError):
    """Validation or a policy rejected the call; nothing was done."""

    default_code = "refused"


class LimitExceededError(CommonbrainError):
    """A rate or a quota is used up; nothing was done."""

    default_code = "rate_limited"

    def __init__(
        self, message: str, *, code: str = "", hint: str = "", retry_after_s: int | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after_s = retry_after_s
        """Whole seconds after which a retry may succeed; None if waiting does not help."""


class NotFoundError(CommonbrainError):
    """There is no such memory, or the caller may not see it; the error does not tell which."""

    default_code = "not_found"


class UnavailableError(CommonbrainError):
    """A dependency is down, locked or too slow; nothing was changed, and a retry may succeed."""

    default_code = "store_down"


class BusyError(UnavailableError):
    """Too much work of the caller, or of the server, waits already; nothing was changed.

    A retry may succeed.
    """

    default_code = "busy"

    def __init__(
        self, message: str, *, code: str = "", hint: str = "", retry_after_s: int | None = None
    ) -> None:
        super().__init__(message, code=code, hint=hint)
        self.retry_after_s = retry_after_s
        """Whole seconds after which a retry may succeed."""


ACTION_ITEMS_PENDING: Final = "action_items_pending"
"""The code of a write that waits until action items are acknowledged."""
KEYLESS: Final = frozenset({"key_missing", "key_wrong"})
"""The codes of a sealed store that cannot be opened."""


class DeadlineError(UnavailableError):
    """The caller no longer waits; nothing was changed, and a retry may succeed."""

    default_code = "deadline"


class InterruptedCallError(CommonbrainError):
    """The process that ran the call ended; the call may have been carried out."""

    default_code = "interrupted"


class StoreCorruptError(CommonbrainError):
    """The store is damaged, foreign or newer than this program; it was left unchanged."""

    default_code = "store_corrupt"


_Set = TypeVar("_Set", bound=StrEnum)


def parse_choice(choices: type[_Set], given: str) -> _Set:
    """Return the member with this name.

    Raises:
        InvalidInputError: there is none; the message lists the names.

    """
    try:
        return choices(given.strip())
    except ValueError:
        # The class name in words: TaskStatus becomes "task status".
        noun = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", choices.__name__).lower()
        raise InvalidInputError(
            f"{given[:40]!r} is not a {noun}.",
            hint=f"Choose one of {', '.join(choices)}.",
        ) from None


def check_chars(text: str, most: int, *, what: str, hint: str) -> str:
    """Return a text of 1 to `most` characters.

    Raises:
        InvalidInputError: it is empty or longer; `what` names it.

    """
    if not 0 < len(text) <= most:
        raise InvalidInputError(
            f"The {what} has {len(text)} characters; 1 to {most} are allowed.", hint=hint
        )
    return text


def check_names(given: Collection[str], known: Collection[str], *, message: str) -> None:
    """Reject unknown arguments: a misspelt filter that is ignored would select too much.

    Raises:
        InvalidInputError: there is at least one; `{}` in the message stands for its name.

    """
    if unknown := sorted(set(given) - set(known)):
        raise InvalidInputError(
            message.format(", ".join(unknown)), hint=f"Choose from {', '.join(known)}."
        )
