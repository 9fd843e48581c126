"""The edits of `brain eval citations` are sound, and what becomes of cited code is judged right."""

from collections import Counter

from commonbrain_evals.citations import evaluate, read_edits
from commonbrain_models.calibration import CalibrationSplit


def test_both_halves_have_edits_of_each_language_and_outcome() -> None:
    files, edits = read_edits()

    assert len(edits) >= 60
    assert len({edit.language for edit in edits}) == 5
    for half in CalibrationSplit:
        counts = Counter(edit.verdict for edit in edits if edit.half is half)
        assert len(counts) == 4
        assert min(counts.values()) >= 6
    assert all(edit.cite.split(":")[0].split("#")[0] in files for edit in edits)


def test_what_became_of_cited_code_is_judged_right() -> None:
    report = evaluate(*read_edits())

    for figure in report.figures[:2]:
        assert figure["right"] >= 0.98, figure
