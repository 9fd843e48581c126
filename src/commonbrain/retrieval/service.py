"""Recall: a question in, the best evidence within a budget out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Final, Unpack

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import Matrix
from commonbrain.invalidation.reviews import open_reviews
from commonbrain.learning.outcomes import LOAD, RERANKER
from commonbrain.model import ids, limits
from commonbrain.model.conflicts import Conflict, basis_of, conflict_of
from commonbrain.model.errors import RejectedError, UnavailableError
from commonbrain.model.memory import Memory
from commonbrain.model.model_card import ModelCard, ModelState
from commonbrain.model.query import Candidate, ExclusionReason, ShownExtent, Trace, is_allowed
from commonbrain.model.recall_result import RecallResult, ResultStatus, certainty
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.scope import Caller
from commonbrain.model.scoring import WOKEN_BY_RECALL
from commonbrain.model.support import Review
from commonbrain.observability.interface import RecallMetrics
from commonbrain.retrieval.answerability import choose_budget, has_answer
from commonbrain.retrieval.conflicts import outdated_of
from commonbrain.retrieval.context import ThreadContext, expand_context
from commonbrain.retrieval.fusion import (
    FusedScores,
    ScoresByRetriever,
    apply_relevance_threshold,
    fuse,
)
from commonbrain.retrieval.item_metadata import attach_metadata
from commonbrain.retrieval.links import LinkExpansion, expand_links, find_contradicted
from commonbrain.retrieval.options import RecallOptions, read_budget, read_deadline, read_filter
from commonbrain.retrieval.packing import Packed, pack
from commonbrain.retrieval.query_plan import (
    NO_OVERRIDES,
    QueryPlan,
    RetrievalOverrides,
    name_ngrams,
    plan_query,
    strip_names,
)
from commonbrain.retrieval.ranking import is_informative, question_share, rank
from commonbrain.retrieval.reranking import ServingReranker, get_reranker, rerank
from commonbrain.retrieval.retrievers import VECTOR, Deadline, RetrievalResult, retrieve_candidates
from commonbrain.services import Services
from commonbrain.storage.interface import MemoryAccess, QueryScope
from commonbrain.text.normalisation import normalise

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_CHARS_A_TOKEN: Final = 4
"""About as many as English prose has; every text's own count would take as long as the ranking."""


def summarize_recall(trace: Trace, *, tokens: int, asks_meaning: bool) -> RecallMetrics:
    """Sum up one recall from its trace and what its answer costs."""
    left_out = Counter(str(why) for why in trace.left_out.values())
    allowed = [
        one
        for one in trace.considered
        if trace.left_out.get(one.memory.id) is not ExclusionReason.NOT_ALLOWED
    ]
    scores = [one.score for one in allowed if one.memory.id == next(iter(trace.packed), None)]
    return RecallMetrics(
        tenant=trace.caller.tenant,
        stages_ms=trace.stages_ms,
        verdict=trace.verdict,
        is_meaning_asked=asks_meaning,
        is_meaning_found=not any(one.startswith(VECTOR) for one in trace.degraded),
        considered=len(trace.considered),
        packed=len(trace.packed),
        left_out=left_out,
        top_score=next(iter(scores), None),
        tokens=tokens,
        tokens_considered=sum(len(one.memory.text) for one in allowed) // _CHARS_A_TOKEN,
        ranker=None if trace.ranker is None else ids.show(ids.MODEL, trace.ranker),
        is_ranker_failed=any(one.startswith(RERANKER) for one in trace.degraded),
    )


def filter_visible(
    plan: QueryPlan,
    ranked: Iterable[Candidate],
    *,
    past: Mapping[int, Sequence[BeliefPeriod]],
    needs: Container[int] = frozenset(),
) -> list[Candidate]:
    """Keep what the caller may see and asked for, each text once, in the order given.

    `past` holds the spans in which memories were believed before, where the past is asked for;
    `needs` what needs review, where only that is.
    """
    visible: dict[str, Candidate] = {}
    for candidate in ranked:
        memory = candidate.memory
        if plan.filter.needs_review and memory.id not in needs:
            continue
        spans = past.get(memory.id, ())
        if is_allowed(memory, plan.caller, wanted=plan.filter, now=plan.now, past=spans):
            visible.setdefault(memory.semantic_hash, candidate)
    return list(visible.values())


@dataclass(slots=True)
class _StageTimer:
    """How long each stage took."""

    clock: Clock
    before_ms: float
    stages_ms: dict[str, float] = field(default_factory=dict[str, float])

    def end(self, stage: str) -> None:
        """Note that a stage is over."""
        now_ms = self.clock.elapsed_ms()
        self.stages_ms[stage] = round(now_ms - self.before_ms, 3)
        self.before_ms = now_ms

    def split(self, stage: str, of: Mapping[str, float]) -> None:
        """Tell parts of a stage that is over as stages of their own."""
        if of:
            self.stages_ms[stage] = round(max(self.stages_ms[stage] - sum(of.values()), 0.0), 3)
            self.stages_ms.update(of)

    def record_replica_wait(self) -> None:
        """Note how long it took until somebody answers; where one failed, with its time."""
        lost_ms = self.stages_ms.get("replica", 0.0) + self.stages_ms.pop("arms", 0.0)
        self.end("replica")
        self.stages_ms["replica"] = round(self.stages_ms["replica"] + lost_ms, 3)


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
    def verdict(self) -> ResultStatus:
        """What the answer means, above all an empty one."""
        if self.is_empty:
            return ResultStatus.NOTHING_STORED
        return ResultStatus.FOUND if self.is_answered else ResultStatus.BELOW_THRESHOLD


@dataclass(frozen=True, slots=True)
class Recall:
    """The read path for one caller."""

    services: Services
    caller: Caller
    overrides: RetrievalOverrides = NO_OVERRIDES

    def __call__(self, query: str = "", **options: Unpack[RecallOptions]) -> RecallResult:
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
            InvalidInputError: an option, a kind or a state is unknown, or a time is none.
            RejectedError: `limit_exceeded`, the query or the budget is out of bounds.
            UnavailableError: the store cannot be read.

        """
        check_length(query)
        clock = self.services.clock
        timer = _StageTimer(clock, clock.elapsed_ms())
        limit_ms = read_deadline(options)
        deadline = Deadline(clock, None if limit_ms is None else timer.before_ms + limit_ms)
        plan = self._plan(normalise(query), options)
        timer.end("plan")
        meaning = self._embed(plan, is_timed=limit_ms is not None)
        timer.end("embed")
        ranker = get_reranker(self.services, plan, deadline=deadline)
        if ranker is not None:
            timer.end(LOAD)

        def ranking(tx: Transaction) -> _Ranked:
            if self.services.store.replicas():
                # What a replica that failed has taken is none of the arms' time.
                timer.record_replica_wait()
            retrieved = retrieve_candidates(tx, plan, meaning=meaning, deadline=deadline)
            timer.end("arms")
            return self._rank(tx, plan, retrieved=retrieved, ranker=ranker, deadline=deadline)

        ranked = self.services.store.read(self.caller.tenant, ranking)
        timer.end("rank")
        timer.split("rank", ranked.taken_ms)
        budget = choose_budget(plan, is_answered=ranked.is_answered)
        packed = pack(
            ranked.allowed,
            budget,
            conflicts=ranked.conflicts,
            terms=plan.terms,
            is_unsure=not ranked.is_answered,
        )
        timer.end("pack")
        trace = self._trace(plan, ranked, packed=packed, stages_ms=timer.stages_ms)
        self.services.journal.record(trace)
        if self.services.telemetry.is_on:
            asks = bool(plan.query)
            measurements = summarize_recall(trace, tokens=packed.tokens, asks_meaning=asks)
            self.services.telemetry.recalled(measurements)
            self.services.telemetry.read_from(self.services.store.replicas())
        if options.get("bump", True):
            self._record_access(plan, packed)
        return RecallResult(
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

    def _plan(self, query: str, options: RecallOptions) -> QueryPlan:
        """Settle filter, budget, words, time and intent."""
        now = self.services.clock.now()
        query_scope = QueryScope(caller=self.caller, filter=read_filter(options, now), now=now)
        budget = read_budget(options)
        plan = plan_query(query, query_scope, budget=budget, speakers=self._speakers(query))
        return replace(plan, is_proactive=bool(options.get("proactive")), overrides=self.overrides)

    def _speakers(self, query: str) -> set[str]:
        names = name_ngrams(query)
        if not names:
            return set()
        return self.services.store.read(self.caller.tenant, lambda tx: tx.memories.people(names))

    def _embed(self, plan: QueryPlan, *, is_timed: bool) -> Future[Matrix] | None:
        """Embed the query at once, or beside the other arms when there is a deadline."""
        if not (plan.query and plan.overrides.is_enabled(VECTOR)):
            return None
        named = plan.speakers if plan.overrides.is_enabled("names") else ()
        text = strip_names(plan.query, named)
        if is_timed:
            return self.services.embedding_executor.submit(
                lambda: self.services.embedder.query(text)
            )
        done: Future[Matrix] = Future()
        try:
            done.set_result(self.services.embedder.query(text))
        except UnavailableError as error:
            done.set_exception(error)
        return done

    def _rank(
        self,
        tx: Transaction,
        plan: QueryPlan,
        *,
        retrieved: RetrievalResult,
        ranker: ServingReranker | None,
        deadline: Deadline,
    ) -> _Ranked:
        """Fuse, follow links, weigh, order, and let policy have the last word on each candidate."""
        thread_context = expand_context(
            tx, plan, matches=self._apply_threshold(plan, retrieved), retrieved=retrieved
        )
        fused = fuse(
            thread_context.matches,
            plan.overrides,
            passage_scores=thread_context.passage_scores,
            threads=thread_context.threads,
        )
        matches = tx.memories.get(fused.shortlist(count=plan.candidates))
        if plan.is_proactive and not retrieved.matches[VECTOR]:
            matches = {id_: one for id_, one in matches.items() if is_informative(plan, one)}
        is_linked = plan.query and plan.overrides.is_enabled("links")
        graph = (
            expand_links(tx, plan, matches=matches, fused=fused.fused)
            if is_linked
            else LinkExpansion()
        )
        known = {**graph.ends, **matches}
        contradictions = find_contradicted(graph, plan, known=known)
        memories = [*matches.values(), *(graph.ends[id_] for id_ in graph.added)]
        as_of = plan.filter.as_of or plan.now
        needs = open_reviews(tx, [memory.id for memory in memories], as_of=as_of)
        measurements = _with_links(
            fused, memories, graph=graph, contradictions=contradictions, needs=needs
        )
        _add_turn_features(
            measurements,
            thread_context=thread_context,
            self_scores=fused.self_scores,
            known=matches,
        )
        scored = rank(plan, memories, features=measurements)
        ordered = rerank(self.services, plan, ranker=ranker, scored=scored, deadline=deadline)
        considered = ordered.ranked
        past = tx.changes.believed([memory.id for memory in memories]) if plan.filter.as_of else {}
        allowed = filter_visible(plan, considered, past=past, needs=needs)
        stale = () if plan.filter.as_of else _outdated(tx, plan, allowed=allowed, needs=needs)
        return _Ranked(
            considered=considered,
            allowed=attach_metadata(tx, plan, ranked=allowed, graph=graph, needs=needs),
            conflicts=[*_conflicts(plan, graph, known=known), *stale],
            degraded=(*retrieved.degraded, *ordered.degraded, *self._moved(plan)),
            is_empty=not memories and not tx.memories.any(plan.query_scope),
            is_answered=has_answer(
                plan,
                allowed,
                meaning=thread_context.matches[VECTOR],
                space=self.services.store.space,
            ),
            ranker=ordered.ranker,
            taken_ms=ordered.taken_ms,
        )

    def _moved(self, plan: QueryPlan) -> tuple[str, ...]:
        """Say that others remember in another space by now; their words are found all the same."""
        name = self.services.store.moved_to
        if name is None or not plan.query:
            return ()
        return (f"space: {name} serves now, start this program anew with its embedder.",)

    def _apply_threshold(self, plan: QueryPlan, retrieved: RetrievalResult) -> ScoresByRetriever:
        """Leave out of what was found what does not answer."""
        if not plan.overrides.is_enabled("threshold"):
            return retrieved.matches
        space = self.services.store.space
        return apply_relevance_threshold(
            retrieved.matches,
            space,
            is_about_time=plan.is_about_time,
            is_proactive=plan.is_proactive,
        )

    def _trace(
        self, plan: QueryPlan, ranked: _Ranked, *, packed: Packed, stages_ms: Mapping[str, float]
    ) -> Trace:
        return Trace(
            id=ids.make_id(plan.now, self.services.random_source.bits(ids.RANDOM_BITS)),
            caller=self.caller,
            asked_at=plan.now,
            query=plan.query,
            verdict=ranked.verdict,
            considered=tuple(ranked.considered),
            packed=packed.ids,
            extents=dict(zip(packed.ids, map(ShownExtent.of, packed.items), strict=True)),
            left_out=_left_out(ranked, near=packed.near, packed_ids=packed.ids),
            degraded=ranked.degraded,
            stages_ms=stages_ms,
            ranker=ranked.ranker.id if ranked.ranker else None,
            is_watched=ranked.ranker is not None and ranked.ranker.state is ModelState.CANARY,
        )

    def _record_access(self, plan: QueryPlan, packed: Packed) -> None:
        """Count an access to the best of what was shown in words."""
        each = zip(packed.ids, packed.items, strict=True)
        in_words = (id_ for id_, item in each if item.headline is not None)
        shown = tuple(islice(in_words, WOKEN_BY_RECALL))
        if shown:
            self.services.journal.touch(
                MemoryAccess(tenant=self.caller.tenant, ids=shown, at=plan.now)
            )


def check_length(query: str) -> None:
    """Refuse a question that is too long to be one.

    Raises:
        RejectedError: `limit_exceeded`.

    """
    if len(query) > limits.QUERY_CHARS_MAX:
        raise RejectedError(
            f"The query has {len(query):,} characters; {limits.QUERY_CHARS_MAX:,} are allowed.",
            code="limit_exceeded",
            hint="Ask one question at a time.",
        )


def _with_links(
    fused: FusedScores,
    memories: Iterable[Memory],
    *,
    graph: LinkExpansion,
    contradictions: Mapping[int, float],
    needs: Container[int],
) -> Mapping[int, dict[str, float]]:
    """Add to what is known of each candidate what the links say."""
    return {
        memory.id: {
            **fused.of(memory.id),
            "linked": graph.added.get(memory.id, 0.0),
            "support": graph.support.get(memory.id, 0.0),
            "contradicted": contradictions.get(memory.id, 0.0),
            "needs_review": float(memory.id in needs),
        }
        for memory in memories
    }


def _add_turn_features(
    measurements: Mapping[int, dict[str, float]],
    *,
    thread_context: ThreadContext,
    self_scores: Mapping[int, float],
    known: Mapping[int, Memory],
) -> None:
    """Add how well what was said right before and after each matches, and whether that asks."""
    for id_, features in measurements.items():
        if (before := thread_context.before.get(id_)) is not None:
            features["follows"] = follows = self_scores.get(before, 0.0)
            if before in known:
                features["replies"] = follows * question_share(known[before])
        if (after := thread_context.after.get(id_)) is not None:
            features["leads"] = self_scores.get(after, 0.0)


def _conflicts(
    plan: QueryPlan, graph: LinkExpansion, *, known: Mapping[int, Memory]
) -> list[Conflict]:
    """Tell of the pairs that disagree of which the caller may see both."""
    pairs = list(graph.conflicting_pairs(known))
    seen = [Candidate(memory=m, features={}, score=0) for pair in pairs for m in pair[:2]]
    allowed = {candidate.memory.id for candidate in filter_visible(plan, seen, past={})}
    return list(
        dict.fromkeys(
            conflict_of(one, other, basis=basis_of(link))
            for one, other, link in pairs
            if {one.id, other.id} <= allowed
        )
    )


def _outdated(
    tx: Transaction,
    plan: QueryPlan,
    *,
    allowed: Sequence[Candidate],
    needs: Mapping[int, Sequence[Review]],
) -> tuple[Conflict, ...]:
    """Tell of those that may get a seat what repeats what its source no longer says."""
    near = [one.memory for one in allowed[: 2 * plan.budget.max_items] if one.memory.id in needs]
    return outdated_of(tx, plan.caller, memories=near, needs=needs, now=plan.now)


def _left_out(
    ranked: _Ranked, *, near: Iterable[int], packed_ids: Iterable[int]
) -> Mapping[int, ExclusionReason]:
    """Say of each candidate that is not in the answer why."""
    allowed = {candidate.memory.id for candidate in ranked.allowed}
    alike, packed = set(near), set(packed_ids)
    return {
        id_: ExclusionReason.NOT_ALLOWED
        if id_ not in allowed
        else ExclusionReason.NEAR_DUPLICATE
        if id_ in alike
        else ExclusionReason.NO_ROOM
        for id_ in (candidate.memory.id for candidate in ranked.considered)
        if id_ not in packed
    }
