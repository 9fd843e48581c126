"""The audit of reads, for tenants whose policy says that reads are audited.

A method that returns text of memories is marked with `audited`. Its line names what the reply
shows: each object with the id of a memory and some of its text. Code that puts text of a memory
into a reply without its id calls `note_shown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Protocol, TypeVar, cast

from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.storage.interface import AccessEntry, AuditEntry

if TYPE_CHECKING:
    from commonbrain.model.scope import Caller
    from commonbrain.services import Services

_ID: Final = re.compile(rf"{ids.MEMORY}_[0-9A-Z]{{13}}")
_QUOTED: Final = re.compile(rf"\" until [^()\"]+ \(({_ID.pattern})\)")
"""An earlier value in a line of what a memory said before; its id follows it."""
_LINES: Final = ("earlier", "note")
_NAMES: Final = ("id", "task")
_TEXTS: Final = ("headline", "body", "text", "excerpt")
_SUBJECT_MAX: Final = 160
_SHOWN: ContextVar[set[int] | None] = ContextVar("shown", default=None)
"""What the audited call in progress shows without an id; None outside of one."""


class Reader(Protocol):
    """A capability of one caller."""

    @property
    def services(self) -> Services:
        """The open store."""
        ...

    @property
    def caller(self) -> Caller:
        """Who is shown the reply."""
        ...


ReaderT = TypeVar("ReaderT", bound=Reader)
ReplyT = TypeVar("ReplyT")
P = ParamSpec("P")
_Method = Callable[Concatenate[ReaderT, P], ReplyT]


def audited(
    action: str,
) -> Callable[[_Method[ReaderT, P, ReplyT]], _Method[ReaderT, P, ReplyT]]:
    """Audit what a method shows, if the policy says so; one called by another is part of it.

    The lines are written before the reply is given, so that nothing is read without a line. The
    method then also raises `UnavailableError` if they cannot be written.
    """

    def decorate(read: _Method[ReaderT, P, ReplyT]) -> _Method[ReaderT, P, ReplyT]:
        @wraps(read)
        def audited_read(self: ReaderT, /, *args: P.args, **options: P.kwargs) -> ReplyT:
            is_inside = _SHOWN.get() is not None
            if is_inside or not self.services.policies.of(self.caller).are_reads_audited:
                return read(self, *args, **options)
            shown: set[int] = set()
            outside = _SHOWN.set(shown)
            try:
                reply = read(self, *args, **options)
                shown.update(_shown_in(reply))
            finally:
                _SHOWN.reset(outside)
                # An error may quote a memory too.
                _record(self.services, self.caller, action=action, memory_ids=shown)
            return reply

        return audited_read

    return decorate


@contextmanager
def unshown() -> Generator[None]:
    """Leave out of the audit what a program reads for itself, such as to measure recall."""
    outside = _SHOWN.set(set())
    try:
        yield
    finally:
        _SHOWN.reset(outside)


def note_shown(memory_ids: Iterable[int]) -> None:
    """Name memories of which the reply of the call in progress shows text without their ids."""
    if (shown := _SHOWN.get()) is not None:
        shown.update(memory_ids)


def record_copy(
    services: Services, caller: Caller, *, action: str, subject: str, memories: int
) -> None:
    """Append one line for a file with too many memories to name, if the policy says so.

    Raises:
        UnavailableError: it cannot be written; the file must not be given.

    """
    if not services.policies.of(caller).are_reads_audited:
        return
    line = AccessEntry.by(caller, action, at=services.clock.now(), subject=subject[:_SUBJECT_MAX])
    entry = replace(line, count=max(memories, 1))
    with services.store.begin(caller.tenant) as tx:
        tx.credentials.note(entry)


def _record(services: Services, caller: Caller, *, action: str, memory_ids: set[int]) -> None:
    """Append a line for each memory."""
    if not memory_ids:
        return
    entry = AuditEntry(
        action=action,
        memory_id=0,
        agent=caller.agent,
        session=caller.session,
        reason=None,
        content="",
        at=services.clock.now(),
        request_id=caller.request_id,
    )
    with services.store.begin(caller.tenant) as tx:
        tx.records.audit_alike(entry, tx.memories.texts(sorted(memory_ids)))


def _shown_in(reply: object) -> Iterator[int]:
    """Find the memories of which a reply shows text."""
    match reply:
        case Mapping():
            plain = cast("Mapping[str, Any]", reply)
            yield from _shown_by(plain)
            for value in plain.values():
                yield from _shown_in(value)
        case list() | tuple():
            for value in cast("Iterable[object]", reply):
                yield from _shown_in(value)
        case _ if is_dataclass(reply):
            given: dict[str, Any] = {one.name: getattr(reply, one.name) for one in fields(reply)}
            yield from _shown_by(given)
            for value in given.values():
                yield from _shown_in(value)
        case _:
            pass


def _shown_by(given: Mapping[str, Any]) -> Iterator[int]:
    """Find the memories of which one object shows text, without the objects inside it."""
    named = [
        id_
        for name in _LINES
        if isinstance(line := given.get(name), str)
        for id_ in _QUOTED.findall(line)
    ]
    # Its author knows the text of a memory that the call stored.
    is_new = getattr(given.get("status"), "is_new", False)
    if any(given.get(name) for name in _TEXTS):
        sources = given.get("sources")
        named += [] if is_new else map(given.get, _NAMES)
        named += sources if isinstance(sources, tuple) else ()
    for id_ in named:
        # A text may look like an id and be none.
        with suppress(InvalidInputError):
            if isinstance(id_, str) and _ID.fullmatch(id_):
                yield ids.parse(ids.MEMORY, id_)
