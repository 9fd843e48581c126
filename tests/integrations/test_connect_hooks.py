"""Connect --hooks: a client's hooks are added next to its server, and nothing else changes."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.hooks.table import HOOKS
from commonbrain.integrations import (
    HOOKS_FILES,
    ConfigEdit,
    HookCommand,
    ServerEntry,
    apply,
    connect,
    disconnect,
    with_hooks,
    without_hooks,
)
from commonbrain.model.errors import InvalidInputError

BRAIN = "/opt/my brain/bin/brain"
COMMAND = HookCommand(brain=(BRAIN,), options=("--store", "/b.db"))
ENTRY = ServerEntry(command=BRAIN, args=("mcp",))
PLUGIN = Path(__file__).parents[2] / "plugins" / "claude-code" / "hooks" / "hooks.json"

pytestmark = pytest.mark.usefixtures("home")


def install(client: str, *, command: HookCommand = COMMAND) -> list[ConfigEdit]:
    return with_hooks(connect(client, ENTRY), client, scope="user", command=command)


def remove(client: str) -> list[ConfigEdit]:
    return without_hooks(disconnect(client), client, scope="user")


def every_handler(text: str) -> list[dict[str, Any]]:
    lists = json.loads(text)["hooks"].values()
    entries = [entry for entries in lists for entry in entries]
    return [handler for entry in entries for handler in entry.get("hooks", [entry])]


def words(handler: dict[str, Any]) -> list[str]:
    arguments: list[str] = handler.get("args", [])
    return [handler["command"], *arguments] if arguments else shlex.split(handler["command"])


@pytest.mark.requirement("DO-20")
@pytest.mark.parametrize("client", HOOKS_FILES)
def test_every_event_of_a_client_calls_its_hook(client: str) -> None:
    *_, change = install(client)
    apply(change)

    text = change.path.read_text()
    expected = [row for row in HOOKS.values() if row.client == client and row.is_installed]
    assert list(json.loads(text)["hooks"]) == [row.native for row in expected]
    assert [words(handler) for handler in every_handler(text)] == [
        [BRAIN, "hook", client, row.event, "--store", "/b.db"] for row in expected
    ]


@pytest.mark.parametrize("client", HOOKS_FILES)
def test_installing_twice_changes_nothing_unless_the_program_moved(client: str) -> None:
    for change in install(client):
        apply(change)
    assert not any(change.is_needed for change in install(client))

    moved = HookCommand(brain=("/new/brain",))
    *_, change = install(client, command=moved)
    apply(change)
    handlers = every_handler(change.path.read_text())
    assert {words(handler)[0] for handler in handlers} == {"/new/brain"}
    assert len(handlers) == sum(row.client == client and row.is_installed for row in HOOKS.values())


@pytest.mark.parametrize("client", HOOKS_FILES)
def test_removing_hooks_undoes_installing_them(client: str) -> None:
    for change in install(client):
        apply(change)
    for change in remove(client):
        apply(change)

    *_, left = remove(client)
    assert not left.is_needed
    assert json.loads(left.path.read_text())["hooks"] == {}


def test_hooks_of_others_on_the_same_events_stay(home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    other = {"type": "command", "command": "say hook claude-code", "timeout": 3}
    ours = {"type": "command", "command": "brain hook claude-code stop"}
    known = {
        "model": "large",
        "hooks": {
            "Stop": [{"matcher": "x", "hooks": [ours, other]}, {"hooks": [ours]}],
            "PreToolUse": [{"hooks": [other]}],
        },
    }
    path.write_text(json.dumps(known, indent=1))

    *_, change = install("claude-code")
    apply(change)
    with_ours = json.loads(path.read_text())
    assert with_ours["hooks"]["Stop"][0] == {"matcher": "x", "hooks": [other]}
    assert len(with_ours["hooks"]["Stop"]) == 2

    *_, change = remove("claude-code")
    apply(change)
    left = json.loads(path.read_text())
    assert left["hooks"] == {
        "Stop": [{"matcher": "x", "hooks": [other]}],
        "PreToolUse": [{"hooks": [other]}],
    }
    assert left["model"] == "large"


def test_file_of_server_and_hooks_is_changed_once(home: Path) -> None:
    path = home / ".gemini" / "settings.json"
    path.parent.mkdir()
    path.write_text('{\n  // mine\n  "theme": "dark",\n}\n')

    [change] = install("gemini")
    apply(change)

    assert "// mine" in path.read_text()
    assert change.backup.read_text() == '{\n  // mine\n  "theme": "dark",\n}\n'
    assert "mcpServers" in path.read_text()


@pytest.mark.parametrize("text", ["{", "[]", '{"hooks": 3}', '{"hooks": {"Stop": {}}}'])
def test_file_with_another_structure_is_left_unchanged(text: str, home: Path) -> None:
    path = home / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(text)

    with pytest.raises(InvalidInputError, match=r"settings\.json"):
        install("claude-code")
    assert path.read_text() == text


@pytest.mark.parametrize("client", ["vscode", "opencode"])
def test_client_without_hooks_is_invalid_and_can_be_disconnected(client: str) -> None:
    with pytest.raises(InvalidInputError, match="no hooks"):
        install(client)
    assert len(remove(client)) == 1


def test_hooks_of_the_plugin_are_those_that_connect_writes() -> None:
    command = HookCommand(brain=("brain",))
    drawn = HOOKS_FILES["claude-code"].add(None, command, path=PLUGIN)

    assert PLUGIN.read_text() == drawn


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.text('ab"{}', max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab", max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)
FOREIGN = st.dictionaries(
    st.sampled_from(["Stop", "SessionStart", "Other"]), st.lists(JSON, max_size=3), max_size=3
)


@given(events=FOREIGN, rest=st.dictionaries(st.text("xy", max_size=2), JSON, max_size=3))
def test_every_foreign_entry_survives_installing_and_removing(
    events: dict[str, list[Any]], rest: dict[str, Any]
) -> None:
    file, path = HOOKS_FILES["claude-code"], Path("x.json")
    before = {**rest, "hooks": events}

    with_ours = file.add(json.dumps(before, indent=2), COMMAND, path=path)
    after = json.loads(file.remove(with_ours, path=path))

    assert file.add(with_ours, COMMAND, path=path) == with_ours
    remaining = {name: entries for name, entries in events.items() if entries}
    assert {name: one for name, one in after["hooks"].items() if one} == remaining
    assert {name: value for name, value in after.items() if name != "hooks"} == rest
