"""The sessions of `brain eval failures` are sound, and some are played as labelled."""

from commonbrain_evals.failures import evaluate, read_sessions
from commonbrain_models.calibration import CalibrationSplit

from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings


def test_every_fix_is_of_an_earlier_failure_of_its_half() -> None:
    for sessions in read_sessions().values():
        assert len(sessions) == 100
        assert len({one.language for one in sessions}) == 5
        known: set[str] = set()
        for one in sessions:
            failing = [step for step in one.steps if step.get("exit")]
            assert {step["fixed_by"] for step in failing if step["fixed_by"]} <= known
            known |= {f"{one.session}/{step['ref']}" for step in failing if step.get("lesson")}


def test_what_is_learnt_of_failures_is_right_and_fits_its_budget() -> None:
    half = CalibrationSplit.CALIBRATE
    some = [one for one in read_sessions()[half] if one.language == "python"]

    report = evaluate({half: some}, make_embedder(load_settings()))

    figure = report.figures[0]
    assert figure["right"] >= 0.9
    assert figure["captured"] >= 0.7
    assert figure["wrong"] <= 0.05
    assert figure["most"] <= 120
