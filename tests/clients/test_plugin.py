"""The plugin in the real Claude Code: a whole loop, from what it shows its model to what it leaves.

What the model is shown is read from the requests that it was sent; what was kept, from the store.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import commonbrain
from commonbrain.client import Brain
from tests.clients.claude_code import ClaudeCode, ToolCall
from tests.clients.conftest import CLAUDE_CODE
from tests.clients.processes import Place, in_project, patient_hooks, wait_for_hooks
from tests.clients.scripted_model import ScriptedModel
from tests.plugin_files import PLUGIN, REPOSITORY

pytestmark = pytest.mark.clients

# How the client names the tools of a plugin's server.
PREFIX = "mcp__plugin_commonbrain_commonbrain__"
RULE = "Never commit to the branch release without a green build."
FACT = "We chose Postgres over MySQL for its row-level security."
LEARNT = "The nightly job reads its slots from helios.toml."
LAST_WORDS = "Done.\n\nThe root cause was a pool closed twice; we decided to close it in wiring."


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
        **patient_hooks(store),
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


@pytest.mark.parametrize("folder", [PLUGIN, REPOSITORY], ids=["plugin", "marketplace"])
def test_claude_code_validates_the_plugin(claude: ClaudeCode, folder: Path) -> None:
    ended = claude.check_plugin(folder)

    assert ended.status == 0, ended


def test_conversation_is_shown_memories_and_stores_new_ones(
    claude: ClaudeCode, brain: Brain, store: Path
) -> None:
    call = ToolCall(PREFIX + "remember", {"text": LEARNT, "kind": "fact"})

    model = claude.converse(call)
    wait_for_hooks(store)

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
    stored = "\n".join(bodies(brain, ["event", "episode"]))
    assert RULE not in stored
    assert FACT not in stored


def test_hooks_and_server_of_one_client_share_one_session(
    claude: ClaudeCode, brain: Brain, store: Path
) -> None:
    call = ToolCall(PREFIX + "remember", {"text": LEARNT, "kind": "fact"})

    claude.converse(call)
    wait_for_hooks(store)

    # Who wrote by the tool and who wrote by a hook went by the same name and session.
    rows = brain.recall("", kinds=["fact", "event", "episode"], agent="claude-code").items
    sources = [brain.get(item.id, views=["provenance"]).provenance for item in rows]
    assert len(rows) == 3
    assert len({one.session for one in sources if one}) == 1
    # It ended as its client said, and nobody is left.
    assert brain.session.list().sessions == ()


def test_memories_of_a_file_are_shown_when_it_is_edited_and_rules_when_a_command_runs(
    claude: ClaudeCode, brain: Brain, place: Place
) -> None:
    file = place.home / "src" / "payments" / "refunds.py"
    brain.remember("payments/refunds.py rounds down, as the bank does", kind="fact")
    allowed = {"permissions": {"allow": ["Write", "Bash(git commit:*)", "Bash(git status:*)"]}}
    agent = replace(claude, options=(*claude.options, "--settings", json.dumps(allowed)))

    model = agent.converse(
        ToolCall("Write", {"file_path": str(file), "content": "RATE = 1\n"}),
        ToolCall("Bash", {"command": "git status", "description": "Look"}),
        ToolCall("Bash", {"command": "git commit -m Round", "description": "Commit"}),
    )

    assert file.read_text() == "RATE = 1\n"
    assert shown(model).count("> payments/refunds.py rounds down, as the bank does") == 1
    assert shown(model).count("> BLOCKER mem_") == 1
    assert "pre-tool-use" in {one.event for one in brain.status().hooks}


def test_subagent_is_shown_what_binds_and_what_is_known_of_its_task(
    claude: ClaudeCode, brain: Brain
) -> None:
    brain.remember("payments/refunds.py rounds down, as the bank does", kind="fact")
    task = {
        "description": "Look at refunds",
        "prompt": "Why does payments/refunds.py round down?",
        "subagent_type": "general-purpose",
    }
    allowed = {"permissions": {"allow": ["Agent"]}}
    agent = replace(claude, options=(*claude.options, "--settings", json.dumps(allowed)))

    model = agent.converse(ToolCall("Agent", task))

    texts = [json.dumps(one["messages"], ensure_ascii=False) for one in model.requests]
    [own, *_] = [text for text in texts if "SubagentStart" in text]
    assert task["prompt"] in own
    assert RULE in own
    assert "rounds down, as the bank does" in own


def test_what_the_user_says_waits_for_a_person(
    claude: ClaudeCode, brain: Brain, store: Path
) -> None:
    replace(claude, prompt="From now on use pnpm instead of npm").converse()
    wait_for_hooks(store)

    (held,) = brain.review("proposals").proposals
    assert held.memory.headline == "use pnpm instead of npm"


def test_fix_of_a_failure_is_shown_when_the_failure_comes_back(
    claude: ClaudeCode, store: Path, place: Place
) -> None:
    error = "E   shop.errors.StockError: table orders_open is missing in warehouse.db"
    file, check = place.home / "orders.py", place.home / "check.sh"
    check.write_text(f"grep -q orders_open {file} || {{ echo '{error}'; exit 1; }}\n")
    allowed = {"permissions": {"allow": ["Write", "Bash(sh check.sh)"]}}
    options = (*claude.options, "--settings", json.dumps(allowed))
    # Of a folder without a project, agents are shown names alone.
    agent = replace(claude, options=options, place=in_project(claude.place))
    checks = ToolCall("Bash", {"command": "sh check.sh", "description": "Check"})

    agent.converse(
        checks, ToolCall("Write", {"file_path": str(file), "content": "orders_open = 1\n"}), checks
    )
    wait_for_hooks(store)
    file.unlink()
    model = agent.converse(checks)

    seen = json.dumps(model.requests[-1]["messages"])
    assert "It passed after an edit of orders.py" in seen
    assert "+ orders_open = 1" in seen
