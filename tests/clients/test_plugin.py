"""The plugin in the real Claude Code: a whole loop, from what it shows its model to what it leaves.

What the model is shown is read from the requests that it was sent; what was kept, from the store.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import commonbrain
from commonbrain.brain import Brain
from tests.clients.claude_code import ClaudeCode, ToolCall
from tests.clients.conftest import CLAUDE_CODE
from tests.clients.processes import Place
from tests.clients.scripted_model import ScriptedModel

pytestmark = pytest.mark.clients

PLUGIN = Path(__file__).parents[2] / "plugins" / "claude-code"
# How the client names the tools of a plugin's server.
PREFIX = "mcp__plugin_commonbrain_commonbrain__"
RULE = "Never push to the branch release without a green build."
FACT = "We chose Postgres over MySQL for its row-level security."
LEARNT = "The nightly job reads its slots from helios.toml."
LAST_WORDS = "Done.\n\nThe root cause was a pool closed twice; we decided to close it in wiring only."


@pytest.fixture
def brain(store: Path) -> Brain:
    """The store that the client will use, with something in it."""
    brain = commonbrain.open(store, agent="somebody")
    brain.remember(RULE, kind="rule", severity="BLOCKER")
    brain.remember(FACT, kind="fact")
    return brain


@pytest.fixture
def claude(modules: Path, place: Place, *, server_command: Path, store: Path) -> ClaudeCode:
    """Claude Code with the plugin and nothing else: the command is found on its path."""
    environment = {
        **place.environment,
        "PATH": f"{server_command.parent}:{place.environment['PATH']}",
        "COMMONBRAIN_STORE": str(store),
    }
    return ClaudeCode(
        place=replace(place, environment=environment),
        program=modules / CLAUDE_CODE / "claude",
        options=("--plugin-dir", PLUGIN),
        prefix=PREFIX,
        prompt="Why did we choose Postgres over MySQL?",
        last_words=LAST_WORDS,
    )


def shown(model: ScriptedModel) -> str:
    return json.dumps(model.requests[-1]["messages"], ensure_ascii=False)


def bodies(brain: Brain, kinds: Sequence[str]) -> list[str]:
    return [item.body or "" for item in brain.recall("", kinds=kinds, max_items=50).items]


def test_the_client_itself_finds_the_plugin_valid(claude: ClaudeCode) -> None:
    ended = claude.check_plugin(PLUGIN)

    assert ended.status == 0, ended


@pytest.mark.requirement("CL-08")
def test_a_whole_loop_shows_what_is_known_and_keeps_what_is_told(
    claude: ClaudeCode, brain: Brain
) -> None:
    call = ToolCall(PREFIX + "remember", {"text": LEARNT, "kind": "fact"})

    model = claude.converse(call)

    # The session's start shows what binds, the prompt what is known about it.
    assert RULE in shown(model)
    assert FACT in shown(model)
    assert shown(model).count("<commonbrain-memory>") == 2
    # The tool stored what it was told, the hooks what the last message decided.
    assert LEARNT in bodies(brain, ["fact"])
    [event] = bodies(brain, ["event"])
    assert "pool closed twice" in event
    [handoff] = bodies(brain, ["episode"])
    assert "pool closed twice" in handoff
    # Nothing that was put before the model came back.
    kept = "\n".join(bodies(brain, ["event", "episode"]))
    assert RULE not in kept
    assert FACT not in kept
