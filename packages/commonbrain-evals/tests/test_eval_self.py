"""`brain eval self` and `brain eval history`, as people and programs see them."""

import json
from pathlib import Path

import pytest
from commonbrain_evals.self_evaluation import Evaluate
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.model.errors import NotFoundError
from commonbrain.model.memory import Draft
from commonbrain.runtime.bootstrap import open_brain
from tests.onnx_models import save_encoder

WORDS = [f"{one}{other}" for one in "north south east west".split() for other in "abcdefghij"]


@pytest.fixture
def store(path: Path) -> str:
    with open_brain(path) as brain:
        notes = [
            f"Berth {n} at pier {n}stone has lamp {n[::-1]} and rings of {n}iron." for n in WORDS
        ]
        brain.remember([Draft(body=note, kind="event") for note in notes])
    return str(path)


def brain(store: str, *arguments: str, code: int = 0) -> str:
    ran = CliRunner().invoke(app, ["--store", store, "eval", *arguments])
    assert ran.exit_code == code, ran.output
    return ran.output


@pytest.mark.requirement("CL-09")
def test_measurements_of_a_store_are_printed_plotted_and_returned_as_json(
    store: str, tmp_path: Path
) -> None:
    first = json.loads(brain(store, "self", "--questions", "20", "--json"))
    shown = brain(store, "self", "--questions", "25")
    assert "changed questions 20 to 25" in " ".join(shown.split())

    plot = tmp_path / "history.svg"
    history = json.loads(brain(store, "history", "--json", "--plot", str(plot)))["evaluations"]
    assert [one["id"] for one in history[:1]] == [first["id"]]
    assert history[0]["figures"]["hit_5"] == first["figures"]["hit_5"]
    assert plot.read_text("utf-8").startswith("<svg")
    listed = brain(store, "history")
    assert "hit 1" in listed
    assert "Nothing was measured under other yet" in brain(store, "history", "--name", "other")


def test_two_embedders_are_compared_on_the_same_questions(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path / "state"))
    other = f"onnx:{save_encoder(tmp_path / 'model')}"
    with open_brain(store) as opened:
        with pytest.raises(NotFoundError, match="The store has no space onnx/"):
            Evaluate(opened.services, opened.caller).compare(other)
        assert len(opened.spaces()) == 1
        opened.spaces.build(other)

    done = json.loads(brain(store, "self", "--questions", "20", "--embedder", other, "--json"))
    shown = brain(store, "self", "--questions", "20", "--embedder", other)

    assert done["other"].startswith("onnx/")
    assert done["missing"] == 0
    assert {"hit_1", "mrr", "abstained"} <= done["figures"].keys()
    for one in done["figures"].values():
        gain = one["other"] - one["serving"]
        assert one["low"] - 1e-9 <= gain <= one["high"] + 1e-9
    assert "difference" in shown
    assert "Beyond chance: " in shown
    assert json.loads(brain(store, "history", "--json")) == {"evaluations": []}


def test_embedder_compared_with_itself_shows_no_difference(store: str) -> None:
    done = json.loads(brain(store, "self", "--questions", "20", "--embedder", "minilm", "--json"))

    assert done["serving"] == done["other"]
    for one in done["figures"].values():
        assert (one["serving"], one["low"], one["high"]) == (one["other"], 0, 0)
