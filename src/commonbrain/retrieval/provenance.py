"""Provenance: where a memory comes from, step by step to messages and their thread."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final, cast

from commonbrain.model import ids
from commonbrain.model.escaping import inert_line
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.links import LinkType
from commonbrain.model.memory import IMPORTED, Memory, State, is_erased
from commonbrain.model.messages import author_of
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller, Trust, is_visible
from commonbrain.model.timestamps import show_day
from commonbrain.security.guard import note_shown
from commonbrain.storage.interface import QueryScope

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

DEPTH_MAX: Final = 10
"""Steps followed from a memory to its sources."""
STEPS_MAX: Final = 50
"""Steps shown, nearest first; a summary of a long day has hundreds of sources."""
_THREAD_MESSAGES_MAX: Final = 20
"""Messages of a thread, up to the relevant one, whose authors count as participants."""
_NAMES_MAX: Final = 3
_SUBJECT_CHARS_MAX: Final = 80

FORGOTTEN: Final = "(forgotten)"
"""Replaces the headline of a forgotten memory; none of its text is shown."""


class Via(StrEnum):
    """How one memory comes from another."""

    DERIVED_FROM = "derived_from"
    SOURCE_MESSAGE = "source_message"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One step back, as far as the caller may see it."""

    depth: int
    """1 for a direct source; a deeper step belongs to the nearest shallower one above it."""
    via: Via
    id: str
    kind: Kind
    headline: str
    agent: str
    """Who said or wrote it."""
    session: str | None
    trust: Trust
    occurred_at: datetime
    state: State
    source_ref: str | None
    thread: str | None
    thread_subject: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """The provenance of a memory."""

    agent: str
    session: str | None
    trust: Trust
    auto_captured: bool
    source_ref: str | None
    imported_from: str | None
    """The format from which it was imported."""
    imported_by: str | None
    """The agent that imported it."""
    author: str | None
    """Who wrote it, as the imported source says."""
    original_ref: str | None
    """Where the imported source has it from."""
    derived_from: tuple[str, ...]
    source_message: str | None
    thread: str | None
    thread_subject: str | None
    because: str | None
    """If it ends in a thread, a sentence with participants and time."""
    origins: tuple[Origin, ...]
    """The steps back; hidden memories and what lies behind them are omitted."""
    is_cut: bool
    """Whether there are more than ten steps or fifty memories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _DerivationStep:
    """A memory and the one derived from it."""

    to: int
    depth: int
    via: Via
    memory: Memory


def provenance(tx: Transaction, caller: Caller, *, memory: Memory, now: datetime) -> Provenance:
    """Return the sources of a memory and the conversation that produced it."""
    steps, is_cut = _walk_back(tx, caller, memory=memory)
    own = [step for step in steps if step.to == memory.id]
    message = next((one.memory for one in own if one.via is Via.SOURCE_MESSAGE), None)
    own_message = memory if memory.kind is Kind.MESSAGE else message
    messages = [own_message] if own_message else []
    messages += [step.memory for step in steps if step.memory.kind is Kind.MESSAGE]
    threads = [id_ for one in messages if (id_ := _thread_of(one)) is not None]
    known = tx.threads.subjects(threads, caller, now=now)
    note_shown(one.message_id for one in known.values())
    subjects = {id_: one.text for id_, one in known.items()}
    thread = _thread_of(own_message) if own_message else None
    query_scope = QueryScope(caller=caller, filter=Filter(), now=now)
    origin = cast("Mapping[str, str]", memory.payload.get(IMPORTED, {}))
    return Provenance(
        agent=memory.agent,
        session=memory.session,
        trust=memory.trust,
        auto_captured=memory.auto_captured,
        source_ref=memory.source_ref,
        imported_from=origin.get("format"),
        imported_by=origin.get("importer"),
        author=origin.get("author"),
        original_ref=origin.get("source_ref"),
        derived_from=tuple(_shown(one.memory.id) for one in own if one.via is Via.DERIVED_FROM),
        source_message=_shown(message.id) if message else None,
        thread=ids.show(ids.THREAD, thread) if thread is not None else None,
        thread_subject=subjects.get(thread) if thread is not None else None,
        because=_explain_source(tx, query_scope, messages=messages, subjects=subjects),
        origins=tuple(_origin(step, subjects) for step in _in_order(memory.id, steps)),
        is_cut=is_cut,
    )


def seen(tx: Transaction, caller: Caller, *, memory_ids: Sequence[int]) -> Mapping[int, Memory]:
    """Fetch the memories that the caller may see, in the given order."""
    memories = tx.memories.get(memory_ids)
    return {
        id_: memories[id_]
        for id_ in memory_ids
        if id_ in memories and is_visible(caller, memories[id_])
    }


def _walk_back(
    tx: Transaction, caller: Caller, *, memory: Memory
) -> tuple[Sequence[_DerivationStep], bool]:
    """Walk back level by level, each memory once, so that cycles end."""
    steps: list[_DerivationStep] = []
    known, frontier = {memory.id}, [memory]
    for depth in range(1, DEPTH_MAX + 2):
        level: dict[int, tuple[int, Via]] = {}
        for to, source, via in _sources(tx, frontier):
            if source not in known:
                level.setdefault(source, (to, via))
        sources = seen(tx, caller, memory_ids=list(level))
        if not sources:
            return steps, False
        capacity = STEPS_MAX - len(steps) if depth <= DEPTH_MAX else 0
        fresh = [
            _DerivationStep(to=level[id_][0], depth=depth, via=level[id_][1], memory=one)
            for id_, one in sources.items()
        ]
        steps += fresh[:capacity]
        if len(fresh) > capacity:
            break
        known |= level.keys()
        frontier = list(sources.values())
    return steps, True


def _sources(tx: Transaction, memories: Sequence[Memory]) -> Iterator[tuple[int, int, Via]]:
    """Return pairs of memory and source: messages first, then derivations."""
    for one in memories:
        if one.source_message_id is not None:
            yield one.id, one.source_message_id, Via.SOURCE_MESSAGE
    memory_ids = {one.id for one in memories}
    for link in tx.links.touching(list(memory_ids), types=[LinkType.DERIVED_FROM]):
        if link.from_id in memory_ids:
            yield link.from_id, link.to_id, Via.DERIVED_FROM


def _in_order(root: int, steps: Sequence[_DerivationStep]) -> Iterator[_DerivationStep]:
    """Return steps in tree order."""
    under: defaultdict[int, list[_DerivationStep]] = defaultdict(list)
    for step in steps:
        under[step.to].append(step)
    waiting = under[root][::-1]
    while waiting:
        step = waiting.pop()
        yield step
        waiting += under[step.memory.id][::-1]


def _origin(step: _DerivationStep, subjects: Mapping[int, str]) -> Origin:
    memory, thread = step.memory, _thread_of(step.memory)
    return Origin(
        depth=step.depth,
        via=step.via,
        id=_shown(memory.id),
        kind=memory.kind,
        headline=memory.headline if memory.state is not State.FORGOTTEN else FORGOTTEN,
        agent=author_of(memory),
        session=memory.session,
        trust=memory.trust,
        occurred_at=memory.occurred_at,
        state=memory.state,
        source_ref=memory.source_ref,
        thread=ids.show(ids.THREAD, thread) if thread is not None else None,
        thread_subject=subjects.get(thread) if thread is not None else None,
    )


def _explain_source(
    tx: Transaction,
    query_scope: QueryScope,
    *,
    messages: Iterable[Memory],
    subjects: Mapping[int, str],
) -> str | None:
    """Describe the conversation of the nearest message in one sentence."""
    for message in messages:
        thread = _thread_of(message)
        # Readers who were not in the thread from its beginning know it by what they see of it.
        own = None if message.state is State.FORGOTTEN else message.headline
        known = subjects.get(thread or 0) or own
        if thread is None or known is None or is_erased(message):
            continue
        names = _names(tx, query_scope, message=message, thread=thread)
        who = ", ".join(names[:_NAMES_MAX])
        others = len(names) - _NAMES_MAX
        if others > 0:
            who += f" and {others} more"
        elif len(names) > 1:
            who = f"{', '.join(names[:-1])} and {names[-1]}"
        verb = "said it" if len(names) == 1 else "discussed it"
        subject = inert_line(known)[:_SUBJECT_CHARS_MAX].replace('"', "'")
        on = show_day(message.occurred_at)
        return f'Known because {who} {verb} in the thread "{subject}" on {on}.'
    return None


def _names(tx: Transaction, query_scope: QueryScope, *, message: Memory, thread: int) -> list[str]:
    """Name the participants of a thread up to a message: author, recipients, others."""
    criteria = Filter(kinds=(Kind.MESSAGE,), thread=thread, until=message.occurred_at, trust_min=0)
    around = QueryScope(caller=query_scope.caller, filter=criteria, now=query_scope.now)
    before = [hit.id for hit in tx.memories.newest(around, limit=_THREAD_MESSAGES_MAX)]
    spoke = [one.speaker or one.agent for one in tx.memories.get(before).values()]
    detail = message.detail
    to = detail.recipients if isinstance(detail, MessageDetail) else ()
    named = [message.speaker or message.agent, *to, *spoke]
    once = dict(zip(map(str.casefold, reversed(named)), reversed(named), strict=True))
    folded = dict.fromkeys(map(str.casefold, named))
    return [inert_line(once[name]) for name in folded]


def _thread_of(memory: Memory) -> int | None:
    return memory.detail.thread_id if isinstance(memory.detail, MessageDetail) else None


def _shown(id_: int) -> str:
    return ids.show(ids.MEMORY, id_)
