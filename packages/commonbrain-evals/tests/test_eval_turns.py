"""The turns of `brain eval turns` are sound, and hooks show little in them."""

from commonbrain_evals.turns import evaluate, read_turns
from commonbrain_models.calibration import CalibrationSplit, split_of

from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings


def test_every_useful_note_is_one_of_the_project() -> None:
    notes, turns = read_turns()

    assert len(turns) == 500
    for turn in turns:
        own = [note for note in notes if note.project == turn.project]
        assert all(place < len(own) for place in turn.useful)


def test_hooks_show_little_in_ordinary_work() -> None:
    notes, turns = read_turns()
    half = [one for one in turns if split_of(one.project) is CalibrationSplit.CALIBRATE]

    report = evaluate(notes, half, embedder=make_embedder(load_settings()))

    every, prompts, *_ = report.figures
    assert every["events"] == len(half)
    assert every["shown"] <= 0.07
    assert every["found"] >= 0.4
    assert prompts["noise"] <= 0.05
    assert prompts["found"] >= 0.5
