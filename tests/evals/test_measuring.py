"""`brain eval self` and `brain eval history`, as people and programs see them."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.model.memory import Draft
from commonbrain.runtime.bootstrap import open_brain

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
def test_a_store_is_measured_and_its_history_told_drawn_and_written(
    store: str, tmp_path: Path
) -> None:
    first = json.loads(brain(store, "self", "--questions", "20", "--json"))
    shown = brain(store, "self", "--questions", "25")
    assert "changed questions 20 to 25" in " ".join(shown.split())

    plot = tmp_path / "history.svg"
    told = json.loads(brain(store, "history", "--json", "--plot", str(plot)))["evaluations"]
    assert [one["id"] for one in told[:1]] == [first["id"]]
    assert told[0]["figures"]["hit_5"] == first["figures"]["hit_5"]
    assert plot.read_text("utf-8").startswith("<svg")
    listed = brain(store, "history")
    assert "hit 1" in listed
    assert "Nothing was measured under other yet" in brain(store, "history", "--name", "other")
