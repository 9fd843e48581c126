"""Propagation: update reviews and support after a change, in bounded steps that survive crashes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

from commonbrain.model import limits
from commonbrain.model.errors import UnavailableError
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.links import DISAGREEMENTS, Link
from commonbrain.model.memory import CURRENT_STATES, State
from commonbrain.model.revision import SYSTEM_AGENT, Action, Revision
from commonbrain.model.scope import Caller
from commonbrain.model.support import (
    InvalidationReason,
    Review,
    Support,
    SupportStatus,
    carried_by,
    contradicts,
    invalidation_of,
    is_supported_by,
    unsupported,
)
from commonbrain.model.values import dataclass, field, replace
from commonbrain.services import Services
from commonbrain.storage.change_log import ChangeContext, record_related_change, settled_image
from commonbrain.storage.interface import AuditEntry, Direction

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportChanges:
    """Memories archived or restored, with the earlier states of all that were checked."""

    archived: tuple[int, ...] = ()
    standings: Mapping[int, SupportStatus] = field(default_factory=dict[int, SupportStatus])
    lost: tuple[int, ...] = ()
    """Ids that lost all support, archived or not."""
    regained: tuple[int, ...] = ()
    """Ids that gained support again."""

    def merged_with(self, later: SupportChanges) -> SupportChanges:
        """Add later changes to these."""
        archived = [one for one in self.archived if one not in later.regained]
        return SupportChanges(
            archived=tuple(dict.fromkeys((*archived, *later.archived))),
            standings={**later.standings, **self.standings},
        )


def reconcile_support(
    tx: Transaction, changed: Sequence[int], *, change_context: ChangeContext
) -> SupportChanges:
    """Archive or restore the changed memories and their dependents by their remaining support.

    Rules, pending action items and confirmed memories are never archived, nor is a memory that
    rests on one of a lower authority: what a model ends takes nothing of a person's with it.
    """
    region = tx.reviews.affected(changed)
    doubtful, self_reviews = tx.reviews.unconfirmed(region), tx.reviews.unsupported(region)
    standings = tx.graph.support_statuses(sorted({*doubtful, *self_reviews}))
    candidates, supports = _candidates(
        tx, {id_: standings[id_] for id_ in doubtful}, now=change_context.at
    )
    bearing = _support_status(
        tx, supports, candidates=candidates, region=set(region), now=change_context.at
    )
    unsupported_ids = unsupported(candidates, supports, bearing=bearing)
    fresh = [standings[id_] for id_ in sorted(unsupported_ids - self_reviews.keys())]
    archived = _archive(tx, fresh, change_context=change_context)
    lost = sorted(unsupported_ids - self_reviews.keys())
    regained = sorted(self_reviews.keys() - unsupported_ids)
    back = [self_reviews[id_] for id_ in regained]
    _revive(tx, back, standings=standings, change_context=change_context)
    return SupportChanges(
        archived=archived, standings=standings, lost=tuple(lost), regained=tuple(regained)
    )


def remaining_supports(tx: Transaction, id_: int, *, now: datetime) -> list[Support]:
    """Return the valid supports of a memory."""
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
    """Return the dependents that would have no support left if a memory became invalid."""
    vouched = {id_ for id_, those in reviews.items() if any(one.settled_at for one in those)}
    doubtful = {id_: one for id_, one in standings.items() if id_ not in vouched}
    candidates, supports = _candidates(tx, doubtful, now=now)
    held = _support_status(tx, supports, candidates=candidates, region=set(), now=now)
    bearing = {one: holds and one.to_id not in invalidated for one, holds in held.items()}
    return unsupported(candidates, supports, bearing=bearing)


def _candidates(
    tx: Transaction, standings: Mapping[int, SupportStatus], *, now: datetime
) -> tuple[set[int], list[Support]]:
    """Return the memories that may be archived, and their supports."""
    candidates = {
        id_: one.kind
        for id_, one in standings.items()
        if one.state in CURRENT_STATES and not one.is_over(now) and not KINDS[one.kind].is_binding
    }
    tasks = [id_ for id_, kind in candidates.items() if kind is Kind.TASK]
    loose = candidates.keys() - (tx.acks.open_tasks(tasks) if tasks else set())
    supports = tx.graph.supports(sorted(loose))
    targets = tx.graph.support_statuses(sorted({one.to_id for one in supports}))
    above = {
        one.from_id
        for one in supports
        if one.to_id in targets
        and not targets[one.to_id].authority.covers(standings[one.from_id].authority)
    }
    return loose - above, [one for one in supports if one.from_id not in above]


def _support_status(
    tx: Transaction,
    supports: Sequence[Support],
    *,
    candidates: set[int],
    region: set[int],
    now: datetime,
) -> Mapping[Support, bool]:
    """Return the status of every support that the candidates lead to."""
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
    """Restore memories archived for lack of support, unless they were changed since."""
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
    """Change the state of several memories and record it."""
    if not ids:
        return
    first, caller = ids[0], change_context.caller
    change = Revision(
        memory_id=first,
        action=Action.CASCADE,
        agent=caller.agent,
        session=caller.session,
        authority=caller.authority,
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
        request_id=caller.request_id,
    )
    tx.memories.set_state(ids, after)
    tx.changes.add_alike(change, ids)
    tx.records.audit_alike(entry, tx.memories.texts(ids))


UNLIMITED: Final = 1_000_000
"""More than the dependents of any memory: a traversal without a limit."""
_ROUNDS_MAX: Final = 8
"""An archived memory may have contradicted another that now is valid again, and so on.

A memory that contradicts its own support would repeat forever.
"""
_HOLDS_AGAIN: Final = "what it rests on holds again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Propagation:
    """The effects of one step: new reviews and archived memories.

    Only of what this transaction changed; earlier work is continued without being reported.
    """

    affected: tuple[int, ...] = ()
    """Nearest first."""
    support_changes: SupportChanges = field(default_factory=SupportChanges)
    left: tuple[int, ...] = ()
    """Changed memories whose dependents were not all processed."""
    is_cut: bool = False
    """Whether any work is left, of this or an earlier transaction."""


def propagate(
    tx: Transaction, change_context: ChangeContext, *, limit: int = limits.CASCADE_AT_ONCE
) -> Propagation:
    """Update the dependents of everything this transaction changed.

    Idempotent. What exceeds the limit stays queued for `continue_propagation`. Earlier work and
    expiries follow after that and are not attributed to the caller.
    """
    own = _reconcile(tx, tx.reviews.listed(), change_context=change_context, limit=limit)
    if own.is_cut:
        return own
    due = tx.reviews.due(change_context.at, limit=limits.CAUSES_AT_ONCE + 1)
    system_context = replace(
        change_context, caller=replace(change_context.caller, agent=SYSTEM_AGENT, session=None)
    )
    left = _reconcile(tx, due, change_context=system_context, limit=limit)
    return replace(own, is_cut=left.is_cut)


def _reconcile(
    tx: Transaction, causes: Sequence[int], *, change_context: ChangeContext, limit: int
) -> Propagation:
    """Update the reviews by some causes, and by what these stop or start contradicting."""
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
        toggled = {*step.support_changes.lost, *step.support_changes.regained}
        # What conflicts with these is judged again: only valid memories contradict.
        ends = [id_ for id_ in tx.reviews.disputed(sorted(toggled)) if id_ not in toggled]
        if step.is_cut or not ends:
            return done
        tx.reviews.touch(ends, at=change_context.at)
        causes = tx.reviews.listed()
        still = {
            id_
            for id_, those in tx.reviews.of(done.affected).items()
            if any(one.is_open for one in those)
        }
        done = replace(done, affected=tuple(id_ for id_ in done.affected if id_ in still))
    return done


def _step(
    tx: Transaction, causes: Sequence[int], *, change_context: ChangeContext, limit: int
) -> Propagation:
    due = causes[: limits.CAUSES_AT_ONCE]
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
        status = standings[cause]
        expires = not status.is_over(change_context.at) and status.state in CURRENT_STATES
        tx.reviews.postpone(cause, status.expires_at if expires else None)
    support_changes = reconcile_support(tx, sorted(changed), change_context=change_context)
    left = tuple(causes[followed:])
    return Propagation(
        affected=tuple(affected), support_changes=support_changes, left=left, is_cut=bool(left)
    )


def continue_propagation(services: Services, caller: Caller) -> None:
    """Continue a propagation that was cut, in transactions of its own, after the change.

    The change and every finished step are durable; the next writer continues after a failure.
    """
    with suppress(UnavailableError):
        for _ in range(limits.CASCADE_STEPS_MAX):
            change_context = ChangeContext(
                action=Action.CASCADE, caller=caller, at=services.clock.now()
            )
            with services.store.snapshot(caller.tenant) as tx:
                if not tx.reviews.due(change_context.at, limit=1):
                    return
            with services.store.begin(caller.tenant) as tx:
                propagate(tx, change_context, limit=limits.CASCADE_STEP)


def mark_erased(tx: Transaction, id_: int, *, change_context: ChangeContext) -> list[int]:
    """Mark the dependents of a memory before its links are erased; return its own marks."""
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
class _ChangedReviews:
    moved: Sequence[int] = ()
    """Ids whose reviews by this cause were added, removed or changed."""
    fresh: Sequence[int] = ()
    is_cut: bool = False


def _reconcile_cause(
    tx: Transaction,
    cause: SupportStatus,
    *,
    fall: InvalidationReason | None,
    change_context: ChangeContext,
    capacity: int,
) -> _ChangedReviews:
    """Update the reviews by one cause, adding at most a number of new ones."""
    known = {one.memory_id: one for one in tx.reviews.by(cause.id) if not one.is_of_itself}
    match fall:
        case InvalidationReason.ERASED:
            # Its links are erased, so only earlier marks are known.
            return _ChangedReviews()
        case None:
            tx.reviews.drop(list(known.values()))
            _record_settled(
                tx,
                [one for one in known.values() if not one.is_open],
                change_context=change_context,
            )
            return _ChangedReviews(moved=list(known))
        case _:
            return _mark_dependents(
                tx, cause, fall=fall, known=known, now=change_context.at, capacity=capacity
            )


def _record_settled(
    tx: Transaction, settled: Sequence[Review], *, change_context: ChangeContext
) -> None:
    """Record who confirmed each memory, so that undo can restore that."""
    memories = tx.memories.get([one.memory_id for one in settled])
    done = replace(change_context, action=Action.REVIEW, reason=_HOLDS_AGAIN)
    for one in settled:
        image = {"review": settled_image([one])}
        record_related_change(
            tx, memories[one.memory_id], change_context=done, before=image, after={}
        )


def _mark_dependents(
    tx: Transaction,
    cause: SupportStatus,
    *,
    fall: InvalidationReason,
    known: Mapping[int, Review],
    now: datetime,
    capacity: int,
) -> _ChangedReviews:
    """Traverse all dependents, stopping at confirmed ones."""
    cut_off_ids = _cut_off(tx, cause.id, known=known)
    walk_from = partial(
        tx.graph.walk,
        [cause.id, *cut_off_ids],
        Direction.AGAINST,
        types=carried_by(fall),
        stops=[review.memory_id for review in known.values() if not review.is_open],
    )
    walk = walk_from(limit=max(len(known) + capacity, 1))
    if walk.is_cut and walk.reached[-1:] and walk.reached[-1].depth == 1:
        # Direct dependents are marked at once, whatever their number.
        walk = replace(walk_from(limit=UNLIMITED, depth_max=1), is_cut=True)
    since = invalidated_at(tx, cause, fall=fall, now=now) if walk.reached else now
    expected: dict[int, Review] = {}
    for reached in walk.reached:
        review = known.get(reached.id) or Review(
            memory_id=reached.id, cause_id=cause.id, fall=fall, via_id=0, depth=0, at=since
        )
        expected[reached.id] = replace(
            review, fall=fall, via_id=reached.via_id, depth=reached.depth, at=since
        )
    moved = [review for id_, review in expected.items() if known.get(id_) != review]
    tx.reviews.drop([review for review in moved if review.memory_id in known])
    tx.reviews.add(moved)
    stay = {*expected, *cut_off_ids}
    removed = [] if walk.is_cut else [known[id_] for id_ in known if id_ not in stay]
    tx.reviews.drop(removed)
    fresh = [review.memory_id for review in moved if review.memory_id not in known]
    both = [review.memory_id for review in (*moved, *removed)]
    return _ChangedReviews(moved=both, fresh=fresh, is_cut=walk.is_cut)


def _cut_off(tx: Transaction, cause_id: int, *, known: Mapping[int, Review]) -> list[int]:
    """Return dependents reached through an erased memory, which a traversal cannot find."""
    steps = sorted({review.via_id for review in known.values()} - {cause_id} - set(known))
    statuses = tx.graph.support_statuses(steps)
    erased = {id_ for id_, status in statuses.items() if status.is_erased}
    return sorted(review.memory_id for review in known.values() if review.via_id in erased)


def find_invalidations(
    tx: Transaction, standings: Mapping[int, SupportStatus], *, now: datetime
) -> dict[int, InvalidationReason | None]:
    """Return for each memory how it became invalid, or that it is valid."""
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
    links = tx.links.touching(list(standings), types=DISAGREEMENTS)
    ends = {end for link in links for end in (link.from_id, link.to_id)} - set(standings)
    known = {**standings, **tx.graph.support_statuses(sorted(ends))}
    lost = tx.reviews.unsupported(sorted(known)) if links else {}
    conflicts_by_id: defaultdict[int, list[tuple[Link, SupportStatus]]] = defaultdict(list)
    for link in links:
        for one, by in ((link.from_id, link.to_id), (link.to_id, link.from_id)):
            # An archived memory without support contradicts nothing.
            if by not in lost:
                conflicts_by_id[one].append((link, known[by]))
    return conflicts_by_id


def pruned(tx: Transaction, forgotten: Sequence[int]) -> set[int]:
    """Return the ids that were forgotten only because of their age."""
    return {one.memory_id for one in _forgettings(tx, forgotten) if one.action is Action.PRUNE}


def invalidated_at(
    tx: Transaction, one: SupportStatus, *, fall: InvalidationReason, now: datetime
) -> datetime:
    """Return when a memory became invalid; later marks do not change that."""
    match fall:
        case InvalidationReason.EXPIRED:
            at = one.expires_at
        case InvalidationReason.SUPERSEDED:
            at = tx.memories.get([one.id])[one.id].superseded_at
        case InvalidationReason.FORGOTTEN | InvalidationReason.PRUNED:
            at = next((change.at for change in _forgettings(tx, [one.id])), None)
        case InvalidationReason.CONTRADICTED:
            against = _conflicts(tx, {one.id: one}).get(one.id, ())
            times = (
                link.created_at for link, by in against if contradicts(link, one, by=by, now=now)
            )
            at = min(times, default=None)
        case _:
            at = None
    return at or now


def _forgettings(tx: Transaction, forgotten: Sequence[int]) -> list[Revision]:
    """Return how each was forgotten; if an undo reverted a restore, how it was at first."""
    last: dict[int, Revision] = {}
    for change in tx.changes.of(forgotten):
        if change.after.get("state") != State.FORGOTTEN:
            continue
        if change.memory_id not in last or change.action is not Action.UNDO:
            last[change.memory_id] = change
    return list(last.values())
