"""Connect editors and other clients: the file and every byte of it, and what the command says."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.integrations import CLIENTS, ServerEntry, apply, connect, disconnect
from commonbrain.integrations.goose import GooseConfig
from commonbrain.mcp.server import INSTRUCTIONS
from commonbrain.model.errors import RejectedError
from tests.in_process import run_brain

pytestmark = pytest.mark.usefixtures("home")

COMMAND = "/opt/my brain/bin/brain"
ENTRY = ServerEntry(command=COMMAND, args=("--store", "/b.db", "mcp"))
STDIO: dict[str, Any] = {"command": COMMAND, "args": ["--store", "/b.db", "mcp"]}
CODE = ".config/Code/User/globalStorage/saoudrizwan.claude-dev/settings"
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", "mcpServers", STDIO),
    "cline": (f"{CODE}/cline_mcp_settings.json", "mcpServers", {**STDIO, "disabled": False}),
    "copilot": (
        ".copilot/mcp-config.json",
        "mcpServers",
        {"type": "local", **STDIO, "tools": ["*"]},
    ),
    "qwen": (".qwen/settings.json", "mcpServers", STDIO),
    "windsurf": (".codeium/windsurf/mcp_config.json", "mcpServers", STDIO),
    "zed": (".config/zed/settings.json", "context_servers", {"source": "custom", **STDIO}),
}


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
@pytest.mark.parametrize("client", FILES)
def test_client_has_its_entry_in_its_own_file_and_nothing_else_changes(
    client: str, home: Path
) -> None:
    name, servers, shape = FILES[client]
    text = (
        f'{{\n    "size": 1.50,\n    "{servers}": {{\n        "t": {{"command": "t"}}\n    }}\n}}\n'
    )
    path = put(home / name, text)

    apply(connect(client, ENTRY))

    lines = json.dumps(shape, indent=4).replace("\n", "\n        ")
    head, _, tail = text.partition('"t"}')
    assert path.read_text() == f'{head}"t"}},\n        "commonbrain": {lines}{tail}'
    apply(disconnect(client))
    assert path.read_text() == text


def test_variables_move_the_files_of_copilot_qwen_zed_and_goose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("COPILOT_HOME", "QWEN_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    places = {client: CLIENTS[client].path("user") for client in ("copilot", "qwen", "goose")}
    assert places == {
        "copilot": tmp_path / "COPILOT_HOME" / "mcp-config.json",
        "qwen": tmp_path / "QWEN_HOME" / "settings.json",
        "goose": tmp_path / "XDG_CONFIG_HOME" / "goose" / "config.yaml",
    }


GOOSE = """# mine
GOOSE_PROVIDER: openai   # why not
extensions:
  developer:
    enabled: true
    type: builtin
    description: |
      extensions:
      commonbrain:
    # the last one

# about the model
GOOSE_MODEL: "gpt-5"
"""


def goose(home: Path, text: str) -> Path:
    return put(home / ".config" / "goose" / "config.yaml", text)


def test_connecting_goose_leaves_every_other_byte(home: Path) -> None:
    path = goose(home, GOOSE)
    apply(connect("goose", ENTRY))
    head, marker, tail = GOOSE.partition("      commonbrain:\n")
    assert path.read_text() == (
        f"{head}{marker}"
        "  commonbrain:\n"
        "    name: commonbrain\n"
        "    type: stdio\n"
        "    enabled: true\n"
        f'    cmd: "{COMMAND}"\n'
        '    args: ["--store", "/b.db", "mcp"]\n'
        "    envs: {}\n"
        "    timeout: 300\n"
        f"{tail}"
    )
    apply(disconnect("goose"))
    assert path.read_text() == GOOSE


def test_entry_that_goose_has_rewritten_is_known(home: Path) -> None:
    path = goose(home, GOOSE)
    apply(connect("goose", ENTRY))
    whole = yaml.safe_load(path.read_text())
    whole["extensions"]["commonbrain"]["timeout"] = 9
    path.write_text(yaml.safe_dump(whole))

    assert not connect("goose", ENTRY).is_needed
    with pytest.raises(RejectedError, match="for another server"):
        connect("goose", ServerEntry(command="other", args=("mcp",)))
    apply(disconnect("goose"))
    del whole["extensions"]["commonbrain"]
    assert yaml.safe_load(path.read_text()) == whole


@pytest.mark.parametrize(
    "text",
    [
        "{extensions: {}}\n",
        "extensions: {a: {type: builtin}}\n",
        "extensions:\n  commonbrain: {type: stdio, cmd: x}\n",
        "extensions:\n\ta: 1\n",
        "a: 1\n---\nextensions:\n  b: 1\n",
        "extensions:\n  a: 1\nextensions:\n  b: 1\n",
    ],
)
def test_file_of_goose_in_another_layout_is_left_unchanged(text: str, home: Path) -> None:
    path = goose(home, text)
    with pytest.raises(RejectedError, match="does not allow a safe change"):
        connect("goose", ENTRY, force=True)
    assert path.read_text() == text


TEXT = st.text(st.characters(max_codepoint=0x17F, exclude_categories=["C"]), max_size=9)
NAMES = st.sampled_from(["developer", "memory", "tides"])
EXTENSION = st.fixed_dictionaries(
    {"type": st.sampled_from(["builtin", "stdio"]), "enabled": st.booleans()},
    optional={
        "cmd": TEXT,
        "args": st.lists(TEXT, max_size=3),
        "envs": st.dictionaries(st.text("AB", min_size=1), TEXT, max_size=2),
        "description": st.sampled_from(["a: b\n  commonbrain:\n", "x #y", "", "commonbrain:"]),
    },
)


@given(
    st.fixed_dictionaries(
        {"GOOSE_MODEL": TEXT},
        optional={"extensions": st.dictionaries(NAMES, EXTENSION), "zone": st.integers()},
    ),
    st.booleans(),
)
def test_goose_reads_the_same_of_its_file_before_and_after(
    whole: dict[str, Any],
    is_sorted: bool,  # noqa: FBT001 a value of the test
) -> None:
    text = yaml.safe_dump(whole, sort_keys=is_sorted, allow_unicode=True)
    client, path = GooseConfig(), Path("config.yaml")
    after = client.add(text, ENTRY, path=path, force=False)
    read = yaml.safe_load(after)
    own = read["extensions"].pop("commonbrain")
    assert (own["cmd"], own["args"]) == (COMMAND, STDIO["args"])
    assert read == {**whole, "extensions": whole.get("extensions", {})}
    assert client.add(after, ENTRY, path=path, force=False) == after
    removed = yaml.safe_load(client.remove(after, path=path))
    assert removed == {**whole, "extensions": whole.get("extensions", {})}


def test_command_says_in_a_line_each_what_it_did_and_how_to_undo_it(home: Path) -> None:
    put(home / ".claude.json", "{}\n")
    first = run_brain("connect", "claude-code", "--hooks").out.splitlines()
    assert first[0] == (
        "Added the server commonbrain to ~/.claude.json (backup: ~/.claude.json.bak)."
    )
    assert first[1].startswith("Added ")
    assert first[1].endswith(" hooks to ~/.claude/settings.json.")
    assert first[2] == (
        "Restart claude-code to use it. To undo: brain connect claude-code --remove"
    )
    assert first[3].startswith("Try it: ")
    assert len(first) == 4
    again = run_brain("connect", "claude-code", "--hooks").out
    assert again.count("nothing to change") == 2
    removed = run_brain("connect", "claude-code", "--remove", "--diff").out
    assert "Removed the server commonbrain from ~/.claude.json" in removed
    assert '-    "commonbrain": {' in removed


def test_hooks_of_a_server_ask_it_with_the_same_key(home: Path) -> None:
    key = put(home / "key", "cb_key\n")
    for words, options in (
        (("--key-file", str(key)), ["--key-file", str(key)]),
        (("--no-key",), ["--no-key"]),
        ((), []),
    ):
        done = run_brain(
            "connect", "claude-code", "--force", "--hooks",
            "--url", "https://brain.example.org", *words,
        )  # fmt: skip
        assert done.status == 0, done.err
        hooks = json.loads((home / ".claude" / "settings.json").read_text())["hooks"]
        [[handler]] = [one["hooks"] for one in hooks["SessionStart"]]
        words_of_hook = ["--url", "https://brain.example.org/mcp", *options]
        assert handler["args"] == ["hook", "claude-code", "session-start", *words_of_hook]


def test_printed_instructions_are_those_of_the_server(home: Path) -> None:
    printed = run_brain("connect", "zed", "--print-instructions").out
    assert printed == f"## Shared memory\n\n{INSTRUCTIONS}\n"
    assert list(home.iterdir()) == []
