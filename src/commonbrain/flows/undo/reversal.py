"""How one memory looks once some changes are taken back, and what stands in the way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

from commonbrain.domain import ids
from commonbrain.domain.links import Link, LinkType, link_of
from commonbrain.domain.memory import CURRENT_STATES, Memory, State, is_erased
from commonbrain.domain.revision import Action, Change
from commonbrain.flows.act import Act
from commonbrain.flows.forget.selection import why_not

_BESIDE: Final = frozenset({"link", "annotation"})
"""Keys of images that are no fields of a memory."""
_BUILT_ON: Final = (LinkType.DERIVED_FROM, LinkType.DEPENDS_ON)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reversal:
    """What taking back does to one memory; `kept` says why some or all of it cannot be."""

    before: Memory
    after: Memory
    beside: tuple[Change, ...] = ()
    """Links and annotations to take back, newest first."""
    kept: str | None = None

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        return self.after != self.before or bool(self.beside)

    @property
    def peers(self) -> set[int]:
        """The memories that its chain is being cut from or joined to again."""
        both = {self.before.superseded_by, self.after.superseded_by}
        return {one for one in both if one is not None} if len(both) > 1 else set()


def built_on(act: Act, memories: Sequence[Memory]) -> dict[int, list[Link]]:
    """List the links by which something rests on these memories, under the id of each."""
    resting: defaultdict[int, list[Link]] = defaultdict(list)
    for link in act.tx.links.touching([one.id for one in memories], types=_BUILT_ON):
        resting[link.to_id].append(link)
    return resting


def reverse(
    act: Act, memory: Memory, *, wanted: Sequence[Change], resting: Sequence[Link]
) -> Reversal:
    """Take the wanted changes of a memory back, newest first, as far as nothing stands on them."""
    nothing = Reversal(before=memory, after=memory)
    why = why_not(act.caller, memory)
    if is_erased(memory):
        why = "It was erased."
    if why is not None:
        return replace(nothing, kept=why)
    chosen = {one.id for one in wanted}
    others = [one for one in act.tx.changes.of([memory.id]) if one.id not in chosen]
    after, kept = memory, None
    beside: list[Change] = []
    for change in sorted(wanted, key=lambda one: one.id, reverse=True):
        if change.action is Action.CREATE:
            after, kept = _unborn(after, change, others=others, resting=resting) or (after, kept)
        elif _BESIDE & {*change.before, *change.after}:
            beside += [change] if _is_there(act, change) else []
        elif _agrees(after, change.after):
            after = replace(after, **cast("dict[str, Any]", dict(change.before)))
        elif not _agrees(after, change.before):
            kept = _who_changed(change, others)
    return replace(nothing, after=_held(act, memory, after=after), beside=tuple(beside), kept=kept)


def _held(act: Act, before: Memory, *, after: Memory) -> Memory:
    """Note since when it is believed again, if it is."""
    is_back = before.state not in CURRENT_STATES and after.state in CURRENT_STATES
    return replace(after, believed_since=act.now) if is_back else after


def _unborn(
    memory: Memory, born: Change, *, others: Sequence[Change], resting: Sequence[Link]
) -> tuple[Memory, str | None] | None:
    """Forget what was made, unless others have built on it since; None when it is gone already."""
    if memory.state is State.FORGOTTEN:
        return None
    # What an earlier undo did and another took back is nobody's work.
    later = [one for one in others if one.id > born.id and one.action is not Action.UNDO]
    if later:
        return memory, f"{later[-1].agent} has built on it since ({later[-1].action})."
    for link in resting:
        if link.agent != born.agent:
            from_ = ids.show(ids.MEMORY, link.from_id)
            return memory, f"{from_} {link.type} it, says {link.agent}."
    return replace(memory, state=State.FORGOTTEN), None


def _agrees(memory: Memory, image: Mapping[str, object]) -> bool:
    return all(getattr(memory, name) == value for name, value in image.items())


def _who_changed(change: Change, others: Sequence[Change]) -> str:
    """Name who last changed the same thing."""
    later = [one for one in others if one.id > change.id and set(one.after) & set(change.after)]
    who = f"{later[-1].agent} has changed it since ({later[-1].action})" if later else "It changed"
    return f"{who}; {change.action} is not taken back."


def _is_there(act: Act, change: Change) -> bool:
    """Say whether a link or annotation is as this change left it."""
    if "annotation" in change.before or "annotation" in change.after:
        image = cast("Mapping[str, Any]", change.after.get("annotation", {}))
        there = act.tx.annotations.of([change.memory_id]).get(change.memory_id, [])
        ids_ = {one.id for one in there}
        return image["id"] in ids_ if image else True
    left = _link(change.after)
    known = _link(change.before)
    there = _standing(act, left or known)
    if left is None or there is None:
        return left is there is None
    return there.observations == left.observations


def _standing(act: Act, link: Link | None) -> Link | None:
    if link is None:
        return None
    there = act.tx.links.touching([link.from_id], types=[link.type])
    return next((one for one in there if one.to_id == link.to_id), None)


def _link(image: Mapping[str, object]) -> Link | None:
    given = image.get("link")
    return link_of(cast("Mapping[str, Any]", given)) if given else None
