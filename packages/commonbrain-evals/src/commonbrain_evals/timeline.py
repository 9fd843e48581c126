"""Questions of time: whether recall answers them with the memories of that time.

`brain eval times` measures how a time expression is parsed; this measures what recall then returns.
Notes of two months are remembered as the clock moves, and asked about on the last day: by a time
alone, by a topic and a time, and as a timeline of what happened several times in the same words.
"""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from commonbrain_models.calibration import CalibrationSplit, split_of
from rich.console import Console
from rich.table import Table

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Embedder
from commonbrain.model.recall_result import Item, ResultStatus
from commonbrain.storage.interface import Progress, ignore_progress
from commonbrain.testing.builders import FakeClock, a_brain
from commonbrain_evals.rows import read_rows

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

    key: str
    """Empty if no question asks for it."""
    kind: str
    text: str
    at: datetime
    occurred_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineQuestion:
    """A question and what answers it."""

    sort: str
    half: CalibrationSplit
    text: str
    options: Mapping[str, Any]
    """Options of recall: filters, `as_of`, `order`."""
    period: tuple[datetime, datetime] | None
    """Of a question for a time alone: the time that all items must be of, without its end."""
    gold: str | None
    """Key of the note that must come first."""
    shown: tuple[str, ...]
    """Keys of the notes that a timeline must have, each with its date."""


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
    figures: tuple[Mapping[str, object], ...]


def read_notes() -> Sequence[TimelineNote]:
    """Read the notes that ship with the package, in the order of time."""
    return [
        TimelineNote(
            key=row.get("key", ""),
            kind=row["kind"],
            text=row["text"],
            at=_utc(row["at"]),
            occurred_at=_utc(row["occurred_at"]) if "occurred_at" in row else None,
        )
        for row in read_rows(_NOTES)
    ]


def read_questions() -> Sequence[TimelineQuestion]:
    """Read the questions that ship with the package."""
    return [
        TimelineQuestion(
            sort=row["sort"],
            half=split_of(row["text"]),
            text=row["text"],
            options=row.get("options", {}),
            period=(_utc(row["since"]), _utc(row["until"])) if "since" in row else None,
            gold=row.get("gold"),
            shown=tuple(row.get("shown", ())),
        )
        for row in read_rows(_QUESTIONS)
    ]


def evaluate(
    questions: Sequence[TimelineQuestion],
    embedder: Embedder,
    *,
    notes: Sequence[TimelineNote],
    on_progress: Progress = ignore_progress,
) -> TimelineReport:
    """Remember the notes at their times in a store of its own, then ask."""
    with tempfile.TemporaryDirectory() as folder:
        clock = FakeClock(notes[0].at)
        with a_brain(Path(folder) / "brain.db", clock=clock, embedder=embedder) as brain:
            for number, note in enumerate(notes):
                _move_to(clock, note.at)
                brain.remember(note.text, kind=note.kind, occurred_at=note.occurred_at)
                on_progress(number / len(notes))
            _move_to(clock, _NOW)
            known = {note.key: note for note in notes}
            rows = [_ask(brain, question, notes=known) for question in questions]
    on_progress(1.0)
    content = [files("commonbrain_evals").joinpath(name) for name in (_QUESTIONS, _NOTES)]
    return TimelineReport(
        data=_DATA.format(questions=len(questions), notes=len(notes)),
        sha256=hashlib.sha256(b"".join(one.read_bytes() for one in content)).hexdigest(),
        rows=tuple(rows),
        figures=tuple(_figures(rows)),
    )


def _move_to(clock: FakeClock, time: datetime) -> None:
    clock.move(max(time - clock.now(), timedelta(seconds=1)))


def _ask(
    brain: Brain, question: TimelineQuestion, *, notes: Mapping[str, TimelineNote]
) -> TimelineQuestionResult:
    answer = brain.recall(question.text, bump=False, **question.options)
    if question.period is not None:
        since, until = question.period
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


def _figures(rows: Sequence[TimelineQuestionResult]) -> Iterator[Mapping[str, object]]:
    for half in CalibrationSplit:
        for sort in dict.fromkeys(row.sort for row in rows):
            right = [row.is_right for row in rows if row.half is half and row.sort == sort]
            if right:
                share = sum(right) / len(right)
                yield {"half": str(half), "sort": sort, "questions": len(right), "right": share}


def show_timeline(report: TimelineReport) -> None:
    """Print the figures, and the failures of the half calibrate with their first items."""
    table = Table("half", "sort", "questions", "right", title="Timeline")
    for row in report.figures:
        right = f"{100 * float(str(row['right'])):.0f}%"
        table.add_row(str(row["half"]), str(row["sort"]), str(row["questions"]), right)
    console = Console(highlight=False)
    console.print(table)
    for row in report.rows:
        if row.half is CalibrationSplit.CALIBRATE and not row.is_right:
            first = " / ".join(row.items[:3]) or "nothing"
            console.print(f"{row.sort}: {row.question} [{first}]", markup=False)
    console.print(report.data, markup=False, style="dim")


def _utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
