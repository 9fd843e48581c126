"""What a change unseated, told to who made it: as much as that caller may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from commonbrain.domain import ids
from commonbrain.domain.cascade import SUPPORTS, Standing
from commonbrain.domain.limits import FORETOLD_MAX
from commonbrain.domain.memory import CURRENT_STATES
from commonbrain.domain.scope import Caller, is_visible
from commonbrain.flows.cascade.spread import Spread
from commonbrain.ports.graph import Way
from commonbrain.ports.store import Transaction

_SHOWN_MAX: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseated:
    """Memories that rest on what was changed and need review now; `ids` names the nearest.

    `is_more` when the fan is so large that the rest is marked after the reply was made.
    """

    count: int
    archived: int = 0
    """Those of them that nothing else holds up."""
    ids: tuple[str, ...] = ()
    is_more: bool = False

    def line(self) -> str:
        """Say it in a sentence."""
        first = f" ({', '.join(self.ids[:3])})" if self.ids else ""
        archived = f", {self.archived} of them archived" if self.archived else ""
        more = " and more" if self.is_more else ""
        return f"Needs review now, for it rests on that: {self.count}{more}{archived}{first}."


def tell_unseated(tx: Transaction, caller: Caller, *, step: Spread) -> Unseated | None:
    """Tell what a step unseated; None when it was nothing that the caller may see."""
    standings = step.weighed.standings
    beyond = tx.graph.standings([id_ for id_ in step.unseated if id_ not in standings])
    seen = _visible(caller, step.unseated, standings={**standings, **beyond})
    if not seen and not step.is_cut:
        return None
    archived = set(step.weighed.archived).intersection(seen)
    return Unseated(
        count=len(seen),
        archived=len(archived),
        ids=tuple(ids.show(ids.MEMORY, id_) for id_ in seen[:_SHOWN_MAX]),
        is_more=step.is_cut,
    )


def _visible(
    caller: Caller, ids_: Sequence[int], *, standings: Mapping[int, Standing]
) -> list[int]:
    """Give of some memories, in their order, those that hold and that the caller may see."""
    return [
        id_
        for id_ in ids_
        if id_ in standings
        and standings[id_].state in CURRENT_STATES
        and is_visible(caller, standings[id_])
    ]


def foretell(tx: Transaction, caller: Caller, *, ids_: Sequence[int]) -> Unseated:
    """Tell what would need review if memories were superseded or forgotten as wrong."""
    walk = tx.graph.walk(ids_, Way.AGAINST, types=SUPPORTS, limit=FORETOLD_MAX)
    marked = {
        id_
        for id_, those in tx.reviews.of([one.id for one in walk.reached]).items()
        if any(one.cause_id in ids_ for one in those)
    }
    fresh = [one.id for one in walk.reached if one.id not in marked]
    seen = _visible(caller, fresh, standings=tx.graph.standings(fresh))
    return Unseated(
        count=len(seen),
        ids=tuple(ids.show(ids.MEMORY, id_) for id_ in seen[:_SHOWN_MAX]),
        is_more=walk.is_cut,
    )
