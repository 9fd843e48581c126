"""What a successor takes over: the supports that hold, and causes and effects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from commonbrain.domain.cascade import Support
from commonbrain.domain.links import INHERITED, Link, LinkType, is_inherited, link_image
from commonbrain.domain.memory import FINDABLE_STATES, Draft, Memory
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import is_visible
from commonbrain.domain.tracing import CAUSAL
from commonbrain.flows.act import Act
from commonbrain.flows.cascade.weigh import holding
from commonbrain.flows.recording import record_beside


def with_supports(act: Act, draft: Draft, *, old: Memory) -> Draft:
    """Let a revision rest on what the old text rests on, as far as that holds and is seen.

    What has fallen is left behind: to supersede what needs review is how one mends it.
    """
    supports = _supports(act, old)
    found = act.tx.memories.get([one.to_id for one in supports])
    seen = {
        id_
        for id_, one in found.items()
        if one.state in FINDABLE_STATES and is_visible(act.caller, one)
    }
    return replace(
        draft,
        derived_from=_ends(supports, LinkType.DERIVED_FROM, among=seen),
        depends_on=_ends(supports, LinkType.DEPENDS_ON, among=seen),
    )


def take_over(act: Act, old: Memory, *, new: Memory, supports: bool) -> None:
    """Give a successor the causes and effects of the old, and the supports that it has not yet.

    They are copied, each with a record of its own, so that undo and restore find all as it was.
    """
    wanted = act.tx.links.touching([old.id], types=CAUSAL)
    if supports:
        resting = {(one.from_id, one.to_id, one.type) for one in _supports(act, old)}
        leaving = act.tx.links.touching([old.id], types=sorted({type_ for *_, type_ in resting}))
        wanted += [one for one in leaving if (one.from_id, one.to_id, one.type) in resting]
    there = {(one.from_id, one.to_id, one.type) for one in act.tx.links.touching([new.id])}
    for link in wanted:
        ends = [new.id if end == old.id else end for end in (link.from_id, link.to_id)]
        if (*ends, link.type) not in there and ends[0] != ends[1]:
            _put(act, new, link=_moved(act, link, ends=ends, by=new))


def inherited(act: Act, memory: Memory) -> list[Link]:
    """List the causes and effects that a memory only has because it took another's place."""
    links = act.tx.links.touching([memory.id], types=CAUSAL)
    return [one for one in links if is_inherited(one)]


def _supports(act: Act, old: Memory) -> Sequence[Support]:
    """Give what bears a memory and is not why it needs review, nor ever needed one."""
    reviews = act.tx.reviews
    fallen = {one.cause_id for one in reviews.of([old.id]).get(old.id, ())}
    supports = holding(act.tx, old.id, now=act.now)
    shaken = {
        id_
        for id_, those in reviews.of([one.to_id for one in supports]).items()
        if any(one.is_open and one.cause_id in fallen for one in those)
    }
    return [one for one in supports if one.to_id not in fallen | shaken]


def _ends(supports: Sequence[Support], type_: LinkType, *, among: set[int]) -> tuple[int, ...]:
    return tuple(one.to_id for one in supports if one.type is type_ and one.to_id in among)


def _moved(act: Act, link: Link, *, ends: Sequence[int], by: Memory) -> Link:
    """Say the same of the successor, in no greater trust than it has itself."""
    basis = link.basis if is_inherited(link) else f"{INHERITED}{link.basis or link.type}"
    from_id, to_id = ends
    return replace(
        link,
        from_id=from_id,
        to_id=to_id,
        basis=basis,
        agent=act.caller.agent,
        trust=min(link.trust, by.trust, key=lambda trust: trust.weight),
        created_at=act.now,
    )


def _put(act: Act, new: Memory, *, link: Link) -> None:
    act.tx.links.replace(link)
    image = {"link": link_image(link)}
    record_beside(act.tx, new, deed=act.deed(Action.LINK, None), before={}, after=image)
