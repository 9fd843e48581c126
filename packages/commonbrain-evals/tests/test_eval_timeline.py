"""The questions of `brain eval timeline` are sound, and nearly all are answered by their time."""

from collections import Counter

import pytest
from commonbrain_evals.timeline import (
    TimelineReport,
    evaluate,
    read_notes,
    read_questions,
    show_timeline,
)
from commonbrain_models.calibration import CalibrationSplit

from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings


@pytest.fixture(scope="module")
def report() -> TimelineReport:
    return evaluate(read_questions(), make_embedder(load_settings()), notes=read_notes())


def test_every_label_refers_to_a_note() -> None:
    notes, questions = read_notes(), read_questions()
    times = {note.key: note.occurred_at or note.at for note in notes}
    every = [note.occurred_at or note.at for note in notes]
    assert len(questions) >= 100
    assert [note.at for note in notes] == sorted(note.at for note in notes)
    assert {question.gold for question in questions} - {None} <= set(times)
    assert {key for question in questions for key in question.shown} <= set(times)
    for question in questions:
        since, until = question.since, question.until
        if since is not None and until is not None:
            assert any(since <= at < until for at in every), question.text
    halves = Counter(question.half for question in questions)
    assert min(halves.values()) * 3 >= len(questions)


def test_question_with_only_a_time_is_answered_from_that_time(report: TimelineReport) -> None:
    categories = {"alone", "alone, vague words", "alone, with filters", "nothing then"}
    right = [
        row.is_right
        for row in report.rows
        if row.sort in categories and row.half is CalibrationSplit.CHECK
    ]
    assert sum(right) >= 0.9 * len(right)


def test_memory_of_the_named_time_ranks_first_and_timelines_are_complete(
    report: TimelineReport,
) -> None:
    categories = {"topic and time", "same words, timeline"}
    right = [
        row.is_right
        for row in report.rows
        if row.sort in categories and row.half is CalibrationSplit.CHECK
    ]
    assert sum(right) >= 0.9 * len(right)


def test_timeline_figures_and_failures_are_printed(
    report: TimelineReport, capsys: pytest.CaptureFixture[str]
) -> None:
    show_timeline(report)
    shown = capsys.readouterr().out
    assert "topic and time" in shown
    assert report.data[:40] in shown.replace("\n", " ")
