"""Commands that run in a process which serves their store already."""

import json
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest

from commonbrain.api.errors import EXIT_INTERRUPTED
from commonbrain.api.operations import OPERATIONS
from commonbrain.cli.command_client import REPEATABLE, forward_command
from commonbrain.runtime.local_socket import LocalServer, socket_path
from commonbrain.runtime.settings_loading import login_name
from tests.conftest import NOT_COLD
from tests.in_process import Finished, run_brain
from tests.processes import TIMEOUT_S
from tests.stdio_servers import Server

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no socket in a file")


def run(server: Server, *words: str, **environment: str) -> Finished:
    """Run a command that cannot open the store itself."""
    return run_brain("--store", str(server.store), *words, **NOT_COLD, **environment)


def reply_of(done: Finished) -> dict[str, Any]:
    assert done.status == 0, done.err
    return json.loads(done.out)


def remember(server: Server, tenant: str, text: str, *options: str) -> str:
    """Give the id of the memory that a command stored."""
    words = ("--tenant", tenant, *options, "remember", text, "--json")
    [item] = reply_of(run(server, *words))["items"]
    assert item["status"] == "stored"
    return item["id"]


@pytest.mark.requirement("CL-15")
def test_served_command_prints_the_same_as_one_that_opens_the_store(
    stdio_server: Server, tenant: str
) -> None:
    id_ = remember(stdio_server, tenant, "Deploys go out on Mondays.")

    for words in (["get", id_], ["get", id_, "--json"], ["get", "mem_0000000000000"]):
        line = ("--tenant", tenant, *words)
        shown = run(stdio_server, *line, COLUMNS="60")
        # Other settings, so it opens the store itself.
        variables = {"COLUMNS": "60", "COMMONBRAIN_PROJECT": "shop"}
        cold = run_brain("--store", str(stdio_server.store), *line, **variables)
        assert shown == cold


def test_served_command_acts_as_its_own_caller(stdio_server: Server, tenant: str) -> None:
    texts = {
        login_name(): ["The office is in Bern."],
        "ann": ["Backups run at two.", "--agent", "ann"],
    }
    for agent, (text, *options) in texts.items():
        id_ = remember(stdio_server, tenant, text, *options)
        shown = reply_of(run(stdio_server, "--tenant", tenant, "get", id_, "--json"))
        assert shown["agent"] == agent

    line = ("--tenant", tenant, "--agent", "ann", "boot", "--json")
    assert reply_of(run(stdio_server, *line, COMMONBRAIN_SESSION="s-7"))["session"] == "s-7"


def test_served_recall_is_listed_at_once(stdio_server: Server, tenant: str) -> None:
    run(stdio_server, "--tenant", tenant, "recall", "why postgres?", "--json")

    line = ("--tenant", tenant, "recalls", "--limit", "1", "--json")
    [last] = reply_of(run(stdio_server, *line))["recalls"]
    assert last["query"] == "why postgres?"


def test_commands_that_need_their_own_process_are_declined(
    stdio_server: Server, capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests
) -> None:
    store = str(stdio_server.store)
    lines = (
        ["remember", "-"],
        ["remember", "--file", "texts.jsonl"],
        ["doctor"],
        ["job", "run", "maintain", "--wait"],
        ["recall", "--no-such-option"],
        ["recall", "postgres", "--help"],
        ["--no-such-option", "recall", "postgres"],
        ["backup", "copy.db"],
        list[str](),
    )
    for words in lines:
        with subtests.test(words=words):
            assert forward_command(["--store", store, *words]) is None
            assert capsys.readouterr() == ("", "")
    assert forward_command(["--store", store, "status"]) == 0


@pytest.mark.requirement("CL-15")
def test_command_that_writes_is_not_repeated_after_its_server_ended(
    short_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(_request: object) -> NoReturn:
        raise ConnectionResetError

    store = short_folder / "brain.db"
    path = socket_path(store, os.environ)
    assert path is not None
    server = LocalServer(path, end)
    server.start()
    assert server.is_ready.wait(TIMEOUT_S)

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
