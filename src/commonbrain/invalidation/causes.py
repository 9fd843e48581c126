"""Which memories have fallen, read from the store."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import State
from commonbrain.model.revision import Action, Change
from commonbrain.model.support import (
    InvalidationReason,
    SupportStatus,
    contradicts,
    invalidation_of,
)

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


def find_invalidations(
    tx: Transaction, standings: Mapping[int, SupportStatus], *, now: datetime
) -> dict[int, InvalidationReason | None]:
    """Say of memories how each fell, or that it holds."""
    conflicts = _conflicts(tx, standings)
    pruned_ids = pruned(tx, [one.id for one in standings.values() if one.state is State.FORGOTTEN])
    return {
        id_: invalidation_of(
            one, is_pruned=id_ in pruned_ids, conflicts=conflicts.get(id_, ()), now=now
        )
        for id_, one in standings.items()
    }


def _conflicts(
    tx: Transaction, standings: Mapping[int, SupportStatus]
) -> Mapping[int, Sequence[tuple[Link, SupportStatus]]]:
    links = tx.links.touching(list(standings), types=[LinkType.CONFLICTS_WITH])
    ends = {end for link in links for end in (link.from_id, link.to_id)} - set(standings)
    known = {**standings, **tx.graph.support_statuses(sorted(ends))}
    lost = tx.reviews.unsupported(sorted(known)) if links else {}
    conflicts_by_id: defaultdict[int, list[tuple[Link, SupportStatus]]] = defaultdict(list)
    for link in links:
        for one, by in ((link.from_id, link.to_id), (link.to_id, link.from_id)):
            # What nothing holds up any more says nothing against others.
            if by not in lost:
                conflicts_by_id[one].append((link, known[by]))
    return conflicts_by_id


def pruned(tx: Transaction, forgotten: Sequence[int]) -> set[int]:
    """Say which were forgotten for nothing but their age."""
    return {one.memory_id for one in _forgettings(tx, forgotten) if one.action is Action.PRUNE}


def invalidated_at(
    tx: Transaction, one: SupportStatus, *, fall: InvalidationReason, now: datetime
) -> datetime:
    """Say when a memory fell; what is marked later, or once more, does not make that later."""
    match fall:
        case InvalidationReason.EXPIRED:
            at = one.expires_at
        case InvalidationReason.SUPERSEDED:
            at = tx.memories.get([one.id])[one.id].superseded_at
        case InvalidationReason.FORGOTTEN | InvalidationReason.PRUNED:
            at = next((change.at for change in _forgettings(tx, [one.id])), None)
        case InvalidationReason.CONTRADICTED:
            against = _conflicts(tx, {one.id: one}).get(one.id, ())
            said = (
                link.created_at for link, by in against if contradicts(link, one, by=by, now=now)
            )
            at = min(said, default=None)
        case _:
            at = None
    return at or now


def _forgettings(tx: Transaction, forgotten: Sequence[int]) -> list[Change]:
    """Give of each how it was forgotten; where an undo took a restoring back, how at first."""
    last: dict[int, Change] = {}
    for change in tx.changes.of(forgotten):
        if change.after.get("state") != State.FORGOTTEN:
            continue
        if change.memory_id not in last or change.action is not Action.UNDO:
            last[change.memory_id] = change
    return list(last.values())
