"""The stage that asks the store who said it already, and lets the domain judge."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from commonbrain.domain.duplicates import (
    Contested,
    Duplicate,
    Neighbour,
    Novel,
    is_comparable,
    judge,
    recurs,
)
from commonbrain.domain.kinds import Detail, EventDetail, FactDetail, Kind
from commonbrain.domain.links import LinkType, link_of
from commonbrain.domain.memory import Memory, semantic_hash
from commonbrain.domain.query import Filter
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import is_visible
from commonbrain.domain.space import Space
from commonbrain.domain.times import instant
from commonbrain.flows.recording import earlier
from commonbrain.flows.remember.prepare import Prepared
from commonbrain.ports.store import Look, Transaction

_NEIGHBOURS = 40
"""How many of the nearest are looked at; asking for more would search the store twice over."""
_WINDOWS_MAX = 4
"""Windows of a long text that are looked for: what comes later repeats less and costs as much."""
_REPEATS_ALWAYS = frozenset({Kind.MESSAGE, Kind.INCIDENT})
"""Said or happened again, it is another one, word for word or not."""
HAPPENINGS = frozenset({Kind.INCIDENT, Kind.EVENT})
"""What has a time of its own: told of another time, it and its causes are others."""
_COMES_FROM_A_SOURCE = _REPEATS_ALWAYS | {Kind.EVENT, Kind.EPISODE}
"""Equal texts of these from two sources are two things; from one source they are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What the neighbours say: whether it is new, and which earlier event it is once more."""

    verdict: Novel | Duplicate
    conflicts: tuple[Contested, ...] = ()
    """All that cannot be true together with it."""
    contested: frozenset[int] = frozenset()
    """Those of them that it may be held against: they are trusted no more than it is."""
    recurring: Memory | None = None


def find_exact(tx: Transaction, prepared: Prepared, *, look: Look) -> Memory | None:
    """Find a memory that says it to the letter.

    Where equal texts need not be the same thing, only one from the same source counts; a message
    or an incident of no known source is always another one, an event of another time, too.
    """
    kind, source = prepared.admitted.kind, None
    if kind in _COMES_FROM_A_SOURCE:
        source = prepared.draft.source_ref
        if source is None and kind in _REPEATS_ALWAYS:
            return None
    same = tx.memories.by_hash(kind, semantic_hash(kind, prepared.text), source_ref=source)
    found = (one for one in same if _may_compare(one, prepared, look=look))
    return next((one for one in found if not _is_another_time(one, prepared)), None)


def happened_again(known: Memory, prepared: Prepared) -> bool:
    """Say whether a text known to the letter tells of one more time: an event of no source."""
    return known.kind is Kind.EVENT and prepared.draft.source_ref is None


def judge_neighbours(
    tx: Transaction,
    prepared: Prepared,
    *,
    look: Look,
    space: Space,
    besides: frozenset[int],
) -> Judged:
    """Compare a draft with the nearest of its kind, leaving out the ids `besides`."""
    if prepared.vectors is None:
        return Judged(verdict=Novel())
    kind = prepared.admitted.kind
    near = _nearest(tx, prepared, look=look, space=space)
    found = [
        memory
        for memory in tx.memories.get([id_ for id_ in near if id_ not in besides]).values()
        if _may_meet(memory, prepared, look=look)
    ]

    def judged(memories: Iterable[Memory]) -> Novel | Duplicate:
        neighbours = [_neighbour(one, similarity=near[one.id]) for one in memories]
        subject = _subject(prepared.admitted.detail)
        return judge(kind, prepared.text, near=neighbours, space=space, subject=subject)

    kept = _kept_beside(tx, besides) if besides else frozenset[int]()
    verdict = judged(one for one in found if _is_believed(one, prepared))
    less = [one for one in found if not _is_believed(one, prepared)]
    again = [one for one in found if kind is Kind.EVENT and recurs(prepared.text, one.text)]
    return Judged(
        verdict=verdict,
        conflicts=tuple(
            one
            for one in (*verdict.conflicts, *(judged(less).conflicts if less else ()))
            if one.neighbour.id not in kept
        ),
        contested=frozenset(one.id for one in found if one.trust.weight <= prepared.trust.weight),
        recurring=min(again, key=_by_count, default=None),
    )


def _kept_beside(tx: Transaction, revised: Iterable[int]) -> frozenset[int]:
    """Give what somebody said to hold beside any revision of what is being revised."""
    chain = [
        id_
        for memory in tx.memories.get(list(revised)).values()
        for id_ in (memory.id, *(one.id for one in earlier(tx, memory)))
    ]
    links = tx.links.touching(chain, types=[LinkType.RELATES_TO])
    ends = {frozenset((one.from_id, one.to_id)) for one in links}
    said = {
        frozenset((link.from_id, link.to_id))
        for change in tx.changes.of(sorted(frozenset[int]().union(*ends)))
        if change.action is Action.KEEP_BOTH and "link" in change.after
        for link in [link_of(cast("Mapping[str, Any]", change.after["link"]))]
    }
    return frozenset[int]().union(*(ends & said)).difference(chain)


def _neighbour(memory: Memory, *, similarity: float) -> Neighbour:
    return Neighbour(
        id=memory.id,
        headline=memory.headline,
        text=memory.text,
        similarity=similarity,
        subject=_subject(memory.detail),
    )


def _subject(detail: Detail) -> str | None:
    return detail.subject if isinstance(detail, FactDetail) else None


def _nearest(tx: Transaction, prepared: Prepared, *, look: Look, space: Space) -> dict[int, float]:
    """Give the similarity of the nearest to the window of the draft that they are nearest to."""
    like_it = Filter(kinds=(prepared.admitted.kind,), project=prepared.project, trust_min=0.0)
    there = Look(caller=look.caller, filter=like_it, now=look.now)
    near: dict[int, float] = {}
    windows = prepared.vectors.windows if prepared.vectors is not None else ()
    for window in windows[:_WINDOWS_MAX]:
        similar_at = space.similar_at
        for hit in tx.index.nearest(window, there, limit=_NEIGHBOURS, at_least=similar_at):
            near[hit.id] = max(hit.score, near.get(hit.id, hit.score))
    return near


def _by_count(memory: Memory) -> tuple[int, int]:
    """Order events by how often they came again, most first, so that one of them counts."""
    detail = memory.detail
    return (-detail.recurrences if isinstance(detail, EventDetail) else 0, memory.id)


def _is_another_time(memory: Memory, prepared: Prepared) -> bool:
    """Say whether the author gave a time at which the known event did not happen.

    An atom is an observation, at another time another one; but a message has the time at which it
    was said, and what is said twice was not observed twice.
    """
    draft, told = prepared.draft, prepared.draft.occurred_at
    is_observed = memory.kind is Kind.ATOM and draft.source_message_id is None
    is_dated = memory.kind is Kind.EVENT or is_observed
    return is_dated and told is not None and instant(told) != memory.occurred_at


def _may_compare(memory: Memory, prepared: Prepared, *, look: Look) -> bool:
    """Leave out what a recall would not give in place of the draft."""
    return _may_meet(memory, prepared, look=look) and _is_believed(memory, prepared)


def _may_meet(memory: Memory, prepared: Prepared, *, look: Look) -> bool:
    """Leave out what may not be seen by all who will see the draft, and what holds no more."""
    is_over = memory.is_over(look.now)
    comparable = is_comparable(
        memory, prepared.scope, project=prepared.project, readers=prepared.draft.audience
    )
    return is_visible(look.caller, memory) and not is_over and comparable


def _is_believed(memory: Memory, prepared: Prepared) -> bool:
    return memory.trust.weight >= prepared.trust.weight
