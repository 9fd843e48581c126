"""Archiving what rests on nothing that holds, and bringing it back once something does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from commonbrain.domain.cascade import Fall, Review, Standing, Support, bears, unsupported
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import CURRENT_STATES, State
from commonbrain.domain.revision import Action, Change
from commonbrain.flows.cascade.falls import pruned
from commonbrain.flows.recording import Deed
from commonbrain.ports.records import AuditEntry
from commonbrain.ports.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """What was archived, and how all that was looked at stood before."""

    archived: tuple[int, ...] = ()
    standings: Mapping[int, Standing] = field(default_factory=dict[int, Standing])
    lost: tuple[int, ...] = ()
    """What nothing holds up any more, archived or not."""
    found: tuple[int, ...] = ()
    """What something holds up again."""

    def then(self, later: Weighed) -> Weighed:
        """Join what was archived and brought back after it."""
        archived = [one for one in self.archived if one not in later.found]
        return Weighed(
            archived=tuple(dict.fromkeys((*archived, *later.archived))),
            standings={**later.standings, **self.standings},
        )


def weigh(tx: Transaction, changed: Sequence[int], *, deed: Deed) -> Weighed:
    """Archive or bring back what the changed and all that rests on them deserve.

    Rules are never archived, nor are action items that are owed, nor is what somebody has vouched
    for.
    """
    region = tx.reviews.shaken(changed)
    doubtful, selves = tx.reviews.doubtful(region), tx.reviews.unsupported(region)
    standings = tx.graph.standings(sorted({*doubtful, *selves}))
    candidates = _candidates(tx, {id_: standings[id_] for id_ in doubtful}, now=deed.at)
    supports = tx.graph.supports(sorted(candidates))
    bearing = _bearing(tx, supports, candidates=candidates, region=set(region), now=deed.at)
    gone = unsupported(candidates, supports, bearing=bearing)
    fresh = [standings[id_] for id_ in sorted(gone - selves.keys())]
    archived = _archive(tx, fresh, deed=deed)
    back = [selves[id_] for id_ in sorted(selves.keys() - gone)]
    _revive(tx, back, standings=standings, deed=deed)
    lost, found = (tuple(sorted(ids)) for ids in (gone - selves.keys(), selves.keys() - gone))
    return Weighed(archived=archived, standings=standings, lost=lost, found=found)


def holding(tx: Transaction, id_: int, *, now: datetime) -> list[Support]:
    """List by what a memory is still held up."""
    supports = tx.graph.supports([id_])
    bearing = _bearing(tx, supports, candidates=set(), region=set(), now=now)
    return [one for one in supports if bearing[one]]


def left_without(
    tx: Transaction,
    fallen: Sequence[int],
    *,
    standings: Mapping[int, Standing],
    reviews: Mapping[int, Sequence[Review]],
    now: datetime,
) -> set[int]:
    """Say which of those that rest on something would rest on nothing, were it to fall."""
    vouched = {id_ for id_, those in reviews.items() if any(one.settled_at for one in those)}
    doubtful = {id_: one for id_, one in standings.items() if id_ not in vouched}
    candidates = _candidates(tx, doubtful, now=now)
    supports = tx.graph.supports(sorted(candidates))
    held = _bearing(tx, supports, candidates=candidates, region=set(), now=now)
    bearing = {one: holds and one.to_id not in fallen for one, holds in held.items()}
    return unsupported(candidates, supports, bearing=bearing)


def _candidates(tx: Transaction, standings: Mapping[int, Standing], *, now: datetime) -> set[int]:
    """Give what may be archived: nothing that binds is lifted because something else fell."""
    found = {
        id_: one.kind
        for id_, one in standings.items()
        if one.state in CURRENT_STATES and not one.is_over(now) and one.kind is not Kind.RULE
    }
    tasks = [id_ for id_, kind in found.items() if kind is Kind.TASK]
    return found.keys() - (tx.duties.owed(tasks) if tasks else set())


def _bearing(
    tx: Transaction,
    supports: Sequence[Support],
    *,
    candidates: set[int],
    region: set[int],
    now: datetime,
) -> Mapping[Support, bool]:
    """Say of the supports that lead out of the candidates which hold."""
    leading = [one for one in supports if one.to_id not in candidates]
    targets = sorted({one.to_id for one in leading})
    standings = tx.graph.standings(targets)
    lost = tx.reviews.unsupported([id_ for id_ in targets if id_ not in region])
    gone = [id_ for id_, one in standings.items() if one.state is State.FORGOTTEN]
    aged = pruned(tx, gone) if gone else set[int]()
    return {
        one: bears(
            one,
            standings.get(one.to_id),
            is_unsupported=one.to_id in lost,
            is_pruned=one.to_id in aged,
            now=now,
        )
        for one in leading
    }


def _archive(tx: Transaction, fresh: Sequence[Standing], *, deed: Deed) -> tuple[int, ...]:
    tx.reviews.add(
        [
            Review(
                memory_id=one.id,
                cause_id=one.id,
                fall=Fall.UNSUPPORTED,
                via_id=one.id,
                depth=0,
                at=deed.at,
                earlier=one.state,
            )
            for one in fresh
        ]
    )
    active = tuple(one.id for one in fresh if one.state is State.ACTIVE)
    _turn(tx, active, before=State.ACTIVE, after=State.ARCHIVED, deed=deed)
    return active


def _revive(
    tx: Transaction,
    back: Sequence[Review],
    *,
    standings: Mapping[int, Standing],
    deed: Deed,
) -> None:
    """Bring back what was archived for want of support, unless it was changed since."""
    tx.reviews.drop(back)
    resting = [one.memory_id for one in back if one.earlier is State.ACTIVE]
    archived = [id_ for id_ in resting if standings[id_].state is State.ARCHIVED]
    _turn(tx, archived, before=State.ARCHIVED, after=State.ACTIVE, deed=deed)


def _turn(tx: Transaction, ids: Sequence[int], *, before: State, after: State, deed: Deed) -> None:
    """Change the state of many, and record it of each."""
    if not ids:
        return
    first, caller = ids[0], deed.caller
    change = Change(
        memory_id=first,
        action=Action.CASCADE,
        agent=caller.agent,
        session=caller.session,
        at=deed.at,
        before={"state": before},
        after={"state": after},
    )
    entry = AuditEntry(
        action=Action.CASCADE,
        memory_id=first,
        agent=caller.agent,
        session=caller.session,
        reason=None,
        content="",
        at=deed.at,
    )
    tx.memories.turn(ids, after)
    tx.changes.add_alike(change, ids)
    tx.records.audit_alike(entry, tx.memories.texts(ids))
