"""The ledger: what recalls considered and packed, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final


class Mark(StrEnum):
    """What was told of a memory that a recall had packed."""

    USED = "used"
    """Its body was fetched, or something was built on it."""
    USEFUL = "useful"
    """Somebody said that it helped."""
    WRONG = "wrong"
    """Somebody said that it misled."""


MARKED_WITHIN: Final = timedelta(hours=1)
"""What is done with a memory later than that is not the doing of the recall that showed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """One mark on one memory of one recall."""

    trace_id: int
    memory_id: int
    mark: Mark
    agent: str
    session: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighed:
    """A candidate as its trace holds it; a feature that was 0 is left out."""

    memory_id: int
    score: float
    features: Mapping[str, float]
    left_out: str | None
    """Why it is not in the answer; None where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One recall as the ledger holds it."""

    id: int
    asked_at: datetime
    agent: str
    session: str | None
    query: str
    """Empty where an erase has reached it."""
    verdict: str
    ranker: int | None
    """The model that ordered its candidates; None where fixed weights did."""
    considered: tuple[Weighed, ...]
    """Best first, as they were ordered then."""
    packed: tuple[int, ...]
    degraded: tuple[str, ...]
    stages_ms: Mapping[str, float]
    marks: Mapping[int, frozenset[Mark]]
    """By memory; those without one are absent."""
