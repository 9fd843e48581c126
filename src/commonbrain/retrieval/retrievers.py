"""The arms that bring candidates, cheapest first, each only while there is time.

`ARMS` is the table: to add a way of finding, add a row. The meaning of a query comes last, for it
may have to be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, TypeVar

from commonbrain.clock import Clock
from commonbrain.embeddings.interface import Matrix
from commonbrain.ingestion.skills import fired
from commonbrain.model.errors import Unavailable
from commonbrain.model.limits import (
    LEXICAL_CANDIDATES,
    PERIOD_CANDIDATES,
    SKILLS_MAX,
    VECTOR_CANDIDATES,
)
from commonbrain.retrieval.query_plan import Plan
from commonbrain.storage.index import Hit
from commonbrain.storage.interface import Transaction

Wanted = TypeVar("Wanted")


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

    def await_(self, future: Future[Wanted]) -> Wanted:
        """Wait for what is under way, no longer than there is time.

        Raises:
            Unavailable: `deadline`, it is not there yet; or what it failed with.

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
        raise Unavailable("It did not answer in time.", code="deadline")


Scores = dict[int, float]
"""What one arm found: raw scores by memory id."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One way of finding: whether a plan gives it anything to ask, and how it asks the store."""

    serves: Callable[[Plan], bool]
    ask: Callable[[Transaction, Plan], list[Hit]]


@dataclass(frozen=True, slots=True)
class Asked:
    """What each arm found, and the arms that did not take part, each with the reason."""

    found: Mapping[str, Scores]
    degraded: tuple[str, ...]
    meant: Matrix | None = None
    """The vector of the query, where it was there in time."""


def newest(tx: Transaction, plan: Plan) -> list[Hit]:
    """Browse the newest, when nothing is asked for in words."""
    return tx.memories.newest(plan.look, limit=plan.budget.max_items)


def by_skill(tx: Transaction, plan: Plan) -> list[Hit]:
    """Find the rules whose trigger the query names, the first five of them."""
    found = fired(tx, plan.look, query=plan.query, project=plan.project)
    return [Hit(id=memory.id, score=1.0) for memory in found[:SKILLS_MAX]]


def by_words(tx: Transaction, plan: Plan) -> list[Hit]:
    """Find by stemmed words, BM25; in the time that the query names besides."""
    hits = tx.index.lexical(plan.terms, plan.look, limit=LEXICAL_CANDIDATES)
    if plan.look_in_period is None:
        return hits
    return [*hits, *tx.index.lexical(plan.terms, plan.look_in_period, limit=PERIOD_CANDIDATES)]


def by_time(tx: Transaction, plan: Plan) -> list[Hit]:
    """Find what happened in the time that the query names, newest first."""
    if plan.look_in_period is None:
        return []
    hits = tx.memories.newest(plan.look_in_period, limit=PERIOD_CANDIDATES)
    return [Hit(id=hit.id, score=1.0) for hit in hits]


ARMS: Final[Mapping[str, Arm]] = {
    "recent": Arm(lambda plan: not plan.query, newest),
    "skill": Arm(lambda plan: bool(plan.query) and plan.is_about_now, by_skill),
    "lexical": Arm(lambda plan: bool(plan.terms), by_words),
    "time": Arm(lambda plan: plan.period is not None, by_time),
}
MEANING: Final = "vector"
"""The arm that asks by the query's vector."""

_UNMADE: Final = (
    f"{MEANING}: fields_unembedded, some atoms lack vectors of their fields; "
    "`brain doctor --repair` makes them."
)


def ask_arms(
    tx: Transaction, plan: Plan, *, meaning: Future[Matrix] | None, deadline: Deadline
) -> Asked:
    """Ask every arm that the plan gives something to ask; scores by arm and id."""
    found: dict[str, Scores] = {name: {} for name in (*ARMS, MEANING)}
    degraded: list[str] = []
    meant: Matrix | None = None
    for name, arm in ARMS.items():
        if not (plan.tuning.has(name) and arm.serves(plan)):
            continue
        if deadline.is_over:
            degraded.append(f"{name}: deadline, there was no time left to ask.")
        else:
            found[name] = {hit.id: hit.score for hit in arm.ask(tx, plan)}
    if meaning is not None:
        try:
            meant = deadline.await_(meaning)
        except Unavailable as error:
            degraded.append(f"{MEANING}: {error.code}, {error.message}")
        else:
            found[MEANING] = _by_meaning(tx, plan, vector=meant, found=found)
            if plan.filter.field is not None and tx.index.lacks_fields():
                degraded.append(_UNMADE)
    return Asked(found, tuple(degraded), meant)


def _by_meaning(
    tx: Transaction, plan: Plan, *, vector: Matrix, found: Mapping[str, Scores]
) -> Scores:
    """Find by cosine to the query's vector, and give that of what the other arms brought."""
    near = {h.id: h.score for h in tx.index.nearest(vector, plan.look, limit=VECTOR_CANDIDATES)}
    others = dict.fromkeys(id_ for scores in found.values() for id_ in scores if id_ not in near)
    return near | tx.index.similarities(vector, list(others), field=plan.filter.field)
