"""The arms that bring candidates, cheapest first, each only while there is time.

`ARMS` is the table: to add a way of finding, add a row. The meaning of a query comes last, for it
may have to be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import Matrix
from commonbrain.ingestion.skills import match_skills
from commonbrain.model.errors import UnavailableError
from commonbrain.model.limits import (
    LEXICAL_CANDIDATES,
    PERIOD_CANDIDATES,
    SKILLS_MAX,
    VECTOR_CANDIDATES,
)
from commonbrain.retrieval.query_plan import QueryPlan
from commonbrain.storage.interface import Hit

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Deadline:
    """The moment past which nothing more is asked; without one there is always time."""

    clock: Clock
    at_ms: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether that moment has come."""
        return self.at_ms is not None and self.clock.elapsed_ms() >= self.at_ms

    @property
    def left_ms(self) -> float | None:
        """How long it is until then, below zero past it; None without one."""
        return None if self.at_ms is None else self.at_ms - self.clock.elapsed_ms()

    def wait_for(self, future: Future[Result]) -> Result:
        """Wait for what is under way, no longer than there is time.

        Raises:
            UnavailableError: `deadline`, it is not there yet; or what it failed with.

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


ScoresById = dict[int, float]
"""What one arm found: raw scores by memory id."""


@dataclass(frozen=True, slots=True)
class Retriever:
    """One way of finding: whether a plan gives it anything to ask, and how it asks the store."""

    applies_to: Callable[[QueryPlan], bool]
    retrieve: Callable[[Transaction, QueryPlan], list[Hit]]


@dataclass(frozen=True, slots=True)
class RetrievalResult:
    """What each arm found, and the arms that did not take part, each with the reason."""

    matches: Mapping[str, ScoresById]
    degraded: tuple[str, ...]
    query_vector: Matrix | None = None
    """The vector of the query, where it was there in time."""


def browse_newest(tx: Transaction, plan: QueryPlan) -> list[Hit]:
    """Browse the newest, when nothing is asked for in words."""
    return tx.memories.newest(plan.query_scope, limit=plan.budget.max_items)


def retrieve_by_skill(tx: Transaction, plan: QueryPlan) -> list[Hit]:
    """Find the rules whose trigger the query names, the first five of them."""
    matches = match_skills(tx, plan.query_scope, query=plan.query, project=plan.project)
    return [Hit(id=memory.id, score=1.0) for memory in matches[:SKILLS_MAX]]


def retrieve_lexical(tx: Transaction, plan: QueryPlan) -> list[Hit]:
    """Find by stemmed words, BM25; in the time that the query names besides."""
    hits = tx.index.lexical(plan.terms, plan.query_scope, limit=LEXICAL_CANDIDATES)
    if plan.time_scoped is None:
        return hits
    return [*hits, *tx.index.lexical(plan.terms, plan.time_scoped, limit=PERIOD_CANDIDATES)]


def retrieve_by_time(tx: Transaction, plan: QueryPlan) -> list[Hit]:
    """Find what happened in the time that the query names, newest first."""
    if plan.time_scoped is None:
        return []
    hits = tx.memories.newest(plan.time_scoped, limit=PERIOD_CANDIDATES)
    return [Hit(id=hit.id, score=1.0) for hit in hits]


RETRIEVERS: Final[Mapping[str, Retriever]] = {
    "recent": Retriever(lambda plan: not plan.query, browse_newest),
    "skill": Retriever(lambda plan: bool(plan.query) and plan.is_about_now, retrieve_by_skill),
    "lexical": Retriever(lambda plan: bool(plan.terms), retrieve_lexical),
    "time": Retriever(lambda plan: plan.period is not None, retrieve_by_time),
}
VECTOR: Final = "vector"
"""The arm that asks by the query's vector."""

_FIELDS_PENDING: Final = (
    f"{VECTOR}: fields_unembedded, some atoms lack vectors of their fields; "
    "`brain doctor --repair` makes them."
)


def retrieve_candidates(
    tx: Transaction, plan: QueryPlan, *, meaning: Future[Matrix] | None, deadline: Deadline
) -> RetrievalResult:
    """Ask every arm that the plan gives something to ask; scores by arm and id."""
    matches: dict[str, ScoresById] = {name: {} for name in (*RETRIEVERS, VECTOR)}
    degraded: list[str] = []
    query_vector: Matrix | None = None
    for name, retriever in RETRIEVERS.items():
        if not (plan.overrides.is_enabled(name) and retriever.applies_to(plan)):
            continue
        if deadline.is_over:
            degraded.append(f"{name}: deadline, there was no time left to ask.")
        else:
            matches[name] = {hit.id: hit.score for hit in retriever.retrieve(tx, plan)}
    if meaning is not None:
        try:
            query_vector = deadline.wait_for(meaning)
        except UnavailableError as error:
            degraded.append(f"{VECTOR}: {error.code}, {error.message}")
        else:
            matches[VECTOR] = _retrieve_by_vector(tx, plan, vector=query_vector, matches=matches)
            if plan.filter.field is not None and tx.index.lacks_fields():
                degraded.append(_FIELDS_PENDING)
    return RetrievalResult(matches, tuple(degraded), query_vector)


def _retrieve_by_vector(
    tx: Transaction, plan: QueryPlan, *, vector: Matrix, matches: Mapping[str, ScoresById]
) -> ScoresById:
    """Find by cosine to the query's vector, and give that of what the other arms brought."""
    near = {
        h.id: h.score for h in tx.index.nearest(vector, plan.query_scope, limit=VECTOR_CANDIDATES)
    }
    others = dict.fromkeys(id_ for scores in matches.values() for id_ in scores if id_ not in near)
    return near | tx.index.similarities(vector, list(others), field=plan.filter.field)
