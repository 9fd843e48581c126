import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest
from commonbrain_evals.duplicates import DuplicatesReport, draw_curves, evaluate, show_duplicates
from commonbrain_models.calibration import CalibrationSplit, Label, Pair, read_pairs
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.embeddings.local import MiniLmEmbedder
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.kinds import Kind
from commonbrain.testing.builders import WordHashEmbedder

BETWEEN_MACHINES = 0.03
"""Processors round the model's sums differently, by up to 0.01 of cosine a text."""


@pytest.fixture(scope="module")
def report() -> DuplicatesReport:
    return evaluate(read_pairs(), MiniLmEmbedder())


def test_pairs_are_unique_with_enough_of_every_label() -> None:
    pairs = read_pairs()
    assert len(pairs) >= 240
    assert len({(pair.one, pair.other) for pair in pairs}) == len(pairs)
    assert min(Counter(pair.label for pair in pairs).values()) >= 40
    assert {pair.kind for pair in pairs} == {Kind.RULE, Kind.FACT, Kind.TASK, Kind.EVENT}


def test_no_text_is_in_both_halves() -> None:
    halves = {
        half: {text for p in read_pairs() if p.half is half for text in (p.one, p.other)}
        for half in CalibrationSplit
    }
    assert halves[CalibrationSplit.CALIBRATE].isdisjoint(halves[CalibrationSplit.CHECK])
    sizes = sorted(map(len, halves.values()))
    assert sizes[0] > sizes[1] * 0.6


def test_configured_threshold_matches_that_of_the_evaluation(report: DuplicatesReport) -> None:
    assert abs(report.configured_similar_threshold - report.similar_threshold) <= BETWEEN_MACHINES


@pytest.mark.requirement("WP-06")
def test_duplicates_and_similar_texts_are_detected_on_unseen_pairs(
    report: DuplicatesReport,
) -> None:
    check = report.findings[list(CalibrationSplit).index(CalibrationSplit.CHECK)]
    assert check.duplicate.agreement.precision >= 0.95
    assert check.similar.agreement.recall >= 0.85
    assert check.duplicate.precision.low <= check.duplicate.agreement.precision
    assert check.duplicate.precision.high >= check.duplicate.agreement.precision


def test_conflict_detection_has_a_precision_of_at_least_90_percent(
    report: DuplicatesReport,
) -> None:
    for half in report.findings:
        assert half.conflict.agreement.precision >= 0.9
        assert half.conflict.agreement.recall >= 0.4


def test_unavailable_embedder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError) as raised:
        evaluate(read_pairs(), MiniLmEmbedder(model_path=tmp_path / "none.onnx"))
    assert raised.value.code == "embedder_down"


def test_space_without_a_usable_threshold_is_refused() -> None:
    inseparable = [
        Pair(label=label, kind=Kind.FACT, one=f"{label} {n} a b c", other=f"{label} {n} d e f")
        for label in Label
        for n in range(40)
    ]
    with pytest.raises(InvalidInputError, match="No threshold"):
        evaluate(inseparable, WordHashEmbedder())


def test_duplicate_report_is_shown_as_tables(
    report: DuplicatesReport, capsys: pytest.CaptureFixture[str]
) -> None:
    show_duplicates(report)
    printed = capsys.readouterr().out
    assert f"similar_threshold {report.similar_threshold}" in printed
    assert "near_miss" in printed


def test_curves_show_precision_and_recall_with_the_configured_threshold(
    report: DuplicatesReport,
) -> None:
    drawn = draw_curves(report)
    assert drawn.startswith("<svg")
    assert all(name in drawn for name in ("similar: precision", "similar: recall"))
    assert f"similar_threshold {report.configured_similar_threshold:g}" in drawn
    assert draw_curves(report) == drawn


def test_json_output_and_plot_equal_those_of_the_duplicate_report(
    report: DuplicatesReport, tmp_path: Path
) -> None:
    arguments = ["eval", "duplicates", "--json", "--plot", str(tmp_path / "curves.svg")]
    ran = CliRunner().invoke(app, arguments)
    assert ran.exit_code == 0, ran.output
    assert (tmp_path / "curves.svg").read_text("utf-8") == draw_curves(report)
    assert json.loads(ran.stdout) == json.loads(json.dumps(asdict(report)))


def test_unknown_embedder_is_refused_with_the_next_step() -> None:
    ran = evals("duplicates", COMMONBRAIN_EMBEDDER="none-such")
    assert ran.returncode == 2
    assert ran.stderr.startswith("invalid: There is no embedder 'none-such'.")
    assert "minilm" in ran.stderr


def evals(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "commonbrain", "eval", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=os.environ | environment,
    )
