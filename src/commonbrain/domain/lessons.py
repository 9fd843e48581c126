"""Lessons: what one recall teaches, by what became of each memory that it showed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from commonbrain.domain.ledger import Mark

GRADES: Final[Mapping[Mark, int]] = {Mark.USEFUL: 3, Mark.USED: 2}
"""How good an answer it was; what somebody said weighs more than what somebody did."""
UNMARKED: Final = 1
"""Shown beside something that was used, and left: not wrong, for all that is known."""
WRONG: Final = 0
"""It misled, whatever else was done with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One memory that a recall packed: what was known of it, and how good it turned out to be."""

    memory_id: int
    features: Mapping[str, float]
    grade: int
    """0 to 3, the best highest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One recall of which something is known: what it packed, graded."""

    trace_id: int
    asked_at: datetime
    group: str
    """The session it was asked in, or the agent and the day where there was none."""
    shown: tuple[Shown, ...]
    """As they were packed, best first."""
