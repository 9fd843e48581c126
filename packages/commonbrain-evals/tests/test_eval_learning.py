"""`brain eval learn`: one half is used, the job learns from it, the other half is asked."""

import json
from pathlib import Path

import pytest
from commonbrain_evals import cli
from commonbrain_evals.retrieval.learning import (
    LearnRequest,
    learn,
    learning_lines,
    unimproved_categories,
)
from commonbrain_evals.retrieval.record import ALL
from typer.testing import CliRunner

from commonbrain.config import Settings
from commonbrain.model.errors import InvalidInputError
from tests import eval_samples as samples


@pytest.mark.requirement("JB-02", "EV-03")
def test_each_half_is_used_for_training_while_the_other_is_evaluated(tmp_path: Path) -> None:
    data = samples.locomo(tmp_path / "tiny.json", "one", "two", "three")
    done = learn(LearnRequest(dataset="locomo", path=data), settings=Settings())
    assert [half.conversations for half in done.halves] == [("one", "three"), ("two",)]
    assert [half.recalls for half in done.halves] == [6, 3]
    assert all(half.marks >= half.recalls for half in done.halves)
    # So few teach nothing: what is then asked both times is told as that, and not as a gain.
    assert {half.job["outcome"] for half in done.halves} == {"too_little_data"}
    whole = [row for row in done.comparison.rows if row.category == ALL]
    assert {row.difference.mean for row in whole} == {0.0}
    assert done.comparison.questions == 9
    assert "nothing serves" in "\n".join(learning_lines(done))
    assert unimproved_categories(done).endswith("single-hop, multi-hop, adversarial")


def test_learning_requires_two_conversations_and_a_known_data_set(tmp_path: Path) -> None:
    alone = samples.locomo(tmp_path / "alone.json", "one")
    with pytest.raises(InvalidInputError, match="two at least"):
        learn(LearnRequest(dataset="locomo", path=alone), settings=Settings())
    with pytest.raises(InvalidInputError, match="no data set"):
        learn(LearnRequest(dataset="loco", path=alone), settings=Settings())


def test_learning_command_prints_json(tmp_path: Path) -> None:
    data = samples.locomo(tmp_path / "tiny.json")
    ran = CliRunner().invoke(cli.app, ["learn", "locomo", str(data), "--noise", "1", "--json"])
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["noise"] == 1
