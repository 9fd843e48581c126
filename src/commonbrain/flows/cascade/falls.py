"""Which memories have fallen, read from the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from commonbrain.domain.cascade import Fall, Standing, fall_of
from commonbrain.domain.links import Link, LinkType
from commonbrain.domain.memory import State
from commonbrain.domain.revision import Action
from commonbrain.ports.store import Transaction


def falls(
    tx: Transaction, standings: Mapping[int, Standing], *, now: datetime
) -> dict[int, Fall | None]:
    """Say of memories how each fell, or that it holds."""
    conflicts = _conflicts(tx, standings)
    pruned = _pruned(tx, [one.id for one in standings.values() if one.state is State.FORGOTTEN])
    return {
        id_: fall_of(one, is_pruned=id_ in pruned, conflicts=conflicts.get(id_, ()), now=now)
        for id_, one in standings.items()
    }


def _conflicts(
    tx: Transaction, standings: Mapping[int, Standing]
) -> Mapping[int, Sequence[tuple[Link, Standing]]]:
    links = tx.links.touching(list(standings), types=[LinkType.CONFLICTS_WITH])
    ends = {end for link in links for end in (link.from_id, link.to_id)} - set(standings)
    known = {**standings, **tx.graph.standings(sorted(ends))}
    beside: defaultdict[int, list[tuple[Link, Standing]]] = defaultdict(list)
    for link in links:
        beside[link.from_id].append((link, known[link.to_id]))
        beside[link.to_id].append((link, known[link.from_id]))
    return beside


def _pruned(tx: Transaction, forgotten: Sequence[int]) -> set[int]:
    """Say which were forgotten for nothing but their age."""
    last: dict[int, Action] = {}
    for change in tx.changes.of(forgotten):
        if change.after.get("state") == State.FORGOTTEN:
            last[change.memory_id] = change.action
    return {id_ for id_, action in last.items() if action is Action.PRUNE}
