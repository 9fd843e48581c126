"""What a sweep over several memories answers: first what it would do, then what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from commonbrain.domain import ids
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import Memory, State
from commonbrain.domain.revision import Action
from commonbrain.domain.scope import Caller
from commonbrain.flows.cascade.spread import follow_up
from commonbrain.flows.cascade.telling import Unseated
from commonbrain.flows.get import FORGOTTEN
from commonbrain.flows.house import House

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
