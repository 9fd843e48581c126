"""Finding candidates: the table of retrievers and the loop that runs them.

`RETRIEVERS` holds everything about each way to find memories. To add one, write its function and
its row; ranking, ablation, traces and the reasons shown with results follow from the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace, Matrix
from commonbrain.ingestion.skills import match_skills
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import (
    PERIOD_CANDIDATES,
)
from commonbrain.model.query import Place
from commonbrain.model.recall_result import Order
from commonbrain.retrieval.guidance import GUIDANCE, fetch_guidance, marked_memories
from commonbrain.retrieval.query_plan import QueryPlan
from commonbrain.retrieval.second_step import asks_for_several, search_people
from commonbrain.text.time_expressions.mentions import marks_of

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

Result = TypeVar("Result")

ScoresById = dict[int, float]
"""Raw scores of one retriever by memory id."""
ScoresByRetriever = Mapping[str, Mapping[int, float]]
"""Raw scores by name of the retriever and memory id."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time at which recall stops asking further retrievers; None means no limit."""

    clock: Clock
    at_ms: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self.at_ms is not None and self.clock.elapsed_ms() >= self.at_ms

    @property
    def left_ms(self) -> float | None:
        """Time until the deadline, negative after it; None without a deadline."""
        return None if self.at_ms is None else self.at_ms - self.clock.elapsed_ms()

    def wait_for(self, future: Future[Result]) -> Result:
        """Wait for a result, at most until the deadline.

        Raises:
            UnavailableError: `deadline`, there is no result yet, and the call is cancelled; or the
                error with which the call failed.

        """
        if self.at_ms is None:
            return future.result()
        left_ms = self.at_ms - self.clock.elapsed_ms()
        try:
            if left_ms > 0:
                return future.result(left_ms / 1000)
        except TimeoutError:
            pass
        future.cancel()
        raise UnavailableError("It did not answer in time.", code="deadline")


@dataclass(frozen=True, slots=True, kw_only=True)
class Threshold:
    """What a candidate has to reach to count as relevant."""

    cosine: float
    is_about_time: bool = False
    """Whether the query asks for nothing but a period, or for one to come."""


@dataclass(slots=True, kw_only=True)
class RetrievalState:
    """One run of the retrievers: its input, and what the earlier ones found."""

    tx: Transaction
    plan: QueryPlan
    deadline: Deadline
    get_vector: Callable[[], Future[Matrix]] | None
    """Returns the query's embedding, perhaps not computed yet; None if recall uses no vectors."""
    matches: dict[str, ScoresById]
    """Scores by retriever; empty for those that have not run."""
    degraded: list[str] = field(default_factory=list[str])
    """`name: code, message` for each retriever that could not take part."""
    oldest: Place | None = None
    """The last place of a page of a list; None if nothing follows."""
    query_vector: Matrix | None = None
    """Shape (1, dimensions), once the embedding was available in time."""
    marked: ScoresById = field(default_factory=dict[int, float])
    """Cosines of the memories that state a wish, from the search by vector."""

    def threshold(self, space: EmbeddingSpace) -> Threshold:
        """Return the threshold of a query in this space."""
        is_about_time = self.plan.is_about_time or self.plan.is_ahead
        return Threshold(cosine=space.relevance_threshold, is_about_time=is_about_time)


ALWAYS: Final = -math.inf
NEVER: Final = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Retriever:
    """One way to find candidates; no field has a default, so none can be forgotten."""

    applies_to: Callable[[RetrievalState], bool]
    """Whether the query gives this retriever anything to search for."""
    fetch: Callable[[RetrievalState], ScoresById]
    weight: float
    """Share in the fused score; 0 if the match counts as a ranking feature alone."""
    score_of_no_match: float | None
    """The raw score that means no match; None if only the lowest candidate's score does."""
    relevant_from: Callable[[Threshold], float]
    """The raw score from which a match alone makes a candidate relevant, or `ALWAYS` or `NEVER`."""
    reason: str | None
    """How results name a strong match; None if another feature names it."""


def _fetch_newest(state: RetrievalState) -> ScoresById:
    plan = state.plan
    limit = plan.candidates if plan.lists_time else plan.budget.max_items
    hits = state.tx.memories.newest(plan.query_scope, limit=limit, after=plan.after)
    if plan.has_pages and len(hits) == limit:
        state.oldest = datetime.fromtimestamp(hits[-1].score, UTC), hits[-1].id
    if not (plan.lists_time or plan.budget.order is Order.TIMELINE):
        return {hit.id: hit.score for hit in hits}
    criteria = plan.filter
    if criteria.since is None and hits:
        oldest = datetime.fromtimestamp(hits[-1].score, UTC)
        criteria = replace(criteria, since=oldest)
    if plan.after is not None:
        criteria = replace(criteria, until=min(plan.after[0], criteria.until or plan.after[0]))
    again = state.tx.memories.recurred(replace(plan.query_scope, filter=criteria), limit=limit)
    mentioning = dict.fromkeys(_fetch_mentioning(plan, state.tx), 0.0)
    return mentioning | {hit.id: hit.score for hit in (*hits, *again)}


def _fetch_mentioning(plan: QueryPlan, tx: Transaction) -> Sequence[int]:
    """List the newest memories that mention a date of the period that the query names."""
    periods = [one for one in (plan.period, plan.coming) if one is not None]
    marks = [mark for period in periods for mark in marks_of(period)]
    scope = plan.wider_scope or plan.query_scope
    return tx.memories.with_topics(marks, scope, limit=PERIOD_CANDIDATES) if marks else ()


def _fetch_skills(state: RetrievalState) -> ScoresById:
    plan = state.plan
    skills = match_skills(state.tx, plan.query_scope, query=plan.query, project=plan.project)
    return {memory.id: 1.0 for memory in skills[: plan.parameters.skills_max]}


def _fetch_lexical(state: RetrievalState) -> ScoresById:
    """Search by stemmed words (BM25), once more within the period that the query names."""
    plan, index = state.plan, state.tx.index
    hits = index.lexical(plan.terms, plan.query_scope, limit=plan.parameters.lexical_candidates)
    if plan.time_scoped is not None:
        hits = [*hits, *index.lexical(plan.terms, plan.time_scoped, limit=PERIOD_CANDIDATES)]
    return {hit.id: hit.score for hit in hits}


def _fetch_by_time(state: RetrievalState) -> ScoresById:
    """Take the newest memories of the period that the query names, and what recurred in it.

    What mentions a date of it is added.

    What recurred in the period of a filter is added, because other retrievers know only the first
    time of an event.
    """
    scope, memories = state.plan.time_scoped, state.tx.memories
    newest = [] if scope is None else memories.newest(scope, limit=PERIOD_CANDIDATES)
    again = memories.recurred(scope or state.plan.query_scope, limit=PERIOD_CANDIDATES)
    hits = [hit.id for hit in (*newest, *again)]
    return dict.fromkeys([*hits, *_fetch_mentioning(state.plan, state.tx)], 1.0)


def _fetch_by_vector(state: RetrievalState) -> ScoresById:
    """Search by cosine, and compute the cosine of every other retriever's candidates too."""
    plan, index = state.plan, state.tx.index
    if state.get_vector is None:
        return {}
    try:
        vector = state.query_vector = state.deadline.wait_for(state.get_vector())
    except UnavailableError as error:
        state.degraded.append(f"{VECTOR}: {error.code}, {error.message}")
        return {}
    hits = index.nearest(vector, plan.query_scope, limit=plan.parameters.vector_candidates)
    if plan.time_scoped is not None:
        hits = [*hits, *index.nearest(vector, plan.time_scoped, limit=PERIOD_CANDIDATES)]
    near = {hit.id: hit.score for hit in hits}
    others = dict.fromkeys(
        id_ for scores in state.matches.values() for id_ in scores if id_ not in near
    )
    marked = marked_memories(state) if _is_guided(state) else []
    of_field = plan.filter.field
    if of_field is None:
        # One query compares both.
        cosines = index.similarities(vector, list(others | dict.fromkeys(marked)))
        state.marked = {id_: cosines[id_] for id_ in marked if id_ in cosines}
        return near | {id_: cosines[id_] for id_ in others if id_ in cosines}
    if index.lacks_fields():
        state.degraded.append(_FIELDS_PENDING)
    if marked:
        state.marked = index.similarities(vector, marked)
    return near | index.similarities(vector, list(others), field=of_field)


def _is_guided(state: RetrievalState) -> bool:
    """Return whether guidance will be asked for, unless the deadline passes before."""
    guidance = RETRIEVERS[GUIDANCE]
    return state.plan.overrides.is_enabled(GUIDANCE) and guidance.applies_to(state)


LEXICAL: Final = "lexical"
VECTOR: Final = "vector"

# In the order of their cost; the vector comes late because its embedding may take a while. The
# weights, equal for words and meaning, were measured: see docs/explanation/decisions.md.
RETRIEVERS: Final[Mapping[str, Retriever]] = {
    "recent": Retriever(
        applies_to=lambda state: not state.plan.query,
        fetch=_fetch_newest,
        weight=1.0,
        score_of_no_match=None,
        relevant_from=lambda _: ALWAYS,
        reason="newest",
    ),
    "skill": Retriever(
        applies_to=lambda state: bool(state.plan.query) and state.plan.is_about_now,
        fetch=_fetch_skills,
        weight=0.0,
        score_of_no_match=None,
        relevant_from=lambda _: ALWAYS,
        reason=None,
    ),
    LEXICAL: Retriever(
        applies_to=lambda state: bool(state.plan.terms),
        fetch=_fetch_lexical,
        weight=0.5,
        score_of_no_match=0.0,
        relevant_from=lambda _: ALWAYS,
        reason="words",
    ),
    "time": Retriever(
        applies_to=lambda state: bool(state.plan.query) and state.plan.has_period,
        fetch=_fetch_by_time,
        weight=0.0,
        score_of_no_match=None,
        relevant_from=lambda threshold: ALWAYS if threshold.is_about_time else NEVER,
        reason=None,
    ),
    VECTOR: Retriever(
        applies_to=lambda state: state.get_vector is not None,
        fetch=_fetch_by_vector,
        weight=0.5,
        score_of_no_match=None,
        relevant_from=lambda threshold: threshold.cosine,
        reason="meaning",
    ),
    # The search by vector compares what it chooses from, so it comes after that.
    GUIDANCE: Retriever(
        applies_to=lambda state: not state.plan.is_about_time,
        fetch=fetch_guidance,
        weight=0.0,
        score_of_no_match=0.0,
        # A wish names its topic only in passing.
        relevant_from=lambda threshold: threshold.cosine / 2,
        reason=GUIDANCE,
    ),
}
RETRIEVER_WEIGHTS: Final[Mapping[str, float]] = {
    name: retriever.weight for name, retriever in RETRIEVERS.items()
}

_FIELDS_PENDING: Final = (
    f"{VECTOR}: fields_unembedded, some atoms have no vectors of their fields; "
    "`brain doctor --repair` makes them."
)


def retrieve_candidates(
    tx: Transaction,
    plan: QueryPlan,
    *,
    get_vector: Callable[[], Future[Matrix]] | None,
    deadline: Deadline,
) -> RetrievalState:
    """Run every retriever that applies, in the order of the table, until the deadline.

    A retriever that there is no time for, and a query that could not be embedded, is named in
    `degraded`; the others' matches stay.

    Raises:
        UnavailableError: the store cannot be read.

    """
    state = RetrievalState(
        tx=tx,
        plan=plan,
        deadline=deadline,
        get_vector=get_vector,
        matches={name: {} for name in RETRIEVERS},
    )
    for name, retriever in RETRIEVERS.items():
        if not (plan.overrides.is_enabled(name) and retriever.applies_to(state)):
            continue
        # The vector retriever waits for the embedder, so it checks the deadline itself.
        if name != VECTOR and deadline.is_over:
            state.degraded.append(f"{name}: deadline, there was no time left to ask.")
            continue
        state.matches[name] = retriever.fetch(state)
    if state.query_vector is not None and asks_for_several(plan) and not deadline.is_over:
        state.matches[VECTOR] |= search_people(tx, plan, vector=state.query_vector)
    return state


def apply_relevance_threshold(
    matches: ScoresByRetriever, threshold: Threshold
) -> ScoresByRetriever:
    """Drop every candidate that no retriever considers relevant."""
    relevant: set[int] = set()
    for name, scores in matches.items():
        lowest = RETRIEVERS[name].relevant_from(threshold)
        relevant.update([id_ for id_, score in scores.items() if score >= lowest])
    return {
        name: {id_: score for id_, score in scores.items() if id_ in relevant}
        for name, scores in matches.items()
    }
