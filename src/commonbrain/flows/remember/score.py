"""The stage that says how much a memory matters, where a model has learnt it; else a rule does."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from commonbrain.domain.kinds import EventDetail
from commonbrain.domain.scope import Caller
from commonbrain.domain.usefulness import KINDS_SCORED
from commonbrain.flows.house import House
from commonbrain.flows.remember.commit import to_memory
from commonbrain.flows.remember.prepare import Prepared
from commonbrain.flows.saliences import Scored


def scored(ready: Sequence[Prepared], caller: Caller, *, house: House) -> list[Prepared]:
    """Give what is to be stored the salience that the tenant's model foretells.

    Where it does not answer the rule scores, and the outcome says so. What is stored already stays
    as it is, whatever is learnt later.
    """
    now = house.clock.now()
    each = [one for one in ready if _is_open(one)]
    told = house.saliences.score(
        caller.tenant, [to_memory(one, caller, now=now, revises=0) for one in each]
    )
    if told is None:
        return list(ready)
    if not isinstance(told, Scored):
        warning = f"Its salience is the rule's: the learnt one did not answer: {told.reason}."
        return [
            replace(one, warnings=(*one.warnings, warning)) if _is_open(one) else one
            for one in ready
        ]
    saliences = iter(told.saliences)
    return [_with(one, saliences) for one in ready]


def _with(one: Prepared, saliences: Iterator[float]) -> Prepared:
    return replace(one, salience=next(saliences)) if _is_open(one) else one


def _is_open(one: Prepared) -> bool:
    """Say whether nobody has said how much it matters."""
    detail = one.admitted.detail
    is_told = isinstance(detail, EventDetail) and detail.importance is not None
    return one.admitted.kind in KINDS_SCORED and not is_told
