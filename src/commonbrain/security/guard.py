"""How a server guards a store: `Services.guard` counts, limits and audits what its callers do.

The store of one person has none.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from commonbrain.model.memory import State

if TYPE_CHECKING:
    from commonbrain.model.scope import Caller, Policy
    from commonbrain.storage.interface import AccessEntry
    from commonbrain.storage.store import Transaction

UNCOUNTED_STATES: Final = frozenset({State.SUPERSEDED, State.FORGOTTEN})
"""States that do not count toward the quota: at the limit, callers can still replace and forget."""


ViewT = TypeVar("ViewT")
ReplyT = TypeVar("ReplyT")


class Guard(Protocol):
    """The rules of a store with several tenants."""

    def view_class(self, view: type[ViewT]) -> type[ViewT]:
        """Return a subclass of `Brain` that audits what it shows."""
        ...

    def policy(self, caller: Caller) -> Policy:
        """Return the policy of the caller's tenant.

        Raises:
            UnavailableError: the store did not answer.

        """
        ...

    def check_rate(self, caller: Caller) -> None:
        """Count a call of a credential and of its tenant; local callers are not limited.

        Raises:
            LimitExceededError: `rate_limited`, with the seconds to wait.

        """
        ...

    def check_quota(self, caller: Caller) -> None:
        """Reject a tenant at its quota before processing its text; `reserve` decides.

        Raises:
            LimitExceededError: `quota_exceeded`.

        """
        ...

    def reserve(self, caller: Caller, tx: Transaction) -> None:
        """Count one more memory that is about to be stored, in the transaction that stores it.

        Raises:
            LimitExceededError: `quota_exceeded`; the transaction must be rolled back.

        """
        ...

    def note_denial(self, tenant: str, entry: AccessEntry, *, wait_s: float) -> None:
        """Record a denial; never raises. Wait at most so many seconds until it is written."""
        ...

    def audit(self, caller: Caller, *, action: str, read: Callable[[], ReplyT]) -> ReplyT:
        """Run a call; append a line for each memory it shows, if reads are audited.

        Raises:
            UnavailableError: a line cannot be written; the reply must not be given.

        """
        ...

    def note_copy(self, caller: Caller, *, action: str, subject: str, memories: int) -> None:
        """Append one line for a file with too many memories to name, if reads are audited.

        Raises:
            UnavailableError: it cannot be written; the file must not be given.

        """
        ...

    def close(self) -> None:
        """Write what is pending; later calls are ignored."""
        ...


SHOWN: Final[ContextVar[set[int] | None]] = ContextVar("SHOWN", default=None)
"""What the audited call in progress shows without an id; None outside of one."""


def note_shown(memory_ids: Iterable[int]) -> None:
    """Name memories of which the reply of the call in progress shows text without their ids."""
    if (shown := SHOWN.get()) is not None:
        shown.update(memory_ids)


@contextmanager
def unshown() -> Generator[None]:
    """Leave out of the audit what a program reads for itself, such as to measure recall."""
    outside = SHOWN.set(set())
    try:
        yield
    finally:
        SHOWN.reset(outside)
