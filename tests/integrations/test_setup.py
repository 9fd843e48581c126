"""`brain setup`: finds the clients of a machine, connects them, and changes their files back."""

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from commonbrain.integrations import (
    CLIENTS,
    HOOKS_FILES,
    HookCommand,
    ServerEntry,
    apply,
    connect,
    with_hooks,
)
from commonbrain.integrations.detection import TRACES, find_clients
from commonbrain.integrations.restoring import Restoration, restore
from tests.integrations.test_connect import CLAUDE_FILE, CODEX_FILE

ENTRY = ServerEntry(command="/opt/brain/bin/brain", args=("--store", "/b.db", "mcp"))
HOOKS = HookCommand(brain=("/opt/brain/bin/brain",))


@pytest.fixture(autouse=True)
def bare_machine(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home without clients, and no program on the path."""
    (home / "bin").mkdir()
    monkeypatch.setenv("PATH", str(home / "bin"))
    for name in ("COPILOT_HOME", "QWEN_HOME", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    return home


def names() -> list[str]:
    return [one.name for one in find_clients()]


def connect_all(client: str, entry: ServerEntry = ENTRY) -> None:
    change = connect(client, entry, force=True)
    if client in HOOKS_FILES:
        for one in with_hooks(change, client, scope="user", command=HOOKS):
            apply(one)
    else:
        apply(change)


def test_every_client_has_a_row_of_traces() -> None:
    assert set(TRACES) == set(CLIENTS)


def test_bare_machine_has_no_client() -> None:
    assert names() == []


@pytest.mark.parametrize("client", CLIENTS)
def test_client_is_found_by_its_file(client: str) -> None:
    path = CLIENTS[client].path("user")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    assert [(one.name, one.place) for one in find_clients() if one.name == client] == [
        (client, path)
    ]


@pytest.mark.parametrize(
    ("client", "folder"),
    [
        ("claude-code", ".claude"),
        ("codex", ".codex"),
        ("cursor", ".cursor"),
        ("gemini", ".gemini"),
        ("windsurf", ".codeium/windsurf"),
        ("zed", ".config/zed"),
        ("goose", ".config/goose"),
        ("copilot", ".copilot"),
        ("qwen", ".qwen"),
    ],
)
def test_client_is_found_by_its_folder(client: str, folder: str, home: Path) -> None:
    (home / folder).mkdir(parents=True)
    assert names() == [client]


def test_client_is_found_by_its_program(home: Path) -> None:
    program = home / "bin" / "gemini"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700)
    assert [(one.name, one.place) for one in find_clients()] == [("gemini", program)]


def test_programs_of_others_with_the_same_name_are_no_clients(home: Path) -> None:
    for name in ("goose", "copilot"):
        (home / "bin" / name).write_text("#!/bin/sh\n")
        (home / "bin" / name).chmod(0o700)
    assert names() == []


def files(home: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(home)): (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
        for path in home.rglob("*")
        if path.is_file()
    }


TEXTS = {"claude-code": CLAUDE_FILE, "codex": CODEX_FILE, "goose": "GOOSE_MODEL: x\n"}


@pytest.mark.parametrize("has_file", [True, False])
@pytest.mark.parametrize("client", CLIENTS)
def test_files_are_restored_byte_for_byte(client: str, home: Path, *, has_file: bool) -> None:
    if has_file:
        path = CLIENTS[client].path("user")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(TEXTS.get(client, '{\t"theme" :"x"}\r\n'), newline="")
        path.chmod(0o640)
    before = files(home)
    connect_all(client)
    assert files(home) != before
    undone = list(restore(client))
    assert files(home) == before
    assert undone[0].how == (Restoration.RESTORED if has_file else Restoration.DELETED)
    assert list(restore(client)) == []


@pytest.mark.parametrize("text", ["", '{\t"theme" :"x"}\r\n'])
@pytest.mark.parametrize("client", CLIENTS)
def test_files_are_restored_after_two_connections(client: str, home: Path, text: str) -> None:
    path = CLIENTS[client].path("user")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text and TEXTS.get(client, text), newline="")
    before = files(home)
    connect_all(client, replace(ENTRY, command="/old/bin/brain"))
    connect_all(client)
    undone = list(restore(client))
    assert undone[0].how is Restoration.RESTORED
    assert files(home) == before


def test_file_that_changed_since_loses_only_our_entries(home: Path) -> None:
    path = home / ".claude.json"
    path.write_text(CLAUDE_FILE)
    connect_all("claude-code")
    path.write_text(path.read_text().replace('"numStartups": 12', '"numStartups": 13'))
    undone = {one.path.name: one.how for one in restore("claude-code")}
    assert undone == {
        ".claude.json": Restoration.REMOVED,
        "settings.json": Restoration.DELETED,
    }
    assert json.loads(path.read_text()) == json.loads(CLAUDE_FILE) | {"numStartups": 13}


def test_old_backup_of_another_text_is_not_restored(home: Path) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    connect_all("cursor")
    backup = path.with_name("mcp.json.bak")
    backup.write_text('{"mcpServers": {"old": {"command": "old"}}}')
    assert [one.how for one in restore("cursor")] == [Restoration.DELETED] * 2
    assert backup.exists()


def test_file_that_was_never_connected_stays(home: Path) -> None:
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir()
    path.write_text('{"mcpServers": {}}')
    assert list(restore("cursor")) == []
    assert path.read_text() == '{"mcpServers": {}}'


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("client", CLIENTS)
def test_backup_of_another_text_is_replaced(client: str) -> None:
    connect_all(client)
    path = CLIENTS[client].path("user")
    backup = path.with_name(f"{path.name}.bak")
    backup.write_text("older")
    connected = path.read_text()

    connect_all(client, replace(ENTRY, command="/opt/own/brain", args=("mcp", "--precious")))

    assert backup.read_text() == connected
