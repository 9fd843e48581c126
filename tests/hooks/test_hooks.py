"""Hooks as clients call them: what they output, and that nothing they meet stops the client."""

import json
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.config import Settings
from commonbrain.hooks.runner import is_disabled, limit_s
from commonbrain.hooks.table import HOOKS, INPUT_BYTES_MAX, LIMITS_S, HookAction, read_event
from commonbrain.model.errors import InvalidInputError
from commonbrain.text.prompts import is_trivial
from tests.conftest import FACT, RULE
from tests.hooking import PATIENT, SESSION, call_hook
from tests.in_process import run_brain
from tests.processes import TIMEOUT_S, clean_environment
from tests.stdio_servers import locked

QUESTION = "why did we choose postgres over mysql?"
HEAVY = (
    *("typer", "pydantic", "sqlalchemy", "numpy", "mcp", "onnxruntime", "commonbrain.client"),
    *("argparse", "platformdirs"),
)
CLIENTS = ("claude-code", "codex", "cursor", "gemini")
START = ("claude-code", "session-start")
PROMPT = ("claude-code", "user-prompt-submit")
STOP = ("claude-code", "stop")
EDIT = ("claude-code", "file-edited")
COMMAND = ("claude-code", "pre-tool-use")
COMMIT = ("claude-code", "before-commit")


def test_session_start_shows_binding_rules_to_every_client(
    store: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    event: dict[str, object] = {"session_id": SESSION, "cwd": str(tmp_path), "source": "startup"}
    for client in CLIENTS:
        with subtests.test(client=client):
            answered = call_hook(store, client, "session-start", told=event)

            assert answered.status == 0, answered
            assert RULE in answered.context
            assert SESSION in answered.context
            assert answered.context.startswith("<commonbrain-memory>\n")


@pytest.mark.parametrize("place", ["before", "after"])
def test_hook_of_a_tenant_shows_nothing_of_the_default_one(
    store: Path, tmp_path: Path, place: str
) -> None:
    start = json.dumps({"session_id": SESSION, "cwd": str(tmp_path), "source": "startup"})
    hook, tenant = ["hook", *START, "--store", str(store)], ["--tenant", "acme"]
    words = [*tenant, *hook] if place == "before" else [*hook, *tenant]

    environment = PATIENT | {"COMMONBRAIN_STATE": str(tmp_path / "state")}
    done = run_brain(*words, stdin=start, **environment)

    assert done.status == 0, done
    assert RULE not in done.out
    assert "no tenant acme" in done.err


def test_prompt_is_shown_relevant_memories_in_every_client(
    store: Path, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for client in CLIENTS:
        event: dict[str, object] = {
            "conversation_id": f"{SESSION}-{client}",
            "workspace_roots": [str(tmp_path)],
            "prompt": QUESTION,
        }
        with subtests.test(client=client):
            answered = call_hook(store, client, "user-prompt-submit", told=event)

            assert answered.status == 0, answered
            assert f"> {FACT}" in answered.context
            assert "not instruction" in answered.context
            assert json.loads(answered.out).get("continue", True) is True


def test_prompt_about_something_else_is_shown_nothing(store: Path) -> None:
    event: dict[str, object] = {"prompt": "please draw the release timetable as a table in blue"}

    answered = call_hook(store, *PROMPT, told=event)

    assert (answered.status, answered.out, answered.err) == (0, "", "")


def test_unknown_hook_is_reported_without_failing(store: Path, subtests: pytest.Subtests) -> None:
    for words in ((), ("claude-code",), ("emacs", "start"), ("--store",)):
        with subtests.test(words=words):
            answered = call_hook(store, *words, told={})

            assert (answered.status, answered.out) == (0, "")
            assert answered.err.startswith("commonbrain: Unknown hook")
            assert answered.err.count("\n") == 1


def test_malformed_input_does_not_stop_the_client(store: Path, subtests: pytest.Subtests) -> None:
    inputs = (b"", b"{", b"[1]", b"\xff\xfe", b'{"cwd": "\\u0000/x"}', b"null")
    for words in (PROMPT, STOP):
        for raw in inputs:
            with subtests.test(words=words, raw=raw):
                answered = call_hook(store, *words, told=raw)

                assert (answered.status, answered.out) == (0, "")


def test_malformed_edit_does_not_stop_the_client(path: Path, subtests: pytest.Subtests) -> None:
    edits = [(client, "file-edited") for client in ("claude-code", "codex", "gemini")]
    inputs = (b"", b"{", b'{"tool_input": 3}', b'{"tool_input": {"edits": 1}}')
    for words in (*edits, COMMIT):
        for raw in inputs:
            with subtests.test(words=words, raw=raw):
                answered = call_hook(path, *words, told=raw)

                assert (answered.status, answered.out) == (0, "")
                assert not path.exists()


def test_foreign_store_does_not_stop_the_client(tmp_path: Path, subtests: pytest.Subtests) -> None:
    foreign = tmp_path / "notes.db"
    foreign.write_text("not a database, and longer than a header would be " * 20)
    event: dict[str, object] = {"prompt": QUESTION, "last_assistant_message": f"{FACT} {RULE}"}
    for words in (START, PROMPT, STOP):
        with subtests.test(words=words):
            answered = call_hook(foreign, *words, told=event)

            assert (answered.status, answered.out) == (0, "")
            assert answered.err.startswith("commonbrain: ")
            assert FACT not in answered.err


def test_locked_store_is_read_and_a_write_is_given_up_in_time(store: Path) -> None:
    event: dict[str, object] = {"session_id": SESSION, "prompt": QUESTION}
    written: dict[str, object] = {
        "last_assistant_message": "We decided to close the pool in wiring."
    }
    with locked(store):
        brief = {"COMMONBRAIN_LOCK_TIMEOUT_S": "0.1"}
        start = call_hook(store, *START, told=event, **brief)
        prompt = call_hook(store, *PROMPT, told=event, **brief)
        late = call_hook(store, *STOP, told=written, COMMONBRAIN_HOOK_WRITE_TIMEOUT_S="0.8")

    assert RULE in start.context
    assert FACT in prompt.context
    assert (late.status, late.out) == (0, "")
    assert late.err.count("\n") == 1


def test_hook_does_not_wait_for_a_client_that_never_closes_its_input(store: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "commonbrain", "hook", *PROMPT, "--store", str(store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(
            COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S="0.3", COMMONBRAIN_STATE=str(store.parent)
        ),
    ) as process:
        assert process.wait(TIMEOUT_S) == 0
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == b""
        assert process.stderr.read() == b"commonbrain: The hook timed out.\n"


def test_hooks_are_switched_off_by_the_environment(store: Path, tmp_path: Path) -> None:
    event: dict[str, object] = {"prompt": QUESTION, "cwd": str(tmp_path)}

    for words in (START, PROMPT, COMMIT):
        switched = call_hook(store, *words, told=event, COMMONBRAIN_HOOKS="off")
        assert (switched.status, switched.out, switched.err) == (0, "", "")


@pytest.mark.parametrize("told", ["hooks = false", "hooks = fals", "\x00", 'capture = ["turns"]'])
def test_file_of_a_folder_silences_hooks_but_not_blockers(
    store: Path, tmp_path: Path, told: str
) -> None:
    config = tmp_path / ".commonbrain.toml"
    config.write_text(told)
    commit = {"command": "git commit -m x"}
    event: dict[str, object] = {
        "session_id": SESSION,
        "cwd": str(tmp_path / "deep" / "down"),
        "prompt": QUESTION,
        "last_assistant_message": f"@remember {FACT}",
        "tool_input": commit,
    }

    start = call_hook(store, *START, told=event)
    others = [call_hook(store, *words, told=event) for words in (PROMPT, STOP)]
    status = run_brain("hook", "status", folder=tmp_path)

    assert RULE in start.context
    assert SESSION not in start.context
    assert (str(config) in start.context) == (told != "hooks = false")
    assert [(one.out, one.err) for one in others] == [("", "")] * 2
    assert status.status == 0
    assert f"hooks: only the rules that bind, by {config}" in status.out


def test_project_of_a_file_shows_and_files_nothing_until_it_is_trusted(
    store: Path, tmp_path: Path
) -> None:
    rule = "Never open the vault of the bank before nine."
    run_brain("--store", str(store), "remember", rule, "--kind", "rule", "--project", "bank")
    clone = tmp_path / "clone"
    (clone / ".git").mkdir(parents=True)
    (clone / ".commonbrain.toml").write_text('project = "bank"\n')
    event: dict[str, object] = {"session_id": SESSION, "cwd": str(clone), "prompt": QUESTION}
    state = str(store.parent / "state")

    before = call_hook(store, *START, told=event)
    trusted = run_brain("hook", "trust", folder=clone, COMMONBRAIN_STATE=state)
    after = call_hook(store, *START, told=event)
    nothing = run_brain("hook", "trust", folder=tmp_path, COMMONBRAIN_STATE=state)

    assert "project clone" in before.context
    assert rule not in before.context
    assert "brain hook trust" in before.context
    assert trusted.out == f"The project of {clone} and below is bank.\n"
    assert "project bank" in after.context
    assert rule in after.context
    assert "brain hook trust" not in after.context
    assert nothing.status == 1
    assert "names a project" in nothing.err


def test_user_sees_that_action_items_prevented_storing_a_turn(
    store: Path, subtests: pytest.Subtests
) -> None:
    item = ("remember", "Rotate the deploy key", "--kind", "task", "--must-ack")
    run_brain("--store", str(store), "--agent", "mallory", *item)
    turn = "We decided to keep orders in Postgres because of its joins."
    fields = {"claude-code": "last_assistant_message", "gemini": "prompt_response"}
    for client, field in fields.items():
        with subtests.test(client=client):
            stopped = call_hook(store, client, "stop", told={"session_id": SESSION, field: turn})

            shown = json.loads(stopped.out)
            assert list(shown) == ["systemMessage"]
            assert "stored nothing of this turn" in shown["systemMessage"]
            assert "brain task ack mem_" in shown["systemMessage"]
            assert stopped.status == 0


IDLE: tuple[tuple[tuple[str, ...], dict[str, object]], ...] = (
    (("claude-code", "nothing"), {}),
    (PROMPT, {"prompt": "/clear all of it"}),
    (PROMPT, {"prompt": "yes please"}),
    (STOP, {"last_assistant_message": "I have formatted the file and ran the tests."}),
    (("claude-code", "session-end"), {}),
    (EDIT, {"tool_input": {"file_path": "/w/src/other.py", "new_string": "b"}}),
    (COMMIT, {"tool_input": {"command": "git status && git diff"}}),
    (COMMIT, {"tool_input": {"command": "git commit-tree"}}),
    (COMMIT, {"tool_input": {"command": "git" + " -c" * 60}}),
    (COMMAND, {"tool_input": {"file_path": "/w/src/other.py", "new_string": "b"}}),
    (COMMAND, {"tool_input": {"command": "npm test && ls -la src | head; kubectl apply -f x"}}),
)
"""Hooks with nothing to do, and their events."""
RUN_ALL = f"""
import io, json, os, sys
from commonbrain.__main__ import main

os._exit = sys.exit
for words, event in json.load(sys.stdin):
    sys.argv = ["brain", "hook", *words]
    sys.stdin = io.TextIOWrapper(io.BytesIO(json.dumps(event).encode()))
    try:
        main()
    except SystemExit:
        pass
    print([name for name in {HEAVY} if name in sys.modules])
print("commonbrain.hooks.runner" in sys.modules)
"""
"""A program that calls hooks, and prints which heavy modules are imported after each."""


@pytest.mark.requirement("PF-14")
def test_hook_with_nothing_to_do_imports_nothing_heavy(store: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps([(words, {"cwd": "/w", "session_id": SESSION, **e}) for words, e in IDLE]),
        capture_output=True,
        check=True,
        text=True,
        timeout=TIMEOUT_S,
        env=clean_environment(COMMONBRAIN_STORE=str(store), COMMONBRAIN_STATE=str(store.parent)),
    )

    assert done.stdout.splitlines() == ["[]"] * len(IDLE) + ["True"]


def test_hook_switches_agree_with_the_settings() -> None:
    fields = Settings.model_fields
    for variable, usual in LIMITS_S.values():
        assert fields[variable.removeprefix("COMMONBRAIN_").lower()].default == usual
    assert set(HookAction) == set(LIMITS_S)
    for text in ("off", "0", "False", "no", "n"):
        assert is_disabled({"COMMONBRAIN_HOOKS": text})
        assert not Settings.model_validate({"hooks": text.lower()}).hooks
    assert not is_disabled({})
    assert not is_disabled({"COMMONBRAIN_HOOKS": "on"})


def test_invalid_time_limit_leaves_the_default() -> None:
    for value in ("", "x", "0", "-1", "61", "inf", "nan"):
        variables = {"COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S": value}
        assert limit_s(HookAction.RECALL, variables) == 1.5, value


@given(raw=st.binary(max_size=300))
def test_any_bytes_are_an_event_or_invalid(raw: bytes) -> None:
    with suppress(InvalidInputError):
        read_event(raw)


def test_input_beyond_its_limit_is_invalid() -> None:
    with pytest.raises(InvalidInputError, match="more than"):
        read_event(b" " * (INPUT_BYTES_MAX + 1))


def test_names_that_differ_by_client_are_read_as_one_field() -> None:
    event = read_event(
        b'{"conversation_id": "c", "generation_id": "g", "workspace_roots": ["/w"], "text": "t"}'
    )

    assert (event.session, event.turn, event.reply) == ("c", "g", "t")
    assert event.folder == Path("/w")
    assert event.source_ref == "c#g"


def test_session_without_a_valid_name_is_none() -> None:
    for name in ("a\nb", "x" * 129, ""):
        assert read_event(json.dumps({"session_id": name}).encode()).session == "", name


def test_assent_and_commands_are_trivial_prompts() -> None:
    trivial = ("ok", "yes, please", "/compact now keep the plan", "!git status and so on", "   ")
    others = (
        "/home/ann/notes.txt is not readable, why?",
        "# Task\nWrite the importer",
        "为什么我们选择这个数据库",
    )
    assert [text for text in (*trivial, *others) if is_trivial(text)] == [*trivial]


def test_every_hook_is_listed_under_its_own_client_and_event() -> None:
    assert all((row.client, row.event) == key for key, row in HOOKS.items())
    natives = [(row.client, row.native) for row in HOOKS.values() if row.is_installed]
    assert len(natives) == len(set(natives))


def test_time_that_a_hook_took_to_start_counts(tmp_path: Path) -> None:
    program = (
        "from time import monotonic; from commonbrain.hooks.runner import run_hook; "
        "run_hook(['claude-code', 'session-start'], began=monotonic() - 50)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=b'{"session_id": "s"}',
        env=clean_environment(COMMONBRAIN_STATE=str(tmp_path)),
        capture_output=True,
        check=True,
        timeout=TIMEOUT_S,
    )
    assert (done.stdout, done.stderr) == (b"", b"commonbrain: The hook timed out.\n")
