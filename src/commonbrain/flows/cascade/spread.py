"""Bringing reviews in line with what has fallen, in bounded steps that no death can lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from commonbrain.domain.cascade import (
    Fall,
    Review,
    Standing,
    carried_by,
)
from commonbrain.domain.errors import Unavailable
from commonbrain.domain.limits import (
    CASCADE_AT_ONCE,
    CASCADE_STEP,
    CASCADE_STEPS_MAX,
    CAUSES_AT_ONCE,
)
from commonbrain.domain.memory import CURRENT_STATES
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import Caller
from commonbrain.flows.cascade.falls import falls
from commonbrain.flows.cascade.weigh import Weighed, weigh
from commonbrain.flows.house import House
from commonbrain.flows.recording import Deed
from commonbrain.ports.graph import Reached, Walk, Way
from commonbrain.ports.store import Transaction

EVERY: Final = 1_000_000
"""More than rests on any one memory: a walk that is to meet no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What one step unseated: who needs review now and did not before, and what was archived."""

    unseated: tuple[int, ...] = ()
    """The nearest first."""
    weighed: Weighed = field(default_factory=Weighed)
    is_cut: bool = False
    """Whether more is left to be followed up."""


def spread(tx: Transaction, deed: Deed, *, limit: int = CASCADE_AT_ONCE) -> Spread:
    """Follow up what the changes of this transaction have unseated, or seated again.

    Repeating it changes nothing. What goes beyond the limit stays listed, for `follow_up`.
    """
    due = tx.reviews.due(deed.at, limit=CAUSES_AT_ONCE)
    if not due:
        return Spread()
    standings = tx.graph.standings(due)
    fallen = falls(tx, standings, now=deed.at)
    changed: set[int] = set()
    unseated: dict[int, None] = {}
    is_cut = len(due) == CAUSES_AT_ONCE
    for cause in due:
        room = limit - len(unseated)
        done = _settle(tx, standings[cause], fall=fallen[cause], deed=deed, room=room)
        changed |= {cause, *done.moved}
        unseated |= dict.fromkeys(done.fresh)
        if done.is_cut:
            is_cut = True
            break
        tx.reviews.postpone(cause, _next_look(standings[cause], deed))
    weighed = weigh(tx, sorted(changed), deed=deed)
    return Spread(unseated=tuple(unseated), weighed=weighed, is_cut=is_cut)


def follow_up(house: House, caller: Caller) -> None:
    """Go on where a large fan was cut, in transactions of their own.

    The change is durable by now and every step that is done too: what fails here is made up for
    by the next that writes.
    """
    for _ in range(CASCADE_STEPS_MAX):
        deed = Deed(action=Action.CASCADE, caller=caller, at=house.clock.now())
        try:
            with house.store.begin(caller.tenant) as tx:
                step = spread(tx, deed, limit=CASCADE_STEP)
        except Unavailable:
            return
        if not step.is_cut:
            return


def mark_erased(tx: Transaction, id_: int, *, deed: Deed) -> list[int]:
    """Mark what depends on a memory while its links are still there; give what it had marked."""
    known = {one.memory_id: one for one in tx.reviews.by(id_)}
    walk = tx.graph.walk([id_], Way.AGAINST, types=carried_by(Fall.ERASED), limit=EVERY)
    tx.reviews.put(
        [
            Review(
                memory_id=one.id,
                cause_id=id_,
                fall=Fall.ERASED,
                via_id=one.via_id,
                depth=one.depth,
                at=deed.at,
            )
            for one in walk.reached
            if one.id not in known
        ]
    )
    resting = {one.from_id for one in tx.links.touching([id_]) if one.to_id == id_}
    return sorted({*known, *resting, *(one.id for one in walk.reached)} - {id_})


@dataclass(frozen=True, slots=True)
class _Done:
    moved: Sequence[int] = ()
    """Whose reviews by this cause came, went or changed."""
    fresh: Sequence[int] = ()
    is_cut: bool = False


def _settle(tx: Transaction, cause: Standing, *, fall: Fall | None, deed: Deed, room: int) -> _Done:
    """Make the reviews by one cause what they should be, with room for so many new ones."""
    known = {one.memory_id: one for one in tx.reviews.by(cause.id) if not one.is_of_itself}
    match fall:
        case Fall.ERASED:
            # Its links are gone: what was marked then is all that can be known.
            return _Done()
        case None:
            tx.reviews.drop(list(known.values()))
            return _Done(moved=list(known))
        case _:
            return _Cause(tx, cause.id, fall, deed).spread(known, room=room)


@dataclass(frozen=True, slots=True)
class _Cause:
    """One memory that has fallen, and how."""

    tx: Transaction
    id: int
    fall: Fall
    deed: Deed

    def spread(self, known: Mapping[int, Review], *, room: int) -> _Done:
        """Walk from it to all that rests on it, and no farther past what somebody vouched for."""
        kept = self._cut_off(known)
        stops = [one.memory_id for one in known.values() if not one.is_open]
        start, limit = [self.id, *kept], len(known) + room
        walk = self._walk(start, limit=limit, stops=stops)
        if walk.is_cut and walk.reached[-1:] and walk.reached[-1].depth == 1:
            # What rests on it directly is marked at once, however much that is.
            walk = self._walk(start, limit=EVERY, stops=stops, depth_max=1)
            walk = replace(walk, is_cut=True)
        wanted = {one.id: self._review(one, known.get(one.id)) for one in walk.reached}
        moved = [one for id_, one in wanted.items() if known.get(id_) != one]
        self.tx.reviews.drop([one for one in moved if one.memory_id in known])
        self.tx.reviews.add(moved)
        stay = {*wanted, *kept}
        gone = [] if walk.is_cut else [known[m] for m in known if m not in stay]
        self.tx.reviews.drop(gone)
        fresh = [one.memory_id for one in moved if one.memory_id not in known]
        both = [one.memory_id for one in (*moved, *gone)]
        return _Done(moved=both, fresh=fresh, is_cut=walk.is_cut)

    def _review(self, one: Reached, known: Review | None) -> Review:
        if known is not None:
            return replace(known, fall=self.fall, via_id=one.via_id, depth=one.depth)
        return Review(
            memory_id=one.id,
            cause_id=self.id,
            fall=self.fall,
            via_id=one.via_id,
            depth=one.depth,
            at=self.deed.at,
        )

    def _cut_off(self, known: Mapping[int, Review]) -> list[int]:
        """Give those that were reached through what has been erased since: no walk finds them."""
        steps = sorted({one.via_id for one in known.values()} - {self.id} - set(known))
        gone = {id_ for id_, one in self.tx.graph.standings(steps).items() if one.is_erased}
        return sorted(one.memory_id for one in known.values() if one.via_id in gone)

    def _walk(
        self,
        start: Sequence[int],
        *,
        limit: int,
        stops: Sequence[int],
        depth_max: int | None = None,
    ) -> Walk:
        return self.tx.graph.walk(
            start,
            Way.AGAINST,
            types=carried_by(self.fall),
            limit=max(limit, 1),
            depth_max=depth_max,
            stops=stops,
        )


def _next_look(one: Standing, deed: Deed) -> datetime | None:
    """Say when a memory that holds will have expired."""
    is_ahead = one.expires_at is not None and one.expires_at > deed.at
    return one.expires_at if is_ahead and one.state in CURRENT_STATES else None
