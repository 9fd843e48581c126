import json
from collections import Counter
from importlib.resources import files
from pathlib import Path

import pytest
from commonbrain_evals import kinds
from commonbrain_models.calibration import CalibrationSplit
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.text.classification import PREDICTED, ROW, WEIGHTS_FILE

RIGHT_MIN = 0.8
ROUNDING_MAX = 1
"""Steps of a weight by which another linear algebra library may round otherwise."""


@pytest.fixture(scope="module")
def report() -> kinds.KindReport:
    return kinds.evaluate(kinds.read_texts())


def test_kind_texts_are_unique_with_enough_of_every_kind_in_both_halves() -> None:
    texts = kinds.read_texts()
    assert len(texts) >= 300
    assert len({text.text for text in texts}) == len(texts)
    counts = Counter((text.half, text.expected) for text in texts)
    assert min(counts[half, kind] for half in CalibrationSplit for kind in PREDICTED) >= 5


def test_four_of_five_kinds_are_right_on_texts_that_no_weight_was_fitted_to(
    report: kinds.KindReport,
) -> None:
    (check,) = [
        figure
        for figure in report.figures
        if (figure["half"], figure["kind"]) == (CalibrationSplit.CHECK, "all")
    ]
    assert check["right"] >= RIGHT_MIN


def test_only_failures_of_the_half_calibrate_are_listed(
    report: kinds.KindReport, capsys: pytest.CaptureFixture[str]
) -> None:
    kinds.show_kinds(report)
    printed = capsys.readouterr().out
    check = [one.text for one in kinds.read_texts() if one.half is CalibrationSplit.CHECK]
    assert "taken for" in printed
    assert not [text for text in check if text in printed]
    assert {row.text for row in report.rows if row.half is CalibrationSplit.CHECK} == {None}


def test_table_in_the_package_is_the_one_that_is_fitted(tmp_path: Path) -> None:
    written = tmp_path / "weights.bin"
    ran = CliRunner().invoke(app, ["eval", "kinds", "--fit", str(written)])
    assert ran.exit_code == 0, ran.output
    table = files("commonbrain.text").joinpath(WEIGHTS_FILE).read_bytes()
    fitted, shipped = ROW.iter_unpack(written.read_bytes()), ROW.iter_unpack(table)
    for ours, theirs in zip(fitted, shipped, strict=True):
        assert ours[0] == theirs[0]
        steps = [abs(one - other) for one, other in zip(ours[1:], theirs[1:], strict=True)]
        assert max(steps) <= ROUNDING_MAX


def test_kinds_json_has_one_row_per_text_and_the_hash_of_the_data() -> None:
    ran = CliRunner().invoke(app, ["eval", "kinds", "--json"])
    assert ran.exit_code == 0, ran.output
    shown = json.loads(ran.stdout)
    assert len(shown["rows"]) == len(kinds.read_texts())
    assert len(shown["sha256"]) == 64
