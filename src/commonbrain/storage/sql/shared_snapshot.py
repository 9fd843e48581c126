"""One reading shared by all that a call reads, until it writes.

A call of a server meets its session, asks for names and then ranks: in three transactions that is a
begin, an end and a connection each, of one moment it is one.
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
    """What a call reads: nothing before it first asks."""

    whose: tuple[int, str] | None = None
    """Which store is read, and of which tenant."""
    transaction: Any = None
    stack: ExitStack = field(default_factory=ExitStack)

    def end(self) -> None:
        """Let go of the reading; who asks again begins another."""
        self.whose, self.transaction = None, None
        self.stack.close()


_NOW: Final[ContextVar[_SharedSnapshot | None]] = ContextVar("moment", default=None)


@contextmanager
def shared_read() -> Generator[None]:
    """Let all readings inside, in this thread, be one: of one tenant, and until it writes."""
    moment = _SharedSnapshot()
    token = _NOW.set(moment)
    try:
        with moment.stack:
            yield
    finally:
        _NOW.reset(token)


def end_shared_read(store: object) -> None:
    """Begin anew: whoever writes into a store reads afterwards what was written."""
    moment = _NOW.get()
    if moment is not None and moment.whose is not None and moment.whose[0] == id(store):
        moment.end()


@contextmanager
def shared(
    store: object, tenant: str, *, begin: Callable[[], AbstractContextManager[T]]
) -> Generator[T]:
    """Give the reading of the call, which begins here if it has not; its own where it is alone."""
    moment, whose = _NOW.get(), (id(store), tenant)
    if moment is None or (moment.whose is not None and moment.whose != whose):
        with begin() as alone:
            yield alone
        return
    if moment.whose is None:
        moment.transaction = moment.stack.enter_context(begin())
        moment.whose = whose
    with ExitStack() as unless_well:
        # What fails may leave it unfit to be asked.
        unless_well.callback(moment.end)
        yield moment.transaction
        unless_well.pop_all()
