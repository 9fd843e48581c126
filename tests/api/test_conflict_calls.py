"""The list of what wants a decision, as people and agents read it, and the calls it names."""

import json
import shlex
from typing import Any

import pytest

from commonbrain.api.operations.status import STATUS, StatusRequest
from commonbrain.client import Brain
from tests.api.test_correcting import remembered
from tests.conftest import Command

TWO = "The staging database has 2 replicas", "The staging database has 4 replicas"


def listed(command: Command) -> dict[str, Any]:
    code, out = command("review", "--json")
    assert code == 0
    return json.loads(out)


@pytest.mark.parametrize("which", range(3))
def test_each_call_that_a_conflict_names_resolves_it(command: Command, which: int) -> None:
    for text in TWO:
        remembered(command, text, "--kind", "fact")
    call: str = listed(command)["conflicts"][0]["settle"][which]
    call = call.replace("WHY", "'two clusters'").replace("PROJECT,PROJECT", "api,web")
    code, out = command(*shlex.split(call))
    assert (code, "done" in out) == (0, True), out
    assert listed(command)["conflicts"] == []


def test_review_prints_both_sides_and_whole_commands(command: Command) -> None:
    old, new = (remembered(command, text, "--kind", "fact") for text in TWO)
    code, out = command("review", "conflicts")
    assert code == 0
    for part in (*TWO, "conflict of number, gap 0.0", f"brain revise resolve {new} --other {old}"):
        assert part in out
    code, out = command("status", "--review")
    assert (code, TWO[0] in out) == (0, True)
    assert "Nothing needs a decision." in command("review", "proposals")[1]
    assert command("review", "--limit", "0")[0] == 3


def test_status_lists_conflicts_for_agents_with_their_calls(
    brain: Brain,
) -> None:
    for text in TWO:
        brain.remember(f"{text}\x1b[31m", kind="fact")
    reply = STATUS.handle(brain, StatusRequest(review=True))
    text = STATUS.render_text(reply)
    assert "-> revise resolve mem_" in text
    assert "\x1b" not in text + json.dumps(STATUS.to_agent_json(reply), ensure_ascii=False)
    assert STATUS.handle(brain, StatusRequest()).review is None
