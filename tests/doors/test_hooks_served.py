"""Hooks that a running server of their store answers, and what happens when it cannot."""

import os
import signal
import stat
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic

import pytest

import commonbrain
from commonbrain.storage.sqlite.driver import driver
from tests.doors.hooking import SESSION, Answered, call_hook
from tests.doors.stdio_servers import Server, served
from tests.processes import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no socket in a file")

FACT = "We chose Postgres over MySQL for its row-level security."
PROMPT: dict[str, object] = {
    "session_id": SESSION,
    "prompt": "why did we choose postgres over mysql?",
}
REFUSED = "COMMONBRAIN_MCP_PROFILE"
"""A setting of the caller alone: a wrong value shows that a hook opened the store itself."""


@pytest.fixture
def store() -> Generator[Path]:
    """A store that knows a fact, with a path that is short enough for a socket next to it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "brain.db"
        with commonbrain.open(path, agent="ann") as brain:
            brain.remember(FACT, kind="fact")
        yield path


def folder_of(store: Path) -> Path:
    return store.parent / f".{store.name}.local"


@pytest.fixture
def server(store: Path) -> Generator[Server]:
    """A server of the store that answers hooks."""
    with served_to_hooks(store) as server:
        yield server


def served_to_hooks(store: Path) -> AbstractContextManager[Server]:
    """Start a server with the settings that `call_hook` gives to hooks."""
    return served(store, COMMONBRAIN_STATE=str(store.parent / "state"))


def opened(server: Server) -> Server:
    """Wait until a server has opened its store."""
    server.shake_hands()
    server.call("recall", {"query": "postgres"}, number=2)
    return server


def prompt(
    store: Path, event: str = "user-prompt-submit", *, folder: Path | None = None, **more: str
) -> Answered:
    """Call a hook that cannot open the store itself."""
    environment = {REFUSED: "nonsense", "COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S": "50", **more}
    told = {**PROMPT, "cwd": str(folder or store.parent)}
    return call_hook(store, "claude-code", event, told=told, **environment)


def is_served(answered: Answered) -> bool:
    return REFUSED not in answered.err


def wait_until_served(store: Path) -> Answered:
    """Call hooks until a server answers them."""
    until = monotonic() + PATIENCE_S
    while not is_served(answered := prompt(store)):
        assert monotonic() < until, answered
    return answered


def test_a_running_server_answers_the_hooks_of_its_store(store: Path, server: Server) -> None:
    assert not is_served(prompt(store))

    opened(server)

    answered = wait_until_served(store)
    assert f"> {FACT}" in answered.context
    assert (answered.status, answered.err) == (0, "")
    # The session was shown it.
    assert prompt(store).out == ""


def test_a_hook_that_is_served_reports_its_own_client_and_folder(
    store: Path, server: Server, tmp_path: Path
) -> None:
    opened(server)
    wait_until_served(store)

    (tmp_path / "shop" / ".git").mkdir(parents=True)
    prompt(store, "session-start", folder=tmp_path / "shop")

    sessions = server.call("session", {"op": "list"}, number=3)["sessions"]
    [own] = [one for one in sessions if one["session"] == SESSION]
    assert own["client"] == "claude-code"
    assert own["project"] == "shop"


def test_the_end_of_a_session_outlives_the_hook_and_its_server(store: Path, server: Server) -> None:
    opened(server)
    prompt(store, "session-start")
    with closing(driver().connect(str(store), isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        # The client that ends stops its server too, while the store is locked.
        assert call_hook(store, "claude-code", "session-end", told=dict(PROMPT)).err == ""
        server.process.terminate()
        server.process.wait(PATIENCE_S)
        writer.execute("ROLLBACK")
    with commonbrain.open(store, agent="ann") as brain:
        until = monotonic() + PATIENCE_S
        while SESSION in [one.session for one in brain.session.list().sessions or ()]:
            assert monotonic() < until


def test_hooks_act_in_their_own_tenant_whatever_the_server_s(store: Path) -> None:
    with commonbrain.open(store, agent="ann") as brain:
        brain.tenants.make("acme")
    with commonbrain.open(store, agent="ann", tenant="acme") as brain:
        brain.remember("We chose Postgres over MySQL because of the secret of acme.", kind="fact")
    state = str(store.parent / "state")
    with served(store, tenant="acme", COMMONBRAIN_STATE=state) as server:
        opened(server)
        shown = wait_until_served(store).context
        assert FACT in shown
        assert "acme" not in shown


def test_a_hook_whose_time_is_over_leaves_nothing_behind(store: Path, server: Server) -> None:
    rule = "Never commit without a green build."
    with commonbrain.open(store, agent="ann") as brain:
        brain.remember(rule, kind="rule", severity="BLOCKER")
    opened(server)
    wait_until_served(store)
    commit: dict[str, object] = {**PROMPT, "tool_input": {"command": "git commit -m x"}}
    with closing(driver().connect(str(store), isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        locked = call_hook(
            store,
            "claude-code",
            "before-commit",
            told=commit,
            COMMONBRAIN_HOOK_EDIT_TIMEOUT_S="1",
        )
        assert locked.context == ""
        # The server stops to wait as well.
        assert "locked" in locked.err or "timed out" in locked.err
        writer.execute("ROLLBACK")

    again = call_hook(
        store, "claude-code", "before-commit", told=commit, COMMONBRAIN_HOOK_EDIT_TIMEOUT_S="50"
    )
    assert rule in again.context


def test_hooks_do_not_wait_for_a_server_that_hangs(store: Path, server: Server) -> None:
    opened(server)
    wait_until_served(store)
    server.process.send_signal(signal.SIGSTOP)

    assert not is_served(prompt(store))

    server.process.send_signal(signal.SIGCONT)


@pytest.mark.requirement("CL-13")
def test_the_next_server_takes_over_when_one_is_killed(store: Path, server: Server) -> None:
    opened(server)
    assert f"> {FACT}" in wait_until_served(store).context
    with served_to_hooks(store) as second:
        opened(second)
        kill(server)
        wait_until_served(store)
        kill(second)
    # Its socket is still there, and blocks nobody.
    assert not is_served(prompt(store))
    with served_to_hooks(store) as third:
        opened(third)
        wait_until_served(store)


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait(PATIENCE_S)


def test_a_hook_with_other_settings_is_not_served(store: Path, server: Server) -> None:
    opened(server)
    wait_until_served(store)

    assert not is_served(prompt(store, COMMONBRAIN_PROJECT="shop"))


def test_only_its_owner_can_reach_or_replace_the_socket(store: Path, server: Server) -> None:
    opened(server)
    wait_until_served(store)
    folder = folder_of(store)
    modes = {stat.S_IMODE(one.lstat().st_mode) for one in folder.iterdir()}

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert modes == {0o600}
    assert {one.lstat().st_uid for one in folder.iterdir()} == {os.getuid()}

    # Others could put their socket there.
    folder.chmod(0o777)
    assert not is_served(prompt(store))


def test_hooks_work_where_no_socket_can_be_made(store: Path) -> None:
    folder_of(store).write_text("a file in its place")
    with served_to_hooks(store) as server:
        opened(server)
        answered = call_hook(
            store,
            "claude-code",
            "user-prompt-submit",
            told=dict(PROMPT),
            COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S="50",
        )
    assert f"> {FACT}" in answered.context


def test_a_server_leaves_no_socket_behind(store: Path, server: Server) -> None:
    opened(server)
    wait_until_served(store)

    code, _, complaints = server.leave()

    assert (code, complaints) == (0, b"")
    folder = folder_of(store)
    assert not [one for one in folder.iterdir() if stat.S_ISSOCK(one.lstat().st_mode)]
