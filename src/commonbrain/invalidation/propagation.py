"""Bringing reviews in line with what has fallen, in bounded steps that no death can lose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from commonbrain.invalidation.causes import find_invalidations, invalidated_at, pruned
from commonbrain.model.errors import UnavailableError
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
    InvalidationReason,
    Review,
    Support,
    SupportStatus,
    carried_by,
    is_supported_by,
    unsupported,
)
from commonbrain.services import Services
from commonbrain.storage.change_log import ChangeContext, record_related_change, settled_image
from commonbrain.storage.interface import AuditEntry, Direction, ReachedMemory, Walk

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportChanges:
    """What was archived, and how all that was looked at stood before."""

    archived: tuple[int, ...] = ()
    standings: Mapping[int, SupportStatus] = field(default_factory=dict[int, SupportStatus])
    lost: tuple[int, ...] = ()
    """What nothing holds up any more, archived or not."""
    found: tuple[int, ...] = ()
    """What something holds up again."""

    def merged_with(self, later: SupportChanges) -> SupportChanges:
        """Join what was archived and brought back after it."""
        archived = [one for one in self.archived if one not in later.found]
        return SupportChanges(
            archived=tuple(dict.fromkeys((*archived, *later.archived))),
            standings={**later.standings, **self.standings},
        )


def reconcile_support(
    tx: Transaction, changed: Sequence[int], *, change_context: ChangeContext
) -> SupportChanges:
    """Archive or bring back what the changed and all that rests on them deserve.

    Rules are never archived, nor are action items that are owed, nor is what somebody has vouched
    for.
    """
    region = tx.reviews.affected(changed)
    doubtful, self_reviews = tx.reviews.unconfirmed(region), tx.reviews.unsupported(region)
    standings = tx.graph.support_statuses(sorted({*doubtful, *self_reviews}))
    candidates = _candidates(tx, {id_: standings[id_] for id_ in doubtful}, now=change_context.at)
    supports = tx.graph.supports(sorted(candidates))
    bearing = _support_status(
        tx, supports, candidates=candidates, region=set(region), now=change_context.at
    )
    unsupported_ids = unsupported(candidates, supports, bearing=bearing)
    fresh = [standings[id_] for id_ in sorted(unsupported_ids - self_reviews.keys())]
    archived = _archive(tx, fresh, change_context=change_context)
    back = [self_reviews[id_] for id_ in sorted(self_reviews.keys() - unsupported_ids)]
    _revive(tx, back, standings=standings, change_context=change_context)
    lost, found = (
        tuple(sorted(ids))
        for ids in (unsupported_ids - self_reviews.keys(), self_reviews.keys() - unsupported_ids)
    )
    return SupportChanges(archived=archived, standings=standings, lost=lost, found=found)


def remaining_supports(tx: Transaction, id_: int, *, now: datetime) -> list[Support]:
    """List by what a memory is still held up."""
    supports = tx.graph.supports([id_])
    bearing = _support_status(tx, supports, candidates=set(), region=set(), now=now)
    return [one for one in supports if bearing[one]]


def newly_unsupported(
    tx: Transaction,
    invalidated: Sequence[int],
    *,
    standings: Mapping[int, SupportStatus],
    reviews: Mapping[int, Sequence[Review]],
    now: datetime,
) -> set[int]:
    """Say which of those that rest on something would rest on nothing, were it to fall."""
    vouched = {id_ for id_, those in reviews.items() if any(one.settled_at for one in those)}
    doubtful = {id_: one for id_, one in standings.items() if id_ not in vouched}
    candidates = _candidates(tx, doubtful, now=now)
    supports = tx.graph.supports(sorted(candidates))
    held = _support_status(tx, supports, candidates=candidates, region=set(), now=now)
    bearing = {one: holds and one.to_id not in invalidated for one, holds in held.items()}
    return unsupported(candidates, supports, bearing=bearing)


def _candidates(
    tx: Transaction, standings: Mapping[int, SupportStatus], *, now: datetime
) -> set[int]:
    """Give what may be archived: nothing that binds is lifted because something else fell."""
    found = {
        id_: one.kind
        for id_, one in standings.items()
        if one.state in CURRENT_STATES and not one.is_over(now) and one.kind is not Kind.RULE
    }
    tasks = [id_ for id_, kind in found.items() if kind is Kind.TASK]
    return found.keys() - (tx.acks.open_tasks(tasks) if tasks else set())


def _support_status(
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
    standings = tx.graph.support_statuses(targets)
    lost = tx.reviews.unsupported([id_ for id_ in targets if id_ not in region])
    unsupported_ids = [id_ for id_, one in standings.items() if one.state is State.FORGOTTEN]
    aged = pruned(tx, unsupported_ids) if unsupported_ids else set[int]()
    return {
        one: is_supported_by(
            one,
            standings.get(one.to_id),
            is_unsupported=one.to_id in lost,
            is_pruned=one.to_id in aged,
            now=now,
        )
        for one in leading
    }


def _archive(
    tx: Transaction, fresh: Sequence[SupportStatus], *, change_context: ChangeContext
) -> tuple[int, ...]:
    tx.reviews.add(
        [
            Review(
                memory_id=one.id,
                cause_id=one.id,
                fall=InvalidationReason.UNSUPPORTED,
                via_id=one.id,
                depth=0,
                at=change_context.at,
                earlier=one.state,
            )
            for one in fresh
        ]
    )
    active = tuple(one.id for one in fresh if one.state is State.ACTIVE)
    _set_state(tx, active, before=State.ACTIVE, after=State.ARCHIVED, change_context=change_context)
    return active


def _revive(
    tx: Transaction,
    back: Sequence[Review],
    *,
    standings: Mapping[int, SupportStatus],
    change_context: ChangeContext,
) -> None:
    """Bring back what was archived for want of support, unless it was changed since."""
    tx.reviews.drop(back)
    resting = [one.memory_id for one in back if one.earlier is State.ACTIVE]
    archived = [id_ for id_ in resting if standings[id_].state is State.ARCHIVED]
    _set_state(
        tx, archived, before=State.ARCHIVED, after=State.ACTIVE, change_context=change_context
    )


def _set_state(
    tx: Transaction,
    ids: Sequence[int],
    *,
    before: State,
    after: State,
    change_context: ChangeContext,
) -> None:
    """Change the state of many, and record it of each."""
    if not ids:
        return
    first, caller = ids[0], change_context.caller
    change = Change(
        memory_id=first,
        action=Action.CASCADE,
        agent=caller.agent,
        session=caller.session,
        at=change_context.at,
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
        at=change_context.at,
    )
    tx.memories.set_state(ids, after)
    tx.changes.add_alike(change, ids)
    tx.records.audit_alike(entry, tx.memories.texts(ids))


UNLIMITED: Final = 1_000_000
"""More than rests on any one memory: a walk that is to meet no limit."""
_ROUNDS_MAX: Final = 8
"""What is archived may have contradicted something on which another rests that contradicts, and so
on; a memory that in the end contradicts its own support would turn for ever."""
_HOLDS_AGAIN: Final = "what it rests on holds again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Propagation:
    """What one step unseated: who needs review now and did not before, and what was archived.

    Only of what this transaction itself has changed: what others left is followed up untold.
    """

    affected: tuple[int, ...] = ()
    """The nearest first."""
    support_changes: SupportChanges = field(default_factory=SupportChanges)
    left: tuple[int, ...] = ()
    """Of what this transaction changed, that of which not all has been followed up."""
    is_cut: bool = False
    """Whether anything is left to be followed up, of whomever."""


def propagate(
    tx: Transaction, change_context: ChangeContext, *, limit: int = CASCADE_AT_ONCE
) -> Propagation:
    """Follow up what the changes of this transaction have unseated, or seated again.

    Repeating it changes nothing. What goes beyond the limit stays listed, for `follow_up`. What
    others have left, or time has done, comes after that and is nobody's deed.
    """
    own = _reconcile(tx, tx.reviews.listed(), change_context=change_context, limit=limit)
    if own.is_cut:
        return own
    due = tx.reviews.due(change_context.at, limit=CAUSES_AT_ONCE + 1)
    system_context = replace(
        change_context, caller=replace(change_context.caller, agent=HOUSE_AGENT, session=None)
    )
    left = _reconcile(tx, due, change_context=system_context, limit=limit)
    return replace(own, is_cut=left.is_cut)


def _reconcile(
    tx: Transaction, causes: Sequence[int], *, change_context: ChangeContext, limit: int
) -> Propagation:
    """Bring the reviews by some causes in line, and by what these stop contradicting, or begin."""
    done = Propagation()
    for _ in range(_ROUNDS_MAX):
        if not causes:
            break
        step = _step(tx, causes, change_context=change_context, limit=limit - len(done.affected))
        done = Propagation(
            affected=tuple(dict.fromkeys((*done.affected, *step.affected))),
            support_changes=done.support_changes.merged_with(step.support_changes),
            left=step.left,
            is_cut=step.is_cut,
        )
        ends = _contested(tx, step.support_changes)
        if step.is_cut or not ends:
            return done
        tx.reviews.touch(ends, at=change_context.at)
        causes = tx.reviews.listed()
        still = {
            id_ for id_, those in tx.reviews.of(done.affected).items() if any(map(_is_open, those))
        }
        done = replace(done, affected=tuple(id_ for id_ in done.affected if id_ in still))
    return done


def _step(
    tx: Transaction, causes: Sequence[int], *, change_context: ChangeContext, limit: int
) -> Propagation:
    due = causes[:CAUSES_AT_ONCE]
    standings = tx.graph.support_statuses(due)
    invalidations = find_invalidations(tx, standings, now=change_context.at)
    changed: set[int] = set()
    affected: dict[int, None] = {}
    followed = 0
    for cause in due:
        capacity = limit - len(affected)
        done = _reconcile_cause(
            tx,
            standings[cause],
            fall=invalidations[cause],
            change_context=change_context,
            capacity=capacity,
        )
        changed |= {cause, *done.moved}
        affected |= dict.fromkeys(done.fresh)
        if done.is_cut:
            break
        followed += 1
        tx.reviews.postpone(cause, _next_check(standings[cause], change_context))
    support_changes = reconcile_support(tx, sorted(changed), change_context=change_context)
    left = tuple(causes[followed:])
    return Propagation(
        affected=tuple(affected), support_changes=support_changes, left=left, is_cut=bool(left)
    )


def _contested(tx: Transaction, support_changes: SupportChanges) -> list[int]:
    """Give what is in conflict with what was archived or came back: only what holds contradicts."""
    toggled = {*support_changes.lost, *support_changes.found}
    return [id_ for id_ in tx.reviews.disputed(sorted(toggled)) if id_ not in toggled]


def continue_propagation(services: Services, caller: Caller) -> None:
    """Go on where a large fan was cut, in transactions of their own; to be called after a change.

    The change is durable by now and every step that is done too: what fails here is made up for
    by the next that writes.
    """
    with suppress(UnavailableError):
        for _ in range(CASCADE_STEPS_MAX):
            change_context = ChangeContext(
                action=Action.CASCADE, caller=caller, at=services.clock.now()
            )
            with services.store.snapshot(caller.tenant) as tx:
                if not tx.reviews.due(change_context.at, limit=1):
                    return
            with services.store.begin(caller.tenant) as tx:
                propagate(tx, change_context, limit=CASCADE_STEP)


def mark_erased(tx: Transaction, id_: int, *, change_context: ChangeContext) -> list[int]:
    """Mark what depends on a memory while its links are still there; give what it had marked."""
    known = {one.memory_id: one for one in tx.reviews.by(id_)}
    walk = tx.graph.walk(
        [id_], Direction.AGAINST, types=carried_by(InvalidationReason.ERASED), limit=UNLIMITED
    )
    tx.reviews.put(
        [
            Review(
                memory_id=one.id,
                cause_id=id_,
                fall=InvalidationReason.ERASED,
                via_id=one.via_id,
                depth=one.depth,
                at=change_context.at,
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


def _reconcile_cause(
    tx: Transaction,
    cause: SupportStatus,
    *,
    fall: InvalidationReason | None,
    change_context: ChangeContext,
    capacity: int,
) -> _Done:
    """Make the reviews by one cause what they should be, with room for so many new ones."""
    known = {one.memory_id: one for one in tx.reviews.by(cause.id) if not one.is_of_itself}
    match fall:
        case InvalidationReason.ERASED:
            # Its links are gone: what was marked then is all that can be known.
            return _Done()
        case None:
            tx.reviews.drop(list(known.values()))
            _record_settled(
                tx,
                [one for one in known.values() if not one.is_open],
                change_context=change_context,
            )
            return _Done(moved=list(known))
        case _:
            return _Cause(tx, cause, fall, change_context.at).propagate(known, capacity=capacity)


def _record_settled(
    tx: Transaction, settled: Sequence[Review], *, change_context: ChangeContext
) -> None:
    """Keep beside each memory that somebody had vouched for it, so that undo gives that back."""
    memories = tx.memories.get([one.memory_id for one in settled])
    done = replace(change_context, action=Action.REVIEW, reason=_HOLDS_AGAIN)
    for one in settled:
        image = {"review": settled_image([one])}
        record_related_change(
            tx, memories[one.memory_id], change_context=done, before=image, after={}
        )


@dataclass(frozen=True, slots=True)
class _Cause:
    """One memory that has fallen, and how."""

    tx: Transaction
    one: SupportStatus
    fall: InvalidationReason
    now: datetime

    @property
    def id(self) -> int:
        """Its id."""
        return self.one.id

    def propagate(self, known: Mapping[int, Review], *, capacity: int) -> _Done:
        """Walk from it to all that rests on it, and no farther past what somebody vouched for."""
        cut_off_ids = self._cut_off(known)
        stops = [one.memory_id for one in known.values() if not one.is_open]
        start, limit = [self.id, *cut_off_ids], len(known) + capacity
        walk = self._walk(start, limit=limit, stops=stops)
        if walk.is_cut and walk.reached[-1:] and walk.reached[-1].depth == 1:
            # What rests on it directly is marked at once, however much that is.
            walk = self._walk(start, limit=UNLIMITED, stops=stops, depth_max=1)
            walk = replace(walk, is_cut=True)
        since = (
            invalidated_at(self.tx, self.one, fall=self.fall, now=self.now)
            if walk.reached
            else self.now
        )
        expected = {one.id: self._review(one, known.get(one.id), at=since) for one in walk.reached}
        moved = [one for id_, one in expected.items() if known.get(id_) != one]
        self.tx.reviews.drop([one for one in moved if one.memory_id in known])
        self.tx.reviews.add(moved)
        stay = {*expected, *cut_off_ids}
        removed = [] if walk.is_cut else [known[m] for m in known if m not in stay]
        self.tx.reviews.drop(removed)
        fresh = [one.memory_id for one in moved if one.memory_id not in known]
        both = [one.memory_id for one in (*moved, *removed)]
        return _Done(moved=both, fresh=fresh, is_cut=walk.is_cut)

    def _review(self, one: ReachedMemory, known: Review | None, *, at: datetime) -> Review:
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
        removed = {
            id_ for id_, one in self.tx.graph.support_statuses(steps).items() if one.is_erased
        }
        return sorted(one.memory_id for one in known.values() if one.via_id in removed)

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
            Direction.AGAINST,
            types=carried_by(self.fall),
            limit=max(limit, 1),
            depth_max=depth_max,
            stops=stops,
        )


def _is_open(one: Review) -> bool:
    return one.is_open


def _next_check(one: SupportStatus, change_context: ChangeContext) -> datetime | None:
    """Say when a memory that holds will have expired."""
    is_ahead = one.expires_at is not None and one.expires_at > change_context.at
    return one.expires_at if is_ahead and one.state in CURRENT_STATES else None
