"""Recall: a question in, the best evidence within a budget out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Final, Unpack

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import Matrix
from commonbrain.invalidation.reviews import needing
from commonbrain.learning.outcomes import LOAD, RERANKER
from commonbrain.model import ids, limits
from commonbrain.model.conflicts import Conflict, basis_of, conflict_of
from commonbrain.model.errors import Refused, Unavailable
from commonbrain.model.memory import Memory
from commonbrain.model.model_card import ModelCard, ModelState
from commonbrain.model.query import Candidate, Extent, LeftOut, Trace, is_allowed
from commonbrain.model.recall_result import Recollection, Verdict, certainty
from commonbrain.model.revision import Span
from commonbrain.model.scope import Caller
from commonbrain.model.scoring import WOKEN_BY_RECALL
from commonbrain.model.support import Review
from commonbrain.observability.interface import Recalling
from commonbrain.retrieval.answerability import budget_of, seems_answered
from commonbrain.retrieval.conflicts import outdated_of
from commonbrain.retrieval.context import Passages, read_around
from commonbrain.retrieval.fusion import Found, Fused, answering, fuse
from commonbrain.retrieval.item_metadata import annotated
from commonbrain.retrieval.links import Graph, contradicted, follow_links
from commonbrain.retrieval.options import RecallOptions, read_budget, read_deadline, read_filter
from commonbrain.retrieval.packing import Packed, pack
from commonbrain.retrieval.query_plan import (
    AS_EVER,
    Plan,
    Tuning,
    make_plan,
    possible_names,
    without_names,
)
from commonbrain.retrieval.ranking import asking, tells_much, weigh
from commonbrain.retrieval.reranking import Ranker, ready_ranker, rerank
from commonbrain.retrieval.retrievers import MEANING, Asked, Deadline, ask_arms
from commonbrain.services import House
from commonbrain.storage.interface import Look, Transaction
from commonbrain.storage.records import Access
from commonbrain.text.normalisation import normalise

_CHARS_A_TOKEN: Final = 4
"""About as many as English prose has; every text's own count would take as long as the ranking."""


def recalling(trace: Trace, *, tokens: int, asks_meaning: bool) -> Recalling:
    """Sum up one recall from its trace and what its answer costs."""
    left_out = Counter(str(why) for why in trace.left_out.values())
    allowed = [
        one
        for one in trace.considered
        if trace.left_out.get(one.memory.id) is not LeftOut.NOT_ALLOWED
    ]
    scores = [one.score for one in allowed if one.memory.id == next(iter(trace.packed), None)]
    return Recalling(
        tenant=trace.caller.tenant,
        stages_ms=trace.stages_ms,
        verdict=trace.verdict,
        is_meaning_asked=asks_meaning,
        is_meaning_found=not any(one.startswith(MEANING) for one in trace.degraded),
        considered=len(trace.considered),
        packed=len(trace.packed),
        left_out=left_out,
        top_score=next(iter(scores), None),
        tokens=tokens,
        tokens_considered=sum(len(one.memory.text) for one in allowed) // _CHARS_A_TOKEN,
        ranker=None if trace.ranker is None else ids.show(ids.MODEL, trace.ranker),
        is_ranker_failed=any(one.startswith(RERANKER) for one in trace.degraded),
    )


def permitted(
    plan: Plan,
    ranked: Iterable[Candidate],
    *,
    past: Mapping[int, Sequence[Span]],
    needs: Container[int] = frozenset(),
) -> list[Candidate]:
    """Keep what the caller may see and asked for, each text once, in the order given.

    `past` holds the spans in which memories were believed before, where the past is asked for;
    `needs` what needs review, where only that is.
    """
    kept: dict[str, Candidate] = {}
    for candidate in ranked:
        memory = candidate.memory
        if plan.filter.needs_review and memory.id not in needs:
            continue
        spans = past.get(memory.id, ())
        if is_allowed(memory, plan.caller, wanted=plan.filter, now=plan.now, past=spans):
            kept.setdefault(memory.semantic_hash, candidate)
    return list(kept.values())


@dataclass(slots=True)
class _Laps:
    """How long each stage took."""

    clock: Clock
    before_ms: float
    taken: dict[str, float] = field(default_factory=dict[str, float])

    def end(self, stage: str) -> None:
        """Note that a stage is over."""
        now_ms = self.clock.elapsed_ms()
        self.taken[stage] = round(now_ms - self.before_ms, 3)
        self.before_ms = now_ms

    def apart(self, stage: str, of: Mapping[str, float]) -> None:
        """Tell parts of a stage that is over as stages of their own."""
        if of:
            self.taken[stage] = round(max(self.taken[stage] - sum(of.values()), 0.0), 3)
            self.taken.update(of)

    def begin_reading(self) -> None:
        """Note how long it took until somebody answers; where one failed, with its time."""
        lost_ms = self.taken.get("replica", 0.0) + self.taken.pop("arms", 0.0)
        self.end("replica")
        self.taken["replica"] = round(self.taken["replica"] + lost_ms, 3)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    """Everything that was considered, and what of it may answer, best first."""

    considered: Sequence[Candidate]
    allowed: Sequence[Candidate]
    conflicts: Sequence[Conflict]
    degraded: tuple[str, ...]
    is_empty: bool
    """Whether the filter allows nothing at all."""
    is_answered: bool
    """Whether what is allowed seems to answer, or only comes nearest."""
    ranker: ModelCard | None = None
    """The model that put it in this order, or failed to."""
    taken_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """Of that, by stage."""

    @property
    def verdict(self) -> Verdict:
        """What the answer means, above all an empty one."""
        if self.is_empty:
            return Verdict.NOTHING_STORED
        return Verdict.FOUND if self.is_answered else Verdict.BELOW_THRESHOLD


@dataclass(frozen=True, slots=True)
class Recall:
    """The read path for one caller."""

    house: House
    caller: Caller
    tuning: Tuning = AS_EVER

    def __call__(self, query: str = "", **options: Unpack[RecallOptions]) -> Recollection:
        """Find what answers a question; without one, browse the newest.

        Args:
            query: at most 2,000 characters of plain words; punctuation is harmless. A time that it
                names ("last week", "in March 2024") is preferred, never a bound.
            options: `max_items` (1..100, default 12) and `max_tokens` (64..32,000, default 1,400)
                bound the answer; past `deadline_ms` nothing more is asked, and `degraded` says
                what is missing; `bump=False` leaves no access on what is recalled; `unasked=True`
                gives only what stands out, for who did not ask; `order="timeline"` tells the same
                items as they happened; the rest are fields of `Filter`, whose times may be
                words, such as "last monday".

        Returns:
            Items best first or by time, never over the budget, with a verdict that tells an empty
            store from one that holds nothing relevant.

        Raises:
            Invalid: an option, a kind or a state is unknown, or a time is none.
            Refused: `limit_exceeded`, the query or the budget is out of bounds.
            Unavailable: the store cannot be read.

        """
        check_length(query)
        clock = self.house.clock
        laps = _Laps(clock, clock.elapsed_ms())
        limit_ms = read_deadline(options)
        deadline = Deadline(clock, None if limit_ms is None else laps.before_ms + limit_ms)
        plan = self._plan(normalise(query), options)
        laps.end("plan")
        meaning = self._embed(plan, is_timed=limit_ms is not None)
        laps.end("embed")
        ranker = ready_ranker(self.house, plan, deadline=deadline)
        if ranker is not None:
            laps.end(LOAD)

        def ranking(tx: Transaction) -> _Ranked:
            if self.house.store.replicas():
                # What a replica that failed has taken is none of the arms' time.
                laps.begin_reading()
            asked = ask_arms(tx, plan, meaning=meaning, deadline=deadline)
            laps.end("arms")
            return self._rank(tx, plan, asked=asked, ranker=ranker, deadline=deadline)

        ranked = self.house.store.read(self.caller.tenant, ranking)
        laps.end("rank")
        laps.apart("rank", ranked.taken_ms)
        budget = budget_of(plan, is_answered=ranked.is_answered)
        packed = pack(
            ranked.allowed,
            budget,
            conflicts=ranked.conflicts,
            terms=plan.terms,
            is_unsure=not ranked.is_answered,
        )
        laps.end("pack")
        trace = self._trace(plan, ranked, packed=packed, stages_ms=laps.taken)
        self.house.journal.record(trace)
        if self.house.telemetry.is_on:
            asks = bool(plan.query)
            told = recalling(trace, tokens=packed.tokens, asks_meaning=asks)
            self.house.telemetry.recalled(told)
            self.house.telemetry.read_from(self.house.store.replicas())
        if options.get("bump", True):
            self._touch(plan, packed)
        return Recollection(
            items=packed.items,
            tokens=packed.tokens,
            verdict=ranked.verdict,
            trace_id=ids.show(ids.TRACE, trace.id),
            conflicts=packed.conflicts,
            confidence=certainty(packed.items),
            omitted=packed.omitted,
            degraded=ranked.degraded,
            order=plan.budget.order,
        )

    def _plan(self, query: str, options: RecallOptions) -> Plan:
        """Settle filter, budget, words, time and intent."""
        now = self.house.clock.now()
        look = Look(caller=self.caller, filter=read_filter(options, now), now=now)
        budget = read_budget(options)
        plan = make_plan(query, look, budget=budget, speakers=self._speakers(query))
        return replace(plan, is_unasked=bool(options.get("unasked")), tuning=self.tuning)

    def _speakers(self, query: str) -> set[str]:
        names = possible_names(query)
        if not names:
            return set()
        return self.house.store.read(self.caller.tenant, lambda tx: tx.memories.people(names))

    def _embed(self, plan: Plan, *, is_timed: bool) -> Future[Matrix] | None:
        """Embed the query at once, or beside the other arms when there is a deadline."""
        if not (plan.query and plan.tuning.has(MEANING)):
            return None
        named = plan.speakers if plan.tuning.has("names") else ()
        text = without_names(plan.query, named)
        if is_timed:
            return self.house.aside.begin(lambda: self.house.embedder.query(text))
        done: Future[Matrix] = Future()
        try:
            done.set_result(self.house.embedder.query(text))
        except Unavailable as error:
            done.set_exception(error)
        return done

    def _rank(
        self,
        tx: Transaction,
        plan: Plan,
        *,
        asked: Asked,
        ranker: Ranker | None,
        deadline: Deadline,
    ) -> _Ranked:
        """Fuse, follow links, weigh, order, and let policy have the last word on each candidate."""
        around = read_around(tx, plan, found=self._telling(plan, asked), asked=asked)
        fused = fuse(around.found, plan.tuning, views=around.views, threads=around.threads)
        found = tx.memories.get(fused.shortlist(count=plan.candidates))
        if plan.is_unasked and not asked.found[MEANING]:
            found = {id_: one for id_, one in found.items() if tells_much(plan, one)}
        is_linked = plan.query and plan.tuning.has("links")
        graph = follow_links(tx, plan, found=found, fused=fused.fused) if is_linked else Graph()
        known = {**graph.ends, **found}
        against = contradicted(graph, plan, known=known)
        memories = [*found.values(), *(graph.ends[id_] for id_ in graph.added)]
        moment = plan.filter.as_of or plan.now
        needs = needing(tx, [memory.id for memory in memories], moment=moment)
        told = _with_links(fused, memories, graph=graph, against=against, needs=needs)
        _add_talk(told, around=around, own=fused.own, known=found)
        weighed = weigh(plan, memories, features=told)
        ordered = rerank(self.house, plan, ranker=ranker, weighed=weighed, deadline=deadline)
        considered = ordered.ranked
        past = tx.changes.believed([memory.id for memory in memories]) if plan.filter.as_of else {}
        allowed = permitted(plan, considered, past=past, needs=needs)
        stale = () if plan.filter.as_of else _outdated(tx, plan, allowed=allowed, needs=needs)
        return _Ranked(
            considered=considered,
            allowed=annotated(tx, plan, ranked=allowed, graph=graph, needs=needs),
            conflicts=[*_conflicts(plan, graph, known=known), *stale],
            degraded=(*asked.degraded, *ordered.degraded, *self._moved(plan)),
            is_empty=not memories and not tx.memories.any(plan.look),
            is_answered=seems_answered(
                plan, allowed, meaning=around.found[MEANING], space=self.house.store.space
            ),
            ranker=ordered.ranker,
            taken_ms=ordered.taken_ms,
        )

    def _moved(self, plan: Plan) -> tuple[str, ...]:
        """Say that others remember in another space by now; their words are found all the same."""
        name = self.house.store.moved_to
        if name is None or not plan.query:
            return ()
        return (f"space: {name} serves now, start this program anew with its embedder.",)

    def _telling(self, plan: Plan, asked: Asked) -> Found:
        """Leave out of what was found what does not answer."""
        if not plan.tuning.has("threshold"):
            return asked.found
        space = self.house.store.space
        return answering(
            asked.found, space, is_about_time=plan.is_about_time, is_unasked=plan.is_unasked
        )

    def _trace(
        self, plan: Plan, ranked: _Ranked, *, packed: Packed, stages_ms: Mapping[str, float]
    ) -> Trace:
        return Trace(
            id=ids.make_id(plan.now, self.house.chance.bits(ids.RANDOM_BITS)),
            caller=self.caller,
            asked_at=plan.now,
            query=plan.query,
            verdict=ranked.verdict,
            considered=tuple(ranked.considered),
            packed=packed.ids,
            extents=dict(zip(packed.ids, map(Extent.of, packed.items), strict=True)),
            left_out=_left_out(ranked, near=packed.near, kept=packed.ids),
            degraded=ranked.degraded,
            stages_ms=stages_ms,
            ranker=ranked.ranker.id if ranked.ranker else None,
            is_watched=ranked.ranker is not None and ranked.ranker.state is ModelState.CANARY,
        )

    def _touch(self, plan: Plan, packed: Packed) -> None:
        """Count an access to the best of what was shown in words."""
        each = zip(packed.ids, packed.items, strict=True)
        in_words = (id_ for id_, item in each if item.headline is not None)
        shown = tuple(islice(in_words, WOKEN_BY_RECALL))
        if shown:
            self.house.journal.touch(Access(tenant=self.caller.tenant, ids=shown, at=plan.now))


def check_length(query: str) -> None:
    """Refuse a question that is too long to be one.

    Raises:
        Refused: `limit_exceeded`.

    """
    if len(query) > limits.QUERY_CHARS_MAX:
        raise Refused(
            f"The query has {len(query):,} characters; {limits.QUERY_CHARS_MAX:,} are allowed.",
            code="limit_exceeded",
            hint="Ask one question at a time.",
        )


def _with_links(
    fused: Fused,
    memories: Iterable[Memory],
    *,
    graph: Graph,
    against: Mapping[int, float],
    needs: Container[int],
) -> Mapping[int, dict[str, float]]:
    """Add to what is known of each candidate what the links say."""
    return {
        memory.id: {
            **fused.of(memory.id),
            "linked": graph.added.get(memory.id, 0.0),
            "support": graph.support.get(memory.id, 0.0),
            "contradicted": against.get(memory.id, 0.0),
            "needs_review": float(memory.id in needs),
        }
        for memory in memories
    }


def _add_talk(
    told: Mapping[int, dict[str, float]],
    *,
    around: Passages,
    own: Mapping[int, float],
    known: Mapping[int, Memory],
) -> None:
    """Add how well what was said right before and after each matches, and whether that asks."""
    for id_, features in told.items():
        if (before := around.before.get(id_)) is not None:
            features["follows"] = follows = own.get(before, 0.0)
            if before in known:
                features["replies"] = follows * asking(known[before])
        if (after := around.after.get(id_)) is not None:
            features["leads"] = own.get(after, 0.0)


def _conflicts(plan: Plan, graph: Graph, *, known: Mapping[int, Memory]) -> list[Conflict]:
    """Tell of the pairs that disagree of which the caller may see both."""
    pairs = list(graph.conflicting(known))
    seen = [Candidate(memory=m, features={}, score=0) for pair in pairs for m in pair[:2]]
    allowed = {candidate.memory.id for candidate in permitted(plan, seen, past={})}
    return list(
        dict.fromkeys(
            conflict_of(one, other, basis=basis_of(link))
            for one, other, link in pairs
            if {one.id, other.id} <= allowed
        )
    )


def _outdated(
    tx: Transaction,
    plan: Plan,
    *,
    allowed: Sequence[Candidate],
    needs: Mapping[int, Sequence[Review]],
) -> tuple[Conflict, ...]:
    """Tell of those that may get a seat what repeats what its source no longer says."""
    near = [one.memory for one in allowed[: 2 * plan.budget.max_items] if one.memory.id in needs]
    return outdated_of(tx, plan.caller, memories=near, needs=needs, now=plan.now)


def _left_out(
    ranked: _Ranked, *, near: Iterable[int], kept: Iterable[int]
) -> Mapping[int, LeftOut]:
    """Say of each candidate that is not in the answer why."""
    allowed = {candidate.memory.id for candidate in ranked.allowed}
    alike, packed = set(near), set(kept)
    return {
        id_: LeftOut.NOT_ALLOWED
        if id_ not in allowed
        else LeftOut.NEAR_DUPLICATE
        if id_ in alike
        else LeftOut.NO_ROOM
        for id_ in (candidate.memory.id for candidate in ranked.considered)
        if id_ not in packed
    }
