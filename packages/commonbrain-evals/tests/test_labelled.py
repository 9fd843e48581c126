import json
from collections import Counter

import pytest
from commonbrain_evals import headlines
from commonbrain_evals.evaluations import EVALUATIONS
from commonbrain_evals.labelled import LabelledReport, show_labelled
from commonbrain_evals.text_rules import (
    CAUSE_FILES,
    TEXT_RULES,
    read_cause_sentences,
    read_guidance_sentences,
    read_statements,
    read_time_expressions,
)
from commonbrain_models.calibration import CalibrationSplit, split_of
from test_eval_duplicates import evals
from typer.testing import CliRunner

from commonbrain.cli.main import app

PRECISION_MIN = 0.85


@pytest.fixture(scope="module")
def causes() -> LabelledReport:
    return TEXT_RULES["atomizer"].evaluate()


@pytest.fixture(scope="module")
def conflicts() -> LabelledReport:
    return TEXT_RULES["conflicts"].evaluate()


@pytest.fixture(scope="module")
def phrases() -> LabelledReport:
    return TEXT_RULES["times"].evaluate()


def test_cause_sentences_are_unique_and_at_least_a_third_are_negative() -> None:
    sentences = read_cause_sentences()
    negatives = [sentence for sentence in sentences if sentence.cause is None]
    assert len(sentences) >= 579
    assert min(Counter(sentence.file for sentence in sentences).values()) >= 279
    assert len(negatives) * 3 >= len(sentences)
    assert len({sentence.text for sentence in sentences}) == len(sentences)
    assert {"temporal", "hypothetical", "negated", "question", "plan", "idiom"} <= {
        negative.sort for negative in negatives
    }
    halves = Counter(split_of(sentence.text) for sentence in sentences)
    assert min(halves.values()) * 3 >= len(sentences)


def test_conflict_pairs_have_enough_of_every_relation() -> None:
    pairs = [one for one in read_statements() if not one.is_reused]
    assert len(pairs) >= 150
    assert min(Counter(pair.label for pair in pairs).values()) >= 30


@pytest.mark.requirement("WP-49")
def test_causes_are_recognized_on_unseen_sentences(causes: LabelledReport) -> None:
    checks = [file for file in causes.files if file.name.endswith(CalibrationSplit.CHECK)]
    assert len(checks) == len(CAUSE_FILES)
    for check in checks:
        assert check.checked.agreement.precision >= 0.9
        assert check.checked.agreement.recall >= 0.7


def test_conflicts_are_recognized_on_unseen_pairs(conflicts: LabelledReport) -> None:
    check = conflicts.halves[list(CalibrationSplit).index(CalibrationSplit.CHECK)].checked
    assert check.agreement.precision >= PRECISION_MIN
    assert check.agreement.recall >= 0.5


def test_time_questions_are_unique_of_every_sort_and_enough_name_no_time() -> None:
    questions = read_time_expressions()
    without = [question for question in questions if question.span is None]
    assert len(questions) - len(without) >= 120
    assert len(without) * 3 >= len(questions) - len(without)
    assert len({question.text for question in questions}) == len(questions)
    assert len({question.now for question in questions}) >= 4
    assert {"bound", "range", "offset", "season", "quarter"} <= {
        question.sort for question in questions
    }


@pytest.mark.requirement("CT-06")
def test_time_phrases_are_read_with_precision_and_recall_of_95_percent(
    phrases: LabelledReport,
) -> None:
    for half in phrases.halves:
        assert half.checked.agreement.precision >= 0.95
        assert half.checked.agreement.recall >= 0.95


def test_every_failure_of_the_half_calibrate_is_printed_and_none_of_the_other(
    causes: LabelledReport,
    conflicts: LabelledReport,
    phrases: LabelledReport,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for report in (causes, conflicts, phrases):
        show_labelled(report)
        printed = " ".join(capsys.readouterr().out.split())
        assert {failure.half for failure in report.failures} == {CalibrationSplit.CALIBRATE}
        for failure in report.failures:
            assert " ".join(failure.text.split()) in printed


def test_headline_texts_are_unique_with_enough_of_every_sort() -> None:
    texts = headlines.read_texts()
    assert len(texts) >= 450
    assert len({text.text for text in texts}) == len(texts)
    assert min(Counter(text.sort for text in texts).values()) >= 5
    assert min(Counter(text.half for text in texts).values()) * 3 >= len(texts)
    assert all(text.must for text in texts)


def test_four_of_five_headlines_say_the_point_of_the_texts_that_the_weights_were_fitted_to() -> (
    None
):
    [notes] = [
        figure
        for figure in headlines.evaluate(headlines.read_texts()).figures
        if (figure["half"], figure["sort"]) == (CalibrationSplit.CALIBRATE, "notes")
    ]
    assert notes["strict"] >= 0.8
    assert notes["words"] <= 15


def test_whole_text_as_headline_says_everything_but_is_too_long_and_says_what_it_must_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = headlines.read_texts()
    report = headlines.evaluate(texts, lambda text: " ".join(text.split()))
    notes = [row for row in report.rows if row.sort == "notes"]
    assert not any(note.missing for note in notes)
    assert all(note.is_too_long and note.unwanted and not note.is_strict for note in notes)
    headlines.show_headlines(report)
    printed = " ".join(capsys.readouterr().out.split())
    assert "is too long" in printed
    for note in notes:
        assert (" ".join(repr(note.text).split()) in printed) == (
            note.half is CalibrationSplit.CALIBRATE
        )


def test_headlines_json_has_one_row_per_text_and_the_hash_of_the_data() -> None:
    ran = CliRunner().invoke(app, ["eval", "headlines", "--json"])
    assert ran.exit_code == 0, ran.output
    report = json.loads(ran.stdout)
    assert len(report["rows"]) == len(headlines.read_texts())
    assert len(report["sha256"]) == 64


def test_preference_sentences_are_unique_with_enough_of_every_label() -> None:
    sentences = read_guidance_sentences()
    assert len(sentences) >= 150
    assert len({sentence.text for sentence in sentences}) == len(sentences)
    assert min(Counter(sentence.label for sentence in sentences).values()) >= 40
    assert min(Counter(split_of(sentence.text) for sentence in sentences).values()) * 3 >= len(
        sentences
    )


def test_instructions_and_preferences_are_distinguished_from_other_text() -> None:
    report = TEXT_RULES["preferences"].evaluate()
    for half in report.halves:
        assert half.checked.agreement.precision >= 0.9
        assert half.checked.agreement.recall >= 0.8


def test_turns_are_captured_without_their_quotations() -> None:
    report = TEXT_RULES["captures"].evaluate()
    for half in report.halves:
        assert half.checked.agreement.precision >= 0.85
        assert half.checked.agreement.recall >= 0.6


def test_json_output_contains_figures_and_failures(subtests: pytest.Subtests) -> None:
    for name in ["atomizer", "captures", "conflicts", "preferences", "times"]:
        with subtests.test(name=name):
            ran = CliRunner().invoke(app, ["eval", name, "--json"])
            assert ran.exit_code == 0, ran.output
            report = json.loads(ran.stdout)
            assert {"halves", "sorts", "failures", "data"} <= set(report)


def test_unknown_evaluation_is_refused_and_help_lists_the_known() -> None:
    ran = evals("nothing")
    assert ran.returncode != 0
    assert "nothing" in ran.stderr
    listed = CliRunner().invoke(app, ["eval", "--help"]).stdout
    assert all(name in listed for name in EVALUATIONS)
