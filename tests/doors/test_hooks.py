"""Hooks as clients call them: what they answer, and that nothing they meet stops the client."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import commonbrain
from commonbrain.config import Settings
from commonbrain.hooks.runner import is_disabled, limit_s
from commonbrain.hooks.table import HOOKS, INPUT_BYTES_MAX, LIMITS_S, HookAction, read_event
from commonbrain.model.errors import InvalidInputError
from commonbrain.text.prompts import is_trivial
from tests.doors.hooking import SESSION, call_hook
from tests.processes import PATIENCE_S, clean_environment

RULE = "Never push to the branch release without a green build."
FACT = "We chose Postgres over MySQL for its row-level security."
QUESTION = "why did we choose postgres over mysql?"
HEAVY = ("typer", "pydantic", "sqlalchemy", "numpy", "mcp", "onnxruntime", "commonbrain.client")
START = ("claude-code", "session-start")
PROMPT = ("claude-code", "user-prompt-submit")
STOP = ("claude-code", "stop")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store that knows a rule and a fact."""
    path = tmp_path / "brain.db"
    with commonbrain.open(path, agent="somebody") as brain:
        brain.remember(RULE, kind="rule", severity="BLOCKER")
        brain.remember(FACT, kind="fact")
    return path


@contextmanager
def locked(store: Path) -> Generator[None]:
    """Hold the store as a writer that does not come to an end."""
    with closing(sqlite3.connect(store)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.parametrize("client", ["claude-code", "codex", "cursor", "gemini"])
def test_a_session_start_is_told_what_binds_it(client: str, store: Path, tmp_path: Path) -> None:
    told: dict[str, object] = {"session_id": SESSION, "cwd": str(tmp_path), "source": "startup"}

    answered = call_hook(
        store, client, "session-start", told=told, COMMONBRAIN_HOOK_START_TIMEOUT_S="50"
    )

    assert answered.status == 0, answered
    assert RULE in answered.context
    assert SESSION in answered.context
    assert answered.context.startswith("<commonbrain-memory>\n")


@pytest.mark.parametrize("client", ["claude-code", "codex", "cursor", "gemini"])
def test_a_prompt_is_told_what_is_known_about_it(client: str, store: Path, tmp_path: Path) -> None:
    told: dict[str, object] = {
        "conversation_id": SESSION,
        "workspace_roots": [str(tmp_path)],
        "prompt": QUESTION,
    }

    # Whether the model is loaded in time depends on the machine; this is about what is answered.
    answered = call_hook(
        store, client, "user-prompt-submit", told=told, COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S="50"
    )

    assert answered.status == 0, answered
    assert f"> {FACT}" in answered.context
    assert "not instruction" in answered.context
    assert json.loads(answered.out).get("continue", True) is True


def test_a_prompt_about_something_else_is_told_nothing(store: Path) -> None:
    told: dict[str, object] = {"prompt": "please draw the release timetable as a table in blue"}

    answered = call_hook(store, *PROMPT, told=told, COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S="50")

    assert (answered.status, answered.out, answered.err) == (0, "", "")


@pytest.mark.parametrize("words", [(), ("claude-code",), ("emacs", "start"), ("--store",)])
def test_an_unknown_hook_is_no_fault_of_the_client(words: tuple[str, ...], store: Path) -> None:
    answered = call_hook(store, *words, told={})

    assert (answered.status, answered.out) == (0, "")
    assert answered.err.startswith("commonbrain: Unknown hook")
    assert answered.err.count("\n") == 1


@pytest.mark.parametrize("raw", [b"", b"{", b"[1]", b"\xff\xfe", b'{"cwd": "\\u0000/x"}', b"null"])
@pytest.mark.parametrize("words", [PROMPT, STOP])
def test_whatever_a_hook_is_told_the_client_goes_on(
    raw: bytes, words: tuple[str, ...], store: Path
) -> None:
    answered = call_hook(store, *words, told=raw)

    assert (answered.status, answered.out) == (0, "")


@pytest.mark.parametrize("words", [START, PROMPT, STOP])
def test_a_store_that_is_none_stops_nobody(words: tuple[str, ...], tmp_path: Path) -> None:
    foreign = tmp_path / "notes.db"
    foreign.write_text("not a database, and longer than a header would be " * 20)
    told: dict[str, object] = {"prompt": QUESTION, "last_assistant_message": f"{FACT} {RULE}"}

    answered = call_hook(foreign, *words, told=told)

    assert (answered.status, answered.out) == (0, "")
    assert answered.err.startswith("commonbrain: ")
    assert FACT not in answered.err


def test_a_store_that_others_hold_is_read_all_the_same(store: Path) -> None:
    told: dict[str, object] = {"session_id": SESSION, "prompt": QUESTION}

    with locked(store):
        start = call_hook(store, *START, told=told, COMMONBRAIN_HOOK_START_TIMEOUT_S="50")
        prompt = call_hook(store, *PROMPT, told=told, COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S="50")

    assert RULE in start.context
    assert FACT in prompt.context


def test_what_cannot_be_kept_in_time_is_given_up(store: Path) -> None:
    told: dict[str, object] = {"last_assistant_message": "We decided to close the pool in wiring."}

    with locked(store):
        answered = call_hook(store, *STOP, told=told, COMMONBRAIN_HOOK_WRITE_TIMEOUT_S="2")

    assert (answered.status, answered.out) == (0, "")
    assert answered.err.count("\n") == 1


def test_a_client_that_never_stops_telling_is_not_waited_for(store: Path) -> None:
    command = [sys.executable, "-m", "commonbrain", "hook", *PROMPT, "--store", str(store)]
    environment = clean_environment(
        COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S="0.3", COMMONBRAIN_STATE=str(store.parent)
    )
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    ) as process:
        assert process.wait(PATIENCE_S) == 0
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read() == b""
        assert process.stderr.read() == b"commonbrain: The hook timed out.\n"


def test_hooks_are_off_by_the_environment_or_the_folder(store: Path, tmp_path: Path) -> None:
    told: dict[str, object] = {"prompt": QUESTION, "cwd": str(tmp_path / "deep" / "down")}
    switched = call_hook(store, *START, told=told, COMMONBRAIN_HOOKS="off")
    (tmp_path / ".commonbrain.toml").write_text("hooks = false\n")
    forbidden = call_hook(store, *START, told=told)

    assert (switched.status, switched.out, switched.err) == (0, "", "")
    assert (forbidden.status, forbidden.out, forbidden.err) == (0, "", "")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("claude-code", "nothing"), b"{}"),
        (PROMPT, b'{"prompt": "/clear all of it"}'),
        (PROMPT, b'{"prompt": "yes please"}'),
        (STOP, b'{"last_assistant_message": "I have formatted the file and ran the tests."}'),
        (("claude-code", "session-end"), b"{}"),
    ],
)
def test_nothing_heavy_is_loaded_to_find_that_there_is_nothing_to_do(
    words: tuple[str, ...], told: bytes, store: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "commonbrain", "hook", *words],
        input=told,
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
        env=clean_environment(COMMONBRAIN_STORE=str(store), COMMONBRAIN_STATE=str(store.parent)),
    )

    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}
    assert "commonbrain.hooks.runner" in loaded
    assert not loaded & set(HEAVY)


def test_the_status_says_who_switched_hooks_off(tmp_path: Path) -> None:
    (tmp_path / ".commonbrain.toml").write_text('project = "tides"\nhooks = false\n')
    done = subprocess.run(
        [sys.executable, "-m", "commonbrain", "hook", "status"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
        timeout=PATIENCE_S,
        env=clean_environment(),
    )

    told = done.stdout.decode()
    assert f"hooks: off, by {tmp_path / '.commonbrain.toml'}" in told
    assert "project: tides" in told


def test_the_light_switches_agree_with_the_settings() -> None:
    fields = Settings.model_fields
    for variable, usual in LIMITS_S.values():
        assert fields[variable.removeprefix("COMMONBRAIN_").lower()].default == usual
    assert set(HookAction) == set(LIMITS_S)
    for text in ("off", "0", "False", "no", "n"):
        assert is_disabled({"COMMONBRAIN_HOOKS": text})
        assert not Settings.model_validate({"hooks": text.lower()}).hooks
    assert not is_disabled({})
    assert not is_disabled({"COMMONBRAIN_HOOKS": "on"})


@pytest.mark.parametrize("given", ["", "x", "0", "-1", "61", "inf", "nan"])
def test_a_limit_that_is_none_leaves_the_usual_one(given: str) -> None:
    assert limit_s(HookAction.RECALL, {"COMMONBRAIN_HOOK_PROMPT_TIMEOUT_S": given}) == 1.5


@given(raw=st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    with suppress(InvalidInputError):
        read_event(raw)


def test_what_is_too_much_is_not_read() -> None:
    with pytest.raises(InvalidInputError, match="more than"):
        read_event(b" " * (INPUT_BYTES_MAX + 1))


def test_the_clients_names_for_one_thing_are_one() -> None:
    happening = read_event(
        b'{"conversation_id": "c", "generation_id": "g", "workspace_roots": ["/w"], "text": "t"}'
    )

    assert (happening.session, happening.turn, happening.reply) == ("c", "g", "t")
    assert happening.folder == Path("/w")
    assert happening.source_ref == "c#g"


@pytest.mark.parametrize("name", ["a\nb", "x" * 129, ""])
def test_a_session_of_no_proper_name_is_none(name: str) -> None:
    assert read_event(json.dumps({"session_id": name}).encode()).session == ""


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("ok", True),
        ("yes, please", True),
        ("/compact now keep the plan", True),
        ("!git status and so on", True),
        ("   ", True),
        ("/home/ann/notes.txt is not readable, why?", False),
        ("# Task\nWrite the importer", False),
        ("为什么我们选择这个数据库", False),
    ],
)
def test_assent_and_commands_are_trivial(text: str, is_so: bool) -> None:  # noqa: FBT001 drawn
    assert is_trivial(text) is is_so


def test_every_row_of_the_table_is_found_under_its_own_names() -> None:
    assert all((row.client, row.event) == key for key, row in HOOKS.items())
    natives = [(row.client, row.native) for row in HOOKS.values()]
    assert len(natives) == len(set(natives))
