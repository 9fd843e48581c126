"""The arms that bring candidates, cheapest first, each only while there is time.

`ARMS` is the table: to add a way of finding, add a row. The meaning of a query comes last, for it
may have to be waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final

from commonbrain.domain.errors import Unavailable
from commonbrain.domain.limits import (
    LEXICAL_CANDIDATES,
    PERIOD_CANDIDATES,
    SKILLS_MAX,
    VECTOR_CANDIDATES,
)
from commonbrain.flows.recall.deadline import Deadline
from commonbrain.flows.recall.plan import Plan
from commonbrain.flows.skills import fired
from commonbrain.ports.index import Hit
from commonbrain.ports.models import Matrix
from commonbrain.ports.store import Transaction

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
