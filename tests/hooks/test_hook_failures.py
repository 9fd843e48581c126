"""After a failure: what fixed it before is shown, and what fixes it now is stored."""

import json
import subprocess
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import commonbrain
from commonbrain.api.project_folder import FolderConfig
from commonbrain.hooks.failure_log import captures_failures
from commonbrain.hooks.table import read_event
from commonbrain.hooks.tool_results import INTERRUPTED
from commonbrain.text.tokens import estimate
from tests.hooking import Answered, call_hook
from tests.in_process import run_brain
from tests.processes import TIMEOUT_S, clean_environment, command

COMMAND: Final = "pytest tests/test_orders.py -q"
OUTPUT: Final = """\
F                                                                        [100%]
=================================== FAILURES ===================================
______________________________ test_list_orders ________________________________

    def test_list_orders(client):
>       assert client.get("/orders").status_code == 200

/home/ann/shop/tests/test_orders.py:14:
/home/ann/shop/src/shop/repo/orders.py:31: in list_orders
    return [order.customer.name for order in rows]
E   sqlalchemy.exc.MissingGreenlet: greenlet_spawn has not been called; can't call await_only() here
=========================== short test summary info ============================
FAILED tests/test_orders.py::test_list_orders - sqlalchemy.exc.MissingGreenlet
1 failed in 0.41s
"""
ELSEWHERE: Final = OUTPUT.replace("/home/ann/shop", "/Users/bob/work/shop").replace("31", "77")
FILE: Final = "src/shop/repo/orders.py"
CLIENTS: Final = ("claude-code", "codex", "gemini", "cursor")


class Session:
    """One session of a client, whose payloads have the form in which it sends them.

    It is in a repository, unless a folder is given.
    """

    def __init__(
        self, store: Path, name: str, *, client: str = "claude-code", folder: Path | None = None
    ) -> None:
        self.store, self.client = store, client
        if folder is None:
            (store.parent / ".git").mkdir(exist_ok=True)
        self.shared: dict[str, object] = {"session_id": name, "cwd": str(folder or store.parent)}

    def fails(self, output: str = OUTPUT, *, command: str = COMMAND, status: int = 1) -> Answered:
        match self.client:
            case "claude-code":
                result: dict[str, object] = {
                    "error": f"Exit code {status}\n{output}",
                    "is_interrupt": False,
                    "duration_ms": 69,
                }
                return self.ran(result, command=command, event="post-tool-use-failure")
            case "gemini":
                text = f"Output: {output}\nExit Code: {status}\nProcess Group PGID: 26482"
                context = f"<untrusted_context>\n{text}\n</untrusted_context>"
                result = {"tool_response": {"llmContent": context, "returnDisplay": output}}
            case "codex":
                result = {"tool_response": output}
            case _:
                result = {"tool_output": json.dumps({"output": output, "exitCode": status})}
        return self.ran(result, command=command)

    def passes(self, command: str = COMMAND, *, output: str = "1 passed in 0.21s") -> Answered:
        match self.client:
            case "claude-code":
                payload: object = {"stdout": output, "stderr": "", "interrupted": False}
            case "gemini":
                payload = {
                    "llmContent": f"<untrusted_context>\nOutput: {output}\n</untrusted_context>"
                }
            case "codex":
                payload = output
            case _:
                payload = {"output": output, "exitCode": 0}
        return self.ran({"tool_response": payload}, command=command)

    def edits(self, file: str = FILE, *, old: str = "select(Order)", new: str = "") -> Answered:
        new = new or "select(Order).options(selectinload(Order.customer))"
        path = str(Path(str(self.shared["cwd"])) / file)
        if self.client == "codex":
            patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-{old}\n+{new}\n*** End Patch"
            return self._send("apply_patch", given={"command": patch})
        given: dict[str, object] = {"file_path": path, "old_string": old, "new_string": new}
        return self._send("Edit", given=given)

    def ends(self) -> Answered:
        payload = {**self.shared, "reason": "exit"}
        return call_hook(self.store, self.client, "session-end", "--detached", told=payload)

    def ran(
        self, result: dict[str, object], *, command: str, event: str = "post-tool-use"
    ) -> Answered:
        return self._send("Bash", given={"command": command}, result=result, event=event)

    def _send(
        self,
        tool: str,
        *,
        given: dict[str, object],
        result: dict[str, object] | None = None,
        event: str = "post-tool-use",
    ) -> Answered:
        payload = {**self.shared, "tool_name": tool, "tool_input": given, **(result or {})}
        answered = call_hook(self.store, self.client, event, told=payload)
        assert (answered.status, answered.err) == (0, "")
        return answered


def stored(store: Path) -> list[str]:
    with commonbrain.open(store, agent="claude-code") as brain:
        return [one.body or "" for one in brain.recall("", kinds=["incident"]).items]


@pytest.fixture
def learnt(store: Path) -> Path:
    """A store that knows how the failure was fixed."""
    session = Session(store, "first")
    assert session.fails().out == ""
    session.edits()
    session.passes()
    return store


def test_what_fixed_a_failure_is_shown_at_the_same_failure_in_every_client(
    learnt: Path, subtests: pytest.Subtests
) -> None:
    [text] = stored(learnt)
    assert "`pytest tests/test_orders.py -q` failed: sqlalchemy.exc.MissingGreenlet" in text
    assert f"It passed after an edit of {FILE}:" in text
    assert "+ select(Order).options(selectinload(Order.customer))" in text
    for client in CLIENTS:
        with subtests.test(client=client):
            session = Session(learnt, f"later {client}", client=client)

            shown = session.fails(ELSEWHERE, command="make test", status=2).context

            assert FILE in shown
            assert "selectinload" in shown
            assert "not instruction" in shown
            assert estimate(shown) <= 120
            assert session.fails(ELSEWHERE, command="make test", status=2).out == ""


def test_command_that_passes_without_anything_done_is_flaky_and_not_stored(store: Path) -> None:
    session = Session(store, "flaky")
    session.fails()
    session.passes()
    session.fails()
    session.edits()
    session.passes()

    assert stored(store) == []


def test_edit_of_a_document_fixes_no_command(store: Path) -> None:
    session = Session(store, "documents")
    session.fails()
    session.edits("docs/orders.md")
    session.passes()

    assert stored(store) == []


def test_install_that_made_a_command_pass_is_stored(store: Path) -> None:
    session = Session(store, "install")
    session.fails("ModuleNotFoundError: No module named 'greenlet_helpers'\n")
    session.passes("cat requirements.txt")
    session.passes("pip install greenlet-helpers")
    session.passes()

    [text] = stored(store)
    assert "It passed after `pip install greenlet-helpers`." in text


def test_what_did_not_end_an_error_is_no_part_of_its_fix(store: Path) -> None:
    session = Session(store, "tries")
    session.fails()
    session.edits("src/shop/api.py")
    session.fails()
    session.edits()
    session.passes()

    [text] = stored(store)
    assert FILE in text
    assert "api.py" not in text


def test_test_that_was_written_to_fail_teaches_nothing(store: Path) -> None:
    session = Session(store, "test first")
    session.edits("tests/test_orders.py")
    session.fails()
    session.edits()
    session.passes()

    assert stored(store) == []


@pytest.mark.parametrize(
    ("command", "output", "status"),
    [
        ("pytset -q", "bash: pytset: command not found", 127),
        ("pytest --qiet", "ERROR: unrecognized arguments: --qiet", 4),
        ("grep -rn MissingGreenlet src", "error: no such thing was found", 1),
        ("sleep 600", "Command timed out after 2m 0s", 143),
    ],
)
def test_mistyped_and_asking_and_interrupted_commands_are_no_failures(
    store: Path, command: str, output: str, status: int
) -> None:
    session = Session(store, "none")
    session.fails(output, command=command, status=status)
    session.edits()
    session.passes(command)

    assert stored(store) == []


def test_fix_is_private_until_it_was_shown_and_the_command_passed(learnt: Path) -> None:
    with commonbrain.open(learnt, agent="somebody else") as brain:
        assert not brain.recall("", kinds=["incident"]).items
    later = Session(learnt, "later", client="codex")
    assert "selectinload" in later.fails(ELSEWHERE).context
    later.edits("src/shop/repo/orders.py")
    later.passes()

    with commonbrain.open(learnt, agent="somebody else") as brain:
        [shared] = brain.recall("", kinds=["incident"]).items
        assert shared.label == "failure"
        assert shared.agent == "codex"
    assert "selectinload" in Session(learnt, "third").fails(OUTPUT).context


def test_known_pair_is_confirmed_and_not_stored_again(learnt: Path) -> None:
    again = Session(learnt, "again")
    again.fails(ELSEWHERE)
    again.edits()
    again.passes()

    assert len(stored(learnt)) == 1


def test_incident_that_quotes_the_error_is_shown(store: Path) -> None:
    text = (
        "The orders page is down: greenlet_spawn has not been called; can't call await_only() here"
        "\nLoad the customer with selectinload."
    )
    with commonbrain.open(store, agent="ann") as brain:
        brain.remember(text, kind="incident")
        brain.remember("greenlet_spawn was upgraded and orders are slow", kind="incident")

    shown = Session(store, "quoted").fails().context

    assert "Load the customer with selectinload." in shown
    assert "slow" not in shown


def test_failure_that_is_another_one_is_shown_nothing(learnt: Path) -> None:
    other = OUTPUT.replace("greenlet_spawn has not been called; can't call await_only() here", "no")
    session = Session(learnt, "other")

    assert session.fails(other.replace("MissingGreenlet", "NoResultFound")).out == ""
    assert session.fails("ok\n", command="make test").out == ""


def test_secrets_of_output_command_and_edit_reach_neither_store_nor_state(store: Path) -> None:
    password = "tram-Mango-81x"  # noqa: S105 invented
    address = f"postgresql://shop:{password}@db:5432/shop"
    session = Session(store, "secret")
    session.fails(
        f"E   sqlalchemy.exc.OperationalError: could not connect to {address}\n",
        command=f"DATABASE_URL={address} {COMMAND}",
    )
    session.edits("src/shop/db.py", old="", new=f'URL = "{address}"')
    states = [one.read_text() for one in (store.parent / "state").rglob("*") if one.is_file()]
    assert any("OperationalError" in one for one in states)
    session.passes(f"DATABASE_URL={address} {COMMAND}")

    assert not any(password in one for one in states)
    [text] = stored(store)
    assert password not in text


@pytest.mark.parametrize(
    ("output", "edit"),
    [
        ("E   DBError: no connection with password: Tram-Mango-81x to the database host db1\n", ""),
        (
            OUTPUT,
            "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEITram-Mango-81x\n-----END EC PRIVATE KEY-----",
        ),
        (OUTPUT, f"{'x' * 150} ghp_TramMango81xTramMango81xTramMango81x00"),
    ],
)
def test_part_of_a_secret_reaches_neither_store_nor_state(
    store: Path, output: str, edit: str
) -> None:
    session = Session(store, "part")
    session.fails(output)
    session.edits("src/shop/db.py", old=edit.replace("Mango", "Peach"), new=edit or "x = 1")
    states = [one.read_text() for one in (store.parent / "state").rglob("*") if one.is_file()]
    session.passes()

    [text] = stored(store)
    for part in ("Mango-81x", "ghp_"):
        assert part not in text
        assert not any(part in one for one in states)
    assert b"Mango-81x" not in store.read_bytes()


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"outstanding": [3]}', b"\xff" * 200_000])
def test_broken_state_of_a_session_is_an_empty_one(store: Path, content: bytes) -> None:
    session = Session(store, "broken")
    session.fails()
    [file] = (store.parent / "state" / "hooks" / "failures").iterdir()
    assert file.stat().st_mode & 0o077 == 0
    file.write_bytes(content)

    session.passes()
    session.fails()
    session.edits()
    session.passes()

    assert len(stored(store)) == 1


def test_state_is_bounded_and_deleted_with_its_session(store: Path) -> None:
    session = Session(store, "long")
    for number in range(12):
        session.fails(OUTPUT + "x" * 400_000, command=f"make test-{number}")
        session.edits(f"src/file_{number}.py", new="y = 1\n" * 1000)
    [file] = (store.parent / "state" / "hooks" / "failures").iterdir()
    assert file.stat().st_size < 32_768

    session.ends()

    assert not file.exists()


def test_two_megabytes_of_output_are_read_at_both_ends(learnt: Path) -> None:
    noise = "collected 1 item, and this line says nothing\n" * 45_000

    assert FILE in Session(learnt, "large").fails(noise + OUTPUT).context
    assert FILE in Session(learnt, "large too").fails(OUTPUT + noise).context


def test_store_that_cannot_be_read_stops_no_command(tmp_path: Path) -> None:
    store = tmp_path / "brain.db"
    store.write_bytes(b"no database" * 1000)
    payload: dict[str, object] = {
        "session_id": "dead",
        "cwd": str(tmp_path),
        "tool_name": "Bash",
        "tool_input": {"command": COMMAND},
        "error": f"Exit code 1\n{OUTPUT}",
    }

    answered = call_hook(store, "claude-code", "post-tool-use-failure", told=payload)

    assert (answered.status, answered.out) == (0, "")


def test_edit_is_not_shown_the_failures_that_it_fixed_before(learnt: Path) -> None:
    assert Session(learnt, "edit", client="gemini").edits().out == ""


def test_command_that_fails_in_a_pipe_has_not_passed(store: Path) -> None:
    session = Session(store, "pipe")
    session.fails()
    session.edits()
    session.passes(f"{COMMAND} 2>&1 | tail -5", output=OUTPUT)

    assert stored(store) == []

    session.edits()
    session.passes(f"{COMMAND} 2>&1 | tail -5")
    assert len(stored(store)) == 1


def test_command_of_another_folder_is_another_one(store: Path) -> None:
    session = Session(store, "monorepo")
    session.fails(command=f"cd api && {COMMAND}")
    session.edits()
    session.passes(f"cd web && {COMMAND}")

    assert stored(store) == []

    session.passes(COMMAND)
    assert len(stored(store)) == 1


def test_command_that_was_not_allowed_to_run_has_not_failed(store: Path) -> None:
    session = Session(store, "denied")
    error: dict[str, object] = {"error": "The user does not want this: access is denied"}
    session.ran(error, command=COMMAND, event="post-tool-use-failure")
    session.edits()
    session.passes()

    assert stored(store) == []


def test_private_incident_of_a_person_stays_private_whatever_its_label(store: Path) -> None:
    with commonbrain.open(store, agent="claude-code") as brain:
        text = "greenlet_spawn has not been called; can't call await_only() here: mine alone"
        [item] = brain.remember(text, kind="incident", label="failure", scope="private").items
        own = Session(store, "own")
        own.fails()
        own.edits()
        own.passes()

        assert brain.get(item.id or "").scope == "private"


def test_fix_is_found_by_hand_by_what_a_command_printed(learnt: Path) -> None:
    with commonbrain.open(learnt, agent="claude-code") as brain:
        fix = brain.why_failed(ELSEWHERE)
        assert fix is not None
        assert f"It passed after an edit of {FILE}" in fix.text
        assert brain.why_failed(ELSEWHERE) == fix
        assert brain.why_failed("1 passed in 0.21s") is None
    reply = run_brain("--store", str(learnt), "why-failed", "-", stdin=OUTPUT.encode())
    assert (reply.status, FILE in reply.out) == (0, True)


@pytest.mark.parametrize(
    ("store", "variables", "is_recorded"),
    [
        (None, {"COMMONBRAIN_SECRETS_DIR": "/run/secrets"}, False),
        ("https://brain.example.org", {"COMMONBRAIN_SECRETS_DIR": "/run/secrets"}, True),
        (None, {"COMMONBRAIN_STORE": "postgresql://db/brain"}, True),
    ],
)
def test_failures_are_not_recorded_where_the_store_may_be_sealed(
    store: str | None,
    variables: dict[str, str],
    is_recorded: bool,  # noqa: FBT001 a parameter of the test
) -> None:
    assert captures_failures(FolderConfig(), variables, store=store) is is_recorded


def test_output_of_any_length_is_read_from_stdin_at_both_ends(learnt: Path) -> None:
    noise = b"collected 1 item, and this line says nothing\n" * 100_000
    for output in (noise + OUTPUT.encode(), OUTPUT.encode() + noise):
        reply = run_brain("--store", str(learnt), "why-failed", "-", stdin=output)
        assert (reply.status, FILE in reply.out) == (0, True)


def test_output_without_an_end_is_refused(store: Path) -> None:
    with Path("/dev/zero").open("rb") as endless:
        done = subprocess.run(
            command(store, "why-failed", "-"),
            stdin=endless,
            capture_output=True,
            timeout=TIMEOUT_S,
            env=clean_environment(),
            check=False,
        )
    assert done.returncode != 0
    assert b"The input has more than 1 GiB" in done.stderr


@given(text=st.text(st.characters()))
@example(text="half \ud83d")
def test_texts_of_an_event_can_be_stored_and_sent_whatever_a_client_cuts(text: str) -> None:
    given = {"file_path": text, "command": text, "new_string": text, "edits": [{"content": text}]}
    payload = {"session_id": text, "prompt": text, "tool_response": text, "tool_input": given}
    payload |= {"workspace_roots": [f"/{text}"]}

    event = read_event(json.dumps(payload).encode())

    assert json.dumps(asdict(event), ensure_ascii=False, default=str).encode()


def test_recorded_payloads_are_read_as_their_clients_send_them() -> None:
    lines = Path(__file__).with_name("tool_payloads.jsonl").read_text().splitlines()
    for row in map(json.loads, lines):
        event = read_event(json.dumps(row["payload"]).encode())
        if event.files:
            assert event.changes[-1].startswith("+ "), row
            continue
        assert event.exit_code == row["exit_code"], row
        if "exit 3" in event.command:
            assert event.output.strip() == "out\nE   ValueError: bad"
        if "echo fine" in event.command:
            assert event.output.startswith("fine")


@pytest.mark.parametrize("end", ["", "\nError: (none)\nExit Code: 1\nSignal: (none)"])
def test_output_that_names_an_error_is_read_whole(end: str) -> None:
    printed = "node:internal/modules\nError: Cannot find module 'pg'\nRequire stack:"
    text = f"Command: npm test\nDirectory: (root)\nOutput: {printed}{end}"
    payload = {"tool_name": "run_shell_command", "tool_input": {"command": "npm test"}}

    for result in ({"tool_response": {"llmContent": text}}, {"error": text}):
        event = read_event(json.dumps({**payload, **result}).encode())
        assert event.output == printed


@pytest.mark.parametrize("end", ["", "\nExit Code: (none)\nSignal: (none)"])
def test_command_that_did_not_start_has_neither_failed_nor_passed(end: str) -> None:
    text = f"Command: make\nDirectory: (root)\nOutput: (empty)\nError: spawn make ENOENT{end}"
    payload = {"tool_name": "run_shell_command", "tool_input": {"command": "make"}, "error": text}

    assert read_event(json.dumps(payload).encode()).exit_code == INTERRUPTED


def test_of_a_long_output_both_ends_are_read(store: Path) -> None:
    rest = "a line that says nothing\n" * 60_000
    Session(store, "a").fails(f"{OUTPUT}{rest}")
    session = Session(store, "b")
    session.fails(f"{rest}{OUTPUT}")
    session.edits(FILE)
    session.passes()
    assert FILE in Session(store, "c").fails(f"{OUTPUT}{rest}").context


def test_command_of_copilot_that_still_runs_has_not_failed() -> None:
    text = "E   ValueError: bad\n<command with shellId: 0 is still running after 30 seconds>"
    payload = {"tool_name": "Bash", "tool_input": {"command": "make test"}}
    result = {"tool_result": {"result_type": "success", "text_result_for_llm": text}}

    assert read_event(json.dumps({**payload, **result}).encode()).exit_code == INTERRUPTED


def test_without_capture_fixes_are_shown_and_nothing_is_recorded(learnt: Path) -> None:
    (learnt.parent / ".commonbrain.toml").write_text('capture = "off"\n')
    session = Session(learnt, "no capture")

    assert FILE in session.fails(ELSEWHERE, command="make test").context
    session.edits("src/shop/other.py")
    session.passes("make test")

    assert len(stored(learnt)) == 1
    assert len(list((learnt.parent / "state" / "hooks" / "failures").iterdir())) == 1
