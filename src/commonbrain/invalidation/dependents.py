"""Dependents as callers see them: which need review and why, and what a change affects.

Memories that the caller may not see are neither named nor counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from commonbrain.invalidation.propagation import (
    UNLIMITED,
    Propagation,
    find_invalidations,
    newly_unsupported,
)
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import CASCADE_AT_ONCE, PREVIEW_COUNT_MAX
from commonbrain.model.memory import CURRENT_STATES, State
from commonbrain.model.scope import Caller, is_visible
from commonbrain.model.support import (
    SUPPORTS,
    InvalidationReason,
    Review,
    SupportStatus,
    carried_by,
)
from commonbrain.model.timestamps import show_day
from commonbrain.model.values import dataclass, replace
from commonbrain.storage.interface import Direction, ReachedMemory, Walk

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_CAUSES_SHOWN_MAX: Final = 3
"""Causes named in one sentence, nearest first."""
_STEPS_MAX: Final = 6
"""Memories named on the path to a cause."""
DEPENDENTS_MAX: Final = 50
_DUE_MAX: Final = 20
"""Memories that expired since the last write and are checked on reading."""
_UNSEEN_CAUSE: Final = "a premise you may not see"
_AFFECTED_SHOWN_MAX: Final = 20
_PATHS_MAX: Final = 5
"""Memories of which a preview shows the path, nearest first."""
UNSEEN: Final = "a memory you may not see"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependent:
    """A direct or indirect dependent; `via` is the previous step."""

    id: str
    kind: Kind
    headline: str
    depth: int
    via: str
    needs_review: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewCause:
    """A memory that became invalid, on which one that needs review depends."""

    fall: InvalidationReason
    at: datetime
    path: tuple[str, ...]
    """Ids from the dependent to the cause, as far as visible; `...` where steps are left out."""


def open_reviews(
    tx: Transaction, ids_: Sequence[int], *, as_of: datetime
) -> Mapping[int, Sequence[Review]]:
    """Return the open reviews of memories at a time, nearest cause first."""
    known = tx.reviews.of(ids_)
    unwritten = _unwritten(tx, set(ids_), known=known, as_of=as_of)
    open_ = {
        id_: sorted(
            (
                one
                for one in (*known.get(id_, ()), *unwritten.get(id_, ()))
                if one.is_open and one.at <= as_of
            ),
            key=lambda one: (one.depth, one.cause_id),
        )
        for id_ in ids_
        if id_ in known or id_ in unwritten
    }
    # A dependency may have become invalid long before it was linked.
    marked = [id_ for id_, those in open_.items() if those]
    stepped_ids = {*marked, *(one.via_id for id_ in marked for one in open_[id_])}
    links = tx.graph.among(sorted(stepped_ids), types=SUPPORTS)
    later = {(link.from_id, link.to_id) for link in links if link.created_at > as_of}
    needs = {id_: [one for one in open_[id_] if (id_, one.via_id) not in later] for id_ in marked}
    return {id_: those for id_, those in needs.items() if those}


def _unwritten(
    tx: Transaction, ids_: set[int], *, known: Mapping[int, Sequence[Review]], as_of: datetime
) -> Mapping[int, Sequence[Review]]:
    """Return reviews caused by expiries since the last write; reading writes nothing.

    It costs one lookup in a list that is nearly always empty.
    """
    due = tx.reviews.due(as_of, limit=_DUE_MAX) if ids_ else []
    expired = [
        one
        for one in tx.graph.support_statuses(due).values()
        if one.state in CURRENT_STATES and one.is_over(as_of)
    ]
    reviews: defaultdict[int, list[Review]] = defaultdict(list)
    for cause in expired:
        described = {
            one.memory_id for those in known.values() for one in those if one.cause_id == cause.id
        }
        types = carried_by(InvalidationReason.EXPIRED)
        walk = tx.graph.walk([cause.id], Direction.AGAINST, types=types, limit=CASCADE_AT_ONCE)
        for one in walk.reached:
            if one.id in ids_ - described:
                reviews[one.id].append(_by_expiry(one, cause, as_of=as_of))
    return reviews


def _by_expiry(one: ReachedMemory, cause: SupportStatus, *, as_of: datetime) -> Review:
    return Review(
        memory_id=one.id,
        cause_id=cause.id,
        fall=InvalidationReason.EXPIRED,
        via_id=one.via_id,
        depth=one.depth,
        at=cause.expires_at or as_of,
    )


def review_notes(
    tx: Transaction, caller: Caller, *, needs: Mapping[int, Sequence[Review]]
) -> Mapping[int, str]:
    """Return a short reason for each memory that needs review."""
    seen = _seen(tx, caller, needs=needs)
    return {id_: f"needs review: {_describe_causes(those, seen)}" for id_, those in needs.items()}


def review_causes(
    tx: Transaction, caller: Caller, *, needs: Sequence[Review], as_of: datetime
) -> tuple[ReviewCause, ...]:
    """Return the nearest causes of a memory's open reviews, each with the path to it."""
    causes = [one for one in needs if not one.is_of_itself][:_CAUSES_SHOWN_MAX]
    return tuple(
        ReviewCause(
            fall=one.fall, at=one.at, path=tuple(_path(tx, one, caller=caller, as_of=as_of))
        )
        for one in causes
    )


def review_notice(
    tx: Transaction, caller: Caller, *, id_: int, needs: Sequence[Review], now: datetime
) -> str | None:
    """Return why a memory needs review by its open ones, and the next step; None if it does not."""
    if not needs:
        return None
    seen = _seen(tx, caller, needs={id_: needs})
    causes = [one for one in needs if not one.is_of_itself]
    paths = [
        " -> ".join(_path(tx, one, caller=caller, as_of=now))
        for one in causes[:_CAUSES_SHOWN_MAX]
        if one.depth > 1
    ]
    shown = ids.show(ids.MEMORY, id_)
    return " ".join(
        [
            f"Needs review: it rests on {_describe_causes(needs, seen)}.",
            *(f"It got there by {path}." for path in paths),
            f"If it holds all the same: revise review {shown}; if not: supersede or forget it.",
        ]
    )


def dependents(
    tx: Transaction, caller: Caller, *, id_: int, now: datetime
) -> tuple[Dependent, ...]:
    """List the valid dependents that the caller may see, nearest first."""
    walk = tx.graph.walk([id_], Direction.AGAINST, types=SUPPORTS, limit=UNLIMITED)
    standings = tx.graph.support_statuses([one.id for one in walk.reached])
    known = {one.id for one in standings.values() if is_visible(caller, one)}
    shown = [
        one
        for one in walk.reached
        if one.id in known
        and standings[one.id].state in CURRENT_STATES
        and (one.via_id == id_ or one.via_id in known)
    ][:DEPENDENTS_MAX]
    memories = tx.memories.get([one.id for one in shown])
    needs = open_reviews(tx, list(memories), as_of=now)
    return tuple(
        Dependent(
            id=ids.show(ids.MEMORY, one.id),
            kind=memories[one.id].kind,
            headline=memories[one.id].headline,
            depth=one.depth,
            via=ids.show(ids.MEMORY, one.via_id),
            needs_review=one.id in needs,
        )
        for one in shown
    )


def _seen(
    tx: Transaction, caller: Caller, *, needs: Mapping[int, Sequence[Review]]
) -> Mapping[int, State]:
    """Return the states of the causes that the caller may see."""
    causes = sorted({one.cause_id for those in needs.values() for one in those})
    states = tx.graph.support_statuses(causes)
    return {id_: one.state for id_, one in states.items() if is_visible(caller, one)}


def _describe_causes(reviews: Sequence[Review], seen: Mapping[int, State]) -> str:
    """Name the nearest causes and what happened to each; hidden ones are not named or counted."""
    described = dict.fromkeys(
        f"{ids.show(ids.MEMORY, one.cause_id)} ({one.fall} {show_day(one.at)})"
        if one.cause_id in seen
        else f"{_UNSEEN_CAUSE} ({one.fall} {show_day(one.at)})"
        for one in reviews
        if one.fall is not InvalidationReason.UNSUPPORTED
    )
    more = (
        f" and {len(described) - _CAUSES_SHOWN_MAX} more"
        if len(described) > _CAUSES_SHOWN_MAX
        else ""
    )
    lost = any(one.is_of_itself for one in reviews)
    nothing = "; nothing else holds it up" if lost else ""
    return f"{', '.join(list(described)[:_CAUSES_SHOWN_MAX])}{more}{nothing}"


def _path(tx: Transaction, review: Review, *, caller: Caller, as_of: datetime) -> list[str]:
    """Name the memories from one that needs review to its cause, as far as visible."""
    path, here = [review.memory_id], review
    while here.via_id != here.cause_id and len(path) < _STEPS_MAX:
        path.append(here.via_id)
        there = open_reviews(tx, [here.via_id], as_of=as_of).get(here.via_id, ())
        onward = [one for one in there if one.cause_id == review.cause_id]
        if not onward:
            break
        here = onward[0]
    standings = tx.graph.support_statuses([*path, review.cause_id])
    cut = [] if here.via_id == review.cause_id else ["..."]
    shown = [
        ids.show(ids.MEMORY, id_)
        if id_ in standings and is_visible(caller, standings[id_])
        else _UNSEEN_CAUSE
        for id_ in (*path, review.cause_id)
    ]
    return [*shown[:-1], *cut, shown[-1]]


class DependentFate(StrEnum):
    """What happens to a dependent of an invalid memory."""

    REVIEW = "review"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedMemory:
    """A memory that a change would affect, with its path to the changed memory."""

    id: str
    kind: Kind
    headline: str
    fate: DependentFate
    path: tuple[str, ...]
    """From the memory itself to the one that changes, inclusive."""

    def line(self) -> str:
        """Return what happens to it, and its path."""
        fate = " (archived)" if self.fate is DependentFate.ARCHIVE else ""
        return f"- {self.headline}{fate}: {' -> '.join(self.path)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedDependents:
    """Dependents that need review because of a change; `ids` names the nearest.

    `is_more` says whether there are more than were counted, among those that the caller may see.
    """

    count: int
    archived: int = 0
    """Number of those without any remaining support."""
    rules: int = 0
    """Number of those that are rules: marked, never archived."""
    ids: tuple[str, ...] = ()
    is_more: bool = False
    is_preview: bool = False
    """Whether the change has not been made."""
    first: tuple[AffectedMemory, ...] = ()
    """The first affected memories of a preview, with their paths."""

    def line(self) -> str:
        """Return a sentence with the next step; a preview adds the first paths."""
        if self.is_preview:
            what = (
                f"Would need review: {self._counted()}." if self.count else "Nothing rests on it."
            )
            return "\n".join([what, *(memory.line() for memory in self.first)])
        first = f" ({', '.join(self.ids[:3])})" if self.ids else ""
        next_ = "Get shows why; if one still holds: revise review; if not: supersede or forget it."
        return f"Now needs review, because it depends on that: {self._counted()}{first}. {next_}"

    def _counted(self) -> str:
        more = " and more" if self.is_more else ""
        archived = f", archived {self.archived}" if self.archived else ""
        rules = f", rules {self.rules}" if self.rules else ""
        return f"{self.count}{more}{archived}{rules}"


def summarize_affected(
    tx: Transaction, caller: Caller, *, step: Propagation, now: datetime
) -> AffectedDependents | None:
    """Summarize the effects of a change; None if the caller may see none of them.

    Memories that the caller may not see do not change the summary, even if they reach a limit.
    """
    every, known = list(step.affected), step.support_changes.standings
    if step.left:
        every += _remaining_affected(tx, step.left, exclude_ids=set(every), now=now)
    standings = {**tx.graph.support_statuses([id_ for id_ in every if id_ not in known]), **known}
    seen = _visible(caller, every, standings=standings)
    if not seen:
        return None
    archived = set(step.support_changes.archived)
    if step.left:
        concerned = {id_: standings[id_] for id_ in every if id_ in standings}
        archived = _archived(tx, (), standings=concerned, reviews=tx.reviews.of(every), now=now)
    return _count_affected(seen, standings=standings, archived=archived, limit=CASCADE_AT_ONCE)


def _remaining_affected(
    tx: Transaction, left: Sequence[int], *, exclude_ids: Collection[int], now: datetime
) -> list[int]:
    """Return the dependents that will be marked when propagation continues."""
    invalidated = find_invalidations(tx, tx.graph.support_statuses(left), now=now)
    reached: dict[int, None] = {}
    for types in {carried_by(fall) for fall in invalidated.values() if fall is not None}:
        start = [id_ for id_, fall in invalidated.items() if fall and carried_by(fall) == types]
        walk = tx.graph.walk(start, Direction.AGAINST, types=types, limit=UNLIMITED)
        reached |= dict.fromkeys(one.id for one in walk.reached)
    marked = tx.reviews.of(list(reached))
    return [
        id_
        for id_ in reached
        if id_ not in exclude_ids
        and not any(one.cause_id in invalidated for one in marked.get(id_, ()))
    ]


def _archived(
    tx: Transaction,
    invalidated: Sequence[int],
    *,
    standings: Mapping[int, SupportStatus],
    reviews: Mapping[int, Sequence[Review]],
    now: datetime,
) -> set[int]:
    """Return the dependents that will be archived."""
    lost = newly_unsupported(tx, invalidated, standings=standings, reviews=reviews, now=now)
    return {id_ for id_ in lost if standings[id_].state is State.ACTIVE}


def _visible(
    caller: Caller, ids_: Sequence[int], *, standings: Mapping[int, SupportStatus]
) -> list[int]:
    """Return the memories that are current and visible to the caller, in order."""
    return [
        id_
        for id_ in ids_
        if id_ in standings
        and standings[id_].state in CURRENT_STATES
        and is_visible(caller, standings[id_])
    ]


def _count_affected(
    seen: Sequence[int],
    *,
    standings: Mapping[int, SupportStatus],
    archived: Collection[int],
    limit: int,
) -> AffectedDependents:
    shown = seen[:limit]
    return AffectedDependents(
        count=len(shown),
        archived=sum(id_ in archived for id_ in shown),
        rules=sum(standings[id_].kind is Kind.RULE for id_ in shown),
        ids=tuple(ids.show(ids.MEMORY, id_) for id_ in shown[:_AFFECTED_SHOWN_MAX]),
        is_more=len(seen) > limit,
    )


def preview_affected(
    tx: Transaction, caller: Caller, *, ids_: Sequence[int], now: datetime
) -> AffectedDependents:
    """Return what would need review if memories were superseded or forgotten as wrong."""
    walk = tx.graph.walk(ids_, Direction.AGAINST, types=SUPPORTS, limit=UNLIMITED)
    reached = [one.id for one in walk.reached]
    standings, reviews = tx.graph.support_statuses(reached), tx.reviews.of(reached)
    marked = {id_ for id_, those in reviews.items() if any(one.cause_id in ids_ for one in those)}
    fresh = [id_ for id_ in reached if id_ not in marked]
    seen = _visible(caller, fresh, standings=standings)
    archived = _archived(tx, ids_, standings=standings, reviews=reviews, now=now)
    affected = _count_affected(
        seen, standings=standings, archived=archived, limit=PREVIEW_COUNT_MAX
    )
    first = _first(tx, caller, seen=seen[:_PATHS_MAX], walk=walk, archived=archived)
    return replace(affected, is_preview=True, first=first)


def _first(
    tx: Transaction,
    caller: Caller,
    *,
    seen: Sequence[int],
    walk: Walk,
    archived: Collection[int],
) -> tuple[AffectedMemory, ...]:
    """Return the first dependents with their paths; hidden memories are not named."""
    memories = tx.memories.get(seen)
    paths = {id_: walk.path(id_) for id_ in seen}
    along = tx.graph.support_statuses(sorted({step for path in paths.values() for step in path}))
    return tuple(
        AffectedMemory(
            id=ids.show(ids.MEMORY, id_),
            kind=memories[id_].kind,
            headline=memories[id_].headline,
            fate=DependentFate.ARCHIVE if id_ in archived else DependentFate.REVIEW,
            path=tuple(
                ids.show(ids.MEMORY, step)
                if step in along and is_visible(caller, along[step])
                else UNSEEN
                for step in paths[id_]
            ),
        )
        for id_ in seen
        if id_ in memories
    )
