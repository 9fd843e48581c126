"""What is asked of the memory: filter and budget in, candidates considered, and the trace kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from commonbrain.domain import limits
from commonbrain.domain.errors import Refused
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import CURRENT_STATES, Memory, State
from commonbrain.domain.recollection import Verdict
from commonbrain.domain.scope import Caller, is_visible

TRUST_MIN_DEFAULT: Final = 0.5
"""Leaves untrusted web content (0.35) out unless it is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which memories may answer at all; an empty tuple or None leaves that side open."""

    kinds: tuple[Kind, ...] = ()
    labels: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    project: str | None = None
    """This project and what belongs to every project."""
    agent: str | None = None
    since: datetime | None = None
    """Occurred at or after."""
    until: datetime | None = None
    """Occurred at or before."""
    as_of: datetime | None = None
    """Answer with what was believed then, the later superseded included."""
    trust_min: float = TRUST_MIN_DEFAULT
    min_confidence: float = 0.0

    def __post_init__(self) -> None:
        """Keep both fractions within 0..1.

        Raises:
            Refused: `limit_exceeded`, one of them is out of bounds.

        """
        _check_bounds("trust_min", self.trust_min, low=0, high=1)
        _check_bounds("min_confidence", self.min_confidence, low=0, high=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much an answer may take: items, and tokens of its evidence as rendered for agents."""

    max_items: int = limits.RECALL_ITEMS_DEFAULT
    max_tokens: int = limits.RECALL_TOKENS_DEFAULT

    def __post_init__(self) -> None:
        """Keep both within their limits.

        Raises:
            Refused: `limit_exceeded`, one of them is out of bounds.

        """
        _check_bounds("max_items", self.max_items, low=1, high=limits.RECALL_ITEMS_MAX)
        _check_bounds(
            "max_tokens",
            self.max_tokens,
            low=limits.RECALL_TOKENS_MIN,
            high=limits.RECALL_TOKENS_MAX,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A memory that may answer, with what speaks for it; `score` orders candidates of one query."""

    memory: Memory
    features: Mapping[str, float]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """What one recall considered and packed: the ledger that later training reads."""

    id: int
    caller: Caller
    asked_at: datetime
    query: str
    verdict: Verdict
    considered: tuple[Candidate, ...]
    packed: tuple[int, ...]
    degraded: tuple[str, ...]
    stages_ms: Mapping[str, float]


def is_allowed(memory: Memory, caller: Caller, *, wanted: Filter, now: datetime) -> bool:
    """Apply every policy and filter to one candidate, whatever arm brought it."""
    return (
        is_visible(caller, memory)
        and _was_believed(memory, wanted.as_of, now=now)
        and memory.trust.weight >= wanted.trust_min
        and memory.confidence >= wanted.min_confidence
        and _matches(memory, wanted)
    )


def _matches(memory: Memory, wanted: Filter) -> bool:
    return (
        (not wanted.kinds or memory.kind in wanted.kinds)
        and (not wanted.labels or memory.label in wanted.labels)
        and set(wanted.tags) <= set(memory.tags)
        and (wanted.project is None or memory.project in {None, wanted.project})
        and (wanted.agent is None or memory.agent == wanted.agent)
        and (wanted.since is None or memory.occurred_at >= wanted.since)
        and (wanted.until is None or memory.occurred_at <= wanted.until)
    )


def _was_believed(memory: Memory, as_of: datetime | None, *, now: datetime) -> bool:
    moment = as_of or now
    if memory.expires_at is not None and memory.expires_at <= moment:
        return False
    if as_of is None:
        return memory.state in CURRENT_STATES
    is_later = memory.superseded_at is None or memory.superseded_at > as_of
    known = memory.state in CURRENT_STATES or (memory.state is State.SUPERSEDED and is_later)
    return known and is_later and memory.recorded_at <= as_of


def _check_bounds(name: str, given: float, *, low: int, high: int) -> None:
    if not low <= given <= high:
        raise Refused(
            f"{name} is {given}; {low} to {high} is allowed.",
            code="limit_exceeded",
            hint="Ask for less and recall again with a narrower query.",
        )
