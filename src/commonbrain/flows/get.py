"""Get: one memory by its id, whole, with a banner when it is no longer the current one."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from commonbrain.domain import ids
from commonbrain.domain.errors import NotFound
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import Memory, State
from commonbrain.domain.revision import shown_detail
from commonbrain.domain.scope import Caller, Scope, is_visible
from commonbrain.domain.times import show_instant
from commonbrain.domain.trust import Trust
from commonbrain.flows.house import House
from commonbrain.ports.store import Transaction

FORGOTTEN = "(forgotten)"
"""Stands for the headline of what was forgotten: no word of it is shown again."""
_CHAIN_MAX = 1000
"""Revisions followed towards the head; far beyond any chain a person makes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One memory as it is stored; `banner` says when it no longer holds, and what does."""

    id: str
    kind: Kind
    state: State
    headline: str
    body: str | None
    banner: str | None
    current_id: str
    """The head of its revision chain: itself when it is current."""
    label: str | None
    project: str | None
    scope: Scope
    agent: str
    session: str | None
    trust: Trust
    confidence: float
    salience: float
    tags: tuple[str, ...]
    source_ref: str | None
    occurred_at: datetime
    recorded_at: datetime
    superseded_count: int
    detail: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Get:
    """Fetching by id for one caller."""

    house: House
    caller: Caller

    def __call__(self, id: str) -> Shown:  # noqa: A002 the public name is id
        """Fetch one memory by id, in whatever state it is.

        Raises:
            Invalid: the text is not an id.
            NotFound: there is none, or the caller may not see it.
            Unavailable: the store cannot be read.

        """
        with self.house.store.snapshot(self.caller.tenant) as tx:
            memory = fetch(tx, self.caller, id_=ids.parse(ids.MEMORY, id))
            head = head_of(tx, memory)
        return _shown(memory, head, now=self.house.clock.now())


def fetch(tx: Transaction, caller: Caller, *, id_: int) -> Memory:
    """Fetch a memory that the caller may see.

    Raises:
        NotFound: there is none, or the caller may not see it; the two look the same.

    """
    memory = tx.memories.get([id_]).get(id_)
    if memory is None or not is_visible(caller, memory):
        raise NotFound(
            f"No memory {ids.show(ids.MEMORY, id_)}.",
            hint="Recall by its words, or check the id.",
        )
    return memory


def head_of(tx: Transaction, memory: Memory) -> Memory:
    """Follow a revision chain to the memory that holds now."""
    head = memory
    for _ in range(_CHAIN_MAX):
        if head.superseded_by is None:
            return head
        head = tx.memories.get([head.superseded_by])[head.superseded_by]
    return head


def _shown(memory: Memory, head: Memory, *, now: datetime) -> Shown:
    is_forgotten = memory.state is State.FORGOTTEN
    return Shown(
        id=ids.show(ids.MEMORY, memory.id),
        kind=memory.kind,
        state=memory.state,
        headline=FORGOTTEN if is_forgotten else memory.headline,
        body=None if is_forgotten else memory.body,
        banner=_banner(memory, head, now=now),
        current_id=ids.show(ids.MEMORY, head.id),
        label=memory.label,
        project=memory.project,
        scope=memory.scope,
        agent=memory.agent,
        session=memory.session,
        trust=memory.trust,
        confidence=memory.confidence,
        salience=memory.salience,
        tags=() if is_forgotten else memory.tags,
        source_ref=memory.source_ref,
        occurred_at=memory.occurred_at,
        recorded_at=memory.recorded_at,
        superseded_count=memory.superseded_count,
        detail={} if is_forgotten else shown_detail(memory),
    )


def _banner(memory: Memory, head: Memory, *, now: datetime) -> str | None:
    match memory.state:
        case State.FORGOTTEN:
            return "Forgotten: no longer held to be true or wanted; its text is not shown."
        case State.SUPERSEDED if head.state is State.FORGOTTEN:
            return f"Superseded by {ids.show(ids.MEMORY, head.id)}, which was forgotten since."
        case State.SUPERSEDED:
            return f"Superseded: {ids.show(ids.MEMORY, head.id)} holds now: {head.headline}"
        case State.QUARANTINED:
            return "Quarantined: it came from an untrusted source and is not recalled."
        case _ if memory.expires_at is not None and memory.expires_at <= now:
            return f"Expired at {show_instant(memory.expires_at)}: it is not recalled any more."
        case _:
            return None
