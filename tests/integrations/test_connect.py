"""Connect: the memory is added to the file of a client, and everything else in it stays."""

import json
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.integrations import (
    CLIENTS,
    ConfigEdit,
    ServerEntry,
    apply,
    connect,
    diff,
    disconnect,
)
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    RejectedError,
    UnavailableError,
)

ENTRY = ServerEntry(command="/opt/brain/bin/brain", args=("mcp",))
WITH_ENV = ServerEntry(
    command="/opt/brain/bin/brain", args=("mcp",), env={"COMMONBRAIN_STORE": "/b.db"}
)

CLAUDE_FILE = """{
    "numStartups": 12,
    "ratio": 1.50, "big": 1e5, "name": "Zo\\u00eb",
    "mcpServers": {
        "tides": {"command": "tides", "args": [  ]}
    },
    "projects": {"/a": {"mcpServers": {"commonbrain": {"command": "other"}}}}
}"""

CODEX_FILE = """# my settings
model = "large"   # why not

[mcp_servers.tides]
command = "tides"

# the profile I use
[profiles.me]
size = 0x10

[mcp_servers.cranes]
url = "http://cranes.example"
# the end
"""


pytestmark = pytest.mark.usefixtures("home")


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path


def claude(home: Path, text: str = CLAUDE_FILE) -> Path:
    return put(home / ".claude.json", text)


def codex(home: Path, text: str = CODEX_FILE) -> Path:
    return put(home / ".codex" / "config.toml", text)


def every(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_claude_code_without_a_file_gets_a_private_one(home: Path) -> None:
    change = connect("claude-code", ENTRY)
    assert change.is_new
    apply(change)
    path = home / ".claude.json"
    assert json.loads(path.read_text()) == {
        "mcpServers": {
            "commonbrain": {
                "type": "stdio",
                "command": "/opt/brain/bin/brain",
                "args": ["mcp"],
                "env": {},
            }
        }
    }
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not change.backup.exists()


@pytest.mark.requirement("DO-02")
def test_connecting_claude_code_leaves_every_other_byte(home: Path) -> None:
    path = claude(home)
    apply(connect("claude-code", ENTRY))
    head, _, tail = CLAUDE_FILE.partition("[  ]}")
    assert path.read_text() == (
        f"{head}[  ]}},\n"
        '        "commonbrain": {\n'
        '            "type": "stdio",\n'
        '            "command": "/opt/brain/bin/brain",\n'
        '            "args": [\n'
        '                "mcp"\n'
        "            ],\n"
        '            "env": {}\n'
        f"        }}{tail}"
    )


def test_entry_of_a_project_is_in_its_own_file(home: Path) -> None:
    change = connect("claude-code", ENTRY, scope="project")
    apply(change)
    assert change.path == Path.cwd() / ".mcp.json"
    assert not (home / ".claude.json").exists()


def test_variables_of_a_client_move_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CODEX_HOME", str(tmp_path / "c"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "d"))
    assert connect("codex", ENTRY).path == tmp_path / "c" / "config.toml"
    assert connect("claude-code", ENTRY).path == tmp_path / "d" / ".claude.json"


@pytest.mark.requirement("DO-02")
def test_connecting_codex_leaves_every_comment_in_its_order(home: Path) -> None:
    path = codex(home)
    apply(connect("codex", WITH_ENV))
    assert path.read_text() == (
        f"{CODEX_FILE}\n"
        "[mcp_servers.commonbrain]\n"
        'command = "/opt/brain/bin/brain"\n'
        'args = ["mcp"]\n'
        "\n"
        "[mcp_servers.commonbrain.env]\n"
        'COMMONBRAIN_STORE = "/b.db"\n'
    )


def test_inline_table_of_servers_of_codex_is_edited_in_place(home: Path) -> None:
    path = codex(home, '# top\nmcp_servers = {tides = {command = "t"}} # end\n')
    apply(connect("codex", ENTRY))
    text = path.read_text()
    assert text.startswith("# top\n")
    assert text.endswith("# end\n")
    assert set(tomllib.loads(text)["mcp_servers"]) == {"tides", "commonbrain"}
    apply(disconnect("codex"))
    assert tomllib.loads(path.read_text())["mcp_servers"] == {"tides": {"command": "t"}}


@pytest.mark.parametrize("client", CLIENTS)
def test_connecting_twice_changes_nothing(client: str) -> None:
    apply(connect(client, ENTRY))
    again = connect(client, ENTRY)
    assert not again.is_needed
    assert diff(again) == ""
    apply(again)
    assert not again.backup.exists()


@pytest.mark.parametrize("client", CLIENTS)
def test_entry_with_additions_of_the_user_counts_as_connected(client: str) -> None:
    apply(connect(client, WITH_ENV))
    assert not connect(client, ENTRY).is_needed


@pytest.mark.parametrize("client", CLIENTS)
def test_entry_with_another_command_is_replaced_only_when_forced(client: str, home: Path) -> None:
    apply(connect(client, ServerEntry(command="other", args=("x",), env={"KEPT": "1"})))
    before = every(home)
    with pytest.raises(RejectedError) as refusal:
        connect(client, WITH_ENV)
    assert refusal.value.code == "connect_conflict"
    assert every(home) == before
    change = connect(client, WITH_ENV, force=True)
    apply(change)
    assert "other" not in (change.after or "")
    assert {"KEPT", "COMMONBRAIN_STORE"} <= set((change.after or "").replace('"', " ").split())
    assert not connect(client, WITH_ENV).is_needed


def test_entry_of_another_transport_is_replaced_whole(home: Path) -> None:
    claude(home, '{"mcpServers": {"commonbrain": {"type": "http", "url": "http://x"}}}')
    change = connect("claude-code", ENTRY, force=True)
    assert "url" not in (change.after or "")


def test_forced_entry_of_codex_has_its_comments_and_unknown_keys(home: Path) -> None:
    own = '[mcp_servers.commonbrain]\ncommand = "old" # mine\nstartup_timeout_sec = 9\n'
    path = codex(home, CODEX_FILE + own)
    apply(connect("codex", ENTRY, force=True))
    text = path.read_text()
    assert tomllib.loads(text)["mcp_servers"]["commonbrain"] == {
        "command": "/opt/brain/bin/brain",
        "args": ["mcp"],
        "startup_timeout_sec": 9,
    }
    assert text.count("#") == (CODEX_FILE + own).count("#")


@pytest.mark.parametrize(
    ("client", "text", "reason"),
    [
        # Where a trailing comma is reported depends on the version of Python; a bare name does not.
        ("claude-code", '{\n  "a": 1,\n  b: 2\n}', r"\.claude\.json, line 3, is not valid JSON"),
        ("claude-code", "// remark\n{}", r"line 1, is not valid JSON"),
        ("claude-code", "[]", "does not hold a JSON object"),
        ("claude-code", '{"mcpServers": []}', "mcpServers in .* is not an object"),
        ("codex", "a = 1\nb = \n", r"config\.toml, line 2, is not valid TOML"),
        ("codex", "mcp_servers = 1\n", "mcp_servers in .* is not a table"),
    ],
)
def test_malformed_file_is_named_and_left_unchanged(
    client: str, text: str, reason: str, home: Path
) -> None:
    path = CLIENTS[client].path("user")
    put(path, text)
    for attempt in (lambda: connect(client, ENTRY, force=True), lambda: disconnect(client)):
        with pytest.raises(InvalidInputError, match=reason):
            attempt()
    assert every(home) == {path: text.encode()}


def test_file_in_another_encoding_is_left_unchanged(home: Path) -> None:
    path = home / ".claude.json"
    path.write_bytes("{}".encode("utf-16"))
    with pytest.raises(InvalidInputError, match="is not UTF-8"):
        connect("claude-code", ENTRY)


@pytest.mark.parametrize("client", CLIENTS)
def test_preview_of_a_change_writes_nothing(client: str, home: Path) -> None:
    claude(home)
    codex(home)
    before = every(home)
    shown = diff(connect(client, ENTRY))
    assert every(home) == before
    added = [line for line in shown.splitlines() if line.startswith("+")]
    assert any("/opt/brain/bin/brain" in line for line in added)


def test_diff_of_a_new_file_is_against_dev_null() -> None:
    assert diff(connect("codex", ENTRY)).startswith("--- /dev/null\n+++ ")


def test_previous_file_is_backed_up_with_its_mode(home: Path) -> None:
    path = claude(home)
    path.chmod(0o640)
    change = connect("claude-code", ENTRY)
    apply(change)
    assert change.backup.read_text() == CLAUDE_FILE
    modes = {stat.S_IMODE(one.stat().st_mode) for one in (path, change.backup)}
    assert modes == {0o640}
    assert {one.name for one in home.iterdir()} == {".claude.json", ".claude.json.bak"}


def test_file_that_changed_since_the_preview_is_left_unchanged(home: Path) -> None:
    path = claude(home)
    change = connect("claude-code", ENTRY)
    path.write_text("{}")
    with pytest.raises(UnavailableError, match="changed in the meantime"):
        apply(change)
    assert path.read_text() == "{}"


def test_target_of_a_linked_file_is_changed(home: Path, tmp_path: Path) -> None:
    real = put(tmp_path / "dotfiles" / "claude.json", "{}")
    (home / ".claude.json").symlink_to(real)
    apply(connect("claude-code", ENTRY))
    assert (home / ".claude.json").is_symlink()
    assert "commonbrain" in real.read_text()


@pytest.mark.parametrize(("client", "text"), [("claude-code", CLAUDE_FILE), ("codex", CODEX_FILE)])
def test_disconnecting_undoes_connecting(client: str, text: str) -> None:
    path = put(CLIENTS[client].path("user"), text)
    apply(connect(client, WITH_ENV))
    apply(disconnect(client))
    assert path.read_text().rstrip("\n") == text.rstrip("\n")
    assert not disconnect(client).is_needed


def test_disconnecting_leaves_the_comments_of_the_next_table(home: Path) -> None:
    own = "[mcp_servers.commonbrain]\ncommand = 'x'\n[mcp_servers.commonbrain.env]\nA = '1'\n\n"
    path = codex(home, f"a = 1\n{own}# about b\n[b]\nc = [\n  [1],\n]\n")
    apply(disconnect("codex"))
    assert path.read_text() == "a = 1\n\n# about b\n[b]\nc = [\n  [1],\n]\n"


@pytest.mark.parametrize("client", CLIENTS)
def test_disconnecting_without_an_entry_changes_nothing(client: str, home: Path) -> None:
    change = disconnect(client)
    assert not change.is_needed
    apply(change)
    assert every(home) == {}


@pytest.mark.parametrize("text", ["{}", "{ }", "{\n}", "{}\n", '{"a":1}', "", " \n"])
def test_file_of_claude_code_may_have_any_layout(text: str, home: Path) -> None:
    claude(home, text)
    after = connect("claude-code", ENTRY).after
    assert after is not None
    assert json.loads(after)["mcpServers"]["commonbrain"]["command"] == ENTRY.command


@pytest.mark.parametrize("client", CLIENTS)
def test_line_ends_of_a_file_stay(client: str) -> None:
    texts = {"codex": "a = 1\r\n", "goose": "a: 1\r\n"}
    text = texts.get(client, '{\r\n  "a": 1\r\n}\r\n')
    put(CLIENTS[client].path("user"), text)
    after = connect(client, ENTRY).after or ""
    assert after.count("\n") == after.count("\r\n") > 2


@pytest.mark.parametrize(
    ("client", "scope"), [("emacs", "user"), ("codex", "project"), ("claude-code", "world")]
)
def test_unknown_client_or_scope_is_invalid(client: str, scope: str) -> None:
    with pytest.raises(InvalidInputError, match=r"There is no client|has no scope"):
        connect(client, ENTRY, scope=scope)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text('ab"\\{},:é \n', max_size=6)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("abc{", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.one_of(st.just("mcpServers"), st.text('mcpS"x', max_size=4))


@given(
    whole=st.dictionaries(KEYS, JSON, max_size=4),
    indent=st.sampled_from([None, 0, 1, 2, "\t"]),
    is_ascii=st.booleans(),
)
def test_every_other_member_of_any_json_survives(
    whole: dict[str, Any],
    indent: int | str | None,
    is_ascii: bool,  # noqa: FBT001 drawn by name
) -> None:
    client, path = CLIENTS["claude-code"], Path("x.json")
    if not isinstance(whole.get("mcpServers", {}), dict):
        whole["mcpServers"] = {"kept": whole["mcpServers"]}
    text = json.dumps(whole, indent=indent, ensure_ascii=is_ascii)
    after = client.add(text, ENTRY, path=path, force=False)
    parsed = json.loads(after)
    own = parsed["mcpServers"].pop("commonbrain")
    assert own["command"] == ENTRY.command
    assert parsed == {"mcpServers": {}, **whole}
    assert client.add(after, ENTRY, path=path, force=False) == after
    left = json.loads(client.remove(after, path=path))
    assert left == {"mcpServers": {}, **whole}


TOML_LINES = st.lists(
    st.sampled_from(
        ["[a]", "[mcp_servers.x]", "[mcp_servers.y.env]", "[[b]]", "# remark", "", "[mcp_servers]"]
        + [f"k{n} = {value}" for n in range(3) for value in ("1", '"[a]"', "[\n[1],\n]", "{c = 2}")]
        + ['mcp_servers.z.command = "z"', "mcp_servers = {}", "s = '''\n[mcp_servers.x]\n'''"]
    ),
    max_size=10,
)


@given(lines=TOML_LINES)
def test_every_other_key_and_remark_of_any_toml_survives(lines: list[str]) -> None:
    client, path, text = CLIENTS["codex"], Path("x.toml"), "\n".join(lines)
    try:
        whole = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    after = client.add(text, WITH_ENV, path=path, force=False)
    parsed = tomllib.loads(after)
    assert parsed["mcp_servers"].pop("commonbrain")["command"] == WITH_ENV.command
    assert parsed == {"mcp_servers": {}, **whole}
    assert after.count("# remark") == text.count("# remark")
    assert client.add(after, WITH_ENV, path=path, force=False) == after
    left = tomllib.loads(client.remove(after, path=path))
    assert {"mcp_servers": {}, **left} == {"mcp_servers": {}, **whole}


def test_folder_that_cannot_be_written_is_unavailable(home: Path) -> None:
    put(home / ".codex", "a file where a folder should be")
    with pytest.raises(CommonbrainError, match=r"config\.toml cannot be"):
        apply(ConfigEdit(path=home / ".codex" / "config.toml", before=None, after="x"))
