"""Bringing reviews in line with what has fallen, in bounded steps that no death can lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from commonbrain.invalidation.causes import falls, fell_at, pruned
from commonbrain.model.errors import Unavailable
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import (
    CASCADE_AT_ONCE,
    CASCADE_STEP,
    CASCADE_STEPS_MAX,
    CAUSES_AT_ONCE,
)
from commonbrain.model.memory import CURRENT_STATES, State
from commonbrain.model.revision import HOUSE_AGENT, Action, Change
from commonbrain.model.scope import Caller
from commonbrain.model.support import (
    Fall,
    Review,
    Standing,
    Support,
    bears,
    carried_by,
    unsupported,
)
from commonbrain.services import House
from commonbrain.storage.change_log import Deed, record_beside, settled_image
from commonbrain.storage.interface import Transaction
from commonbrain.storage.knowledge import Reached, Walk, Way
from commonbrain.storage.records import AuditEntry


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


EVERY: Final = 1_000_000
"""More than rests on any one memory: a walk that is to meet no limit."""
_ROUNDS_MAX: Final = 8
"""What is archived may have contradicted something on which another rests that contradicts, and so
on; a memory that in the end contradicts its own support would turn for ever."""
_NO_LONGER_ASKED: Final = "what it rests on holds again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What one step unseated: who needs review now and did not before, and what was archived.

    Only of what this transaction itself has changed: what others left is followed up untold.
    """

    unseated: tuple[int, ...] = ()
    """The nearest first."""
    weighed: Weighed = field(default_factory=Weighed)
    left: tuple[int, ...] = ()
    """Of what this transaction changed, that of which not all has been followed up."""
    is_cut: bool = False
    """Whether anything is left to be followed up, of whomever."""


def spread(tx: Transaction, deed: Deed, *, limit: int = CASCADE_AT_ONCE) -> Spread:
    """Follow up what the changes of this transaction have unseated, or seated again.

    Repeating it changes nothing. What goes beyond the limit stays listed, for `follow_up`. What
    others have left, or time has done, comes after that and is nobody's deed.
    """
    own = _bring(tx, tx.reviews.listed(), deed=deed, limit=limit)
    if own.is_cut:
        return own
    due = tx.reviews.due(deed.at, limit=CAUSES_AT_ONCE + 1)
    nobodys = replace(deed, caller=replace(deed.caller, agent=HOUSE_AGENT, session=None))
    left = _bring(tx, due, deed=nobodys, limit=limit)
    return replace(own, is_cut=left.is_cut)


def _bring(tx: Transaction, causes: Sequence[int], *, deed: Deed, limit: int) -> Spread:
    """Bring the reviews by some causes in line, and by what these stop contradicting, or begin."""
    done = Spread()
    for _ in range(_ROUNDS_MAX):
        if not causes:
            break
        step = _step(tx, causes, deed=deed, limit=limit - len(done.unseated))
        done = Spread(
            unseated=tuple(dict.fromkeys((*done.unseated, *step.unseated))),
            weighed=done.weighed.then(step.weighed),
            left=step.left,
            is_cut=step.is_cut,
        )
        ends = _contested(tx, step.weighed)
        if step.is_cut or not ends:
            return done
        tx.reviews.touch(ends, at=deed.at)
        causes = tx.reviews.listed()
        still = {
            id_ for id_, those in tx.reviews.of(done.unseated).items() if any(map(_is_open, those))
        }
        done = replace(done, unseated=tuple(id_ for id_ in done.unseated if id_ in still))
    return done


def _step(tx: Transaction, causes: Sequence[int], *, deed: Deed, limit: int) -> Spread:
    due = causes[:CAUSES_AT_ONCE]
    standings = tx.graph.standings(due)
    fallen = falls(tx, standings, now=deed.at)
    changed: set[int] = set()
    unseated: dict[int, None] = {}
    followed = 0
    for cause in due:
        room = limit - len(unseated)
        done = _settle(tx, standings[cause], fall=fallen[cause], deed=deed, room=room)
        changed |= {cause, *done.moved}
        unseated |= dict.fromkeys(done.fresh)
        if done.is_cut:
            break
        followed += 1
        tx.reviews.postpone(cause, _next_look(standings[cause], deed))
    weighed = weigh(tx, sorted(changed), deed=deed)
    left = tuple(causes[followed:])
    return Spread(unseated=tuple(unseated), weighed=weighed, left=left, is_cut=bool(left))


def _contested(tx: Transaction, weighed: Weighed) -> list[int]:
    """Give what is in conflict with what was archived or came back: only what holds contradicts."""
    turned = {*weighed.lost, *weighed.found}
    return [id_ for id_ in tx.reviews.disputed(sorted(turned)) if id_ not in turned]


def follow_up(house: House, caller: Caller) -> None:
    """Go on where a large fan was cut, in transactions of their own; to be called after a change.

    The change is durable by now and every step that is done too: what fails here is made up for
    by the next that writes.
    """
    with suppress(Unavailable):
        for _ in range(CASCADE_STEPS_MAX):
            deed = Deed(action=Action.CASCADE, caller=caller, at=house.clock.now())
            with house.store.snapshot(caller.tenant) as tx:
                if not tx.reviews.due(deed.at, limit=1):
                    return
            with house.store.begin(caller.tenant) as tx:
                spread(tx, deed, limit=CASCADE_STEP)


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
            _note_settled(tx, [one for one in known.values() if not one.is_open], deed=deed)
            return _Done(moved=list(known))
        case _:
            return _Cause(tx, cause, fall, deed.at).spread(known, room=room)


def _note_settled(tx: Transaction, settled: Sequence[Review], *, deed: Deed) -> None:
    """Keep beside each memory that somebody had vouched for it, so that undo gives that back."""
    memories = tx.memories.get([one.memory_id for one in settled])
    done = replace(deed, action=Action.REVIEW, reason=_NO_LONGER_ASKED)
    for one in settled:
        image = {"review": settled_image([one])}
        record_beside(tx, memories[one.memory_id], deed=done, before=image, after={})


@dataclass(frozen=True, slots=True)
class _Cause:
    """One memory that has fallen, and how."""

    tx: Transaction
    one: Standing
    fall: Fall
    now: datetime

    @property
    def id(self) -> int:
        """Its id."""
        return self.one.id

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
        fell = (
            fell_at(self.tx, self.one, fall=self.fall, now=self.now) if walk.reached else self.now
        )
        wanted = {one.id: self._review(one, known.get(one.id), at=fell) for one in walk.reached}
        moved = [one for id_, one in wanted.items() if known.get(id_) != one]
        self.tx.reviews.drop([one for one in moved if one.memory_id in known])
        self.tx.reviews.add(moved)
        stay = {*wanted, *kept}
        gone = [] if walk.is_cut else [known[m] for m in known if m not in stay]
        self.tx.reviews.drop(gone)
        fresh = [one.memory_id for one in moved if one.memory_id not in known]
        both = [one.memory_id for one in (*moved, *gone)]
        return _Done(moved=both, fresh=fresh, is_cut=walk.is_cut)

    def _review(self, one: Reached, known: Review | None, *, at: datetime) -> Review:
        if known is not None:
            return replace(known, fall=self.fall, via_id=one.via_id, depth=one.depth, at=at)
        return Review(
            memory_id=one.id,
            cause_id=self.id,
            fall=self.fall,
            via_id=one.via_id,
            depth=one.depth,
            at=at,
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


def _is_open(one: Review) -> bool:
    return one.is_open


def _next_look(one: Standing, deed: Deed) -> datetime | None:
    """Say when a memory that holds will have expired."""
    is_ahead = one.expires_at is not None and one.expires_at > deed.at
    return one.expires_at if is_ahead and one.state in CURRENT_STATES else None
