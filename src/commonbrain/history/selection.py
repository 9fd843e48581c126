"""What a sweep over several memories answers: first what it would do, then what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, TypedDict

from commonbrain.history.unit_of_work import Act
from commonbrain.invalidation.preview import Unseated
from commonbrain.invalidation.propagation import follow_up
from commonbrain.model import ids
from commonbrain.model.errors import Invalid, Refused, one_of
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
from commonbrain.model.support import Fall, carried_by
from commonbrain.retrieval.get import FORGOTTEN
from commonbrain.security.authority import is_entitled
from commonbrain.services import House
from commonbrain.storage.knowledge import Way
from commonbrain.text.normalisation import normalise_line
from commonbrain.text.time_expressions.parser import moment_of

SHOWN_MAX: Final = 20
"""Of each list: enough to see whether the selector means what it says."""


class Stage(StrEnum):
    """How far a sweep came."""

    PREVIEW = "preview"
    """Nothing was done: it waits for the call to repeat with `confirm`."""
    DRY_RUN = "dry_run"
    """Nothing was done, for no more was asked for."""
    DONE = "done"
    UNCHANGED = "unchanged"
    PROPOSED = "proposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A memory that a sweep is about; `why` says what keeps it from being one of them."""

    id: str
    headline: str
    why: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """What was done to how many memories, or would be once the call repeats with `confirm`.

    Lists hold the first twenty; `count`, `spared_count` and `by_kind` count all. `is_more` says
    that the selector matches more than one call takes.
    """

    action: Action
    status: Stage
    count: int = 0
    by_kind: Mapping[Kind, int] = field(default_factory=dict[Kind, int])
    items: tuple[Named, ...] = ()
    spared_count: int = 0
    spared: tuple[Named, ...] = ()
    dependents_count: int = 0
    """Memories outside the sweep that derive from or depend on one inside."""
    dependents: tuple[Named, ...] = ()
    unseated: Unseated | None = None
    """What rested on what was taken away, and needs review now."""
    is_more: bool = False
    receipt: Mapping[str, int] = field(default_factory=dict[str, int])
    """After an erase: every place that was looked at, and how many rows were emptied there."""
    reason: str | None = None
    hint: str | None = None


def named(memory: Memory, why: str | None = None) -> Named:
    """Name a memory; no word of a forgotten one is shown again."""
    headline = FORGOTTEN if memory.state is State.FORGOTTEN else memory.headline
    return Named(id=ids.show(ids.MEMORY, memory.id), headline=headline, why=why)


def shown(found: Sequence[Named]) -> tuple[Named, ...]:
    """Give the first of a list."""
    return tuple(found[:SHOWN_MAX])


def kinds_of(memories: Sequence[Memory]) -> Mapping[Kind, int]:
    """Count memories by kind."""
    return dict(Counter(one.kind for one in memories))


def how_confirmed(count: int, confirm: int | None) -> str:
    """Say how a preview becomes a deed."""
    moved = "" if confirm is None else f"It was {confirm} when previewed. "
    return f"{moved}Nothing is changed yet: repeat the call with confirm={count}."


def followed_up(house: House, caller: Caller, *, done: Swept) -> Swept:
    """Go on where a large fan was cut; the sweep itself is durable by now."""
    follow_up(house, caller)
    return done


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
        since=moment_of(since, act.now) if since else None,
        until=moment_of(until, act.now, ends=True) if until else None,
        states=tuple(states),
        trust_min=0.0,
    )
    hits = act.tx.memories.newest(act.look(wanted), limit=SCANNED_MAX)
    found = act.tx.memories.get([hit.id for hit in hits])
    ordered = [found[hit.id] for hit in hits]
    # A recall for a project brings what holds for every project too; a sweep must not take that.
    return [one for one in ordered if wanted.project in {None, one.project}]
