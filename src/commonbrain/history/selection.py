"""Bulk changes: select memories, preview the change, report the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, TypedDict

from commonbrain.history.unit_of_work import UnitOfWork, set_above
from commonbrain.invalidation.dependents import AffectedDependents
from commonbrain.model import ids, limits
from commonbrain.model.errors import InvalidInputError, RejectedError, check_names, parse_choice
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.query import Filter, KindFilter
from commonbrain.model.revision import Action
from commonbrain.model.scope import Caller, Scope, check_may_write, is_visible
from commonbrain.model.support import InvalidationReason, carried_by
from commonbrain.retrieval.provenance import FORGOTTEN
from commonbrain.security.authority import is_trusted
from commonbrain.storage.interface import Direction
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.time_expressions.parser import parse_time_expression

SHOWN_MAX: Final = 20
"""Items shown of each list."""


class Phase(StrEnum):
    """How far a bulk change went."""

    PREVIEW = "preview"
    """Nothing was done; repeat the call with `confirm`."""
    DRY_RUN = "dry_run"
    """Nothing was done, as requested."""
    DONE = "done"
    UNCHANGED = "unchanged"
    PROPOSED = "proposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRef:
    """A memory of a bulk change; `why` explains why it was skipped."""

    id: str
    headline: str
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkChangeResult:
    """The result of a bulk change or of its preview.

    Lists hold the first twenty; `count`, `skipped_count` and `by_kind` count all. `is_more` tells
    whether the selector matches more than one call changes.
    """

    action: Action
    status: Phase
    count: int = 0
    by_kind: Mapping[Kind, int] = field(default_factory=dict[Kind, int])
    items: tuple[MemoryRef, ...] = ()
    skipped_count: int = 0
    skipped: tuple[MemoryRef, ...] = ()
    dependents_count: int = 0
    """Other memories that derive from or depend on a selected one."""
    dependents: tuple[MemoryRef, ...] = ()
    affected: AffectedDependents | None = None
    """Dependents that need review because of the change."""
    is_more: bool = False
    receipt: Mapping[str, int] = field(default_factory=dict[str, int])
    """After an erase: the number of emptied rows by place."""
    reason: str | None = None
    hint: str | None = None


def memory_ref(memory: Memory, why: str | None = None) -> MemoryRef:
    """Name a memory; the text of a forgotten one is not shown."""
    headline = FORGOTTEN if memory.state is State.FORGOTTEN else memory.headline
    return MemoryRef(id=ids.show(ids.MEMORY, memory.id), headline=headline, why=why)


def shown(refs: Sequence[MemoryRef]) -> tuple[MemoryRef, ...]:
    """Return the first items of a list."""
    return tuple(refs[:SHOWN_MAX])


def kinds_of(memories: Sequence[Memory]) -> Mapping[Kind, int]:
    """Count memories by kind."""
    return dict(Counter(one.kind for one in memories))


def confirmation_hint(count: int, confirm: int | None) -> str:
    """Explain how to confirm a preview."""
    moved = "" if confirm is None else f"It was {confirm} when previewed. "
    return f"{moved}Nothing is changed yet: repeat the call with confirm={count}."


SELECTABLE_STATES = tuple(sorted(set(State) - {State.FORGOTTEN}))
"""The states that a selector matches."""


class SelectorFields(TypedDict, total=False):
    """Criteria that memories must all meet."""

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
    """Selected and skipped memories; `is_more` if one call cannot change all of them."""

    taken: tuple[Memory, ...] = ()
    skipped: tuple[MemoryRef, ...] = ()
    is_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependents:
    """The number of dependents, and the nearest of them."""

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
    """Build the preview of a bulk change."""
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


def preview_change(
    unit: UnitOfWork,
    selection: Selection,
    *,
    action: Action,
    confirm: int | None,
    reason: str | None = None,
) -> BulkChangeResult:
    """Preview a change of selected memories, with their dependents and how to confirm it."""
    return make_preview(
        selection,
        action=action,
        dependents=list_dependents(unit, selection.taken),
        reason=reason,
        hint=confirmation_hint(len(selection.taken), confirm),
    )


def select(
    unit: UnitOfWork, given: SelectorFields, *, states: Sequence[State] = ()
) -> list[Memory]:
    """Find what a selector matches: ids in their order, otherwise newest first.

    Raises:
        InvalidInputError: the selector is empty or invalid, or combines ids with other criteria.
        NotFoundError: an id names no memory that the caller may see.
        RejectedError: `limit_exceeded`, too many ids.

    """
    check_names(given, SelectorFields.__annotations__, message="There is no {} to select by.")
    conditions = {name: value for name, value in given.items() if value}
    if not conditions:
        raise InvalidInputError(
            "No selector was given.", hint="Give ids, or agent, tags, since, ..."
        )
    if "ids" not in conditions:
        return _matching(unit, given, states=states)
    if len(conditions) > 1:
        raise InvalidInputError(
            "ids cannot be combined with other conditions.", hint="Give one or the other."
        )
    memory_ids = list(dict.fromkeys(ids.parse(ids.MEMORY, id_) for id_ in given.get("ids", ())))
    if len(memory_ids) > limits.ITEMS_PER_CALL_MAX:
        raise RejectedError(
            f"{len(memory_ids)} ids were given; {limits.ITEMS_PER_CALL_MAX} per call are allowed.",
            code="limit_exceeded",
            hint="Send them in several calls.",
        )
    return [unit.fetch(id_) for id_ in memory_ids]


_RESTORED: Final = "A person decided that it holds; ask the user to change it."


def select_permitted(unit: UnitOfWork, memories: Sequence[Memory]) -> Selection:
    """Separate what the caller may change from what it may not, within the limit of one call."""
    restored_ids = set_above(unit, [one.id for one in memories], names={"state"})
    reasons = [
        (one, _RESTORED if one.id in restored_ids else denial_reason(unit.caller, one))
        for one in memories
    ]
    taken = [one for one, why in reasons if why is None]
    return Selection(
        taken=tuple(taken[: limits.FORGET_AT_ONCE_MAX]),
        skipped=tuple(memory_ref(one, why) for one, why in reasons if why is not None),
        is_more=len(taken) > limits.FORGET_AT_ONCE_MAX,
    )


def denial_reason(caller: Caller, memory: Memory) -> str | None:
    """Return why a caller may not change a memory; None if it may."""
    try:
        check_may_write(caller, memory.scope)
    except RejectedError as refusal:
        return refusal.message
    if memory.scope is Scope.PRIVATE and memory.agent != caller.agent:
        # Its recipients see it; removing it would remove it for all of them.
        return f"Only {memory.agent}, who shared it, may remove it for everyone."
    if not is_trusted(caller, memory):
        return f"Its trust, {memory.trust}, exceeds the caller's."
    if not caller.authority.covers(memory.authority):
        return f"A {memory.authority} wrote it; ask the user to change it."
    return None


def list_dependents(
    unit: UnitOfWork,
    memories: Sequence[Memory],
    *,
    fall: InvalidationReason = InvalidationReason.FORGOTTEN,
) -> Dependents:
    """Return the dependents of these memories, as far as visible."""
    inside = [one.id for one in memories]
    walk = unit.tx.graph.walk(
        inside, Direction.AGAINST, types=carried_by(fall), limit=limits.PREVIEW_COUNT_MAX
    )
    standings = unit.tx.graph.support_statuses([one.id for one in walk.reached])
    seen = [
        one.id
        for one in walk.reached
        if standings[one.id].state in CURRENT_STATES and is_visible(unit.caller, standings[one.id])
    ]
    # Read only those that are shown: one memory may have a thousand.
    known = unit.tx.memories.get(seen[:SHOWN_MAX])
    first = tuple(memory_ref(known[id_]) for id_ in seen[:SHOWN_MAX] if id_ in known)
    return Dependents(count=len(seen), first=first)


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Normalize names as they are stored; a single string is one name."""
    listed = (given,) if isinstance(given, str) else given
    return tuple(normalise_line(name) or "" for name in listed)


def _matching(unit: UnitOfWork, given: SelectorFields, *, states: Sequence[State]) -> list[Memory]:
    since, until, scope = given.get("since"), given.get("until"), given.get("scope")
    criteria = Filter(
        **KindFilter.parse(given.get("kinds", ()))._asdict(),
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
    hits = unit.tx.memories.newest(unit.query_scope(criteria), limit=limits.SCANNED_MAX)
    memories = unit.tx.memories.get([hit.id for hit in hits])
    ordered = [memories[hit.id] for hit in hits]
    # Recall in a project includes global memories; a bulk change must not.
    return [one for one in ordered if criteria.project in {None, one.project}]
