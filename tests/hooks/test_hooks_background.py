"""The process that hooks start: it makes a session warm, and ends with the last client."""

import json
import signal
import subprocess
import sys
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import psutil
import pytest

import commonbrain
from commonbrain.coordination.processes import LocalProcesses
from commonbrain.mcp.background import wait_for_end
from commonbrain.model.sessions import Process
from commonbrain.runtime.local_socket import socket_path
from tests.conftest import FACT, NOT_COLD, answering
from tests.hooking import PATIENT, Answered
from tests.processes import TIMEOUT_S, clean_environment, until
from tests.stdio_servers import served

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no socket in a file")

PROMPT = "why did we choose postgres over mysql?"
SHARED = "COMMONBRAIN_MCP_SHARED"
ONLY_SERVED = {**NOT_COLD, SHARED: "off"}
"""A hook that opens the store itself fails, and starts nothing."""
CLIENT = """
import json, subprocess, sys
for line in sys.stdin:
    words, event, environment = json.loads(line)
    done = subprocess.run(
        ["sh", "-c", '"$@"; exit $?', "sh", *words],
        input=json.dumps(event), env=environment, capture_output=True, text=True,
    )
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""
"""Runs hooks, each by a shell that ends with it."""


def settings_of(store: Path) -> dict[str, str]:
    """Return the settings that the hooks, commands and servers of a test share."""
    patient = {name: value for name, value in PATIENT.items() if name != SHARED}
    return {**patient, "COMMONBRAIN_STATE": str(store.parent / "state")}


@dataclass(frozen=True, slots=True)
class Client:
    """A client with one session."""

    process: subprocess.Popen[str]
    store: Path
    session: str
    url: str | None = None
    """The URL of the store, which then is not at `store`."""

    def hook(
        self, event: str, environment: dict[str, str] | None = None, **fields: str
    ) -> Answered:
        """Run a hook to its end."""
        words = [sys.executable, "-m", "commonbrain", "hook", "claude-code", event]
        words += ["--store", self.url or str(self.store)]
        event_fields = {"session_id": self.session, "cwd": str(self.store.parent), **fields}
        environment = clean_environment(**settings_of(self.store) | (environment or {}))
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        line = json.dumps([words, event_fields, environment])
        print(line, file=self.process.stdin, flush=True)
        status, out, err = json.loads(self.process.stdout.readline())
        return Answered(status=status, out=out, err=err)

    def ask(self, event: str, **fields: str) -> Answered:
        """Run a hook until another process answers it; one that opens the store itself fails.

        A process that is slow to greet on a busy machine leaves a hook to do its work alone.
        """
        answers = list[Answered]()

        def is_answered() -> bool:
            answers.append(self.hook(event, ONLY_SERVED, **fields))
            return "COMMONBRAIN_MCP_PROFILE" not in answers[-1].err

        until(is_answered)
        return answers[-1]

    def wait_until_warm(self) -> None:
        self.ask("stop", text="We decided to wait.")

    def start(self) -> None:
        """Start the session, and wait until it is warm."""
        started = self.hook("session-start", source="startup")
        assert (started.status, started.err) == (0, "")
        self.wait_until_warm()

    def end_by(self, way: str) -> None:
        """End the session, or the client."""
        if way == "SessionEnd":
            self.hook("session-end", reason="clear")
        elif way == "exit":
            self.process.communicate()
        else:
            self.process.send_signal(signal.Signals[way])


@contextmanager
def client_of(store: Path, *, url: str | None = None) -> Generator[Client]:
    with subprocess.Popen(
        [sys.executable, "-c", CLIENT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=store.parent,
    ) as process:
        try:
            yield Client(process, store, f"s-{uuid4().hex[:8]}", url)
        finally:
            process.kill()


def servers(store: Path, *, url: str | None = None) -> list[Process]:
    """List the processes of a store that hooks started; its URL is in no command line."""
    running = list[Process]()
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            line = one.cmdline()
            is_server = line[-2:] == ["mcp", "--background"]
            if is_server and (
                one.environ().get("COMMONBRAIN_STORE") == url if url else str(store) in line
            ):
                running.append(LocalProcesses(one.pid).own())
    return running


def wait_until_ended(server: Process) -> None:
    until(lambda: not LocalProcesses().is_alive(server))


WAYS = ("SIGKILL", "SIGTERM", "exit", "SessionEnd")


@pytest.mark.parametrize("way", WAYS)
def test_process_of_a_session_makes_it_warm_and_ends_with_it(way: str, store: Path) -> None:
    with client_of(store) as client:
        client.start()
        [server] = servers(store)
        answered = client.ask("user-prompt-submit", prompt=PROMPT)
        assert f"> {FACT}" in answered.context
        client.end_by(way)
        wait_until_ended(server)
        assert servers(store) == []


def test_no_process_is_left_after_many_sessions(store: Path) -> None:
    for at in range(8):
        with client_of(store) as client:
            client.hook("session-start", source="startup")
            client.hook("user-prompt-submit", prompt=PROMPT)
            client.end_by(WAYS[at % len(WAYS)])
    for server in servers(store):
        wait_until_ended(server)
    assert servers(store) == []


def test_process_lives_until_the_last_of_its_clients_ends(store: Path) -> None:
    with client_of(store) as first, client_of(store) as second:
        first.start()
        second.start()
        [server] = servers(store)
        first.end_by("SIGKILL")
        first.process.wait()
        answered = second.ask("user-prompt-submit", prompt=PROMPT)
        assert FACT in answered.context
        second.end_by("SIGKILL")
        wait_until_ended(server)


def test_sessions_that_start_at_once_share_one_process(store: Path) -> None:
    with ExitStack() as stack, ThreadPoolExecutor() as threads:
        clients = [stack.enter_context(client_of(store)) for _ in range(3)]
        list(threads.map(Client.start, clients))
        assert len(servers(store)) == 1


def test_no_process_is_started_while_another_one_serves_the_store(store: Path) -> None:
    path = socket_path(store, settings_of(store))
    assert path is not None
    with (
        commonbrain.open(store, agent="ann") as brain,
        answering(brain, path),
        client_of(store) as client,
    ):
        client.start()
        assert servers(store) == []


@pytest.mark.parametrize("is_warm", [True, False])
def test_mcp_client_is_served_whether_the_process_is_loaded_or_not(
    is_warm: bool,  # noqa: FBT001 a parameter of the test
    store: Path,
) -> None:
    with client_of(store) as client:
        client.start() if is_warm else client.hook("session-start", source="startup")
        with served(store, **settings_of(store)) as server:
            server.shake_hands()
            assert server.call("status")["memories"] == 2
            client.end_by("SIGKILL")
            assert server.call("status")["memories"] == 2
            assert server.leave()[0] == 0
    for one in servers(store):
        wait_until_ended(one)


def test_end_of_a_process_is_seen_before_its_parent_collects_it() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        process = LocalProcesses(child.pid).own()
        with ThreadPoolExecutor() as threads:
            waiting = threads.submit(wait_for_end, process, LocalProcesses())
            assert not waiting.done()
            child.kill()
            waiting.result(TIMEOUT_S)


def test_process_that_took_the_number_of_another_is_not_waited_for() -> None:
    own = LocalProcesses().own()
    wait_for_end(replace(own, created_at=own.created_at - timedelta(hours=1)), LocalProcesses())


def test_process_ends_when_its_store_is_moved(store: Path) -> None:
    with client_of(store) as client:
        client.start()
        [server] = servers(store)
        store.rename(store.with_name("moved.db"))
        wait_until_ended(server)


def test_process_of_a_replaced_store_answers_nothing(store: Path) -> None:
    with client_of(store) as client:
        client.start()
        store.rename(store.with_name("moved.db"))
        with commonbrain.open(store, agent="ann") as brain:
            brain.remember("We chose the ferry over the bridge.")

        def is_of_the_new_one() -> bool:
            shown = client.hook("user-prompt-submit", prompt="ferry or bridge?").context
            assert FACT not in shown
            return "ferry" in shown

        # While the process ends, SQLite removes the files beside a store by their names.
        until(is_of_the_new_one)


def test_no_process_is_started_for_a_store_that_is_refused(store: Path) -> None:
    store.write_bytes(b"no store" * 1000)
    with client_of(store) as client:
        refused = client.hook("user-prompt-submit", prompt=PROMPT)
        assert refused.status == 0
        assert len(refused.err.splitlines()) == 1
        assert servers(store) == []


def test_prompt_without_a_loaded_model_is_searched_by_words_and_counted(store: Path) -> None:
    with client_of(store) as client:
        cold = client.hook("user-prompt-submit", prompt=PROMPT)
        assert f"> {FACT}" in cold.context
        late = client.hook(
            "user-prompt-submit", {"COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S": "0.01"}, prompt=PROMPT
        )
        assert late.err == "commonbrain: The hook timed out.\n"
        client.wait_until_warm()
        shown = subprocess.run(
            [sys.executable, "-m", "commonbrain", "--store", str(store), "status"],
            env=clean_environment(**settings_of(store), COLUMNS="200"),
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    assert "1 timed out; 1 searched by words alone" in shown
