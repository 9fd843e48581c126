"""What a sweep over several memories answers: first what it would do, then what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, TypedDict

from commonbrain.history.unit_of_work import UnitOfWork
from commonbrain.invalidation.preview import AffectedDependents
from commonbrain.invalidation.propagation import continue_propagation
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError, parse_choice
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import (
    FORETOLD_MAX,
    FORGET_AT_ONCE_MAX,
    ITEMS_PER_CALL_MAX,
    SCANNED_MAX,
)
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Scope, check_may_write, is_visible
from commonbrain.model.support import InvalidationReason, carried_by
from commonbrain.retrieval.get import FORGOTTEN
from commonbrain.security.authority import is_authorized
from commonbrain.services import Services
from commonbrain.storage.interface import Direction
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.time_expressions.parser import parse_time_expression

SHOWN_MAX: Final = 20
"""Of each list: enough to see whether the selector means what it says."""


class Phase(StrEnum):
    """How far a sweep came."""

    PREVIEW = "preview"
    """Nothing was done: it waits for the call to repeat with `confirm`."""
    DRY_RUN = "dry_run"
    """Nothing was done, for no more was asked for."""
    DONE = "done"
    UNCHANGED = "unchanged"
    PROPOSED = "proposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRef:
    """A memory that a sweep is about; `why` says what keeps it from being one of them."""

    id: str
    headline: str
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkChangeResult:
    """What was done to how many memories, or would be once the call repeats with `confirm`.

    Lists hold the first twenty; `count`, `spared_count` and `by_kind` count all. `is_more` says
    that the selector matches more than one call takes.
    """

    action: Action
    status: Phase
    count: int = 0
    by_kind: Mapping[Kind, int] = field(default_factory=dict[Kind, int])
    items: tuple[MemoryRef, ...] = ()
    skipped_count: int = 0
    skipped: tuple[MemoryRef, ...] = ()
    dependents_count: int = 0
    """Memories outside the sweep that derive from or depend on one inside."""
    dependents: tuple[MemoryRef, ...] = ()
    affected: AffectedDependents | None = None
    """What rested on what was taken away, and needs review now."""
    is_more: bool = False
    receipt: Mapping[str, int] = field(default_factory=dict[str, int])
    """After an erase: every place that was looked at, and how many rows were emptied there."""
    reason: str | None = None
    hint: str | None = None


def memory_ref(memory: Memory, why: str | None = None) -> MemoryRef:
    """Name a memory; no word of a forgotten one is shown again."""
    headline = FORGOTTEN if memory.state is State.FORGOTTEN else memory.headline
    return MemoryRef(id=ids.show(ids.MEMORY, memory.id), headline=headline, why=why)


def shown(found: Sequence[MemoryRef]) -> tuple[MemoryRef, ...]:
    """Give the first of a list."""
    return tuple(found[:SHOWN_MAX])


def kinds_of(memories: Sequence[Memory]) -> Mapping[Kind, int]:
    """Count memories by kind."""
    return dict(Counter(one.kind for one in memories))


def confirmation_hint(count: int, confirm: int | None) -> str:
    """Say how a preview becomes a deed."""
    moved = "" if confirm is None else f"It was {confirm} when previewed. "
    return f"{moved}Nothing is changed yet: repeat the call with confirm={count}."


def continue_after(
    services: Services, caller: Caller, *, done: BulkChangeResult
) -> BulkChangeResult:
    """Go on where a large fan was cut; the sweep itself is durable by now."""
    continue_propagation(services, caller)
    return done


SELECTABLE_STATES = tuple(sorted(set(State) - {State.FORGOTTEN}))
"""All that a selector can reach."""


class SelectorFields(TypedDict, total=False):
    """What memories may have in common; all that is given must hold."""

    ids: Sequence[str]
    agent: str
    session: str
    project: str
    kinds: Sequence[Kind | str]
    labels: Sequence[str]
    tags: Sequence[str]
    scope: Scope | str
    since: datetime | str
    """Occurred at or after."""
    until: datetime | str
    """Occurred at or before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What a sweep takes, what it spares and why; `is_more` when it cannot take all at once."""

    taken: tuple[Memory, ...] = ()
    skipped: tuple[MemoryRef, ...] = ()
    is_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependents:
    """How many rest on what is swept, and the nearest of them."""

    count: int = 0
    first: tuple[MemoryRef, ...] = ()


def make_preview(
    selection: Selection,
    *,
    action: Action,
    dependents: Dependents,
    reason: str | None,
    hint: str,
) -> BulkChangeResult:
    """Tell what a sweep would do, before it does anything."""
    taken = selection.taken
    return BulkChangeResult(
        action=action,
        status=Phase.PREVIEW,
        count=len(taken),
        by_kind=kinds_of(taken),
        items=shown([memory_ref(one) for one in taken]),
        skipped_count=len(selection.skipped),
        skipped=shown(selection.skipped),
        dependents_count=dependents.count,
        dependents=dependents.first,
        is_more=selection.is_more,
        reason=reason,
        hint=hint,
    )


def select(
    unit: UnitOfWork, given: SelectorFields, *, states: Sequence[State] = ()
) -> list[Memory]:
    """Find what a selector matches; ids in their order, everything else the newest first.

    Raises:
        InvalidInputError: nothing was given or what is none, or ids stand beside other conditions.
        NotFoundError: an id names nothing that the caller may see.
        RejectedError: `limit_exceeded`, too many ids.

    """
    _check_known(given)
    conditions = {name: value for name, value in given.items() if value}
    if not conditions:
        raise InvalidInputError(
            "Nothing says which memories are meant.", hint="Give ids, or agent, tags, since, ..."
        )
    if "ids" not in conditions:
        return _matching(unit, given, states=states)
    if len(conditions) > 1:
        raise InvalidInputError("ids exclude every other condition.", hint="Give one or the other.")
    wanted = list(dict.fromkeys(ids.parse(ids.MEMORY, id_) for id_ in given.get("ids", ())))
    if len(wanted) > ITEMS_PER_CALL_MAX:
        raise RejectedError(
            f"{len(wanted)} ids were given; {ITEMS_PER_CALL_MAX} a call are allowed.",
            code="limit_exceeded",
            hint="Send them in several calls.",
        )
    return [unit.fetch(id_) for id_ in wanted]


def select_permitted(unit: UnitOfWork, found: Sequence[Memory]) -> Selection:
    """Part what the caller may change from what it may not, and bound what one call takes."""
    reasons = [(one, denial_reason(unit.caller, one)) for one in found]
    taken = [one for one, why in reasons if why is None]
    return Selection(
        taken=tuple(taken[:FORGET_AT_ONCE_MAX]),
        skipped=tuple(memory_ref(one, why) for one, why in reasons if why is not None),
        is_more=len(taken) > FORGET_AT_ONCE_MAX,
    )


def denial_reason(caller: Caller, memory: Memory) -> str | None:
    """Say what keeps a caller from changing a memory; None when nothing does."""
    try:
        check_may_write(caller, memory.scope)
    except RejectedError as refusal:
        return refusal.message
    if memory.scope is Scope.PRIVATE and memory.agent != caller.agent:
        # Whoever it was sent to sees it; taken away, it would be gone from all of them.
        return f"Only {memory.agent}, who shared it, may take it from everybody."
    if is_authorized(caller, memory):
        return None
    return f"It is trusted as {memory.trust}, more than the caller."


def list_dependents(
    unit: UnitOfWork,
    memories: Sequence[Memory],
    *,
    fall: InvalidationReason = InvalidationReason.FORGOTTEN,
) -> Dependents:
    """Tell what a fall of these would unseat: all that rests on them, as far as it is seen."""
    inside = [one.id for one in memories]
    walk = unit.tx.graph.walk(inside, Direction.AGAINST, types=carried_by(fall), limit=FORETOLD_MAX)
    standings = unit.tx.graph.support_statuses([one.id for one in walk.reached])
    seen = [
        one.id
        for one in walk.reached
        if standings[one.id].state in CURRENT_STATES and is_visible(unit.caller, standings[one.id])
    ]
    # Only those that are shown are read: a thousand may rest on one.
    found = unit.tx.memories.get(seen[:SHOWN_MAX])
    first = tuple(memory_ref(found[id_]) for id_ in seen[:SHOWN_MAX] if id_ in found)
    return Dependents(count=len(seen), first=first)


def _check_known(given: SelectorFields) -> None:
    """Refuse a condition that there is none of: passed over, it would take in everything."""
    unknown = sorted(set(given) - set(SelectorFields.__annotations__))
    if unknown:
        raise InvalidInputError(
            f"There is no {', '.join(unknown)} to select by.",
            hint=f"Choose of {', '.join(SelectorFields.__annotations__)}.",
        )


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Spell names as they are stored; one word is one name, and not its letters."""
    listed = (given,) if isinstance(given, str) else given
    return tuple(normalise_line(name) or "" for name in listed)


def _matching(unit: UnitOfWork, given: SelectorFields, *, states: Sequence[State]) -> list[Memory]:
    since, until, scope = given.get("since"), given.get("until"), given.get("scope")
    wanted = Filter(
        kinds=tuple(parse_choice(Kind, kind) for kind in _names(given.get("kinds", ()))),
        labels=_names(given.get("labels", ())),
        tags=_names(given.get("tags", ())),
        agent=normalise_line(given.get("agent")),
        session=normalise_line(given.get("session")),
        project=normalise_line(given.get("project")),
        scope=parse_choice(Scope, scope) if scope else None,
        since=parse_time_expression(since, unit.now) if since else None,
        until=parse_time_expression(until, unit.now, ends=True) if until else None,
        states=tuple(states),
        trust_min=0.0,
    )
    hits = unit.tx.memories.newest(unit.query_scope(wanted), limit=SCANNED_MAX)
    found = unit.tx.memories.get([hit.id for hit in hits])
    ordered = [found[hit.id] for hit in hits]
    # A recall for a project brings what holds for every project too; a sweep must not take that.
    return [one for one in ordered if wanted.project in {None, one.project}]
