"""A person pauses the memory on a machine; a folder's file switches it off for its agents."""

import io
import json
from pathlib import Path
from time import time
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operations import OPERATIONS, Profile, load_operation
from commonbrain.client import Brain
from commonbrain.mcp.proxy import READ_TOOLS, StdioProxy
from commonbrain.mcp.server import tools_of
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.sessions import ClientInfo
from commonbrain.runtime.pause import begin_pause, end_pause, pause_in
from tests.hooking import call_hook
from tests.in_process import run_brain
from tests.processes import AS_AGENT

RULE = "Never push to release without a green build"


def state(folder: Path) -> dict[str, str]:
    return {"COMMONBRAIN_STATE": str(folder / "state")}


def test_pause_ends_by_itself_or_by_a_person(tmp_path: Path) -> None:
    environment = state(tmp_path)
    assert pause_in(environment) is None
    begin_pause(environment, length="1h")
    assert str(pause_in(environment)).startswith("until 2")
    (tmp_path / "state" / "hooks" / "paused").write_text(f"{time() - 1:.0f}")
    assert pause_in(environment) is None
    begin_pause(environment, length=None)
    assert pause_in(environment) == "until `brain resume`"
    end_pause(environment)
    assert pause_in(environment) is None


@given(st.binary(max_size=200))
def test_broken_file_is_a_pause_or_none_and_never_an_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    environment = state(tmp_path_factory.mktemp("pause"))
    begin_pause(environment, length=None)
    (Path(environment["COMMONBRAIN_STATE"]) / "hooks" / "paused").write_bytes(content)
    assert pause_in(environment) is None or str(pause_in(environment)).startswith("until ")


@pytest.mark.parametrize("length", ["", "0h", "1", "h", "1 week", "-1h", "99999d"])
def test_length_that_is_none_is_refused(tmp_path: Path, length: str) -> None:
    with pytest.raises(InvalidInputError):
        begin_pause(state(tmp_path), length=length)
    assert pause_in(state(tmp_path)) is None


def test_only_a_person_pauses_and_resumes(tmp_path: Path) -> None:
    environment = state(tmp_path)
    refused = run_brain("pause", **environment, **AS_AGENT)
    assert (refused.status != 0, "person_required" in refused.err) == (True, True)
    assert "Paused until" in run_brain("pause", "--for", "1h", **environment).out
    assert "person_required" in run_brain("resume", **environment, **AS_AGENT).err
    assert pause_in(environment) is not None
    assert run_brain("resume", **environment).status == 0
    assert pause_in(environment) is None


def test_paused_hooks_show_and_store_nothing(tmp_path: Path) -> None:
    store, environment = tmp_path / "brain.db", state(tmp_path)
    stored = run_brain("--store", str(store), "remember", RULE, "--kind", "rule", **environment)
    assert stored.status == 0
    lesson = {"session_id": "s1", "last_assistant_message": "The root cause was a closed pool."}
    start: dict[str, object] = {"session_id": "s1", "source": "startup"}
    begin_pause(environment, length=None)
    for event, payload in (("session-start", start), ("stop", lesson)):
        done = call_hook(store, "claude-code", event, told={**payload}, **environment)
        assert (done.status, done.out, done.err) == (0, "", "")
    assert "paused until" in run_brain("hook", "status", **environment).out
    assert "Paused until" in run_brain("--store", str(store), "status", **environment).out

    end_pause(environment)
    shown = call_hook(store, "claude-code", "session-start", told=start, **environment)
    assert RULE in shown.context
    listed = run_brain("--store", str(store), "recall", "--kind", "event", **environment)
    assert "closed pool" not in listed.out


def test_paused_agents_write_nothing_by_the_command_line(tmp_path: Path) -> None:
    words, environment = ("--store", str(tmp_path / "brain.db")), state(tmp_path)
    begin_pause(environment, length=None)
    refused = run_brain(*words, "remember", "The port is 5433", **environment, **AS_AGENT)
    assert (refused.status != 0, "paused the memory" in refused.err) == (True, True)
    assert run_brain(*words, "recall", "port", **environment, **AS_AGENT).status == 0
    assert run_brain(*words, "remember", "The port is 5433", **environment).status == 0


def call(brain: Brain, name: str, **arguments: str) -> None:
    operation = load_operation(name)
    dispatch(operation, brain, request=operation.request.model_validate(arguments))


def test_paused_agents_write_nothing_by_tools(
    brain: Brain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path / "state"))
    begin_pause(state(tmp_path), length="1h")
    with pytest.raises(RejectedError, match="paused the memory until"):
        call(brain.as_model(), "remember", text="The port is 5433")
    call(brain.as_model(), "recall", query="port")
    call(brain, "remember", text="The port is 5433")


def test_folder_switches_off_an_agents_tools_and_hooks_but_not_the_rules(
    brain: Brain, tmp_path: Path
) -> None:
    file = tmp_path / ".commonbrain.toml"
    file.write_text("memory = false\n")
    agent = brain.as_model().acting_as(contact=ClientInfo(cwd=str(tmp_path / "src")))
    (tmp_path / "src").mkdir()
    for name, arguments in (("recall", {"query": "port"}), ("remember", {"text": "It is 5433"})):
        with pytest.raises(RejectedError, match="switched off here by") as refused:
            call(agent, name, **arguments)
        assert str(file) in str(refused.value)
    call(agent, "boot")

    store, environment = tmp_path / "other.db", state(tmp_path)
    for text, kind in ((RULE, "--kind rule --severity BLOCKER"), ("The pool is closed", "")):
        words = ("--store", str(store), "remember", text, *kind.split())
        done = run_brain(*words, folder=tmp_path, **environment)
        assert done.status == 0, done
    event: dict[str, object] = {"session_id": "s1", "cwd": str(tmp_path), "source": "startup"}
    shown = call_hook(store, "claude-code", "session-start", told=event, **environment).context
    prompt = {
        "session_id": "s1",
        "cwd": str(tmp_path),
        "prompt": "Is the pool closed?",
    }
    silent = call_hook(store, "claude-code", "user-prompt-submit", told={**prompt}, **environment)
    assert RULE in shown
    assert silent.out == ""


def test_proxy_answers_for_the_server_where_the_client_is_paused_or_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)

    def answer(tool: str) -> str:
        out = io.StringIO()
        # Nothing listens there: what is forwarded fails.
        proxy = StdioProxy(url=urlsplit("http://127.0.0.1:9/mcp"), key=None, session="s", out=out)
        params = {"name": tool, "arguments": {"text": "The port is 5433"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        proxy.forward(json.dumps(message))
        return out.getvalue()

    assert "server_down" in answer("remember")
    begin_pause(state(tmp_path), length=None)
    assert "paused the memory" in answer("remember")
    assert "server_down" in answer("recall")
    end_pause(state(tmp_path))
    (tmp_path / ".commonbrain.toml").write_text("memory = false\n")
    assert "switched off here by" in answer("recall")
    assert "server_down" in answer("boot")


def test_tools_that_a_pause_leaves_on_are_those_that_only_read() -> None:
    tools = tools_of(Profile.OPERATOR)
    assert {name for name, one in tools.items() if one.is_read_only} <= READ_TOOLS
    rows = {row.name for row in OPERATIONS}
    assert all(load_operation(name).is_read_only for name in (READ_TOOLS - {"boot"}) & rows)
