"""Hooks that a running server of their store answers, and what happens when it cannot."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from uuid import uuid4

import pytest

import commonbrain
from commonbrain.client import Brain
from commonbrain.runtime.local_requests import answer_requests
from commonbrain.runtime.local_socket import JsonObject, LocalServer, socket_path
from tests.conftest import FACT, NOT_COLD
from tests.hooking import Answered, call_hook
from tests.processes import TIMEOUT_S, clean_environment
from tests.stdio_servers import Server, locked, served, socket_folder
from tests.tenant_rows import add_tenant

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no socket in a file")

PROGRAM = (sys.executable, "-m", "commonbrain")
COMMIT: dict[str, object] = {"tool_input": {"command": "git commit -m x"}}


def new_session() -> str:
    return f"hook-{uuid4().hex[:8]}"


def prompt(
    store: Path,
    event: str = "user-prompt-submit",
    *,
    session: str | None = None,
    folder: Path | str | None = None,
    **environment: str,
) -> Answered:
    """Call a hook that cannot open the store itself."""
    fields: dict[str, object] = {
        "session_id": session or new_session(),
        "prompt": "why did we choose postgres over mysql?",
        "cwd": str(folder or store.parent),
    }
    environment = {"COMMONBRAIN_STATE": os.environ["COMMONBRAIN_STATE"], **NOT_COLD, **environment}
    return call_hook(store, "claude-code", event, told=fields, **environment)


def is_served(answered: Answered) -> bool:
    return "COMMONBRAIN_MCP_PROFILE" not in answered.err


@dataclass
class Recording:
    """Answers the requests of a store in this process, and notes them."""

    answer: Callable[[JsonObject], JsonObject]
    requests: list[JsonObject] = field(default_factory=list[JsonObject])

    def __call__(self, request: JsonObject) -> JsonObject:
        self.requests.append(request)
        return self.answer(request)


@contextmanager
def answering(brain: Brain, store: Path) -> Generator[Recording]:
    """Answer at the store's socket, for callers with the environment of `call_hook`."""
    environment = {"COMMONBRAIN_STATE": str(store.parent / "state")}
    path = socket_path(store, environment)
    assert path is not None
    recording = Recording(answer_requests(brain, has_worker=False))
    server = LocalServer(path, recording)
    assert server.start_if_free()
    with closing(server):
        yield recording


def test_running_server_answers_the_hooks_of_its_store(stdio_server: Server) -> None:
    session = new_session()
    answered = prompt(stdio_server.store, session=session)

    assert is_served(answered)
    assert f"> {FACT}" in answered.context
    assert (answered.status, answered.err) == (0, "")
    # The session was shown it.
    assert prompt(stdio_server.store, session=session).out == ""


def test_server_learns_what_fixed_a_failure_and_shows_it(store: Path) -> None:
    (store.parent / ".git").mkdir()
    error = "Exit code 1\nE   shop.errors.StockError: table orders_open is missing in warehouse.db"
    command = {"tool_input": {"command": "make test"}}
    edit = {"tool_input": {"file_path": str(store.parent / "db.py"), "new_string": "orders = 1"}}
    passed: dict[str, object] = {
        **command,
        "tool_response": {"stdout": "ok", "stderr": "", "interrupted": False},
    }

    def call(event: str, payload: dict[str, object], *, session: str = "first") -> Answered:
        shared = {"session_id": session, "cwd": str(store.parent)}
        return call_hook(store, "claude-code", event, told={**shared, **payload})

    with commonbrain.open(store) as brain, answering(brain, store) as recording:
        call("post-tool-use-failure", {**command, "error": error})
        call("post-tool-use", {**edit})
        call("post-tool-use", passed)
        shown = call("post-tool-use-failure", {**command, "error": error}, session="second")

    assert "It passed after an edit of db.py" in shown.context
    # The edit needs no store, and asks no server.
    assert len(recording.requests) == 3


def test_served_hook_reports_its_own_client_and_folder(
    stdio_server: Server, tmp_path: Path
) -> None:
    session = new_session()
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    prompt(stdio_server.store, "session-start", session=session, folder=tmp_path / "shop")

    sessions = stdio_server.call("session", op="list")["sessions"]
    [own] = [one for one in sessions if one["session"] == session]
    assert own["client"] == "claude-code"
    assert own["project"] == "shop"


def test_hook_opens_the_store_while_its_server_is_loading(store: Path) -> None:
    path = socket_path(store, {"COMMONBRAIN_STATE": str(store.parent / "state")})
    assert path is not None
    server = LocalServer(path)
    assert server.start_if_free()
    with closing(server):
        assert f"> {FACT}" in prompt_cold(store).context


def prompt_cold(store: Path) -> Answered:
    """Call a hook that opens the store itself if no server answers."""
    fields: dict[str, object] = {"session_id": new_session(), "cwd": str(store.parent)}
    fields["prompt"] = "why did we choose postgres over mysql?"
    return call_hook(store, "claude-code", "user-prompt-submit", told=fields)


def test_server_stopped_under_a_lock_ends_at_once_and_the_hook_finishes_later(store: Path) -> None:
    """The client that ends stops its hook and its server, while the store is locked."""
    session = new_session()
    state = str(store.parent / "state")
    with served(store, COMMONBRAIN_LOCK_TIMEOUT_S="600", COMMONBRAIN_STATE=state) as server:
        server.shake_hands()
        server.call("remember", text="The kettle is in the blue cupboard.")
        own = server.call("session", op="list")["session"]
        settings = {"COMMONBRAIN_LOCK_TIMEOUT_S": "600", "COMMONBRAIN_STATE": state}
        until = monotonic() + TIMEOUT_S
        while not is_served(prompt(store, "session-start", session=session, **settings)):
            assert monotonic() < until
        with locked(store):
            # It starts a process of its own, which outlives it.
            ended = subprocess.run(
                [*PROGRAM, "hook", "claude-code", "session-end", "--store", str(store)],
                input=json.dumps({"session_id": session, "cwd": str(store.parent)}).encode(),
                capture_output=True,
                check=True,
                timeout=TIMEOUT_S,
                env=clean_environment(**settings),
            )
            assert (ended.stdout, ended.stderr) == (b"", b"")
            server.request_call("remember", text="Ann is off on Fridays.")
            server.call("status")
            code, rest, _ = server.end_by(signal.SIGTERM)
            assert (code, rest) == (0, b"")
    with commonbrain.open(store, agent="ann") as brain:
        texts = [one.headline or "" for one in brain.list(limit=20).memories]
        until = monotonic() + TIMEOUT_S
        while {session, own} & {one.session for one in brain.session.list().sessions or ()}:
            assert monotonic() < until
    assert any("kettle" in text for text in texts), texts
    assert not any("Fridays" in text for text in texts), texts


def test_served_hook_acts_in_its_own_tenant(store: Path) -> None:
    with commonbrain.open(store, agent="ann") as brain:
        add_tenant(brain, "acme")
    with commonbrain.open(store, agent="ann", tenant="acme") as acme:
        acme.remember("We chose Postgres over MySQL because of the secret of acme.", kind="fact")
        with answering(acme, store) as recording:
            shown = prompt_cold(store).context

    assert [one["kind"] for one in recording.requests] == ["hook"]
    assert FACT in shown
    assert "acme" not in shown


def test_served_hook_whose_time_is_over_writes_nothing_later(store: Path) -> None:
    rule = "Never commit without a green build."
    event = {**COMMIT, "session_id": new_session(), "cwd": str(store.parent)}
    with commonbrain.open(store, agent="ann") as brain, answering(brain, store) as recording:
        brain.remember(rule, kind="rule", severity="BLOCKER")
        with locked(store):
            late = call_hook(
                store, "claude-code", "before-commit", told=event,
                COMMONBRAIN_HOOK_EDIT_TIMEOUT_S="1",
            )  # fmt: skip
        again = call_hook(store, "claude-code", "before-commit", told=event)

    assert late.context == ""
    # The server stops to wait as well.
    assert "locked" in late.err or "timed out" in late.err
    assert rule in again.context
    assert len(recording.requests) == 2


def test_hook_with_other_settings_is_not_served(stdio_server: Server) -> None:
    assert is_served(prompt(stdio_server.store))
    assert not is_served(prompt(stdio_server.store, COMMONBRAIN_PROJECT="shop"))


def test_only_the_owner_can_reach_or_replace_the_socket(stdio_server: Server) -> None:
    folder = socket_folder(stdio_server.store)
    modes = {stat.S_IMODE(one.lstat().st_mode) for one in folder.iterdir()}

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == {0o600}
    assert {one.lstat().st_uid for one in folder.iterdir()} == {os.getuid()}

    # Others could put their socket there.
    folder.chmod(0o777)
    try:
        assert not is_served(prompt(stdio_server.store))
    finally:
        folder.chmod(0o700)


@pytest.mark.requirement("CL-13")
def test_socket_of_a_killed_server_stops_neither_hooks_nor_the_next_server(store: Path) -> None:
    path = socket_path(store, {"COMMONBRAIN_STATE": str(store.parent / "state")})
    assert path is not None
    path.parent.mkdir(0o700)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
    assert path.is_socket()

    assert f"> {FACT}" in prompt_cold(store).context
    with commonbrain.open(store, agent="ann") as brain, answering(brain, store) as recording:
        assert f"> {FACT}" in prompt_cold(store).context
        assert len(recording.requests) == 1
