"""Questions of time: whether recall answers them with the memories of that time.

`brain eval times` measures how a time expression is parsed; this measures what recall then returns.
Notes of two months are remembered as the clock moves, and asked about on the last day: by a time
alone, by a topic and a time, and as a timeline of what happened several times in the same words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from commonbrain_models.calibration import CalibrationSplit, split_of

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.model.recall_result import Item, ResultStatus
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock
from commonbrain_evals.labelled import (
    Figure,
    advance,
    digest_of,
    group_rows,
    open_scratch_brain,
    read_rows,
    share,
    show_figures,
    show_lines,
)
from commonbrain_evals.retrieval.data_files import UtcTime

_NOTES: Final = "timeline_notes.jsonl"
_QUESTIONS: Final = "timeline.jsonl"
_DATA: Final = (
    "timeline.jsonl: {questions} questions to {notes} notes of several kinds over 60 days, written"
    " for it by one hand. A question for a time alone is right if there are items, all of that"
    " time; for a time without notes, if there are none; for a topic and a time, if the right note"
    " comes first; of what happened several times in the same words, if the timeline has every"
    " date. The halves share the notes."
)
_NOW: Final = datetime(2026, 3, 18, 15, 30, tzinfo=UTC)
"""When the questions are asked: a Wednesday afternoon, after the last note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineNote:
    """A text, when it is remembered, and when it happened if that was earlier."""

    key: str = ""
    """Empty if no question asks for it."""
    kind: str
    text: str
    at: UtcTime
    occurred_at: UtcTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineQuestion:
    """A question and what answers it."""

    sort: str
    text: str
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Options of recall: filters, `as_of`, `order`."""
    since: UtcTime | None = None
    """Of a question for a time alone: the begin of the time that all items must be of."""
    until: UtcTime | None = None
    """The end of that time, which does not belong to it."""
    gold: str | None = None
    """Key of the note that must come first."""
    shown: tuple[str, ...] = ()
    """Keys of the notes that a timeline must have, each with its date."""

    @property
    def half(self) -> CalibrationSplit:
        """The half that it belongs to."""
        return split_of(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineQuestionResult:
    """The items of one question, and whether they are right."""

    sort: str
    half: CalibrationSplit
    question: str
    is_right: bool
    items: tuple[str, ...]
    """Day and text of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineReport:
    """The whole evaluation, one row per question."""

    data: str
    sha256: str
    """Of the questions and the notes."""
    rows: tuple[TimelineQuestionResult, ...]
    figures: tuple[Figure, ...]


def read_notes() -> Sequence[TimelineNote]:
    """Read the notes that ship with the package, in the order of time."""
    return read_rows(TimelineNote, _NOTES)


def read_questions() -> Sequence[TimelineQuestion]:
    """Read the questions that ship with the package."""
    return read_rows(TimelineQuestion, _QUESTIONS)


def evaluate(
    questions: Sequence[TimelineQuestion],
    embedder: Embedder,
    *,
    notes: Sequence[TimelineNote],
    on_progress: Progress = ignore_progress,
) -> TimelineReport:
    """Remember the notes at their times in a store of its own, then ask."""
    clock = FakeClock(notes[0].at)
    with open_scratch_brain(embedder, clock) as brain:
        for number, note in enumerate(notes):
            advance(clock, note.at)
            brain.remember(note.text, kind=note.kind, occurred_at=note.occurred_at)
            on_progress(number / len(notes))
        advance(clock, _NOW)
        by_key = {note.key: note for note in notes}
        rows = [_ask(brain, question, notes=by_key) for question in questions]
    on_progress(1.0)
    return TimelineReport(
        data=_DATA.format(questions=len(questions), notes=len(notes)),
        sha256=digest_of(_QUESTIONS, _NOTES),
        rows=tuple(rows),
        figures=tuple(
            {**names, "questions": len(group), "right": share(row.is_right for row in group)}
            for names, group in group_rows(rows)
        ),
    )


def _ask(
    brain: Brain, question: TimelineQuestion, *, notes: Mapping[str, TimelineNote]
) -> TimelineQuestionResult:
    answer = brain.recall(question.text, bump=False, **question.options)
    since, until = question.since, question.until
    if since is not None and until is not None:
        is_right = answer.items != () and all(
            since <= item.occurred_at < until for item in answer.items
        )
    elif question.gold is not None:
        is_right = answer.items != () and _is_of(answer.items[0], notes[question.gold])
    elif question.shown:
        is_right = all(
            any(_is_of(item, notes[key]) for item in answer.items) for key in question.shown
        )
    else:
        is_right = answer.items == () and answer.verdict is not ResultStatus.FOUND
    return TimelineQuestionResult(
        sort=question.sort,
        half=question.half,
        question=question.text,
        is_right=is_right,
        items=tuple(f"{item.occurred_at:%Y-%m-%d} {item.shown_text}" for item in answer.items),
    )


def _is_of(item: Item, note: TimelineNote) -> bool:
    day = (note.occurred_at or note.at).date()
    return item.shown_text == note.text and item.occurred_at.date() == day


def show_timeline(report: TimelineReport) -> None:
    """Print the figures, and the failures of the half calibrate with their first items."""
    show_figures("Timeline", report.figures, columns=("half", "sort", "questions", "right"))
    show_lines(
        f"{row.sort}: {row.question} [{' / '.join(row.items[:3]) or 'nothing'}]"
        for row in report.rows
        if row.half is CalibrationSplit.CALIBRATE and not row.is_right
    )
    show_lines([report.data])
