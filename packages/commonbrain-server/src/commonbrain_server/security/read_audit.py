"""The audit of reads, for tenants whose policy says that reads are audited.

A line names what the reply of a call of `Brain` shows: each object with the id of a memory and some
of its text. Code that puts text of a memory into a reply without its id calls `note_shown`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.security.guard import SHOWN
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
ViewT = TypeVar("ViewT")
ReplyT = TypeVar("ReplyT")
_ACTIONS: Final[Mapping[str, str]] = {
    "remember": "shown by remember",
    "recall": "recall",
    "why_failed": "recall for failure",
    "list": "list",
    "get": "get",
    "get_several": "get",
    "boot": "boot",
    "preview_boot": "boot preview",
    "revise": "shown by revise",
    "review": "review queue",
    "bulk_edit": "shown by bulk edit",
    "forget": "shown by forget",
    "prune": "shown by prune",
    "undo": "shown by undo",
    "erase": "shown by erase",
    "trace": "trace {}",
    "skills": "skill list",
    "session": "session {}",
    "message": "message {}",
    "reflect": "reflect",
    "import_": "shown by import",
    "merge": "shown by merge",
    "recalls": "recalls",
    "maintain": "maintain",
}
"""The actions of audit lines, by the attribute of `Brain`; braces stand for its method."""
_METHODS: Final[Mapping[str, str]] = {
    "skills.firing": "skill test",
}
"""Actions of methods that are not named as above."""
_CALL: Final = "__call__"


class _AuditedView:
    """Mixed into `Brain`: what its calls show is audited, if the policy of the tenant says so."""

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401 any attribute
        value = super().__getattribute__(name)
        return value if name not in _ACTIONS else _AuditedCapability(value, self, name=name)


class _AuditedCapability:
    """A method of `Brain`, or a capability with methods, each of which is audited."""

    def __init__(self, capability: Any, view: Any, *, name: str) -> None:  # noqa: ANN401 any
        self._capability, self._view, self._name = capability, view, name

    def __call__(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        return self._audit(_CALL, partial(self._capability, *args, **options))

    def __getattr__(self, method: str) -> Any:  # noqa: ANN401
        value = getattr(self._capability, method)
        if not callable(value):
            return value

        def call(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            return self._audit(method, partial(value, *args, **options))

        return call

    def _audit(self, method: str, read: Callable[[], ReplyT]) -> ReplyT:
        action = _METHODS.get(f"{self._name}.{method}") or _ACTIONS[self._name].format(method)
        return self._view.services.guard.audit(self._view.caller, action=action, read=read)


@cache
def audited_class(view: type[ViewT]) -> type[ViewT]:
    """Return a subclass of `Brain` that audits what its calls show, if the policy says so.

    The lines are written before the reply is given, so that nothing is read without a line. A call
    then also raises `UnavailableError` if they cannot be written.
    """
    if issubclass(view, _AuditedView):
        return view
    audited = type(f"Audited{view.__name__}", (_AuditedView, view), {"__slots__": ()})
    return cast("type[ViewT]", audited)


def audit(services: Services, caller: Caller, *, action: str, read: Callable[[], ReplyT]) -> ReplyT:
    """Run a call, and append a line for each memory it shows; what it calls itself is part of it.

    Raises:
        UnavailableError: a line cannot be written; the reply must not be given.

    """
    shown: set[int] = set()
    outside = SHOWN.set(shown)
    try:
        reply = read()
        shown.update(_shown_in(reply))
    finally:
        SHOWN.reset(outside)
        # An error may quote a memory too.
        _record(services, caller, action=action, memory_ids=shown)
    return reply


def record_copy(
    services: Services, caller: Caller, *, action: str, subject: str, memories: int
) -> None:
    """Append one line for a file with too many memories to name.

    Raises:
        UnavailableError: it cannot be written; the file must not be given.

    """
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
