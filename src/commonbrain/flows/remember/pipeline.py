"""Remember: a text in, through the gate, durable and searchable when the caller has the reply."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from typing import Any, Final, TypedDict, Unpack

from commonbrain.domain.choice import one_of
from commonbrain.domain.duplicates import Duplicate, Neighbour, Novel
from commonbrain.domain.errors import Invalid, Refused, Unavailable
from commonbrain.domain.gate import Rejected
from commonbrain.domain.kinds import Detail
from commonbrain.domain.limits import ITEMS_PER_CALL_MAX
from commonbrain.domain.memory import Draft, Memory, State, ThreadRef
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Caller, Scope
from commonbrain.domain.times import instant
from commonbrain.domain.trust import Trust
from commonbrain.flows.embedding import EmbedPending
from commonbrain.flows.house import House
from commonbrain.flows.remember.commit import commit, to_memory
from commonbrain.flows.remember.neighbours import find_exact, judge_neighbours
from commonbrain.flows.remember.outcome import (
    Outcome,
    Remembered,
    Status,
    duplicate,
    exists,
    rejected,
    stored,
)
from commonbrain.flows.remember.prepare import Prepared, embed, prepare
from commonbrain.ports.store import Look, Transaction

_CATCH_UP: Final = 16
"""Memories embedded behind one that was remembered, on its caller's time."""


class DraftFields(TypedDict, total=False):
    """What may be said of a text; see `Draft` for each."""

    kind: str
    headline: str
    label: str
    project: str
    scope: Scope | str
    trust: Trust | str
    confidence: float
    tags: Sequence[str]
    source_ref: str
    occurred_at: datetime | str
    expires_at: datetime | str
    auto_captured: bool
    distinct_because: str
    severity: str
    thread: ThreadRef
    detail: Detail


@dataclass(frozen=True, slots=True, kw_only=True)
class Course:
    """How strictly one batch is judged: importers compare letters only, revisions skip a chain."""

    compares_meaning: bool = True
    besides: frozenset[int] = frozenset()
    revises: int = 0
    proposal: Mapping[str, object] | None = None
    """The payload of a text that its author may only propose: it is stored, and held back."""

    def held(self, memory: Memory) -> Memory:
        """Hold back a memory that is only proposed."""
        if self.proposal is None:
            return memory
        payload = {**memory.payload, **self.proposal}
        return replace(memory, state=State.QUARANTINED, payload=payload)


@dataclass(frozen=True, slots=True)
class Remember:
    """The write path for one caller."""

    house: House
    caller: Caller

    def __call__(
        self, text: str | Draft | Sequence[Draft], **known: Unpack[DraftFields]
    ) -> Remembered:
        """Offer one text with what is known of it, or up to 100 drafts, to the memory.

        Args:
            text: a text of at most 16 KiB, a draft, or drafts that are stored in one transaction.
            known: anything a `Draft` holds, for a plain text only.

        Returns:
            One outcome per item in order; `stored` ones survive the death of this process.

        Raises:
            Invalid: an argument is malformed; nothing was stored.
            Refused: the caller may not write there or claim that, or gave over 100 items; nothing
                was stored.
            Unavailable: the store stayed locked, is full or read-only; nothing was stored.

        """
        drafts = [draft_of(text, **known)] if isinstance(text, str) else _listed(text)
        if len(drafts) > ITEMS_PER_CALL_MAX:
            raise Refused(
                f"{len(drafts)} items were given; {ITEMS_PER_CALL_MAX} a call are allowed.",
                code="limit_exceeded",
                hint="Send them in several calls, or use import.",
            )
        return self.write(drafts, Course())

    def write(self, drafts: Sequence[Draft], course: Course) -> Remembered:
        """Take drafts through every stage; vectors are made before the transaction opens."""
        gated = [prepare(draft, self.caller) for draft in drafts]
        ready = embed([one for one in gated if isinstance(one, Prepared)], self.house.embedder)
        look = Look(caller=self.caller, filter=Filter(), now=self.house.clock.now())
        refused = {n: rejected(one) for n, one in enumerate(gated) if isinstance(one, Rejected)}
        if not ready:
            return Remembered(items=tuple(refused.values()))
        if course.compares_meaning:
            # A process that has just started reads every vector: not while others wait to write.
            with self.house.store.snapshot(self.caller.tenant) as tx:
                tx.index.follow()
        with self.house.store.begin(self.caller.tenant) as tx:
            settled = iter([self.settle(tx, one, look=look, course=course) for one in ready])
        self._catch_up(is_embedding=all(one.vectors is not None for one in ready))
        outcomes = (refused[n] if n in refused else next(settled) for n in range(len(gated)))
        return Remembered(items=tuple(outcomes))

    def _catch_up(self, *, is_embedding: bool) -> None:
        """Embed some of what was stored without vectors, once the embedder answers again.

        The caller's own texts are durable by now, so that nothing that fails here concerns them.
        What brings nothing is not tried again before the embedder has been down once more.
        """
        behind = self.house.is_behind
        if not is_embedding:
            behind.set()
        elif behind.is_set():
            behind.clear()
            with suppress(Unavailable):
                embed = EmbedPending(self.house, self.caller)
                caught_up = embed(batch=_CATCH_UP, one_by_one=False)
                if caught_up.count and caught_up.left:
                    behind.set()

    def rehearse(self, drafts: Sequence[Draft]) -> list[Outcome]:
        """Say what would become of drafts, as far as it can be told letter by letter."""
        gated = [prepare(draft, self.caller) for draft in drafts]
        look = Look(caller=self.caller, filter=Filter(), now=self.house.clock.now())
        with self.house.store.snapshot(self.caller.tenant) as tx:
            return [self._rehearse(tx, one, look=look) for one in gated]

    def _rehearse(self, tx: Transaction, one: Prepared | Rejected, *, look: Look) -> Outcome:
        if isinstance(one, Rejected):
            return rejected(one)
        known = find_exact(tx, one, look=look)
        return exists(known) if known else Outcome(status=Status.STORED)

    def settle(self, tx: Transaction, prepared: Prepared, *, look: Look, course: Course) -> Outcome:
        """Decide on one prepared draft against what is stored, and store it or say why not."""
        known = find_exact(tx, prepared, look=look)
        if known is not None and known.id not in course.besides:
            return exists(known)
        kind, warnings = prepared.admitted.kind, prepared.admitted.warnings
        near: tuple[Neighbour, ...]
        match self._judge(tx, prepared, look=look, course=course):
            case Novel(similar=near):
                pass
            case Duplicate(of=of, is_refused=True) if not prepared.draft.distinct_because:
                return duplicate(kind, of)
            case Duplicate(of=of):
                near = (of,)
                warnings = (
                    *warnings,
                    f"Another {kind} may say this already: {of.headline}",
                )
        made = to_memory(prepared, self.caller, now=look.now, revises=course.revises)
        memory = course.held(made)
        chance = self.house.chance
        return stored(
            commit(tx, memory, prepared=prepared, caller=self.caller, chance=chance),
            near,
            warnings=warnings,
            embedding_pending=prepared.vectors is None,
        )

    def _judge(
        self, tx: Transaction, prepared: Prepared, *, look: Look, course: Course
    ) -> Novel | Duplicate:
        if not course.compares_meaning:
            return Novel()
        space = self.house.store.space
        return judge_neighbours(tx, prepared, look=look, space=space, besides=course.besides)


def draft_of(text: str, **known: Unpack[DraftFields]) -> Draft:
    """Put a text and what is known of it into a draft.

    Raises:
        Invalid: a name, scope, trust or time is none.

    """
    unknown = sorted(set(known) - {field.name for field in fields(Draft)})
    if unknown:
        raise Invalid(f"There is no {', '.join(unknown)} to remember.", hint="See Draft.")
    told: dict[str, Any] = {name: value for name, value in known.items() if value is not None}
    read = {name: _READERS[name](value) for name, value in told.items() if name in _READERS}
    return replace(Draft(body=text), **told | read)


_READERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "scope": partial(one_of, Scope),
    "trust": partial(one_of, Trust),
    "tags": lambda tags: (tags,) if isinstance(tags, str) else tuple(tags),
    "occurred_at": instant,
    "expires_at": instant,
}


def _listed(drafts: Draft | Sequence[Draft]) -> list[Draft]:
    return [drafts] if isinstance(drafts, Draft) else list(drafts)
