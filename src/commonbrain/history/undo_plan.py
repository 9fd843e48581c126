"""Plan the reversal of changes: the state of each memory without them, and what prevents it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, cast

from commonbrain.history.selection import denial_reason
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.model import ids
from commonbrain.model.links import Link, LinkType, link_of
from commonbrain.model.memory import CURRENT_STATES, Memory, State, is_erased
from commonbrain.model.revision import Action, Change, own_state
from commonbrain.model.scope import is_visible
from commonbrain.model.support import Review
from commonbrain.model.tasks import Ack, ack_of
from commonbrain.storage.change_log import settled_of

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

RELATED_IMAGES: Final = frozenset({"link", "annotation", "ack", "review"})
"""Keys of images that are not fields of a memory."""
_SYSTEM_ACTIONS: Final = frozenset({Action.UNDO, Action.CASCADE})
"""Undone undos and effects of propagation do not count as someone's work."""
_BUILT_ON: Final = (LinkType.DERIVED_FROM, LinkType.DEPENDS_ON)


_Ends = tuple[int, int, LinkType]
_Whose = tuple[int, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _StateBeforeUndo:
    """Annotations and links as they are once later changes are reverted."""

    links: dict[_Ends, Link | None] = field(default_factory=dict[_Ends, "Link | None"])
    acks: dict[_Whose, Ack | None] = field(default_factory=dict[_Whose, "Ack | None"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversal:
    """The reversal of one memory; `kept` explains what cannot be reverted."""

    before: Memory
    after: Memory
    related: tuple[Change, ...] = ()
    """Links and annotations to revert, newest first."""
    skip_reason: str | None = None
    candidates: tuple[Change, ...] = ()
    """Changes of links, annotations and acknowledgements.

    `with_links` decides which are reverted.
    """
    others: tuple[Change, ...] = ()
    """Changes that stay, oldest first."""

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        return self.after != self.before or bool(self.related)

    @property
    def peers(self) -> set[int]:
        """Memories that leave its chain or join it again."""
        both = {self.before.superseded_by, self.after.superseded_by}
        return {one for one in both if one is not None} if len(both) > 1 else set()


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltOn:
    """A dependent of a memory: its author, and how the caller may see it."""

    agent: str
    told: str


def find_dependents(unit: UnitOfWork, memories: Sequence[Memory]) -> dict[int, list[BuiltOn]]:
    """List the dependents of these memories by id."""
    links = unit.tx.links.touching([one.id for one in memories], types=_BUILT_ON)
    above = unit.tx.memories.get(list(dict.fromkeys(link.from_id for link in links)))
    resting: defaultdict[int, list[BuiltOn]] = defaultdict(list)
    for link in links:
        is_seen = link.from_id in above and is_visible(unit.caller, above[link.from_id])
        told = f"{ids.show(ids.MEMORY, link.from_id)} {link.type} it, says {link.agent}."
        # The caller must not learn whose private memory depends on it.
        one = BuiltOn(agent=link.agent, told=told if is_seen else "Something rests on it since.")
        resting[link.to_id].append(one)
    return resting


def plan_reversal(
    unit: UnitOfWork, memory: Memory, *, to_undo: Sequence[Change], resting: Sequence[BuiltOn]
) -> Reversal:
    """Plan to revert changes of a memory, newest first, unless something depends on them."""
    nothing = Reversal(before=memory, after=memory)
    why = denial_reason(unit.caller, memory)
    if is_erased(memory):
        why = "It was erased."
    if why is not None:
        return replace(nothing, skip_reason=why)
    chosen = {one.id for one in to_undo}
    told = unit.tx.changes.of([memory.id])
    others = [one for one in told if one.id not in chosen and one.action is not Action.CASCADE]
    newest_first = sorted(to_undo, key=lambda one: one.id, reverse=True)
    own = [one for one in newest_first if not _is_related(one)]
    candidates = [one for one in newest_first if _is_related(one)]
    own = [_as_own(one, told) for one in own]
    held = replace(memory, state=own_state(memory.state, told))
    after, skip_reason = _reverse_fields(held, own, others=others, resting=resting)
    if after.state is held.state:
        after = replace(after, state=memory.state)
    after = _held(unit, memory, after=after)
    return Reversal(
        before=memory,
        after=after,
        skip_reason=skip_reason,
        candidates=tuple(candidates),
        others=tuple(others),
    )


def _as_own(change: Change, told: Sequence[Change]) -> Change:
    """Return a change as if propagation had not archived the memory before it."""
    if change.before.get("state") != State.ARCHIVED:
        return change
    state = own_state(State.ARCHIVED, [one for one in told if one.id < change.id])
    return replace(change, before={**change.before, "state": state})


def _is_related(change: Change) -> bool:
    return bool(RELATED_IMAGES & {*change.before, *change.after})


def _reverse_fields(
    memory: Memory,
    changes: Sequence[Change],
    *,
    others: Sequence[Change],
    resting: Sequence[BuiltOn],
) -> tuple[Memory, str | None]:
    """Revert the fields of the memory itself."""
    after, skip_reason = memory, None
    for change in changes:
        if change.action is Action.CREATE:
            after, skip_reason = _undo_create(after, change, others=others, resting=resting) or (
                after,
                skip_reason,
            )
        elif _agrees(after, change.after):
            after = replace(after, **cast("dict[str, Any]", dict(change.before)))
        elif not _agrees(after, change.before):
            skip_reason = _who_changed(change, others)
    return after, skip_reason


def with_links(unit: UnitOfWork, reversals: Sequence[Reversal]) -> list[Reversal]:
    """Decide which links, annotations and acknowledgements to revert, over all memories.

    The newest changes come first.

    A link can be changed through both of its ends: superseding a memory carries its links over to
    the successor, and a call on another memory may strengthen them afterwards.
    """
    taken: defaultdict[int, list[Change]] = defaultdict(list)
    skipped: dict[int, str] = {}
    seen = _StateBeforeUndo()
    both = ((change, one) for one in reversals for change in one.candidates)
    for change, one in sorted(both, key=lambda pair: pair[0].id, reverse=True):
        still_applies = _still_applies(unit, change, seen=seen)
        if still_applies:
            taken[one.before.id].append(change)
        elif still_applies is False:
            skipped[one.before.id] = _who_changed(change, one.others)
    return [
        replace(
            one,
            related=tuple(taken[one.before.id]),
            skip_reason=one.skip_reason or skipped.get(one.before.id),
        )
        for one in reversals
    ]


def _held(unit: UnitOfWork, before: Memory, *, after: Memory) -> Memory:
    """Set since when the memory is believed again."""
    is_back = before.state not in CURRENT_STATES and after.state in CURRENT_STATES
    return replace(after, believed_since=unit.now) if is_back else after


def _undo_create(
    memory: Memory, born: Change, *, others: Sequence[Change], resting: Sequence[BuiltOn]
) -> tuple[Memory, str | None] | None:
    """Forget a new memory unless others depend on it; None if it is gone already."""
    if memory.state is State.FORGOTTEN:
        return None
    later = [one for one in others if one.id > born.id and one.action not in _SYSTEM_ACTIONS]
    if later:
        return memory, f"{later[-1].agent} has built on it since ({later[-1].action})."
    for one in resting:
        if one.agent != born.agent:
            return memory, one.told
    return replace(memory, state=State.FORGOTTEN), None


def _agrees(memory: Memory, image: Mapping[str, object]) -> bool:
    return all(getattr(memory, name) == value for name, value in image.items())


def _who_changed(change: Change, others: Sequence[Change]) -> str:
    """Return who last changed the same thing."""
    later = [one for one in others if one.id > change.id and set(one.after) & set(change.after)]
    who = f"{later[-1].agent} has changed it since ({later[-1].action})" if later else "It changed"
    return f"{who}; {change.action} is not taken back."


def _still_applies(unit: UnitOfWork, change: Change, *, seen: _StateBeforeUndo) -> bool | None:
    """Return whether related data is as the change left it; None if it is as before the change.

    `seen` holds the state after later changes are reverted.
    """
    named = {*change.before, *change.after}
    if "annotation" in named:
        return _annotation_applies(unit, change)
    if "review" in named:
        is_settled = "review" not in change.after or settled_by(unit.tx, change)
        return True if is_settled else None
    if "ack" in named:
        return _ack_applies(unit, change, acks=seen.acks)
    links = seen.links
    was, is_ = _link(change.before), _link(change.after)
    either = was or is_
    if either is None:
        return None
    ends = either.from_id, either.to_id, either.type
    if ends not in links:
        there = unit.tx.links.touching([either.from_id], types=[either.type])
        links[ends] = next((one for one in there if one.to_id == either.to_id), None)
    if _is_same(links[ends], is_):
        links[ends] = was
        return True
    return None if _is_same(links[ends], was) else False


def settled_by(tx: Transaction, change: Change) -> list[Review]:
    """Return the reviews that a change resolved, if they are still as it left them."""
    told = settled_of(change.after["review"], change.memory_id)
    there = tx.reviews.of([change.memory_id]).get(change.memory_id, [])
    at = told[0].settled_at if told else None
    return [one for one in there if one.settled_at == at and not one.is_open]


def _ack_applies(
    unit: UnitOfWork, change: Change, *, acks: dict[_Whose, Ack | None]
) -> bool | None:
    """Return whether an acknowledgement is as the change left it; None if it is as before."""
    was, is_ = (
        ack_of(image["ack"]) if "ack" in image else None for image in (change.before, change.after)
    )
    whose = (is_ or was).whose  # type: ignore[union-attr]
    if whose not in acks:
        there = unit.tx.acks.of([change.memory_id]).get(change.memory_id, [])
        acks[whose] = next((one for one in there if one.whose == whose), None)
    if acks[whose] == is_:
        acks[whose] = was
        return True
    return None if acks[whose] == was else False


def _annotation_applies(unit: UnitOfWork, change: Change) -> bool | None:
    """Return whether an annotation that the change added or removed is still so."""
    image = cast("Mapping[str, Any]", {**change.before, **change.after}["annotation"])
    there = unit.tx.annotations.of([change.memory_id]).get(change.memory_id, [])
    if "annotation" in change.after:
        return True if image["id"] in {one.id for one in there} else None
    same = [one for one in there if (one.agent, one.text) == (image["agent"], image["text"])]
    return None if same else True


def _is_same(one: Link | None, other: Link | None) -> bool:
    if one is None or other is None:
        return one is other
    return (one.observations, one.strength) == (other.observations, other.strength)


def _link(image: Mapping[str, object]) -> Link | None:
    given = image.get("link")
    return link_of(cast("Mapping[str, Any]", given)) if given else None
