"""Lessons: what one recall teaches, by what became of each memory that it showed.

Only what was shown could be marked. What stayed out of an answer was neither good nor bad, for
all that is known, so it is no part of its lesson: whoever took it for bad would teach a model to
repeat the order that kept it out. What lifts it is the sum of weights that a model starts from.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from commonbrain.domain.ledger import Entry, Mark

UNMARKED: Final = 1
"""Shown beside something that was marked, and left."""
WRONG: Final = 0
"""It misled, whatever else was done with it."""
GRADES: Final[Mapping[Mark, int]] = {Mark.USED: 2, Mark.USEFUL: 3, Mark.WRONG: WRONG}
"""How good an answer each mark says it was: what somebody said tells more than what was done."""
GOOD_FROM: Final = GRADES[Mark.USED]


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One memory that a recall packed: what was known of it, and how good it turned out to be."""

    memory_id: int
    features: Mapping[str, float]
    grade: int
    """0 to 3, the best highest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """One recall of which something is known: what it packed, each graded."""

    trace_id: int
    asked_at: datetime
    group: str
    """The session it was asked in; without one, the agent and the day."""
    shown: tuple[Shown, ...]
    """As they were ordered, best first."""

    @property
    def has_good(self) -> bool:
        """Whether anything of it was good, so that an order can be judged by it."""
        return any(one.grade >= GOOD_FROM for one in self.shown)


def lesson_of(entry: Entry) -> Lesson | None:
    """Read a lesson from a recall; None where it packed too little, or nothing to tell apart."""
    packed = frozenset(entry.packed)
    shown = tuple(
        Shown(
            memory_id=one.memory_id,
            features=one.features,
            grade=_grade(entry.marks.get(one.memory_id, frozenset())),
        )
        for one in entry.considered
        if one.memory_id in packed
    )
    if len({one.grade for one in shown}) < 2:  # noqa: PLR2004 one grade alone orders nothing
        return None
    return Lesson(
        trace_id=entry.id,
        asked_at=entry.asked_at,
        group=entry.session or f"{entry.agent} {entry.asked_at:%Y-%m-%d}",
        shown=shown,
    )


def _grade(marks: Collection[Mark]) -> int:
    if Mark.WRONG in marks:
        return WRONG
    return max((GRADES[mark] for mark in marks), default=UNMARKED)
