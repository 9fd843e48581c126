"""Show the caller which dependents a change affects, or would affect."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
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
from commonbrain.model.support import SUPPORTS, Review, SupportStatus, carried_by
from commonbrain.storage.interface import Direction, Walk

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_SHOWN_MAX: Final = 20
_PATHS_MAX: Final = 5
"""Memories of which a preview shows the path, nearest first."""
UNSEEN: Final = "a memory you may not see"


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


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedDependents:
    """Dependents that need review because of a change; `ids` names the nearest.

    `is_more` tells whether there are more than were counted, among those that the caller may see.
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
            return "\n".join([what, *map(_path_line, self.first)])
        first = f" ({', '.join(self.ids[:3])})" if self.ids else ""
        next_ = "Get shows why; if one still holds: revise review; if not: supersede or forget it."
        return f"Now needs review, because it depends on that: {self._counted()}{first}. {next_}"

    def _counted(self) -> str:
        more = " and more" if self.is_more else ""
        archived = f", archived {self.archived}" if self.archived else ""
        rules = f", rules {self.rules}" if self.rules else ""
        return f"{self.count}{more}{archived}{rules}"


def _path_line(one: AffectedMemory) -> str:
    fate = " (archived)" if one.fate is DependentFate.ARCHIVE else ""
    return f"- {one.headline}{fate}: {' -> '.join(one.path)}"


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
    shown = seen[:CASCADE_AT_ONCE]
    return AffectedDependents(
        count=len(shown),
        archived=len(archived.intersection(shown)),
        rules=_rules(shown, standings),
        ids=tuple(ids.show(ids.MEMORY, id_) for id_ in shown[:_SHOWN_MAX]),
        is_more=len(seen) > CASCADE_AT_ONCE,
    )


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


def _rules(seen: Sequence[int], standings: Mapping[int, SupportStatus]) -> int:
    return sum(standings[id_].kind is Kind.RULE for id_ in seen)


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
    shown = seen[:PREVIEW_COUNT_MAX]
    lost = _archived(tx, ids_, standings=standings, reviews=reviews, now=now)
    archived = lost.intersection(shown)
    return AffectedDependents(
        count=len(shown),
        archived=len(archived),
        rules=_rules(shown, standings),
        ids=tuple(ids.show(ids.MEMORY, id_) for id_ in shown[:_SHOWN_MAX]),
        is_more=len(seen) > PREVIEW_COUNT_MAX,
        is_preview=True,
        first=_first(tx, caller, seen=shown[:_PATHS_MAX], walk=walk, archived=archived),
    )


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
