"""Connect with a URL: a client is told of a server in its own words, and no file holds a key."""

import json
import os
import pty
import stat
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomlkit

from commonbrain.integrations import CLIENTS, Entry, Remote, apply, connect, disconnect
from commonbrain.model.errors import RejectedError
from tests.processes import PATIENCE_S, clean_environment

pytestmark = pytest.mark.usefixtures("home")

URL = "https://brain.example.org/mcp"
KEYED = Remote(url=URL, variable="COMMONBRAIN_KEY")
SECRET = "cb_acme_0123abcd_feedfacefeedfacefeedfacefeedface"  # noqa: S105 made up
LOCAL = Entry(command="/opt/brain/bin/brain", args=("mcp",))


def bearer(reference: str) -> dict[str, Any]:
    return {"headers": {"Authorization": f"Bearer {reference}"}}


WRITTEN: dict[str, dict[str, Any]] = {
    "claude-code": {"type": "http", "url": URL, **bearer("${COMMONBRAIN_KEY}")},
    "codex": {"url": URL, "bearer_token_env_var": "COMMONBRAIN_KEY"},
    "cursor": {"url": URL, **bearer("${env:COMMONBRAIN_KEY}")},
    "gemini": {"type": "http", "url": URL, **bearer("${COMMONBRAIN_KEY}")},
    "opencode": {
        "type": "remote",
        "url": URL,
        "enabled": True,
        "oauth": False,
        **bearer("{env:COMMONBRAIN_KEY}"),
    },
}
SERVERS = {"codex": "mcp_servers", "opencode": "mcp", "vscode": "servers"}


def entry_of(client: str, text: str | None) -> dict[str, Any]:
    assert text is not None
    whole = tomllib.loads(text) if client == "codex" else json.loads(text)
    return whole[SERVERS.get(client, "mcpServers")]["commonbrain"]


def brain(*words: str, **environment: str) -> str:
    """Run `brain connect` without a terminal; give all that it says."""
    with started(words, stdin=subprocess.DEVNULL, **environment) as process:
        return process.communicate(timeout=PATIENCE_S)[0]


def brain_told(answer: str, *words: str, **environment: str) -> str:
    """Run it at a terminal of its own, where the question is answered; give all that it says."""
    mine, theirs = pty.openpty()
    with started(words, stdin=theirs, **environment) as process:
        assert process.stdout is not None
        # What is typed before the question is asked is thrown away.
        question = ""
        while not question.endswith("hold it): "):
            question += process.stdout.read(1) or pytest.fail(question)
        os.write(mine, f"{answer}\n".encode())
        return question + process.communicate(timeout=PATIENCE_S)[0]


def started(words: tuple[str, ...], *, stdin: int, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "commonbrain", "connect", *words],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=clean_environment(HOME=str(Path.home()), **environment),
        start_new_session=True,
    )


def every_text(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


@pytest.mark.requirement("DO-20")
@pytest.mark.parametrize("client", WRITTEN)
def test_clients_that_speak_http_are_told_the_url_and_the_name_of_a_variable(client: str) -> None:
    assert entry_of(client, connect(client, KEYED).after) == WRITTEN[client]


def test_vscode_starts_a_bridge_which_reads_the_variable() -> None:
    told = entry_of("vscode", connect("vscode", KEYED).after)

    assert told["type"] == "stdio"
    assert told["args"][-3:] == ["mcp", "--url", URL]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_server_without_access_control_takes_no_header(client: str) -> None:
    told = entry_of(client, connect(client, Remote(url=URL)).after)

    assert told["url"] == URL
    assert not {"headers", "bearer_token_env_var"} & told.keys()


@pytest.mark.parametrize("client", CLIENTS)
def test_telling_twice_changes_nothing_and_undoing_leaves_nothing(client: str) -> None:
    apply(connect(client, KEYED))
    assert not connect(client, KEYED).is_needed

    apply(disconnect(client))

    assert "brain.example.org" not in every_text_but_backups(Path.home())


def every_text_but_backups(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".bak")
    return "".join(path.read_text() for path in files)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("first", [LOCAL, KEYED], ids=["local", "remote"])
def test_another_kind_of_entry_is_replaced_only_when_forced(
    client: str, first: Entry | Remote
) -> None:
    then = LOCAL if first is KEYED else KEYED
    apply(connect(client, first))
    with pytest.raises(RejectedError, match="for another server"):
        connect(client, then)

    apply(connect(client, then, force=True))

    alone = connect(client, then)
    assert not alone.is_needed
    told = entry_of(client, alone.after)
    assert ("url" in told) == (then is KEYED and client != "vscode")
    assert ("command" in told) != ("url" in told)


def test_what_a_user_added_to_the_headers_stays() -> None:
    path = Path.home() / ".claude.json"
    known = {**WRITTEN["claude-code"], "headers": {"X-Team": "a", "Authorization": "Bearer old"}}
    path.write_text(json.dumps({"mcpServers": {"commonbrain": known}}))

    apply(connect("claude-code", KEYED, force=True))

    told = entry_of("claude-code", path.read_text())
    assert told["headers"] == {"X-Team": "a", "Authorization": "Bearer ${COMMONBRAIN_KEY}"}


ELSEWHERE = [
    "https://other.example.org/mcp",
    "http://brain.example.org/mcp",
    "https://brain.example.org:8443/mcp",
]
SECRETS: dict[str, dict[str, Any]] = {
    "claude-code": {"headers": {"Authorization": SECRET, "x-api-key": SECRET}},
    "codex": {"bearer_token_env_var": SECRET, "http_headers": {"x-api-key": SECRET}},
    "cursor": {"headers": {"Authorization": SECRET, "x-api-key": SECRET}},
    "gemini": {"headers": {"Authorization": SECRET, "x-api-key": SECRET}},
    "opencode": {"headers": {"Authorization": SECRET, "x-api-key": SECRET}},
    "vscode": {"headers": {"Authorization": SECRET, "x-api-key": SECRET}},
}


def put_entry(client: str, entry: dict[str, Any]) -> None:
    path = CLIENTS[client].path("user")
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = {SERVERS.get(client, "mcpServers"): {"commonbrain": entry}}
    path.write_text(tomlkit.dumps(whole) if client == "codex" else json.dumps(whole))


@pytest.mark.requirement("DO-20")
@pytest.mark.parametrize("other", ELSEWHERE)
@pytest.mark.parametrize("client", CLIENTS)
def test_what_was_given_for_one_server_is_never_sent_to_another(client: str, other: str) -> None:
    put_entry(client, {"url": URL, **SECRETS[client]})

    change = connect(client, Remote(url=other), force=True)

    assert entry_of(client, change.after)["url"] == other
    assert SECRET not in (change.after or "")


@pytest.mark.parametrize("client", CLIENTS)
def test_what_was_given_for_a_server_stays_when_only_its_path_changes(client: str) -> None:
    put_entry(client, {"url": "https://brain.example.org:443/old/mcp", **SECRETS[client]})

    told = entry_of(client, connect(client, Remote(url=URL), force=True).after)

    assert SECRETS[client].items() <= told.items()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_bridge_to_another_server_is_not_told_the_key_of_the_first(client: str) -> None:
    variables = "environment" if client == "opencode" else "env"
    first = Entry(command="brain", args=("mcp", "--url", URL), env={"COMMONBRAIN_KEY": SECRET})
    apply(connect(client, first))
    then = Entry(command="brain", args=("mcp", "--url", URL, "--key-file", "/k"))
    assert SECRET in (connect(client, then, force=True).after or "")

    other = Entry(command="brain", args=("mcp", "--url", ELSEWHERE[0]))
    change = connect(client, other, force=True)

    assert entry_of(client, change.after)[variables] == {}
    assert SECRET not in (change.after or "")


def test_a_url_that_cannot_be_read_is_no_place_of_ours() -> None:
    put_entry("cursor", {"url": "https://brain.example.org:x/mcp", **SECRETS["cursor"]})

    assert SECRET not in (connect("cursor", Remote(url=URL), force=True).after or "")


def test_a_key_in_the_environment_is_written_and_shown_nowhere(home: Path) -> None:
    shown = brain("claude-code", "--url", "https://brain.example.org", COMMONBRAIN_KEY=SECRET)

    assert "Put the key into COMMONBRAIN_KEY" in shown
    assert entry_of("claude-code", (home / ".claude.json").read_text()) == WRITTEN["claude-code"]
    assert SECRET not in shown + every_text(home)


def test_a_key_in_a_file_is_read_by_a_bridge_and_written_nowhere_else(
    home: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(f"{SECRET}\n")

    shown = brain("codex", "--url", "https://brain.example.org", "--key-file", str(key))

    told = entry_of("codex", (home / ".codex" / "config.toml").read_text())
    assert told["args"][-5:] == ["mcp", "--url", URL, "--key-file", str(key)]
    assert SECRET not in shown + every_text(home)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pty")
def test_a_key_that_is_typed_in_goes_to_a_private_file_and_is_never_shown(home: Path) -> None:
    config = home / ".config"
    where = ("--url", "https://brain.example.org:8443")
    shown = brain_told(SECRET, "cursor", *where, XDG_CONFIG_HOME=str(config))

    told = entry_of("cursor", (home / ".cursor" / "mcp.json").read_text())
    kept = Path(told["args"][-1])
    assert kept.read_text() == f"{SECRET}\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert SECRET not in shown
    assert SECRET not in json.dumps(told)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pty")
@pytest.mark.parametrize("client", ["cursor", "codex"])
def test_who_takes_the_entry_out_is_told_where_the_typed_key_stays(home: Path, client: str) -> None:
    config, address = str(home / ".config"), "https://brain.example.org"
    brain_told(SECRET, client, "--url", f"{address}:8443", XDG_CONFIG_HOME=config)
    kept = home / ".config" / "commonbrain" / "keys" / "brain.example.org_8443"
    kept.with_name("brain.example.org").write_text("another")

    for words in (("--remove", "--dry-run"), ("--remove",)):
        shown = brain(client, *words, XDG_CONFIG_HOME=config, COLUMNS="500")
        assert f"The key stays in {kept}. Delete it" in shown
        assert shown.count("The key stays") == 1
    assert kept.read_text() == f"{SECRET}\n"
    assert "The key stays" not in brain(client, "--remove", XDG_CONFIG_HOME=config)


def test_the_home_is_found_in_a_key_file_that_no_shell_has_seen(home: Path) -> None:
    (home / "key").write_text(f"{SECRET}\n")

    brain("codex", "--url", "https://brain.example.org", "--key-file=~/key")
    missing = brain("codex", "--url", "https://brain.example.org", "--key-file=~nobody-here/key")

    told = entry_of("codex", (home / ".codex" / "config.toml").read_text())
    assert told["args"][-2:] == ["--key-file", str(home / "key")]
    assert "cannot be read" in missing


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pty")
def test_a_rehearsal_writes_neither_key_nor_entry(home: Path) -> None:
    shown = brain_told(SECRET, "cursor", "--url", "https://brain.example.org", "--dry-run")

    assert "The key would go to" in shown
    assert "Nothing was written." in shown
    assert SECRET not in shown + every_text(home)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--url", "https://ann:secret@brain.example.org"], "cannot be used"),
        (["--url", "ftp://brain.example.org"], "cannot be used"),
        (["--url", "https://x.example", "--hooks"], "Hooks act on a store"),
        (["--url", "https://x.example", "--no-key", "--key-file", "k"], "cannot be read"),
        (["--key-file", "k"], "cannot be read"),
        (["--no-key"], "Only a server takes a key"),
    ],
)
def test_what_does_not_go_together_is_refused_and_writes_nothing(
    home: Path, words: list[str], told: str
) -> None:
    shown = brain("claude-code", *words)

    assert told in shown
    assert "secret" not in shown
    assert not (home / ".claude.json").exists()


def test_a_key_that_others_on_the_way_could_read_is_warned_of() -> None:
    assert "use https" in brain("claude-code", "--url", "http://brain.example.org")
    assert "use https" not in brain("codex", "--url", "http://localhost:8377")
