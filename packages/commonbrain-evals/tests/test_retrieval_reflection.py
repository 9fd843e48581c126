"""What reflections keep, measured on tiny data."""

import json
from pathlib import Path

import pytest
from commonbrain_evals import cli
from commonbrain_evals.retrieval.episodes import evaluate
from commonbrain_evals.retrieval.runs import EvalRequest
from typer.testing import CliRunner

from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from tests import eval_samples as samples


def long_talk(path: Path) -> Path:
    """Write a talk whose first sitting has enough text for an episode."""
    source = samples.locomo(path, "one")
    data = json.loads(source.read_text("utf-8"))
    places = ("the harbour", "a bakery on the hill", "my sister's garden")
    for turn, place in zip(data[0]["conversation"]["session_1"], places, strict=True):
        turn["text"] += f" We met at {place}, and the talk went on until the last tram had left."
        turn["text"] += " The rain of that week had stopped at last, so nobody took an umbrella."
    return samples.write_json(source, data)


def test_episodes_are_compared_with_baselines_of_the_same_number_of_tokens(tmp_path: Path) -> None:
    source = long_talk(tmp_path / "tiny.json")

    done = CliRunner().invoke(cli.app, ["reflection", "--data", str(source), "--json"])

    report = json.loads(done.stdout)
    assert (report["corpora"], report["memories"], report["questions"]) == (1, 4, 2)
    # Three turns of the first sitting are summarized; the second has one, which is too few.
    assert report["episodes"] == 1
    assert report["tokens_of_episodes"] <= report["tokens_of_sources"] / 3
    assert report["covered"]["mean"] == 0.5
    assert set(report["kept"]) == {"episodes", "chance", "first sentences"}
    assert report["recalled"]["before, R@10 all"]["mean"] == 1
    assert report["recalled"]["after, R@10 all"]["mean"] == 1
    shown = CliRunner().invoke(cli.app, ["reflection", "--data", str(source)])
    assert "1 episodes that take" in shown.stdout


def test_unknown_data_set_is_refused_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as caught:
        evaluate(EvalRequest(dataset="lokomo", path=tmp_path), settings=Settings())

    assert "locomo" in str(caught.value.hint)
