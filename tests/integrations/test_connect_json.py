"""Connect clients whose files are JSON with remarks: each has its shape, all keep every remark."""

import json
import os
import re
import stat
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.integrations import CLIENTS, ServerEntry, apply, connect, disconnect
from commonbrain.integrations.json_clients import JsonFile
from commonbrain.integrations.json_text import strip_comments
from commonbrain.model.errors import InvalidInputError

pytestmark = pytest.mark.usefixtures("home")

COMMAND = "/opt/brain/bin/brain"
ENTRY = ServerEntry(command=COMMAND, args=("mcp",))
WITH_ENV = ServerEntry(command=COMMAND, args=("mcp",), env={"COMMONBRAIN_STORE": "/b.db"})
STDIO = {"command": COMMAND, "args": ["mcp"]}
LOCAL = {"type": "local", "command": [COMMAND, "mcp"], "enabled": True}

SHAPES: dict[str, tuple[str, str, str, Mapping[str, object]]] = {
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json", "mcpServers", STDIO),
    "gemini": (".gemini/settings.json", ".gemini/settings.json", "mcpServers", STDIO),
    "opencode": (".config/opencode/opencode.json", "opencode.json", "mcp", LOCAL),
    "vscode": (
        ".config/Code/User/mcp.json",
        ".vscode/mcp.json",
        "servers",
        {"type": "stdio", **STDIO},
    ),
}
IN_EACH = pytest.mark.parametrize("client", SHAPES)


def servers_of(client: str) -> str:
    return SHAPES[client][2]


def with_remarks(client: str) -> str:
    return """// mine
{
    "size": 0x, /* "mcp": { */
    "SERVERS": {
        // the old one
        "tides": {"command": "t", "url": "http://x//y"}, // keep
        /* and */
    }, // behind
    "last": "// no remark", // the end
}
""".replace("0x", "10").replace("SERVERS", servers_of(client))


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def remarks(text: str) -> list[str]:
    return re.findall(r"// mine|/\* .mcp.: { \*/|// [a-z ]+|/\* and \*/", text)


@pytest.mark.requirement("DO-02")
@IN_EACH
def test_client_without_a_file_gets_a_private_one_in_its_format(client: str, home: Path) -> None:
    user, project, servers, shape = SHAPES[client]
    for scope, place in (("user", home / user), ("project", Path.cwd() / project)):
        change = connect(client, ENTRY, scope=scope)
        apply(change)

        assert change.path == place
        assert json.loads(place.read_text()) == {servers: {"commonbrain": shape}}
        assert stat.S_IMODE(place.stat().st_mode) == 0o600


@IN_EACH
def test_variables_are_where_the_client_reads_them(client: str) -> None:
    after = json.loads(connect(client, WITH_ENV).after or "")

    member = "environment" if client == "opencode" else "env"
    entry = after[servers_of(client)]["commonbrain"]
    assert entry[member] == {"COMMONBRAIN_STORE": "/b.db"}


@IN_EACH
def test_connecting_and_disconnecting_leave_every_comment(client: str) -> None:
    text = with_remarks(client)
    path = put(CLIENTS[client].path("user"), text)

    apply(connect(client, ENTRY))
    connected = path.read_text()
    assert not connect(client, ENTRY).is_needed
    apply(disconnect(client))

    assert remarks(connected) == remarks(text)
    parsed = json.loads(strip_comments(connected))
    assert parsed[servers_of(client)] == {
        "tides": {"command": "t", "url": "http://x//y"},
        "commonbrain": SHAPES[client][3],
    }
    assert '}, // keep\n        "commonbrain": {' in connected
    assert path.read_text() == text


@IN_EACH
def test_comments_in_a_file_without_servers_stay(client: str) -> None:
    text = "// top\n{ // nothing yet\n  /* really */\n}\n"
    path = put(CLIENTS[client].path("user"), text)

    apply(connect(client, ENTRY))

    parsed = path.read_text()
    assert parsed.startswith("// top\n{ // nothing yet\n  /* really */\n")
    assert list(json.loads(strip_comments(parsed))) == [servers_of(client)]


def test_existing_file_of_opencode_is_used(home: Path) -> None:
    path = put(home / ".config" / "opencode" / "opencode.jsonc", "{}")

    assert connect("opencode", ENTRY).path == path
    assert connect("opencode", ENTRY, scope="project").path == Path.cwd() / "opencode.json"


def test_configuration_folders_can_be_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "c"))

    assert connect("opencode", ENTRY).path == tmp_path / "c" / "opencode" / "opencode.json"
    assert connect("vscode", ENTRY).path == tmp_path / "c" / "Code" / "User" / "mcp.json"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{\n // a\n b: 1}", "line 3, is not valid JSON"),
        ('{"a": 1 /* open }', "is not valid JSON"),
        ('{"a": 1,, }', "is not valid JSON"),
        ("// nothing else", "is not valid JSON"),
        ("[1, ]", "does not hold a JSON object"),
        ('{"SERVERS": [ /* none */ ]}', "SERVERS in .* is not an object"),
    ],
)
@IN_EACH
def test_malformed_file_is_named_and_left_unchanged(client: str, text: str, reason: str) -> None:
    text = text.replace("SERVERS", servers_of(client))
    path = put(CLIENTS[client].path("user"), text)

    for attempt in (lambda: connect(client, ENTRY, force=True), lambda: disconnect(client)):
        with pytest.raises(InvalidInputError, match=reason.replace("SERVERS", servers_of(client))):
            attempt()

    assert path.read_text() == text


@contextmanager
def umask(mask: int) -> Generator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


@pytest.mark.parametrize("client", CLIENTS)
def test_file_written_by_connect_is_private_under_any_umask(client: str) -> None:
    path = CLIENTS[client].path("user")
    with umask(0):
        apply(connect(client, ENTRY))
        new = stat.S_IMODE(path.stat().st_mode)
        path.chmod(0o640)
        backup = put(path.with_name(f"{path.name}.bak"), "older")
        backup.chmod(0o666)
        apply(disconnect(client))

    modes = {stat.S_IMODE(one.stat().st_mode) for one in (path, backup)}
    assert (new, modes) == (0o600, {0o640})
    assert COMMAND in backup.read_text()


LEAVES = st.one_of(st.none(), st.integers(), st.text('ab"\\{},:/*é \n', max_size=6))
JSON = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text("ab/", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
REMARKS = st.sampled_from(["", "", " ", "\n", "// a, } b\n", "/* , { */", "/*\n*/ // x\n"])


Draw = Callable[[st.SearchStrategy[Any]], Any]


def written(value: object, draw: Draw) -> str:
    """Write JSON with remarks and last commas wherever they may stand."""

    def space() -> str:
        return draw(REMARKS)

    if not isinstance(value, dict | list):
        return f"{space()}{json.dumps(value)}{space()}"
    if isinstance(value, dict):
        named = cast("dict[str, object]", value).items()
        keyed = (f"{space()}{json.dumps(key)}{space()}:{written(one, draw)}" for key, one in named)
        parts = [*keyed]
    else:
        parts = [written(one, draw) for one in cast("list[object]", value)]
    last = "," + space() if parts and draw(st.booleans()) else ""
    inside = ",".join(parts) + last if parts else space()
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return f"{space()}{opening}{inside}{closing}{space()}"


@given(data=st.data())
def test_every_other_member_and_remark_of_any_file_survives(data: st.DataObject) -> None:
    client = CLIENTS["opencode"]
    assert isinstance(client, JsonFile)
    whole = data.draw(st.dictionaries(st.text("ab/", max_size=3), JSON, max_size=3))
    known = data.draw(st.one_of(st.none(), st.dictionaries(st.text("xy"), JSON, max_size=3)))
    before = whole if known is None else {**whole, "mcp": known}
    text = written(before, data.draw)
    path = Path("x.json")

    after = client.add(text, ENTRY, path=path, force=False)
    again = client.add(after, ENTRY, path=path, force=False)
    left = client.remove(after, path=path)

    assert json.loads(strip_comments(after)) == {
        **whole,
        "mcp": {**(known or {}), "commonbrain": LOCAL},
    }
    assert again == after
    assert json.loads(strip_comments(left)) == {"mcp": {}, **before}
    for changed in (after, left):
        assert sorted(found_remarks(changed)) == sorted(found_remarks(text))


def found_remarks(text: str) -> list[str]:
    """Give what `plain` takes for remarks: what it blanked."""
    pairs = zip(text, strip_comments(text), strict=True)
    blanked = "".join(a if a != b and b == " " else "\0" for a, b in pairs)
    return blanked.replace("\0", " ").split()
