"""Which memories a sweep is about: by their ids, or by what they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from commonbrain.domain import ids
from commonbrain.domain.authority import is_entitled
from commonbrain.domain.cascade import Fall, carried_by
from commonbrain.domain.choice import one_of
from commonbrain.domain.errors import Invalid, Refused
from commonbrain.domain.kinds import Kind
from commonbrain.domain.limits import (
    FORETOLD_MAX,
    FORGET_AT_ONCE_MAX,
    ITEMS_PER_CALL_MAX,
    SCANNED_MAX,
)
from commonbrain.domain.memory import CURRENT_STATES, Memory, State
from commonbrain.domain.normalise import normalise_line
from commonbrain.domain.query import Filter
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import Caller, Scope, check_may_write, is_visible
from commonbrain.domain.times import instant
from commonbrain.flows.act import Act
from commonbrain.flows.forget.swept import SHOWN_MAX, Named, Stage, Swept, kinds_of, named, shown
from commonbrain.ports.graph import Way

KEPT_STATES = tuple(sorted(set(State) - {State.FORGOTTEN}))
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
    spared: tuple[Named, ...] = ()
    is_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependents:
    """How many rest on what is swept, and the nearest of them."""

    count: int = 0
    first: tuple[Named, ...] = ()


def preview_of(
    selection: Selection,
    *,
    action: Action,
    dependents: Dependents,
    reason: str | None,
    hint: str,
) -> Swept:
    """Tell what a sweep would do, before it does anything."""
    taken = selection.taken
    return Swept(
        action=action,
        status=Stage.PREVIEW,
        count=len(taken),
        by_kind=kinds_of(taken),
        items=shown([named(one) for one in taken]),
        spared_count=len(selection.spared),
        spared=shown(selection.spared),
        dependents_count=dependents.count,
        dependents=dependents.first,
        is_more=selection.is_more,
        reason=reason,
        hint=hint,
    )


def select(act: Act, given: SelectorFields, *, states: Sequence[State] = ()) -> list[Memory]:
    """Find what a selector matches; ids in their order, everything else the newest first.

    Raises:
        Invalid: nothing was given or what is none, or ids stand beside other conditions.
        NotFound: an id names nothing that the caller may see.
        Refused: `limit_exceeded`, too many ids.

    """
    _check_known(given)
    told = {name: value for name, value in given.items() if value}
    if not told:
        raise Invalid(
            "Nothing says which memories are meant.", hint="Give ids, or agent, tags, since, ..."
        )
    if "ids" not in told:
        return _matching(act, given, states=states)
    if len(told) > 1:
        raise Invalid("ids exclude every other condition.", hint="Give one or the other.")
    wanted = list(dict.fromkeys(ids.parse(ids.MEMORY, id_) for id_ in given.get("ids", ())))
    if len(wanted) > ITEMS_PER_CALL_MAX:
        raise Refused(
            f"{len(wanted)} ids were given; {ITEMS_PER_CALL_MAX} a call are allowed.",
            code="limit_exceeded",
            hint="Send them in several calls.",
        )
    return [act.fetch(id_) for id_ in wanted]


def within_reach(act: Act, found: Sequence[Memory]) -> Selection:
    """Part what the caller may change from what it may not, and bound what one call takes."""
    reasons = [(one, why_not(act.caller, one)) for one in found]
    taken = [one for one, why in reasons if why is None]
    return Selection(
        taken=tuple(taken[:FORGET_AT_ONCE_MAX]),
        spared=tuple(named(one, why) for one, why in reasons if why is not None),
        is_more=len(taken) > FORGET_AT_ONCE_MAX,
    )


def why_not(caller: Caller, memory: Memory) -> str | None:
    """Say what keeps a caller from changing a memory; None when nothing does."""
    try:
        check_may_write(caller, memory.scope)
    except Refused as refusal:
        return refusal.message
    if memory.scope is Scope.PRIVATE and memory.agent != caller.agent:
        # Whoever it was sent to sees it; taken away, it would be gone from all of them.
        return f"Only {memory.agent}, who shared it, may take it from everybody."
    if is_entitled(caller, memory):
        return None
    return f"It is trusted as {memory.trust}, more than the caller."


def resting_on(act: Act, memories: Sequence[Memory], *, fall: Fall = Fall.FORGOTTEN) -> Dependents:
    """Tell what a fall of these would unseat: all that rests on them, as far as it is seen."""
    inside = [one.id for one in memories]
    walk = act.tx.graph.walk(inside, Way.AGAINST, types=carried_by(fall), limit=FORETOLD_MAX)
    standings = act.tx.graph.standings([one.id for one in walk.reached])
    seen = [
        one.id
        for one in walk.reached
        if standings[one.id].state in CURRENT_STATES and is_visible(act.caller, standings[one.id])
    ]
    # Only those that are shown are read: a thousand may rest on one.
    found = act.tx.memories.get(seen[:SHOWN_MAX])
    first = tuple(named(found[id_]) for id_ in seen[:SHOWN_MAX] if id_ in found)
    return Dependents(count=len(seen), first=first)


def _check_known(given: SelectorFields) -> None:
    """Refuse a condition that there is none of: passed over, it would take in everything."""
    unknown = sorted(set(given) - set(SelectorFields.__annotations__))
    if unknown:
        raise Invalid(
            f"There is no {', '.join(unknown)} to select by.",
            hint=f"Choose of {', '.join(SelectorFields.__annotations__)}.",
        )


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Spell names as they are stored; one word is one name, and not its letters."""
    listed = (given,) if isinstance(given, str) else given
    return tuple(normalise_line(name) or "" for name in listed)


def _matching(act: Act, given: SelectorFields, *, states: Sequence[State]) -> list[Memory]:
    since, until, scope = given.get("since"), given.get("until"), given.get("scope")
    wanted = Filter(
        kinds=tuple(one_of(Kind, kind) for kind in _names(given.get("kinds", ()))),
        labels=_names(given.get("labels", ())),
        tags=_names(given.get("tags", ())),
        agent=normalise_line(given.get("agent")),
        session=normalise_line(given.get("session")),
        project=normalise_line(given.get("project")),
        scope=one_of(Scope, scope) if scope else None,
        since=instant(since) if since else None,
        until=instant(until, ends_day=True) if until else None,
        states=tuple(states),
        trust_min=0.0,
    )
    hits = act.tx.memories.newest(act.look(wanted), limit=SCANNED_MAX)
    found = act.tx.memories.get([hit.id for hit in hits])
    ordered = [found[hit.id] for hit in hits]
    # A recall for a project brings what holds for every project too; a sweep must not take that.
    return [one for one in ordered if wanted.project in {None, one.project}]
