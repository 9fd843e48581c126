"""The status line: what hooks showed, what waits, and that it replaces no other."""

import json
import sys
from pathlib import Path

import pytest

import commonbrain
from commonbrain.model.scope import Authority
from commonbrain.runtime.local_socket import socket_path
from tests.conftest import FACT, answering
from tests.hooking import call_hook
from tests.in_process import Finished, run_brain
from tests.processes import until

PROMPT = "why did we choose postgres over mysql?"
SESSION = "s-line"


def status_line(store: Path, raw: str | None = None) -> Finished:
    line = json.dumps({"session_id": SESSION, "model": {"id": "x"}}) if raw is None else raw
    state = str(store.parent / "state")
    return run_brain("--store", str(store), "statusline", stdin=line, COMMONBRAIN_STATE=state)


def test_line_counts_what_the_session_was_shown(store: Path) -> None:
    assert status_line(store).out == "commonbrain: 0 shown\n"
    event: dict[str, object] = {"session_id": SESSION, "prompt": PROMPT, "cwd": str(store.parent)}
    assert FACT in call_hook(store, "claude-code", "user-prompt-submit", told=event).context
    assert status_line(store).out == "commonbrain: 1 shown\n"
    call_hook(store, "claude-code", "session-start", told={**event, "source": "startup"})
    assert status_line(store).out == "commonbrain: 1 shown\n"


@pytest.mark.skipif(sys.platform == "win32", reason="there is no socket in a file")
def test_line_counts_what_waits_where_a_process_serves_the_store(store: Path) -> None:
    path = socket_path(store, {"COMMONBRAIN_STATE": str(store.parent / "state")})
    assert path is not None
    with commonbrain.open(store, agent="ann") as brain, answering(brain, path):
        assert status_line(store).out == "commonbrain: 0 shown\n"
        agent = brain.acting_as(authority=Authority.MODEL)
        agent.remember("Never deploy on Fridays.", kind="rule", severity="BLOCKER")
        agent.remember("Never merge without a review.", kind="rule", severity="BLOCKER")
        expected = "commonbrain: 0 shown, 2 to decide\n"
        # On a busy machine the process answers too late for some lines.
        until(lambda: status_line(store).out == expected)


@pytest.mark.parametrize("raw", ["", "no JSON", "[]", '{"session_id": 7}', "\ud83d"])
def test_line_of_any_input_is_printed_and_opens_no_store(raw: str, tmp_path: Path) -> None:
    done = status_line(tmp_path / "none.db", raw.encode("utf-8", "replace").decode())
    assert (done.status, done.out, done.err) == (0, "commonbrain: 0 shown\n", "")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.usefixtures("home")
def test_status_line_of_the_user_stays_unless_forced() -> None:
    file = Path.home() / ".claude" / "settings.json"
    words = ("connect", "claude-code", "--hooks", "--status-line")
    file.parent.mkdir()
    file.write_text('{"statusLine": {"type": "command", "command": "mine"}}')
    refused = run_brain(*words)
    assert "connect_conflict" in refused.err
    assert "mine" in file.read_text()
    assert "hooks" not in file.read_text()

    done = run_brain("--store", "b.db", *words, "--force")
    assert "Added a status line to ~/.claude/settings.json" in done.out
    command = json.loads(file.read_text())["statusLine"]["command"]
    assert command.endswith("b.db statusline")
    assert run_brain(*words, "--force").status == 0
    run_brain("connect", "claude-code", "--remove")
    assert json.loads(file.read_text()) == {"hooks": {}}


@pytest.mark.usefixtures("home")
def test_other_clients_have_no_status_line() -> None:
    assert "has no status line" in run_brain("connect", "codex", "--status-line").err
