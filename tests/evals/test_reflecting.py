"""What reflections keep, measured on tiny data."""

import json
from pathlib import Path

import pytest
from commonbrain_evals import cli
from commonbrain_evals.retrieval.reflecting import ReflectionRequest, evaluate
from typer.testing import CliRunner

from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from tests.evals import samples


def test_what_episodes_keep_stands_beside_plain_choices_of_as_many_tokens(tmp_path: Path) -> None:
    source = samples.locomo(tmp_path / "tiny.json", "one")

    done = CliRunner().invoke(cli.app, ["reflect", "locomo", str(source), "--json"])

    told = json.loads(done.stdout)
    assert (told["corpora"], told["memories"], told["questions"]) == (1, 4, 2)
    # Three turns of the first sitting are told together; the second has one, which is too few.
    assert told["episodes"] == 1
    assert told["covered"]["mean"] == 0.5
    assert set(told["kept"]) == {"episodes", "chance", "first sentences"}
    # Half of the evidence is in no episode; of the rest "Lovely!" is left out, and no other word.
    assert told["kept"]["episodes"]["mean"] == pytest.approx(0.714, abs=0.001)
    assert told["recalled"]["before, R@10 all"]["mean"] == 1
    shown = CliRunner().invoke(cli.app, ["reflect", "locomo", str(source)])
    assert "1 episodes that take" in shown.stdout


def test_an_unknown_data_set_is_told_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError) as caught:
        evaluate(ReflectionRequest(dataset="lokomo", path=tmp_path), settings=Settings())

    assert "locomo" in str(caught.value.hint)
