"""Recall: find the memories that answer a query and pack them within a token budget.

Three pipelines of the same stages: for a question, for a list (without a query, or for a time
alone), and for a prompt of an agent that did not ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache, partial
from typing import TYPE_CHECKING, Final, Unpack

from commonbrain.clock import Deadline, StageTimer
from commonbrain.embeddings.interface import LocalModel, Matrix
from commonbrain.model import ids, limits
from commonbrain.model.errors import RejectedError, UnavailableError
from commonbrain.model.limits import RECALL_TOKENS_DEFAULT
from commonbrain.model.memory import ACCESSES_PER_RECALL
from commonbrain.model.model_card import CROSS_ENCODER, LOAD, RERANK, RERANKER, ModelState
from commonbrain.model.query import (
    Budget,
    Candidate,
    ExclusionReason,
    Place,
    RecallTrace,
    ShownExtent,
)
from commonbrain.model.recall_result import RecallResult, ResultStatus, certainty
from commonbrain.model.values import dataclass, replace
from commonbrain.observability.interface import RecallMetrics
from commonbrain.retrieval.browsing import arrange, count_after, fit_page, next_cursor, read_cursor
from commonbrain.retrieval.citations import check_citations
from commonbrain.retrieval.load import load
from commonbrain.retrieval.order import describe, order
from commonbrain.retrieval.packing import Packed, pack
from commonbrain.retrieval.plan import (
    NO_OVERRIDES,
    QueryPlan,
    RecallOptions,
    RetrievalOverrides,
    list_time,
    name_ngrams,
    plan_query,
    read_budget,
    read_deadline,
    read_filter,
    strip_names,
)
from commonbrain.retrieval.proactive import PromptJudge, plan_prompt, record_shown
from commonbrain.retrieval.retrieve import VECTOR, Search, retrieve
from commonbrain.retrieval.score import score
from commonbrain.security.guard import note_shown
from commonbrain.services import Services
from commonbrain.storage.interface import MemoryAccess, QueryScope
from commonbrain.text.normalisation import normalise
from commonbrain.text.tokens import estimate_by_sample

if TYPE_CHECKING:
    from commonbrain.model.scope import Caller
    from commonbrain.retrieval.table import Table
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True)
class Recall:
    """The read path of one caller."""

    services: Services
    caller: Caller
    overrides: RetrievalOverrides = NO_OVERRIDES

    def __call__(self, query: str = "", **options: Unpack[RecallOptions]) -> RecallResult:
        """Find the memories that answer a query; without a query, list the newest.

        Args:
            query: plain words, at most 2,000 characters; punctuation has no meaning. A time in it
                ("last week") is a preference, not a filter, unless nothing else is asked for.
            options: `max_items` and `max_tokens` limit the result; `kinds`, `labels`, `tags`,
                `people`, `project`, `scope`, `agent`, `session`, `field`, `thread`, `states`,
                `since`, `until`, `as_of`, `trust_min` and `min_confidence` filter it; and
                `deadline_ms`, `order`, `cursor`, `bump` and `proactive`, as `RecallOptions`
                explains them.

        Returns:
            Items, best first or by time, within the budget. `verdict` distinguishes an empty store
            from one without a relevant memory; `evidence` is the text for an agent.

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
        rerank = self._reranker(plan, deadline)
        if rerank is not None:
            timer.end_stage(LOAD)
        is_prompt = bool(options.get("proactive"))
        prompt = PromptJudge(self.services, plan, deadline=deadline) if is_prompt else None

        def find(plan: QueryPlan, *, before: Table | None = None) -> Table:
            def read(tx: Transaction) -> Table:
                timer.end_stage("snapshot")
                if before and not (before.degraded or _may_find_more(tx, plan)):
                    return before
                table = retrieve(self._search(tx, plan, get_vector=get_vector, deadline=deadline))
                timer.end_stage("retrieve")
                load(tx, table)
                if prompt is not None:
                    prompt.load(tx, table)
                return table

            table = _ranked(self.services.store.read(self.caller.tenant, read), rerank)
            timer.end_stage("rank")
            return table

        table = find(plan)
        if prompt is not None:
            prompt.judge(table)
        elif not table.is_answered and plan.filter.archived_salience_min and not deadline.is_over:
            table = find(plan.with_low_salience(), before=table)
        check_citations(table, asks_git=not is_prompt)
        describe(table)
        timer.end_stage("rank")
        timer.split_stage("rank", table.taken_ms)
        packed, last = _fill_budget(table, has_pages=table.plan.has_pages and not is_prompt)
        more = self._count_after(table.plan, last)
        timer.end_stage("pack")
        note_shown(_contexts_of(table.ranked, packed))
        table.degraded += self._replaced_space(table.plan)
        trace = self._log(table, packed=packed, stages_ms=timer.stages_ms)
        if options.get("bump", True):
            self._record_access(table, packed, is_prompt=is_prompt)
        return RecallResult(
            items=packed.items,
            tokens=packed.tokens,
            verdict=trace.status,
            trace_id=ids.show(ids.TRACE, trace.id),
            conflicts=packed.conflicts,
            confidence=certainty(packed.items),
            omitted=packed.omitted,
            degraded=trace.degraded,
            order=table.plan.budget.order,
            next=next_cursor(options, last) if last and more else None,
            more=more,
        )

    def _search(
        self,
        tx: Transaction,
        plan: QueryPlan,
        *,
        get_vector: Callable[[], Future[Matrix]] | None,
        deadline: Deadline,
    ) -> Search:
        """Prepare the search; if the query names other speakers than was known, plan it again."""
        checked = self._check_speakers(tx, plan)
        if checked is not plan:
            get_vector = self._embed(checked, has_deadline=deadline.at_ms is not None)
        return Search(
            tx=tx,
            plan=checked,
            space=self.services.store.space,
            deadline=deadline,
            get_vector=get_vector,
        )

    def _plan(self, query: str, options: RecallOptions) -> QueryPlan:
        now = self.services.clock.now()
        parameters = self.services.parameters_for(self.caller)
        criteria = read_filter(options, now, parameters=parameters)
        plan = plan_query(
            query,
            QueryScope(caller=self.caller, filter=criteria, now=now),
            budget=read_budget(options, parameters=parameters),
            speakers=self.services.speakers.among(self.caller.tenant, name_ngrams(query)),
            overrides=self.overrides,
        )
        plan = replace(plan, after=read_cursor(query, options), parameters=parameters)
        return plan_prompt(plan) if options.get("proactive") else list_time(plan)

    def _check_speakers(self, tx: Transaction, plan: QueryPlan) -> QueryPlan:
        """Return the plan with the speakers that the query names; mostly as it is."""
        names = name_ngrams(plan.query)
        speakers = frozenset(tx.memories.people(names)) if names else plan.speakers
        if speakers == plan.speakers:
            return plan
        self.services.speakers.learn(self.caller.tenant, speakers, among=names)
        return replace(plan, speakers=speakers)

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

    def _reranker(self, plan: QueryPlan, deadline: Deadline) -> Callable[[Table], None] | None:
        """Load what orders the candidates, before the transaction begins; None if no model does."""
        if not plan.query:
            return None
        trained, model = self.services.trained, self.services.reranker
        rerankers: list[Callable[[Table], None] | None] = []
        if plan.overrides.is_enabled(RERANK):
            rerankers.append(trained.reranker(plan, deadline=deadline))
        if model is not None and plan.overrides.is_enabled(CROSS_ENCODER):
            rerankers.append(model.reranker(plan, deadline=deadline))
        serving = [rerank for rerank in rerankers if rerank is not None]

        def rerank_by_each(table: Table) -> None:
            for rerank in serving:
                rerank(table)

        return rerank_by_each if serving else None

    def _count_after(self, plan: QueryPlan, last: Place | None) -> int:
        """Count what comes after the last item of a page; 0 if there is no page."""
        if last is None:
            return 0
        count = partial(count_after, plan=plan, last=last)
        return self.services.store.read(self.caller.tenant, count)

    def _replaced_space(self, plan: QueryPlan) -> tuple[str, ...]:
        """Warn that the store has moved to another embedding space; words still match."""
        name = self.services.store.moved_to
        if name is None or not plan.query:
            return ()
        return (f"space: {name} serves now; restart this program with its embedder.",)

    def _log(self, table: Table, *, packed: Packed, stages_ms: Mapping[str, float]) -> RecallTrace:
        """Queue the trace for the recall log, and emit metrics."""
        plan, ranker = table.plan, table.ranker
        status = ResultStatus.FOUND if table.is_answered else ResultStatus.BELOW_THRESHOLD
        if table.is_empty:
            status = ResultStatus.NOTHING_STORED
        trace = RecallTrace(
            id=ids.make_id(plan.now, self.services.random_source.bits(ids.RANDOM_BITS)),
            caller=self.caller,
            asked_at=plan.now,
            query=plan.original_query,
            status=status,
            considered=_first_of_each(table.considered),
            packed=tuple(dict.fromkeys(packed.ids)),
            extents=dict(zip(packed.ids, map(ShownExtent.of, packed.items), strict=True)),
            left_out=_explain_exclusions(table, packed),
            degraded=tuple(table.degraded),
            stages_ms=stages_ms,
            ranker=ranker.id if ranker else None,
            is_watched=ranker is not None and ranker.state is ModelState.CANARY,
        )
        self.services.journal.record(trace)
        # Commands have no telemetry.
        if self.services.telemetry.is_on:
            self.services.telemetry.recalled(
                _summarize(trace, tokens=packed.tokens, asks_meaning=bool(plan.query))
            )
        return trace

    def _record_access(self, table: Table, packed: Packed, *, is_prompt: bool) -> None:
        """Count an access to the best items whose text is shown."""
        each = zip(packed.ids, packed.items, strict=True)
        with_text = list(dict.fromkeys(id_ for id_, item in each if item.headline is not None))
        at = table.plan.now
        if is_prompt and with_text:
            record_shown(self.services, self.caller, ids=with_text, reviews=table.reviews, at=at)
        elif with_text:
            counted = tuple(with_text[:ACCESSES_PER_RECALL])
            self.services.journal.touch(MemoryAccess(tenant=self.caller.tenant, ids=counted, at=at))


def _may_find_more(tx: Transaction, plan: QueryPlan) -> bool:
    """Return whether a search of what is archived too may find more; of the past, it may."""
    return bool(plan.filter.as_of) or tx.memories.any(plan.archived_scope)


def _ranked(table: Table, rerank: Callable[[Table], None] | None) -> Table:
    """Order what was found, unless it is ordered already: a list by time, else by score."""
    if table.ranked:
        return table
    if not table.plan.query:
        arrange(table)
        return table
    score(table)
    if rerank is not None:
        rerank(table)
    order(table)
    return table


FALLBACK_ITEMS_MAX: Final = 8
"""Items shown if nothing seems to answer, since that may be wrong."""
FALLBACK_TOKENS_MAX: Final = RECALL_TOKENS_DEFAULT // 4


def _fill_budget(table: Table, *, has_pages: bool) -> tuple[Packed, Place | None]:
    """Fill the budget, and return the last place of a page of a list."""
    plan = table.plan
    fill = partial(
        pack,
        budget=choose_budget(plan, is_answered=table.is_answered),
        conflicts=table.conflicts,
        terms=plan.terms,
        is_unsure=not table.is_answered,
    )
    if has_pages:
        return fit_page(table.ranked, fill, oldest=table.oldest)
    return fill(table.ranked), None


def choose_budget(plan: QueryPlan, *, is_answered: bool) -> Budget:
    """Return a small budget if nothing seems to answer, unless the caller asked for more."""
    usual = plan.budget
    default = plan.parameters
    is_raised = usual.max_items > default.recall_items or usual.max_tokens > default.recall_tokens
    if is_answered or is_raised:
        return replace(usual, is_default=usual.is_default and not plan.asks_for_all)
    return replace(
        usual,
        max_items=min(FALLBACK_ITEMS_MAX, usual.max_items),
        max_tokens=min(FALLBACK_TOKENS_MAX, usual.max_tokens),
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


def _first_of_each(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return the first candidate of each memory, in order."""
    firsts: dict[int, Candidate] = {}
    for candidate in candidates:
        firsts.setdefault(candidate.memory.id, candidate)
    return tuple(firsts.values())


def _explain_exclusions(table: Table, packed: Packed) -> Mapping[int, ExclusionReason]:
    """Return the reason for each candidate that is not in the result."""
    allowed = {candidate.memory.id for candidate in table.ranked}
    shown = set(packed.ids)
    return {
        id_: ExclusionReason.NOT_ALLOWED
        if id_ not in table.passed
        else ExclusionReason.NOT_WORTH_SHOWING
        if id_ not in allowed
        else ExclusionReason.OVER_BUDGET
        for id_ in [candidate.memory.id for candidate in table.considered]
        if id_ not in shown
    }


def _summarize(trace: RecallTrace, *, tokens: int, asks_meaning: bool) -> RecallMetrics:
    """Compute the metrics of one recall from its trace."""
    left_out = Counter(str(reason) for reason in trace.left_out.values())
    allowed = [
        candidate
        for candidate in trace.considered
        if trace.left_out.get(candidate.memory.id) is not ExclusionReason.NOT_ALLOWED
    ]
    best = next(iter(trace.packed), None)
    scores = [candidate.score for candidate in allowed if candidate.memory.id == best]
    return RecallMetrics(
        tenant=trace.caller.tenant,
        stages_ms=trace.stages_ms,
        status=trace.status,
        is_meaning_asked=asks_meaning,
        is_meaning_found=not any(one.startswith(VECTOR) for one in trace.degraded),
        considered=len(trace.considered),
        packed=len(trace.packed),
        left_out=left_out,
        top_score=next(iter(scores), None),
        tokens=tokens,
        # One sample for all: counting each text would take longer than to fuse their scores.
        tokens_considered=estimate_by_sample("\n".join(one.memory.text for one in allowed)),
        ranker=None if trace.ranker is None else ids.show(ids.MODEL, trace.ranker),
        is_ranker_failed=any(one.startswith(RERANKER) for one in trace.degraded),
    )
