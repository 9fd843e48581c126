"""Prefer events to the episodes that summarize them, where a question is not for a time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from commonbrain.model.kinds import Kind
from commonbrain.model.labels import SUMMARY
from commonbrain.model.links import LinkType
from commonbrain.model.query import Candidate

if TYPE_CHECKING:
    from commonbrain.retrieval.query_plan import QueryPlan
    from commonbrain.storage.store import Transaction

STAGE: Final = "sources_first"


def without_summaries(
    tx: Transaction, plan: QueryPlan, *, ranked: Sequence[Candidate]
) -> Sequence[Candidate]:
    """Leave out the episodes of reflections whose sources are candidates too.

    An episode says a third of what its sources say, so it only takes their place. It stays for a
    question with a time ("What was decided on Monday?"), for a query for episodes, and once its
    sources have faded.
    """
    wants_them = plan.period is not None or Kind.EPISODE in plan.filter.kinds or plan.filter.labels
    if not plan.query or wants_them or not plan.overrides.is_enabled(STAGE):
        return ranked
    summaries = {
        one.memory.id
        for one in ranked
        if one.memory.kind is Kind.EPISODE and one.memory.label == SUMMARY
    }
    if not summaries:
        return ranked
    sources: defaultdict[int, set[int]] = defaultdict(set)
    for link in tx.links.touching(sorted(summaries), types=[LinkType.DERIVED_FROM]):
        sources[link.from_id].add(link.to_id)
    known = {one.memory.id for one in ranked}
    return [one for one in ranked if not sources[one.memory.id] & known]
