"""Connect with a URL: an entry in the words of each client, and no file holds a key."""

import json
import os
import pty
import stat
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import tomlkit
import yaml
from platformdirs import user_config_path

from commonbrain.integrations import CLIENTS, Remote, ServerEntry, apply, connect, disconnect
from commonbrain.model.errors import RejectedError
from tests.in_process import run_brain
from tests.processes import TIMEOUT_S, clean_environment

pytestmark = pytest.mark.usefixtures("home")

URL = "https://brain.example.org/mcp"
KEYED = Remote(url=URL, variable="COMMONBRAIN_KEY")
SECRET = "cb_acme_0123abcd_feedfacefeedfacefeedfacefeedface"  # noqa: S105 made up
LOCAL = ServerEntry(command="/opt/brain/bin/brain", args=("mcp",))


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
WRITTEN["qwen"] = {"httpUrl": URL, **bearer("${COMMONBRAIN_KEY}")}
SERVERS = {
    "codex": "mcp_servers",
    "goose": "extensions",
    "opencode": "mcp",
    "vscode": "servers",
    "zed": "context_servers",
}
BY_PROXY = ("claude-desktop", "cline", "copilot", "goose", "windsurf", "zed")
"""Clients that reach every server by a proxy."""


def entry_of(client: str, text: str | None) -> dict[str, Any]:
    assert text is not None
    loads = {"codex": tomllib.loads, "goose": yaml.safe_load}.get(client, json.loads)
    return loads(text)[SERVERS.get(client, "mcpServers")]["commonbrain"]


def url_of(client: str, entry: dict[str, Any]) -> str | None:
    """Return the URL that an entry reaches, by itself or by the proxy."""
    if client in BY_PROXY and "--url" in entry["args"]:
        return entry["args"][entry["args"].index("--url") + 1]
    return entry.get("httpUrl" if client == "qwen" else "url")


def brain(*words: str, **environment: str) -> str:
    """Run `brain connect` without a terminal; give its whole output."""
    done = run_brain("connect", *words, **environment)
    return done.out + done.err


def brain_at_terminal(answer: str, *words: str, **environment: str) -> str:
    """Run it at a terminal of its own, and answer its question; give its whole output."""
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "commonbrain", "connect", *words],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        env=clean_environment(**environment),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        # What is typed before the question is thrown away.
        question = ""
        while not question.endswith("hold it): "):
            question += process.stdout.read(1) or pytest.fail(question)
        os.write(mine, f"{answer}\n".encode())
        return question + process.communicate(timeout=TIMEOUT_S)[0]


def every_text(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.rglob("*") if path.is_file())


@pytest.mark.requirement("DO-20")
@pytest.mark.parametrize("client", WRITTEN)
def test_entry_of_an_http_client_has_the_url_and_the_name_of_a_variable(client: str) -> None:
    assert entry_of(client, connect(client, KEYED).after) == WRITTEN[client]


@pytest.mark.parametrize("client", ["vscode", *BY_PROXY])
def test_proxy_reads_the_variable_for_a_client_whose_file_cannot_name_it(client: str) -> None:
    entry = entry_of(client, connect(client, KEYED).after)

    assert entry["args"][-3:] == ["mcp", "--url", URL]


@pytest.mark.parametrize("client", CLIENTS)
def test_entry_of_a_server_without_access_control_has_no_header(client: str) -> None:
    entry = entry_of(client, connect(client, Remote(url=URL)).after)

    assert url_of(client, entry) == URL
    assert not {"headers", "bearer_token_env_var"} & entry.keys()


@pytest.mark.parametrize("client", CLIENTS)
def test_connecting_twice_changes_nothing_and_removing_leaves_nothing(client: str) -> None:
    apply(connect(client, KEYED))
    assert not connect(client, KEYED).is_needed

    apply(disconnect(client))

    assert "brain.example.org" not in every_text_but_backups(Path.home())


def every_text_but_backups(folder: Path) -> str:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".bak")
    return "".join(path.read_text() for path in files)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("first", [LOCAL, KEYED], ids=["local", "remote"])
def test_entry_of_another_kind_is_replaced_only_when_forced(
    client: str, first: ServerEntry | Remote
) -> None:
    then = LOCAL if first is KEYED else KEYED
    apply(connect(client, first))
    with pytest.raises(RejectedError, match="for another server"):
        connect(client, then)

    apply(connect(client, then, force=True))

    alone = connect(client, then)
    assert not alone.is_needed
    entry = entry_of(client, alone.after)
    is_command = bool({"command", "cmd"} & entry.keys())
    assert is_command != bool({"url", "httpUrl"} & entry.keys())
    assert bool(url_of(client, entry)) == (then is KEYED and client != "vscode")


def test_headers_added_by_the_user_stay() -> None:
    path = Path.home() / ".claude.json"
    known = {**WRITTEN["claude-code"], "headers": {"X-Team": "a", "Authorization": "Bearer old"}}
    path.write_text(json.dumps({"mcpServers": {"commonbrain": known}}))

    apply(connect("claude-code", KEYED, force=True))

    entry = entry_of("claude-code", path.read_text())
    assert entry["headers"] == {"X-Team": "a", "Authorization": "Bearer ${COMMONBRAIN_KEY}"}


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
    "qwen": {"headers": {"Authorization": SECRET, "x-api-key": SECRET}},
    "vscode": {"headers": {"Authorization": SECRET, "x-api-key": SECRET}},
}
DIRECTLY = [client for client in CLIENTS if client not in BY_PROXY]


def put_entry(client: str, entry: dict[str, Any]) -> None:
    path = CLIENTS[client].path("user")
    path.parent.mkdir(parents=True, exist_ok=True)
    if client == "qwen":
        entry["httpUrl"] = entry.pop("url")
    whole = {SERVERS.get(client, "mcpServers"): {"commonbrain": entry}}
    dumps = {"codex": tomlkit.dumps, "goose": yaml.safe_dump}.get(client, json.dumps)
    path.write_text(dumps(whole))


@pytest.mark.requirement("DO-20")
@pytest.mark.parametrize("other", ELSEWHERE)
@pytest.mark.parametrize("client", CLIENTS)
def test_secrets_of_one_server_are_never_sent_to_another(client: str, other: str) -> None:
    put_entry(client, {"url": URL, **SECRETS.get(client, SECRETS["vscode"])})

    change = connect(client, Remote(url=other), force=True)

    assert url_of(client, entry_of(client, change.after)) == other
    assert SECRET not in (change.after or "")


@pytest.mark.parametrize("client", DIRECTLY)
def test_secrets_of_a_server_stay_when_only_its_path_changes(client: str) -> None:
    put_entry(client, {"url": "https://brain.example.org:443/old/mcp", **SECRETS[client]})

    entry = entry_of(client, connect(client, Remote(url=URL), force=True).after)

    assert SECRETS[client].items() <= entry.items()


@pytest.mark.parametrize("client", CLIENTS)
def test_proxy_to_another_server_does_not_get_the_key_of_the_first(client: str) -> None:
    variables = {"opencode": "environment", "goose": "envs"}.get(client, "env")
    first = ServerEntry(
        command="brain", args=("mcp", "--url", URL), env={"COMMONBRAIN_KEY": SECRET}
    )
    apply(connect(client, first))
    then = ServerEntry(command="brain", args=("mcp", "--url", URL, "--key-file", "/k"))
    assert SECRET in (connect(client, then, force=True).after or "")

    other = ServerEntry(command="brain", args=("mcp", "--url", ELSEWHERE[0]))
    change = connect(client, other, force=True)

    assert entry_of(client, change.after)[variables] == {}
    assert SECRET not in (change.after or "")


def test_secrets_of_an_unreadable_url_are_dropped() -> None:
    put_entry("cursor", {"url": "https://brain.example.org:x/mcp", **SECRETS["cursor"]})

    assert SECRET not in (connect("cursor", Remote(url=URL), force=True).after or "")


def test_key_in_the_environment_is_written_and_shown_nowhere(home: Path) -> None:
    shown = brain("claude-code", "--url", "https://brain.example.org", COMMONBRAIN_KEY=SECRET)

    assert "Put the key into COMMONBRAIN_KEY" in shown
    assert entry_of("claude-code", (home / ".claude.json").read_text()) == WRITTEN["claude-code"]
    assert SECRET not in shown + every_text(home)


def test_key_in_a_file_is_read_by_a_proxy_and_written_nowhere_else(
    home: Path, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text(f"{SECRET}\n")

    shown = brain("codex", "--url", "https://brain.example.org", "--key-file", str(key))

    entry = entry_of("codex", (home / ".codex" / "config.toml").read_text())
    assert entry["args"][-5:] == ["mcp", "--url", URL, "--key-file", str(key)]
    assert SECRET not in shown + every_text(home)


@pytest.mark.skipif(sys.platform == "win32", reason="it has no pty")
def test_typed_key_is_written_to_a_private_file_that_stays_when_the_entry_is_removed(
    home: Path,
) -> None:
    variables = {"XDG_CONFIG_HOME": str(home / ".config"), "COLUMNS": "500"}
    where = ("--url", "https://brain.example.org:8443")
    shown = brain_at_terminal(SECRET, "cursor", *where, "--dry-run", **variables)
    assert "The key would go to" in shown
    assert "Nothing was written." in shown
    assert SECRET not in shown + every_text(home)

    shown = brain_at_terminal(SECRET, "cursor", *where, **variables)
    entry = entry_of("cursor", (home / ".cursor" / "mcp.json").read_text())
    key_file = Path(entry["args"][-1])
    assert key_file.read_text() == f"{SECRET}\n"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert SECRET not in shown
    assert SECRET not in json.dumps(entry)

    assert key_file == home / ".config" / "commonbrain" / "keys" / "brain.example.org_8443"
    key_file.with_name("brain.example.org").write_text("another")
    # As if the key had been typed in for it too.
    brain("codex", *where, "--key-file", str(key_file), **variables)
    for client in ("cursor", "codex"):
        for words in (("--remove", "--dry-run"), ("--remove",)):
            shown = brain(client, *words, **variables)
            assert f"The key stays in {key_file}. Delete it" in shown
            assert shown.count("The key stays") == 1
        assert key_file.read_text() == f"{SECRET}\n"
        assert "The key stays" not in brain(client, "--remove", **variables)


def test_tilde_in_the_path_of_a_key_file_is_the_home(home: Path) -> None:
    (home / "key").write_text(f"{SECRET}\n")

    brain("codex", "--url", "https://brain.example.org", "--key-file=~/key")
    missing = brain("codex", "--url", "https://brain.example.org", "--key-file=~nobody-here/key")

    entry = entry_of("codex", (home / ".codex" / "config.toml").read_text())
    assert entry["args"][-2:] == ["--key-file", str(home / "key")]
    assert "cannot be read" in missing


def test_contradicting_options_are_refused_and_write_nothing(
    home: Path, subtests: pytest.Subtests
) -> None:
    cases = (
        (["--url", "https://ann:secret@brain.example.org"], "cannot be used"),
        (["--url", "ftp://brain.example.org"], "cannot be used"),
        (["--url", "https://x.example", "--hooks", "--scope", "x"], "has no scope"),
        (["--url", "https://x.example", "--no-key", "--key-file", "k"], "cannot be read"),
        (["--key-file", "k"], "cannot be read"),
        (["--no-key"], "Only a server takes a key"),
    )
    for words, reason in cases:
        with subtests.test(words=words):
            shown = brain("claude-code", *words)

            assert reason in shown
            assert "secret" not in shown
            assert not (home / ".claude.json").exists()


def test_unencrypted_url_is_reported_with_a_warning() -> None:
    assert "use https" in brain("claude-code", "--url", "http://brain.example.org")
    assert "use https" not in brain("codex", "--url", "http://localhost:8377")


def test_link_of_an_invitation_gets_a_file_of_its_own_and_is_in_no_other() -> None:
    links = [f"https://brain.example.org/join#cb_acme_{one}_{'0' * 48}" for one in ("1", "2")]

    finished = [run_brain("connect", "codex", "--url", link, "--dry-run") for link in links]

    # Without the ends of lines that a terminal would have.
    shown = ["".join((one.out + one.err).split()) for one in finished]
    assert shown[0] != shown[1]
    assert all("keys/brain.example.org_" in text for text in shown)
    assert all("https://brain.example.org/mcp" in text for text in shown)
    assert all("#cb_acme" not in text and "/join" not in text for text in shown)


def test_link_of_an_invitation_is_not_used_up_by_a_removal(home: Path) -> None:
    # No server answers there: an exchange would fail.
    link = f"http://127.0.0.1:9/join#cb_acme_1a2b3c4d_{'0' * 48}"

    removed = run_brain("connect", "codex", "--url", link, "--remove")

    assert removed.status == 0
    assert not list(home.rglob("keys"))


def test_link_of_an_invitation_is_not_used_where_its_key_would_be_written(home: Path) -> None:
    link = f"http://127.0.0.1:9/join#cb_acme_1a2b3c4d_{'0' * 48}"

    failed = run_brain("connect", "codex", "--url", link)

    assert failed.status != 0
    assert "does not answer" in failed.err
    assert "cb_acme" not in failed.err
    assert not [path for path in home.rglob("*") if path.is_file()]


@pytest.mark.requirement("ST-23")
def test_link_of_an_invitation_is_not_used_up_if_its_key_cannot_be_written() -> None:
    # No server answers there: an exchange would fail otherwise.
    link = f"http://127.0.0.1:9/join#cb_acme_1a2b3c4d_{'0' * 48}"
    folder = user_config_path("commonbrain", appauthor=False)
    folder.parent.mkdir()
    # No user can make a folder there, not even root.
    folder.symlink_to("/proc/nowhere")

    failed = run_brain("connect", "codex", "--url", link)

    assert failed.status != 0
    assert "cannot be written" in failed.err


@pytest.mark.requirement("ST-23")
def test_link_that_was_exchanged_connects_another_client_by_the_same_key() -> None:
    link = f"http://127.0.0.1:9/join#cb_acme_1a2b3c4d_{'0' * 48}"
    shown = run_brain("connect", "codex", "--url", link, "--dry-run").out
    path = Path("".join(shown.split("go to ")[1].split(".\n")[0].split()))
    path.parent.mkdir(parents=True)
    path.write_text(SECRET)

    connected = run_brain("connect", "codex", "--url", link)

    assert connected.status == 0
    assert path.read_text() == SECRET
    assert str(path) in str(connect("codex", LOCAL, force=True).before)


@pytest.mark.requirement("ST-23")
def test_place_that_an_older_release_left_for_a_key_is_not_a_key() -> None:
    link = f"http://127.0.0.1:9/join#cb_acme_1a2b3c4d_{'0' * 48}"
    shown = run_brain("connect", "codex", "--url", link, "--dry-run").out
    path = Path("".join(shown.split("go to ")[1].split(".\n")[0].split()))
    path.parent.mkdir(parents=True)
    path.write_text(" " * 128)

    failed = run_brain("connect", "codex", "--url", link)

    # No server answers there: the link was tried.
    assert failed.status != 0
    assert "exchanged before" not in failed.out


class Joining(ThreadingHTTPServer):
    """Exchanges one link; before it answers the first run, a second one of the same ends."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), JoinHandler)
        self.link = f"http://127.0.0.1:{self.server_port}/join#cb_acme_1a2b3c4d_{'0' * 48}"
        self.is_used = False
        self.second: subprocess.CompletedProcess[bytes] | None = None
        self.left: Sequence[str] = ()
        """What files the second run has left, as long as the first one waits."""

    def connect(self) -> subprocess.CompletedProcess[bytes]:
        words = [sys.executable, "-m", "commonbrain", "connect", "codex", "--url", self.link]
        return subprocess.run(
            words, env=clean_environment(), check=False, capture_output=True, timeout=TIMEOUT_S
        )


class JoinHandler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Joining)
        if server.is_used:
            self._answer(401, {"detail": "This link was used.", "code": "used", "hint": "Ask."})
            return
        server.is_used = True
        server.second = server.connect()
        server.left = [path.read_text() for path in Path.home().rglob("*") if path.is_file()]
        self._answer(200, {"key": SECRET})

    def _answer(self, status: int, body: dict[str, str]) -> None:
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the library's name
        """Write nothing."""


@pytest.mark.requirement("ST-24")
def test_link_that_two_runs_exchange_at_once_connects_the_one_and_leaves_nothing_of_the_other(
    home: Path,
) -> None:
    with Joining() as server:
        Thread(target=server.serve_forever, daemon=True).start()
        first = server.connect()
        server.shutdown()

    assert server.second is not None
    assert server.second.returncode != 0
    assert b"This link was used." in server.second.stderr
    # The first run's key still had its place, and there was no configuration.
    assert [text.strip() for text in server.left] == [""]
    assert first.returncode == 0, first.stderr
    entry = entry_of("codex", (home / ".codex" / "config.toml").read_text())
    key_file = Path(entry["args"][-1])
    assert key_file.read_text() == f"{SECRET}\n"
    assert stat.S_IMODE(key_file.stat().st_mode) == 0o600
    assert [*key_file.parent.iterdir()] == [key_file]


def test_link_of_an_invitation_without_its_end_is_refused() -> None:
    failed = run_brain("connect", "codex", "--url", "https://brain.example.org/join")

    assert failed.status != 0
    assert "not whole" in failed.err
