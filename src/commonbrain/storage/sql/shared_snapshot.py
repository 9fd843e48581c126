"""A snapshot shared by all reads of a call, until it writes.

A server's call touches its session, looks up names and ranks. Three transactions would need a
begin, an end and a connection each; one snapshot needs one.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager

T = TypeVar("T")


@dataclass(slots=True)
class _SharedSnapshot:
    """The snapshot of a call; nothing before its first read."""

    whose: tuple[int, str] | None = None
    """The store and tenant that it reads."""
    transaction: Any = None
    stack: ExitStack = field(default_factory=ExitStack)

    def end(self) -> None:
        """Release the snapshot; the next read starts another."""
        self.whose, self.transaction = None, None
        self.stack.close()


_NOW: Final[ContextVar[_SharedSnapshot | None]] = ContextVar("moment", default=None)


@contextmanager
def shared_read() -> Generator[None]:
    """Share one snapshot between all reads in this thread, of one tenant and until it writes."""
    snapshot = _SharedSnapshot()
    token = _NOW.set(snapshot)
    try:
        with snapshot.stack:
            yield
    finally:
        _NOW.reset(token)


def end_shared_read(store: object) -> None:
    """Start a new snapshot after a write, so that reads see what was written."""
    snapshot = _NOW.get()
    if snapshot is not None and snapshot.whose is not None and snapshot.whose[0] == id(store):
        snapshot.end()


@contextmanager
def shared(
    store: object, tenant: str, *, begin: Callable[[], AbstractContextManager[T]]
) -> Generator[T]:
    """Return the snapshot of the call, starting it if necessary; a separate one outside a call."""
    snapshot, whose = _NOW.get(), (id(store), tenant)
    if snapshot is None or (snapshot.whose is not None and snapshot.whose != whose):
        with begin() as alone:
            yield alone
        return
    if snapshot.whose is None:
        snapshot.transaction = snapshot.stack.enter_context(begin())
        snapshot.whose = whose
    with ExitStack() as unless_well:
        # After an error the connection may be unusable.
        unless_well.callback(snapshot.end)
        yield snapshot.transaction
        unless_well.pop_all()
