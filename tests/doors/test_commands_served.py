"""Commands that run in a process which serves their store already."""

import json
import os
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import NoReturn

import pytest

import commonbrain
from commonbrain.api.errors import EXIT_INTERRUPTED
from commonbrain.api.operations import OPERATIONS
from commonbrain.cli.command_client import REPEATABLE, forward_command
from commonbrain.runtime.local_socket import LocalServer, socket_path
from commonbrain.runtime.settings_loading import login_name
from tests.doors.stdio_servers import Server, served
from tests.processes import PATIENCE_S, clean_environment, command

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no socket in a file")

FACT = "We chose Postgres over MySQL for its row-level security."
NOT_COLD = {"COMMONBRAIN_MCP_PROFILE": "nonsense"}
"""A setting of the caller alone: a command that opens the store itself refuses it."""


def run(
    store: Path, *words: str, given: str | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end."""
    return subprocess.run(
        command(store, *words),
        input=given,
        capture_output=True,
        check=False,
        text=True,
        timeout=PATIENCE_S,
        env=clean_environment(**environment),
    )


@pytest.fixture(scope="module")
def store() -> Generator[Path]:
    """A store that knows a fact, with a path that is short enough for a socket next to it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "brain.db"
        with commonbrain.open(path, agent="ann") as brain:
            brain.remember(FACT, kind="fact")
        yield path


@pytest.fixture(scope="module")
def server(store: Path) -> Generator[Server]:
    """A server of the store which runs commands, for an agent of its own."""
    with serving(store) as server:
        yield server


@contextmanager
def serving(store: Path) -> Generator[Server]:
    """Start a server that acts for codex, and wait until it runs commands."""
    with served(store, COMMONBRAIN_AGENT="codex") as server:
        server.shake_hands()
        server.call("recall", {"query": "postgres"}, number=2)
        until = monotonic() + PATIENCE_S
        while run(store, "review", **NOT_COLD).returncode:
            assert monotonic() < until
        yield server


def remembered(done: subprocess.CompletedProcess[str]) -> str:
    """Return the id of the one memory that a command stored."""
    assert done.returncode == 0, done.stderr
    [item] = json.loads(done.stdout)["items"]
    assert item["status"] == "stored"
    return item["id"]


@pytest.mark.requirement("CL-15")
@pytest.mark.usefixtures("server")
def test_a_served_command_prints_the_same_as_one_that_opens_the_store(store: Path) -> None:
    id_ = remembered(run(store, "remember", "Deploys go out on Mondays.", "--json", **NOT_COLD))

    for words in (["get", id_], ["get", id_, "--json"], ["get", "mem_0000000000000"]):
        shown = run(store, *words, COLUMNS="60", **NOT_COLD)
        # Other settings, so it opens the store itself.
        cold = run(store, *words, COLUMNS="60", COMMONBRAIN_PROJECT="shop")
        assert (shown.returncode, shown.stdout) == (cold.returncode, cold.stdout)
        assert shown.stderr == cold.stderr


@pytest.mark.usefixtures("server")
def test_a_served_command_acts_as_its_own_caller(store: Path) -> None:
    texts = {
        login_name(): ["The office is in Bern."],
        "ann": ["Backups run at two.", "--agent", "ann"],
    }
    for agent, (text, *options) in texts.items():
        id_ = remembered(run(store, *options, "remember", text, "--json", **NOT_COLD))
        assert f'"agent": "{agent}"' in run(store, "get", id_, "--json", **NOT_COLD).stdout

    boot = run(store, "--agent", "ann", "boot", "--json", COMMONBRAIN_SESSION="s-7", **NOT_COLD)
    assert json.loads(boot.stdout)["session"] == "s-7"


@pytest.mark.usefixtures("server")
def test_a_recall_is_listed_at_once(store: Path) -> None:
    run(store, "recall", "why postgres?", "--json", **NOT_COLD)

    [last] = json.loads(run(store, "recalls", "--limit", "1", "--json", **NOT_COLD).stdout)[
        "recalls"
    ]
    assert last["query"] == "why postgres?"


@pytest.mark.usefixtures("server")
@pytest.mark.parametrize(
    "words",
    [
        ["remember", "-"],
        ["remember", "--file", "texts.jsonl"],
        ["doctor"],
        ["job", "run", "maintain", "--wait"],
        ["recall", "--no-such-option"],
        ["recall", "postgres", "--help"],
        ["--no-such-option", "recall", "postgres"],
        ["backup", "copy.db"],
        [],
    ],
)
def test_commands_that_need_their_own_process_are_declined(
    store: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert forward_command(["--store", str(store), *words]) is None

    assert capsys.readouterr() == ("", "")
    assert forward_command(["--store", str(store), "status"]) == 0


@pytest.mark.requirement("CL-15")
def test_only_what_may_run_twice_is_repeated_after_its_server_ended(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def end(_request: object) -> NoReturn:
        raise ConnectionResetError

    with TemporaryDirectory() as folder:
        store = Path(folder) / "brain.db"
        path = socket_path(store, os.environ)
        assert path is not None
        server = LocalServer(path, end)
        server.start()
        assert server.is_ready.wait(PATIENCE_S)

        assert forward_command(["--store", str(store), "recall", "postgres"]) is None
        assert capsys.readouterr() == ("", "")
        code = forward_command(["--store", str(store), "session", "task", "deploy"])
        assert code == EXIT_INTERRUPTED
        assert capsys.readouterr().err.startswith("interrupted: ")
        line = ["--store", str(store), "message", "send", "Done.", "--to", "ann", "--json"]
        assert forward_command(line) == EXIT_INTERRUPTED
        assert json.loads(capsys.readouterr().out)["error"]["code"] == "interrupted"
        server.close()


def test_repeatable_commands_are_those_that_only_read() -> None:
    reading: set[str] = set()
    for row in OPERATIONS:
        operation = row.load()
        presets = {one.name: one.preset for one in operation.commands}
        verbs = getattr(operation.request, "VERBS", {})
        for name in row.commands:
            verb = verbs.get(presets.get(name, {}).get("op"))
            if operation.is_read_only or (verb is not None and verb.is_read_only):
                reading.add(name)
    # A boot starts a session.
    reading.discard("boot")
    names = {name for row in OPERATIONS for name in row.commands}

    assert {name for name in names if {name, name.partition(" ")[0]} & REPEATABLE} == reading
    assert names | {name.partition(" ")[0] for name in names} >= REPEATABLE
