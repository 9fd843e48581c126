"""What a plan does to memories, in words, for the person who decides on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from commonbrain.history.change_plan import (
    PutLink,
    ResolveReviews,
    Step,
    UpdateMemory,
    changed_fields,
    describe,
    is_ended,
    plain,
    show,
)
from commonbrain.history.planners import PLANNERS, plan_approval
from commonbrain.history.summaries import MemoryEffects, summarize
from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.invalidation.dependents import preview_affected
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.escaping import pluralize
from commonbrain.model.kinds import Severity, is_blocker
from commonbrain.model.links import Link, is_inherited
from commonbrain.model.memory import AWAITING_STATES, CURRENT_STATES, Memory, State
from commonbrain.model.revision import Action, difference
from commonbrain.model.scope import is_visible
from commonbrain.security.authority import Proposal, proposal_of


def effects_of_approval(unit: UnitOfWork, memory: Memory) -> tuple[MemoryEffects, ...]:
    """Return what the approval of a pending memory would do, from its plan."""
    try:
        steps = plan_approval(unit, memory).steps
        carried = proposal_of(memory)
        if carried is not None and not steps:
            target = unit.fetch(carried.id)
            return (MemoryEffects(memory=summarize(target), effects=("changes nothing",)),)
    except CommonbrainError as error:
        return (MemoryEffects(memory=summarize(memory), effects=(f"not possible: {error}",)),)
    return effects_of(unit, steps)


def effects_of_deciding(unit: UnitOfWork, memory: Memory, *, other: Memory) -> tuple[str, ...]:
    """Return what deciding a conflict for a memory does apart from ending the other."""
    proposal = Proposal(op=Action.RESOLVE, id=memory.id, arguments={"other": show(other)})
    try:
        steps = PLANNERS[Action.RESOLVE](unit, memory, proposal=proposal).steps
    except CommonbrainError:
        # It cannot replace the other, which is forgotten.
        steps = ()
    raised = [
        phrase
        for step in steps
        if isinstance(step, UpdateMemory) and step.before.id == memory.id
        for phrase in _phrases(step)
    ]
    return (*raised, *([_ENDS_A_BLOCKER] if is_blocker(other.detail) else []))


def effects_of(unit: UnitOfWork, steps: Sequence[Step]) -> tuple[MemoryEffects, ...]:
    """Return what steps do to each memory; those that are only linked follow.

    What a link that is inherited leads to may be hidden from the caller: such links are counted.
    """
    touched: dict[int, Memory] = {}
    effects: defaultdict[int, list[str]] = defaultdict(list)
    inherited: Counter[int] = Counter()
    linked: list[tuple[int, str]] = []
    for step in steps:
        memory = step.before if isinstance(step, UpdateMemory) else step.memory
        touched.setdefault(memory.id, memory)
        link = (step.link or step.known) if isinstance(step, PutLink) else None
        if link is not None and is_inherited(link):
            inherited[memory.id] += 1
            continue
        effects[memory.id] += _phrases(step)
        if isinstance(step, UpdateMemory) and is_ended(step):
            effects[memory.id] += _on_dependents(unit, memory)
        if isinstance(step, ResolveReviews) and _is_archived_for(unit, memory):
            effects[memory.id].append("recalls it again")
        if isinstance(step, PutLink) and link is not None:
            verb = "links" if step.link else "no longer links"
            linked.append((link.to_id, f"{verb} {show(memory)} to it"))
    for id_, count in inherited.items():
        effects[id_].append(f"moves {pluralize(count, 'link', many='links')} with the text")
    ends = unit.tx.memories.get([id_ for id_, _ in linked])
    for id_, phrase in linked:
        if id_ in ends and is_visible(unit.caller, ends[id_]):
            touched.setdefault(id_, ends[id_])
            effects[id_].append(phrase)
    return tuple(
        MemoryEffects(memory=summarize(one), effects=tuple(effects[id_]))
        for id_, one in touched.items()
    )


def _phrases(step: Step) -> Iterator[str]:
    match step:
        case UpdateMemory(before=before, after=after):
            for name, old, new in changed_fields(*difference(before, after)):
                if name == "state":
                    yield _state(step)
                elif name in _PHRASES:
                    yield from _PHRASES[name](old, new)
                else:
                    words = name.replace("_", " ")
                    yield f"changes its {words} from {plain(name, old)} to {plain(name, new)}"
        case PutLink(known=known, link=link):
            yield _link(known, link)
        case ResolveReviews(reviews=reviews):
            yield f"confirms it, which closes {pluralize(len(reviews), 'review', many='reviews')}"
        case _:
            yield from describe(step)


_ENDS_A_BLOCKER: Final = f"ends a {Severity.BLOCKER}"


def _state(step: UpdateMemory) -> str:
    before, after = step.before, step.after
    if is_ended(step):
        ends = _ENDS_A_BLOCKER if is_blocker(before.detail) else "ends it"
        return ends if after.state is State.SUPERSEDED else f"{ends}: it is {after.state}"
    if after.state in CURRENT_STATES:
        return "recalls it from now on" if before.state in AWAITING_STATES else "recalls it again"
    return f"makes it {after.state}"


def _tags(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    yield from (f"adds the tag {tag}" for tag in new if tag not in old)
    yield from (f"removes the tag {tag}" for tag in old if tag not in new)


_PHRASES: Final[Mapping[str, Callable[[Any, Any], Iterator[str]]]] = {
    "pinned": lambda _, new: iter(["pins it" if new else "unpins it"]),
    "expires_at": lambda _, new: iter(
        [f"ends it on {plain('expires_at', new)}" if new else "lets it never end"]
    ),
    "tags": _tags,
    "authority": lambda _, new: iter([f"makes it a {new}'s"]),
    "superseded_by": lambda _, new: iter(
        [f"replaces it by {ids.show(ids.MEMORY, new)}" if new else "lets nothing replace it"]
    ),
}
"""What a change of a field is called; others are named with both values."""


def _link(known: Link | None, link: Link | None) -> str:
    there = link or known
    if there is None:
        return "changes nothing"
    where = f"{ids.show(ids.MEMORY, there.to_id)} ({there.type.replace('_', ' ')})"
    if link is None:
        return f"removes its link to {where}"
    verb = "strengthens its link" if known else "links it"
    return f"{verb} to {where}, strength {link.strength:.2f}"


def _is_archived_for(unit: UnitOfWork, memory: Memory) -> bool:
    """Return whether a memory was archived for lack of support, and returns if confirmed."""
    reviews = unit.tx.reviews.of([memory.id]).get(memory.id, ())
    return memory.state is State.ARCHIVED and any(one.is_of_itself for one in reviews)


def _on_dependents(unit: UnitOfWork, memory: Memory) -> Iterator[str]:
    affected = preview_affected(unit.tx, unit.caller, ids_=[memory.id], now=unit.now)
    if affected.count:
        yield affected.line().splitlines()[0].lower().removesuffix(".")
