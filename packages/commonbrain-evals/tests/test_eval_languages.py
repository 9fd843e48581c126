"""The questions of `brain eval languages` are sound; a name in a foreign text is found."""

from collections import Counter

import pytest
from commonbrain_evals import languages
from commonbrain_evals.languages import LanguageReport, QuestionSort
from commonbrain_models.calibration import CalibrationSplit

from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings

SOME = ("ru", "ja")


@pytest.fixture(scope="module")
def report() -> LanguageReport:
    notes, questions = languages.read_languages()
    some = [question for question in questions if question.language in SOME]
    return languages.evaluate(notes, some, embedder=make_embedder(load_settings()))


@pytest.mark.requirement("EV-13")
def test_every_language_has_notes_and_questions_in_both_halves() -> None:
    notes, questions = languages.read_languages()
    of_notes = Counter(note.language for note in notes)
    of_questions = Counter(question.language for question in questions)
    assert len(of_notes) > 10
    assert set(of_notes.values()) == {40}
    assert of_questions == dict.fromkeys(of_notes, 60)
    assert len({note.text for note in notes}) == len(notes)
    halves = Counter((question.sort, question.half) for question in questions)
    for sort in QuestionSort:
        assert halves[sort, CalibrationSplit.CHECK] >= 80, sort


def test_question_is_answered_by_a_note_of_its_language_or_an_english_one() -> None:
    notes, questions = languages.read_languages()
    known = {note.id: note.language for note in notes}
    for question in questions:
        expected = "en" if question.sort is QuestionSort.ACROSS else question.language
        assert known[question.expects] == expected, question.text


def test_name_inside_a_text_of_another_script_is_found(report: LanguageReport) -> None:
    named = [
        row.recall
        for row in report.rows
        if row.sort is QuestionSort.NAMES and row.half is CalibrationSplit.CHECK
    ]
    assert sum(place is not None and place <= 3 for place in named) >= 0.9 * len(named)


def test_questions_of_the_half_check_are_not_shown(report: LanguageReport) -> None:
    assert {row.text for row in report.rows if row.half is CalibrationSplit.CHECK} == {None}
