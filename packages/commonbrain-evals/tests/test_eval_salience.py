import json

import pytest
from commonbrain_evals import salience
from commonbrain_models.calibration import CalibrationSplit
from typer.testing import CliRunner

from commonbrain.cli.main import app

CALIBRATE_MIN = 0.85
CHECK_MIN = 0.8
"""On texts that no word was chosen by."""


@pytest.fixture(scope="module")
def report() -> salience.SalienceReport:
    return salience.evaluate(salience.read_texts())


@pytest.mark.requirement("WP-30")
def test_salience_separates_what_matters_and_noise(report: salience.SalienceReport) -> None:
    calibrate, check = report.figures
    assert min(calibrate["matters"], calibrate["says_something"]) >= CALIBRATE_MIN
    assert min(check["matters"], check["says_something"]) >= CHECK_MIN


@pytest.mark.requirement("WP-31")
def test_no_text_but_noise_is_archived(report: salience.SalienceReport) -> None:
    assert {row.label for row in report.rows if row.is_archived} == {salience.Label.NOISE}


def test_texts_of_the_half_check_are_not_shown(report: salience.SalienceReport) -> None:
    assert {row.text for row in report.rows if row.half is CalibrationSplit.CHECK} == {None}


def test_salience_json_has_one_row_per_text_and_the_hash_of_the_data() -> None:
    ran = CliRunner().invoke(app, ["eval", "salience", "--json"])
    assert ran.exit_code == 0, ran.output
    shown = json.loads(ran.stdout)
    assert len(shown["rows"]) == len(salience.read_texts())
    assert len(shown["sha256"]) == 64
