"""Recall: a question in, the best evidence within a budget out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final, TypedDict, Unpack

from commonbrain.domain import ids, limits
from commonbrain.domain.choice import one_of
from commonbrain.domain.errors import Invalid, Refused, Unavailable
from commonbrain.domain.kinds import Kind, kind_and_label
from commonbrain.domain.normalise import normalise, normalise_line
from commonbrain.domain.pack import pack
from commonbrain.domain.query import (
    TRUST_MIN_DEFAULT,
    Budget,
    Candidate,
    Filter,
    Trace,
)
from commonbrain.domain.recollection import Recollection, Verdict
from commonbrain.domain.scope import Caller
from commonbrain.domain.times import instant
from commonbrain.flows.house import House
from commonbrain.flows.recall.arms import ask_arms
from commonbrain.flows.recall.fuse import answering, fuse, shortlist
from commonbrain.flows.recall.permit import permitted
from commonbrain.flows.recall.plan import Plan, possible_names, search_terms, without_names
from commonbrain.flows.recall.weigh import weigh
from commonbrain.ports.models import Matrix
from commonbrain.ports.store import Look

_STAGES: Final = ("plan", "arms", "rows", "weigh", "pack")


class RecallOptions(TypedDict, total=False):
    """How an answer is confined; see `Filter` and `Budget` for each."""

    max_items: int
    max_tokens: int
    kinds: Sequence[Kind | str]
    labels: Sequence[str]
    tags: Sequence[str]
    project: str | None
    agent: str | None
    since: datetime | str | None
    until: datetime | str | None
    as_of: datetime | str | None
    trust_min: float
    min_confidence: float


@dataclass(frozen=True, slots=True)
class Recall:
    """The read path for one caller."""

    house: House
    caller: Caller

    def __call__(self, query: str = "", **options: Unpack[RecallOptions]) -> Recollection:
        """Find what answers a question; without one, browse the newest.

        Args:
            query: at most 2,000 characters of plain words; punctuation is harmless.
            options: `max_items` (1..100, default 12) and `max_tokens` (64..32,000, default 1,400)
                bound the answer; the rest are fields of `Filter`.

        Returns:
            Items best first, never over the budget, with a verdict that tells an empty store from
            one that holds nothing relevant.

        Raises:
            Invalid: an option or a kind is unknown, or a time is none.
            Refused: `limit_exceeded`, the query or the budget is out of bounds.
            Unavailable: the store cannot be read.

        """
        if len(query) > limits.QUERY_CHARS_MAX:
            raise Refused(
                f"The query has {len(query):,} characters; {limits.QUERY_CHARS_MAX:,} are allowed.",
                code="limit_exceeded",
                hint="Ask one question at a time.",
            )
        laps = [self.house.clock.elapsed_ms()]
        plan, degraded = self._plan(normalise(query), options)
        laps.append(self.house.clock.elapsed_ms())
        with self.house.store.snapshot(self.caller.tenant) as tx:
            features = fuse(answering(ask_arms(tx, plan), self.house.store.space))
            laps.append(self.house.clock.elapsed_ms())
            memories = tx.memories.get(shortlist(features, count=plan.candidates))
            past = tx.changes.believed(list(memories)) if plan.filter.as_of else {}
            is_empty = not memories and not tx.memories.any(plan.look)
        laps.append(self.house.clock.elapsed_ms())
        ranked = weigh(plan, memories.values(), features=features)
        allowed = permitted(plan, ranked, past=past)
        laps.append(self.house.clock.elapsed_ms())
        packed = pack(allowed, plan.budget)
        laps.append(self.house.clock.elapsed_ms())
        trace = Trace(
            id=ids.make_id(plan.now, self.house.chance.bits(ids.RANDOM_BITS)),
            caller=self.caller,
            asked_at=plan.now,
            query=plan.query,
            verdict=_verdict(allowed, is_empty=is_empty),
            considered=tuple(ranked),
            packed=tuple(ids.parse(ids.MEMORY, item.id) for item in packed.items),
            degraded=degraded,
            stages_ms=dict(zip(_STAGES, _between(laps), strict=True)),
        )
        self.house.journal.record(trace)
        return Recollection(
            items=packed.items,
            tokens=packed.tokens,
            verdict=trace.verdict,
            trace_id=ids.show(ids.TRACE, trace.id),
            omitted=packed.omitted,
            degraded=degraded,
        )

    def _plan(self, query: str, options: RecallOptions) -> tuple[Plan, tuple[str, ...]]:
        """Settle filter, budget, words and vector; name what could not be had."""
        wanted = _filter(options)
        budget = Budget(
            max_items=options.get("max_items", limits.RECALL_ITEMS_DEFAULT),
            max_tokens=options.get("max_tokens", limits.RECALL_TOKENS_DEFAULT),
        )
        vector, degraded = self._embed(without_names(query, self._speakers(query)))
        look = Look(caller=self.caller, filter=wanted, now=self.house.clock.now())
        terms = search_terms(query)
        plan = Plan(query=query, terms=terms, vector=vector, look=look, budget=budget)
        return plan, degraded

    def _speakers(self, query: str) -> set[str]:
        names = possible_names(query)
        if not names:
            return set()
        with self.house.store.snapshot(self.caller.tenant) as tx:
            return tx.memories.people(names)

    def _embed(self, query: str) -> tuple[Matrix | None, tuple[str, ...]]:
        if not query:
            return None, ()
        try:
            return self.house.embedder.query(query), ()
        except Unavailable as error:
            return None, (f"vector: {error.code}, {error.message}",)


def _filter(options: RecallOptions) -> Filter:
    """Read the filter; a misspelt one that was passed over would give more than was asked for."""
    unknown = sorted(set(options) - set(RecallOptions.__annotations__))
    if unknown:
        raise Invalid(
            f"There is no {', '.join(unknown)} to recall by.",
            hint=f"Choose of {', '.join(RecallOptions.__annotations__)}.",
        )
    kinds, aliases = _kinds(_listed(options.get("kinds", ())))
    return Filter(
        kinds=kinds,
        labels=(*_names(options.get("labels", ())), *aliases),
        tags=_names(options.get("tags", ())),
        project=normalise_line(options.get("project")),
        agent=normalise_line(options.get("agent")),
        since=_instant(options.get("since"), ends_day=False),
        until=_instant(options.get("until"), ends_day=True),
        as_of=_instant(options.get("as_of"), ends_day=True),
        trust_min=options.get("trust_min", TRUST_MIN_DEFAULT),
        min_confidence=options.get("min_confidence", 0.0),
    )


def _kinds(given: Sequence[Kind | str]) -> tuple[tuple[Kind, ...], tuple[str, ...]]:
    """Read kinds and aliases of kinds, each alias as its kind and a label."""
    read = [kind_and_label(name) for name in given]
    for name, known in zip(given, read, strict=True):
        if known is None:
            one_of(Kind, name)
    found = [known for known in read if known is not None]
    return tuple(kind for kind, _ in found), tuple(label for _, label in found if label)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Spell names as they are stored; one of which nothing is left stays, and matches nothing."""
    return tuple(normalise_line(name) or "" for name in _listed(given))


def _listed(given: Sequence[str]) -> Sequence[str]:
    """Take one word for a list of it, not of its letters."""
    return (given,) if isinstance(given, str) else given


def _instant(given: datetime | str | None, *, ends_day: bool) -> datetime | None:
    return None if given is None else instant(given, ends_day=ends_day)


def _verdict(allowed: Sequence[Candidate], *, is_empty: bool) -> Verdict:
    if allowed:
        return Verdict.FOUND
    return Verdict.NOTHING_STORED if is_empty else Verdict.BELOW_THRESHOLD


def _between(laps: Sequence[float]) -> Iterator[float]:
    return (round(after - before, 3) for before, after in pairwise(laps))
