"""Recall: find the memories that answer a query and pack them within a token budget."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias, Unpack

from commonbrain.clock import StageTimer
from commonbrain.embeddings.interface import LocalModel, Matrix
from commonbrain.invalidation.reviews import open_reviews
from commonbrain.model import ids, limits
from commonbrain.model.errors import RejectedError, UnavailableError
from commonbrain.model.links import Conflict, LinkType, basis_of, conflict_of
from commonbrain.model.memory import ACCESSES_PER_RECALL, Memory
from commonbrain.model.model_card import CROSS_ENCODER, LOAD, ModelCard, ModelState
from commonbrain.model.query import (
    Candidate,
    ExclusionReason,
    Place,
    ShownExtent,
    Trace,
    is_allowed,
)
from commonbrain.model.recall_result import RecallResult, ResultStatus, certainty
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.scope import Caller
from commonbrain.model.support import Review
from commonbrain.retrieval.browsing import (
    count_after,
    fit_page,
    in_page,
    next_cursor,
    read_cursor,
)
from commonbrain.retrieval.episode_sources import without_summaries
from commonbrain.retrieval.fusion import (
    FusedScores,
    LinkExpansion,
    ThreadContext,
    expand_context,
    expand_links,
    find_contradicted,
    fuse,
)
from commonbrain.retrieval.guidance import GUIDANCE, score_guidance
from commonbrain.retrieval.item_metadata import attach_metadata, outdated_of
from commonbrain.retrieval.occurrences import (
    at_asked_times,
    at_own_times,
    mentioned_times,
    recurrence_times,
    spread_over_times,
    time_of_occurrence,
)
from commonbrain.retrieval.packing import Packed, pack
from commonbrain.retrieval.proactive import judge, shown_to, worth_showing
from commonbrain.retrieval.query_plan import (
    NO_OVERRIDES,
    QueryPlan,
    RecallOptions,
    RetrievalOverrides,
    limit_to_time,
    name_ngrams,
    plan_query,
    read_budget,
    read_deadline,
    read_filter,
    strip_names,
)
from commonbrain.retrieval.ranking import (
    RerankResult,
    choose_budget,
    get_reranker,
    has_answer,
    is_informative,
    question_share,
    rank,
    rerank,
)
from commonbrain.retrieval.retrievers import (
    VECTOR,
    Deadline,
    RetrievalState,
    ScoresByRetriever,
    apply_relevance_threshold,
    retrieve_candidates,
)
from commonbrain.retrieval.same_matter import order_matters, with_marks
from commonbrain.security.read_audit import audited, note_shown
from commonbrain.services import Services
from commonbrain.storage.interface import MemoryAccess, QueryScope, ShownMemories
from commonbrain.text.normalisation import is_same_text, normalise

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_Order: TypeAlias = Callable[[Sequence[Candidate]], RerankResult]
"""Orders candidates by the models that serve a recall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ranked:
    """The candidates in order, before and after the visibility check."""

    considered: Sequence[Candidate]
    allowed: Sequence[Candidate]
    """Those that may be returned, best first."""
    passed: frozenset[int]
    """Those that the caller may see and asked for."""
    in_review: frozenset[int]
    """Those with an open review."""
    conflicts: Sequence[Conflict]
    degraded: tuple[str, ...]
    is_empty: bool
    """Whether no stored memory passes the filter."""
    is_answered: bool
    """Whether one of them seems to answer the query."""
    oldest: Place | None = None
    """The last place of a page of a list; None if nothing follows."""
    ranker: ModelCard | None = None
    """The model that ordered them, or that failed to."""
    taken_ms: Mapping[str, float] = field(default_factory=dict[str, float])
    """Time of the model, by stage."""

    @property
    def result_status(self) -> ResultStatus:
        if self.is_empty:
            return ResultStatus.NOTHING_STORED
        return ResultStatus.FOUND if self.is_answered else ResultStatus.BELOW_THRESHOLD


@dataclass(frozen=True, slots=True)
class Recall:
    """The read path of one caller."""

    services: Services
    caller: Caller
    overrides: RetrievalOverrides = NO_OVERRIDES

    @audited("recall")
    def __call__(self, query: str = "", **options: Unpack[RecallOptions]) -> RecallResult:
        """Find the memories that answer a query; without a query, list the newest.

        Args:
            query: plain words, at most 2,000 characters; punctuation has no meaning. A time in it
                ("last week", "in March 2024") is a preference, not a filter.
            options: `max_items` (1..100, default 12) and `max_tokens` (64..32,000, default 1,400)
                limit the result. After `deadline_ms`, no further retriever runs, and `degraded`
                names those that were skipped. `bump=False` does not count as an access.
                `proactive=True` is for an agent that did not ask: it returns the best, if they
                probably bear upon the query, nothing outdated or that the session was shown so.
                `order="timeline"` sorts the items by time. All others are fields of `Filter`;
                its times may be words such as "last monday".

        Returns:
            Items, best first or by time, within the budget, with a verdict that distinguishes an
            empty store from one without a relevant memory.

        Raises:
            InvalidInputError: an option, kind or state is unknown, or a time cannot be parsed.
            RejectedError: `limit_exceeded`, the query or the budget is out of range.
            UnavailableError: the store cannot be read.

        """
        check_length(query)
        clock = self.services.clock
        timer = StageTimer(clock)
        limit_ms = read_deadline(options)
        deadline = Deadline(clock, None if limit_ms is None else timer.last_ms + limit_ms)
        plan = self._plan(normalise(query), options)
        timer.end_stage("plan")
        get_vector = self._embed(plan, has_deadline=limit_ms is not None)
        timer.end_stage("embed")
        order = self._load_rerankers(plan, deadline=deadline)
        if order is not None:
            timer.end_stage(LOAD)

        def read(tx: Transaction) -> _Ranked:
            if self.services.store.replicas():
                # A failed attempt counts as waiting for a replica.
                lost_ms = timer.stages_ms.pop("retrieve", 0.0)
                timer.end_stage("replica")
                timer.stages_ms["replica"] = round(timer.stages_ms["replica"] + lost_ms, 3)
            retrieved = retrieve_candidates(tx, plan, get_vector=get_vector, deadline=deadline)
            timer.end_stage("retrieve")
            return self._rank(tx, plan, retrieved=retrieved, order=order)

        ranked = self.services.store.read(self.caller.tenant, read)
        timer.end_stage("rank")
        timer.split_stage("rank", ranked.taken_ms)
        fill = partial(
            pack,
            budget=choose_budget(plan, is_answered=ranked.is_answered),
            conflicts=ranked.conflicts,
            terms=plan.terms,
            is_unsure=not ranked.is_answered,
        )
        if plan.has_pages:
            packed, last = fit_page(ranked.allowed, fill, oldest=ranked.oldest)
        else:
            packed, last = fill(ranked.allowed), None
        more = 0 if last is None else self._count_after(plan, last)
        timer.end_stage("pack")
        note_shown(_contexts_of(ranked.allowed, packed))
        trace = self._log(plan, ranked, packed=packed, stages_ms=timer.stages_ms)
        if options.get("bump", True):
            self._record_access(plan, packed, in_review=ranked.in_review)
        return RecallResult(
            items=packed.items,
            tokens=packed.tokens,
            verdict=ranked.result_status,
            trace_id=ids.show(ids.TRACE, trace.id),
            conflicts=packed.conflicts,
            confidence=certainty(packed.items),
            omitted=packed.omitted,
            degraded=ranked.degraded,
            order=plan.budget.order,
            next=next_cursor(options, last) if last and more else None,
            more=more,
        )

    def _count_after(self, plan: QueryPlan, last: Place) -> int:
        """Count what is left of a list."""
        read = self.services.store.read
        return read(self.caller.tenant, lambda tx: count_after(tx, plan, last=last))

    def _plan(self, query: str, options: RecallOptions) -> QueryPlan:
        now = self.services.clock.now()
        parameters = self.services.parameters_for(self.caller)
        criteria = read_filter(options, now, parameters=parameters)
        query_scope = QueryScope(caller=self.caller, filter=criteria, now=now)
        budget, names = read_budget(options, parameters=parameters), name_ngrams(query)
        speakers: set[str] = (
            self.services.store.read(self.caller.tenant, lambda tx: tx.memories.people(names))
            if names
            else set()
        )
        plan = plan_query(
            query, query_scope, budget=budget, speakers=speakers, overrides=self.overrides
        )
        after = read_cursor(query, options)
        plan = replace(plan, after=after, parameters=parameters)
        if options.get("proactive"):
            unwritten = self.services.journal.unwritten_shown(self.caller)
            plan = replace(plan, is_proactive=True, unwritten_shown=unwritten)
        return limit_to_time(plan)

    def _embed(self, plan: QueryPlan, *, has_deadline: bool) -> Callable[[], Future[Matrix]] | None:
        """Embed the query; with a deadline on another thread, while other retrievers run.

        If the model must be loaded first, that begins when its result is asked for: it would take
        the processor from the search by words.
        """
        if not (plan.query and plan.overrides.is_enabled(VECTOR)):
            return None
        named = plan.speakers if plan.overrides.is_enabled("names") else ()
        text = strip_names(plan.query, named)
        embedder = self.services.embedder
        if has_deadline:
            submit = self.services.embedding_executor.submit
            start = cache(partial(submit, partial(embedder.query, text)))
            if not isinstance(embedder, LocalModel) or embedder.is_loaded:
                start()
            return start
        done: Future[Matrix] = Future()
        try:
            done.set_result(embedder.query(text))
        except UnavailableError as error:
            done.set_exception(error)
        return lambda: done

    def _load_rerankers(self, plan: QueryPlan, *, deadline: Deadline) -> _Order | None:
        """Load the models that order candidates; None if there are none."""
        ranker = get_reranker(self.services, plan, deadline=deadline)
        encoding = self.services.cross_encoding
        # An agent that did not ask cannot wait, and needs few items.
        if plan.is_proactive or not (plan.query and plan.overrides.is_enabled(CROSS_ENCODER)):
            encoding = None
        if ranker is None and encoding is None:
            return None
        failure = encoding.ready(timeout_ms=deadline.left_ms) if encoding else None

        def order(scored: Sequence[Candidate]) -> RerankResult:
            result = rerank(self.services, plan, ranker=ranker, scored=scored, deadline=deadline)
            if encoding is None:
                return result
            return encoding.order(plan, before=result, failure=failure, deadline=deadline)

        return order

    def _rank(
        self,
        tx: Transaction,
        plan: QueryPlan,
        *,
        retrieved: RetrievalState,
        order: _Order | None,
    ) -> _Ranked:
        """Fuse the scores, add context and links, rank, and check every candidate's visibility."""
        space = self.services.store.space
        context, fused = self._fuse(tx, plan, retrieved=retrieved)
        shortlist = tx.memories.get(fused.shortlist(count=plan.candidates))
        if plan.is_proactive and not retrieved.matches[VECTOR]:
            shortlist = {id_: one for id_, one in shortlist.items() if is_informative(plan, one)}
        graph = LinkExpansion()
        if plan.query and plan.overrides.is_enabled("links"):
            graph = expand_links(tx, plan, matches=shortlist, fused=fused.fused)
        known = {**graph.ends, **shortlist}
        memories = [*shortlist.values(), *(graph.ends[id_] for id_ in graph.added)]
        memory_ids = [memory.id for memory in memories]
        reviews = open_reviews(tx, memory_ids, as_of=plan.filter.as_of or plan.now)
        features = _features(
            fused,
            memories,
            context=context,
            graph=graph,
            contradicted=find_contradicted(graph, plan, known=known),
            reviews=reviews,
        )
        times = recurrence_times(tx, plan, memories=memories)
        mentioned = mentioned_times(plan, memories)
        dated = at_asked_times(plan, memories, times={**mentioned, **times})
        if plan.has_pages:
            dated = in_page(dated, after=plan.after, oldest=retrieved.oldest)
        scored = rank(plan, dated, features=features)
        ordered = RerankResult(ranked=scored) if order is None else order(scored)
        considered = ordered.ranked
        believed = tx.changes.believed(memory_ids) if plan.filter.as_of else {}
        passed = filter_visible(plan, considered, past=believed, reviews=reviews)
        visible = without_summaries(tx, plan, ranked=passed)
        meaning = context.matches[VECTOR]
        allowed = order_matters(tx, plan, ranked=visible, graph=graph, meaning=meaning)
        if repeated := spread_over_times(plan, allowed, times=times):
            allowed = filter_visible(plan, repeated, past=believed, reviews=reviews)
        allowed = at_own_times(allowed, memories=memories, dated=mentioned.keys() - times.keys())
        if plan.is_proactive:
            judged = self._judged(tx, plan, ranked=allowed, retrieved=retrieved)
            considered = with_marks(considered, judged)
            shown = shown_to(tx, self.caller, unwritten=plan.unwritten_shown)
            allowed = worth_showing(plan, judged, shown=shown, reviews=reviews)
        conflicts = _conflicts(tx, plan, allowed=allowed, graph=graph, reviews=reviews, known=known)
        return _Ranked(
            considered=with_marks(considered, allowed),
            passed=frozenset(one.memory.id for one in passed),
            in_review=frozenset(reviews),
            allowed=attach_metadata(tx, plan, ranked=allowed, graph=graph, reviews=reviews),
            conflicts=conflicts,
            degraded=(*retrieved.degraded, *ordered.degraded, *self._replaced_space(plan)),
            is_empty=not memories and not tx.memories.any(plan.wider_scope or plan.query_scope),
            is_answered=has_answer(plan, allowed, meaning=meaning, space=space),
            oldest=retrieved.oldest,
            ranker=ordered.ranker,
            taken_ms=ordered.taken_ms,
        )

    def _judged(
        self,
        tx: Transaction,
        plan: QueryPlan,
        *,
        ranked: Sequence[Candidate],
        retrieved: RetrievalState,
    ) -> Sequence[Candidate]:
        return judge(
            tx,
            plan,
            services=self.services,
            ranked=ranked,
            meaning=retrieved.matches[VECTOR],
            deadline=retrieved.deadline,
        )

    def _fuse(
        self, tx: Transaction, plan: QueryPlan, *, retrieved: RetrievalState
    ) -> tuple[ThreadContext, FusedScores]:
        """Apply the relevance threshold, add context, and combine the scores."""
        space = self.services.store.space
        matches: ScoresByRetriever = retrieved.matches
        if plan.overrides.is_enabled("threshold"):
            matches = apply_relevance_threshold(matches, retrieved.threshold(space))
        guidance = score_guidance(plan.query, matches[GUIDANCE], space=space)
        context = expand_context(
            tx,
            plan,
            matches={**matches, GUIDANCE: guidance},
            query_vector=retrieved.query_vector,
            lowest_cosine=space.relevance_threshold / 2,
        )
        fused = fuse(
            context.matches,
            plan.overrides,
            passage_scores=context.passage_scores,
            sources=context.sources,
        )
        return context, fused

    def _replaced_space(self, plan: QueryPlan) -> tuple[str, ...]:
        """Warn that the store has moved to another embedding space; words still match."""
        name = self.services.store.moved_to
        if name is None or not plan.query:
            return ()
        return (f"space: {name} serves now; restart this program with its embedder.",)

    def _log(
        self, plan: QueryPlan, ranked: _Ranked, *, packed: Packed, stages_ms: Mapping[str, float]
    ) -> Trace:
        """Queue the trace for the recall log, and emit metrics."""
        trace = Trace(
            id=ids.make_id(plan.now, self.services.random_source.bits(ids.RANDOM_BITS)),
            caller=self.caller,
            asked_at=plan.now,
            query=plan.original_query,
            verdict=ranked.result_status,
            considered=tuple(_once(ranked.considered)),
            packed=tuple(dict.fromkeys(packed.ids)),
            extents=dict(zip(packed.ids, map(ShownExtent.of, packed.items), strict=True)),
            left_out=_left_out(ranked, packed),
            degraded=ranked.degraded,
            stages_ms=stages_ms,
            ranker=ranked.ranker.id if ranked.ranker else None,
            is_watched=ranked.ranker is not None and ranked.ranker.state is ModelState.CANARY,
        )
        self.services.journal.record(trace)
        if self.services.telemetry.is_on:
            # Commands have no telemetry.
            from commonbrain.retrieval.recall_metrics import summarize_recall  # noqa: PLC0415

            self.services.telemetry.recalled(
                summarize_recall(trace, tokens=packed.tokens, asks_meaning=bool(plan.query))
            )
            self.services.telemetry.read_from(self.services.store.replicas())
        return trace

    def _record_access(self, plan: QueryPlan, packed: Packed, *, in_review: Container[int]) -> None:
        """Count an access to the best items whose text is shown."""
        each = zip(packed.ids, packed.items, strict=True)
        with_text = list(dict.fromkeys(id_ for id_, item in each if item.headline is not None))
        if not with_text:
            return
        shown = None
        if plan.is_proactive and self.caller.session is not None:
            shown = ShownMemories(
                agent=self.caller.agent,
                session=self.caller.session,
                memories={id_: id_ in in_review for id_ in with_text},
            )
        counted = tuple(with_text[:ACCESSES_PER_RECALL])
        self.services.journal.touch(
            MemoryAccess(tenant=self.caller.tenant, ids=counted, at=plan.now, shown=shown)
        )


def check_length(query: str) -> None:
    """Reject a query of more than `QUERY_CHARS_MAX` characters.

    Raises:
        RejectedError: `limit_exceeded`.

    """
    if len(query) > limits.QUERY_CHARS_MAX:
        raise RejectedError(
            f"The query has {len(query):,} characters; {limits.QUERY_CHARS_MAX:,} are allowed.",
            code="limit_exceeded",
            hint="Ask one question at a time.",
        )


def filter_visible(
    plan: QueryPlan,
    ranked: Iterable[Candidate],
    *,
    past: Mapping[int, Sequence[BeliefPeriod]],
    reviews: Container[int] = frozenset(),
) -> list[Candidate]:
    """Return the candidates that the caller may see and asked for, each text once, in order.

    A timeline has a text once for each time at which it happened. `past` holds the periods in which
    memories were believed, for a query about the past; `reviews` the ids with an open review.
    """
    visible: list[Candidate] = []
    alike: dict[tuple[str, datetime | None], list[Memory]] = {}
    caller, criteria, now = plan.caller, plan.filter, plan.now
    for candidate in ranked:
        memory = candidate.memory
        if criteria.needs_review and memory.id not in reviews:
            continue
        spans = past.get(memory.id, ())
        if is_allowed(memory, caller, criteria=criteria, now=now, past=spans):
            time = time_of_occurrence(memory, order=plan.budget.order)
            known = alike.setdefault((memory.semantic_hash, time), [])
            if not any(is_same_text(one.text, memory.text) for one in known):
                known.append(memory)
                visible.append(candidate)
    return visible


def _features(
    fused: FusedScores,
    memories: Iterable[Memory],
    *,
    context: ThreadContext,
    graph: LinkExpansion,
    contradicted: Mapping[int, float],
    reviews: Container[int],
) -> Mapping[int, dict[str, float]]:
    """Collect the features of each candidate that depend on other memories."""
    by_id = {memory.id: memory for memory in memories}
    features = fused.features_of(by_id)
    guidance = context.matches[GUIDANCE]
    for id_, own in features.items():
        own[GUIDANCE] = guidance.get(id_, 0.0)
        own["linked"] = graph.added.get(id_, 0.0)
        own["support"] = graph.support.get(id_, 0.0)
        own["contradicted"] = contradicted.get(id_, 0.0)
        own["needs_review"] = float(id_ in reviews)
        if (before := context.before.get(id_)) is not None:
            own["follows"] = follows = fused.self_scores.get(before, 0.0)
            if before in by_id and before not in graph.added:
                own["replies"] = follows * question_share(by_id[before])
        if (after := context.after.get(id_)) is not None:
            own["leads"] = fused.self_scores.get(after, 0.0)
    return features


def _conflicts(
    tx: Transaction,
    plan: QueryPlan,
    *,
    allowed: Sequence[Candidate],
    graph: LinkExpansion,
    reviews: Mapping[int, Sequence[Review]],
    known: Mapping[int, Memory],
) -> list[Conflict]:
    """List the conflicts of which the caller may see both sides.

    They come from links, and from memories that repeat what a superseded source said.
    """
    pairs = list(graph.conflicting_pairs(known))
    ends = [Candidate(memory=m, features={}, score=0) for pair in pairs for m in pair[:2]]
    visible = {candidate.memory.id for candidate in filter_visible(plan, ends, past={})}
    linked = dict.fromkeys(
        conflict_of(one, other, basis=basis_of(link))
        for one, other, link in pairs
        if {one.id, other.id} <= visible and link.type is LinkType.CONFLICTS_WITH
    )
    if plan.filter.as_of:
        return list(linked)
    near = [one.memory for one in allowed[: 2 * plan.budget.max_items] if one.memory.id in reviews]
    return [*linked, *outdated_of(tx, plan.caller, memories=near, reviews=reviews, now=plan.now)]


def _contexts_of(ranked: Sequence[Candidate], packed: Packed) -> Iterable[int]:
    """Find the memories from which the contexts of items are."""
    with_context = {
        id_ for id_, item in zip(packed.ids, packed.items, strict=True) if item.context is not None
    }
    return (
        one.context_id
        for one in ranked
        if one.context_id is not None and one.memory.id in with_context
    )


def _once(candidates: Sequence[Candidate]) -> Iterable[Candidate]:
    """Return the first candidate of each memory, in order."""
    firsts: dict[int, Candidate] = {}
    for one in candidates:
        firsts.setdefault(one.memory.id, one)
    return firsts.values()


def _left_out(ranked: _Ranked, packed: Packed) -> Mapping[int, ExclusionReason]:
    """Return the reason for each candidate that is not in the result."""
    allowed = {candidate.memory.id for candidate in ranked.allowed}
    shown = set(packed.ids)
    return {
        id_: ExclusionReason.NOT_ALLOWED
        if id_ not in ranked.passed
        else ExclusionReason.NOT_WORTH_SHOWING
        if id_ not in allowed
        else ExclusionReason.OVER_BUDGET
        for id_ in [candidate.memory.id for candidate in ranked.considered]
        if id_ not in shown
    }
