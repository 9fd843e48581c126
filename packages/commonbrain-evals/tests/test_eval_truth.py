"""The cases of `brain eval truth` are sound, and a few of them are judged as labelled."""

from collections import Counter

from commonbrain_evals.truth import CHANGES, HOLDS, evaluate, read_cases
from commonbrain_models.calibration import CalibrationSplit

from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings


def test_every_label_refers_to_a_text_of_its_case() -> None:
    cases = read_cases()
    assert len(cases) >= 500
    for case in cases:
        assert len(case.texts) >= 2
        assert sorted(case.times) == list(case.times)
        assert all(right < len(case.texts) for right in case.right)
        is_of_changes = case.sort in CHANGES and case.changed is None
        assert is_of_changes <= (case.right == {len(case.texts) - 1})
        assert (case.sort in HOLDS) <= (case.changed is None)


def test_halves_of_every_sort_are_similar_in_size_and_no_question_repeats() -> None:
    cases = read_cases()
    sorts = Counter((case.sort, case.half) for case in cases)
    for sort in {case.sort for case in cases} - {*HOLDS}:
        counts = [sorts[sort, half] for half in CalibrationSplit]
        assert min(counts) >= 0.3 * sum(counts), sort
    questions = [case.question for case in cases if case.question is not None]
    assert len(set(questions)) >= 0.98 * len(questions)


def test_changes_are_shown_with_what_they_changed_and_valid_memories_are_unmarked() -> None:
    chosen = [case for case in read_cases() if case.sort in {"change_quoted", "mention"}]
    report = evaluate(chosen[::2], make_embedder(load_settings()))
    changes = [row.is_in_three for row in report.rows if row.sort == "change_quoted"]
    assert sum(map(bool, changes)) > len(changes) / 2
    others = [row.is_outdated for row in report.rows if row.sort == "mention"]
    assert sum(others) < len(others) / 20
    assert report.figures
