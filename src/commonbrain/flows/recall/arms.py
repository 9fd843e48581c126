"""The arms that bring candidates, cheapest first.

`ARMS` is the table: to add a way of finding, add a function and a row.
"""

from collections.abc import Callable, Mapping
from typing import Final

from commonbrain.domain.limits import LEXICAL_CANDIDATES, VECTOR_CANDIDATES
from commonbrain.flows.recall.plan import Plan
from commonbrain.ports.store import Hit, Transaction

Arm = Callable[[Transaction, Plan], list[Hit]]
"""Asks the store one way; gives nothing when the plan gives it nothing to ask."""


def by_words(tx: Transaction, plan: Plan) -> list[Hit]:
    """Find by stemmed words, BM25."""
    if not plan.terms:
        return []
    return tx.index.lexical(plan.terms, plan.look, limit=LEXICAL_CANDIDATES)


def by_meaning(tx: Transaction, plan: Plan) -> list[Hit]:
    """Find by cosine to the query's vector."""
    if plan.vector is None:
        return []
    return tx.index.nearest(plan.vector, plan.look, limit=VECTOR_CANDIDATES)


def by_time(tx: Transaction, plan: Plan) -> list[Hit]:
    """Browse the newest, when nothing is asked for in words."""
    return [] if plan.query else tx.memories.newest(plan.look, limit=plan.budget.max_items)


ARMS: Final[Mapping[str, Arm]] = {
    "recent": by_time,
    "lexical": by_words,
    "vector": by_meaning,
}


def ask_arms(tx: Transaction, plan: Plan) -> dict[str, dict[int, float]]:
    """Ask every arm, then the meaning of what only the words brought: scores by arm and id."""
    found = {name: {hit.id: hit.score for hit in arm(tx, plan)} for name, arm in ARMS.items()}
    if plan.vector is not None:
        unscored = [id_ for id_ in found["lexical"] if id_ not in found["vector"]]
        found["vector"] |= tx.index.similarities(plan.vector, unscored)
    return found
