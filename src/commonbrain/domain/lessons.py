"""Lessons: what one recall teaches, by what became of each memory that it showed.

Only what was shown could be marked. What stayed out of an answer was neither good nor bad, for
all that is known, so it is no part of its lesson: whoever took it for bad would teach a model to
repeat the order that kept it out. What lifts it is the sum of weights that a model starts from.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from commonbrain.domain.ledger import Entry, Extent, Mark, Weighed
from commonbrain.domain.outcomes import BY_WEIGHTS

UNMARKED: Final = 1
"""Shown beside something that was marked, and left."""
WRONG: Final = 0
"""It misled, whatever else was done with it."""
GRADES: Final[Mapping[Mark, int]] = {Mark.USED: 2, Mark.USEFUL: 3, Mark.WRONG: WRONG}
"""How good an answer each mark says it was: what somebody said tells more than what was done."""
GOOD_FROM: Final = GRADES[Mark.USED]
_SAID: Final = frozenset({Mark.USEFUL, Mark.WRONG})
"""Marks that somebody set, having seen all that was shown."""


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
    """Read a lesson from a recall; None where what it showed is not told apart by its marks."""
    packed = frozenset(entry.packed)
    shown = [one for one in entry.considered if one.memory_id in packed]
    tells_of_read = _tells_of_read(entry, shown)
    graded = tuple(
        Shown(memory_id=one.memory_id, features=_known(one), grade=_grade(_marks(entry, one)))
        for one in shown
        if _marks(entry, one) or _is_judged(one, tells_of_read=tells_of_read)
    )
    if len({one.grade for one in graded}) < 2:  # noqa: PLR2004 one grade alone orders nothing
        return None
    return Lesson(
        trace_id=entry.id,
        asked_at=entry.asked_at,
        group=entry.session or f"{entry.agent} {entry.asked_at:%Y-%m-%d}",
        shown=graded,
    )


def _known(one: Weighed) -> Mapping[str, float]:
    """Give what a model would be told; the score that it took the place of is not."""
    return {name: value for name, value in one.features.items() if name != BY_WEIGHTS}


def _marks(entry: Entry, one: Weighed) -> Collection[Mark]:
    return entry.marks.get(one.memory_id, frozenset())


def _is_judged(one: Weighed, *, tells_of_read: bool) -> bool:
    """Say whether that it was left tells anything: of a bare id nobody knows what it holds."""
    if one.shown is Extent.BARE:
        return False
    return tells_of_read or one.shown is not Extent.WHOLE


def _tells_of_read(entry: Entry, shown: Sequence[Weighed]) -> bool:
    """Say whether the marks tell anything of what was read within the answer itself.

    Who fetches a body leaves a mark; who was shown the whole of it uses it and leaves none. So a
    memory that was merely fetched is held against those of which as little was shown.
    """
    return any(
        one.shown is Extent.WHOLE or not _SAID.isdisjoint(marks)
        for one in shown
        if (marks := _marks(entry, one))
    )


def _grade(marks: Collection[Mark]) -> int:
    if Mark.WRONG in marks:
        return WRONG
    return max((GRADES[mark] for mark in marks), default=UNMARKED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Lessons parted by time and by session: what is judged is newer than all that is learnt."""

    learnt: tuple[Lesson, ...]
    held: tuple[Lesson, ...]
    since: datetime
    """Where one part ends and the other begins."""


_ORIGINS: Final = (0.4, 0.6, 0.8)
"""After these shares of the lessons it is asked how what was learnt until then fares next."""


def splits(lessons: Sequence[Lesson]) -> tuple[Split, ...]:
    """Part lessons, the oldest first, at three moments, each judged on until the next.

    So each lesson past the first moment is judged once, by what knew only older ones (rolling
    origin; Tashman 2000). A session that goes on past a moment is no part of what is learnt there.
    """
    if not lessons:
        return ()
    moments = [lessons[int(len(lessons) * share)].asked_at for share in _ORIGINS]
    ends = [*moments[1:], None]
    return tuple(
        _split(lessons, since=since, until=until)
        for since, until in zip(moments, ends, strict=True)
    )


def _split(lessons: Sequence[Lesson], *, since: datetime, until: datetime | None) -> Split:
    late = {lesson.group for lesson in lessons if lesson.asked_at >= since}
    return Split(
        learnt=tuple(one for one in lessons if one.group not in late),
        held=tuple(
            one
            for one in lessons
            if one.asked_at >= since and (until is None or one.asked_at < until)
        ),
        since=since,
    )
