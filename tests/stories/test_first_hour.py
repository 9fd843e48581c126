"""A newcomer's first hour: one command connects three clients and fills the memory; two learn."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import copytree
from typing import Any, Final

import pytest

from tests.claude_sessions import write_session
from tests.hooking import PATIENT, Answered
from tests.hooks.test_user_statements import ATTENDED
from tests.in_process import run_brain
from tests.processes import AS_AGENT, TIMEOUT_S, clean_environment, until

SAMPLES = Path(__file__).parents[1] / "transfer" / "samples"
RULES = "# Rules\n\n- Always run the tide tests before you commit.\n"
CLAUDE = '{\n    "numStartups": 12,\n    "mcpServers": {"tides": {"command": "tides"}}\n}'
CODEX = 'model = "large"   # why not\n'
RECORDED = Path(__file__).parents[1] / "hooks" / "tool_payloads.jsonl"
"""What clients sent, with other names of folders."""
COMMAND: Final = "pytest tests/test_orders.py -q"
ERROR: Final = """\
/home/ann/shop/src/shop/orders.py:31: in list_orders
E   sqlalchemy.exc.MissingGreenlet: greenlet_spawn has not been called; can't call await_only() here
FAILED tests/test_orders.py::test_list_orders - sqlalchemy.exc.MissingGreenlet"""
FIX: Final = "select(Order).options(selectinload(Order.customer))"
TABS: Final = "I prefer tabs over spaces"


@dataclass(frozen=True, slots=True)
class Session:
    """A session of a client, which calls the hooks of its settings as the client does."""

    client: str
    settings: Path
    state: Path

    def fails(self) -> str:
        """Run the tests, which fail; return what the agent is shown."""
        recorded = self._recorded("ValueError: bad")
        if self.client == "claude-code":
            recorded["error"] = f"Exit code 1\n{ERROR}"
        else:
            recorded["tool_response"] = f"{ERROR}\n"
        return self._after_command(recorded)

    def passes(self) -> None:
        """Run the tests, which pass."""
        assert self._after_command(self._recorded("echo fine")) == ""

    def edits(self) -> None:
        """Fix the code."""
        if self.client == "claude-code":
            edit = self._recorded("old_string")
            given = {"old_string": "select(Order)", "new_string": FIX}
            edit["tool_input"] |= {"file_path": f"{edit['cwd']}/src/shop/orders.py", **given}
        else:
            edit = self._recorded("echo fine") | {"tool_name": "apply_patch"}
            lines = "*** Update File: src/shop/orders.py\n@@\n-select(Order)\n"
            patch = f"*** Begin Patch\n{lines}+{FIX}\n*** End Patch"
            edit["tool_input"] = {"command": patch}
        assert self.hook(edit).out == ""

    def prompt(self, text: str, **environment: str) -> None:
        """Send a prompt of the user; nothing is known of it."""
        payload = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": text}
        assert self.hook(payload, **environment).out == ""

    def hook(self, payload: dict[str, Any], **environment: str) -> Answered:
        """Run the hook of an event by the command line in the settings of the client."""
        event, tool = payload["hook_event_name"], payload.get("tool_name", "")
        groups = json.loads(self.settings.read_text())["hooks"][event]
        [handler] = [
            one
            for group in groups
            if re.fullmatch(group.get("matcher", ""), tool)
            for one in group["hooks"]
        ]
        words = [handler["command"], *handler.get("args", ())]
        words = words if "args" in handler else shlex.split(handler["command"])
        own = {"COMMONBRAIN_STATE": str(self.state), **environment}
        raw = json.dumps({**payload, "session_id": f"one of {self.client}"})
        # A process of its own, because some hooks leave one that goes on when they have ended.
        done = subprocess.run(
            [sys.executable, "-m", "commonbrain", *words[words.index("hook") :]],
            input=raw,
            env=clean_environment(**PATIENT, **own),
            capture_output=True,
            text=True,
            check=True,
            timeout=TIMEOUT_S,
        )
        assert done.stderr == ""
        return Answered(status=done.returncode, out=done.stdout, err=done.stderr)

    def _after_command(self, payload: dict[str, Any]) -> str:
        payload["tool_input"]["command"] = COMMAND
        return self.hook(payload, COMMONBRAIN_PROJECT="shop").context

    def _recorded(self, part: str) -> dict[str, Any]:
        rows = map(json.loads, RECORDED.read_text().splitlines())
        of_client = (one["payload"] for one in rows if one["client"] == self.client)
        return next(one for one in of_client if part in json.dumps(one))


def proposals() -> list[str]:
    """List the proposals that wait for the user."""
    waiting = json.loads(brain("review", "proposals", "--json"))["proposals"]
    return [one["memory"]["id"] for one in waiting]


@pytest.fixture(autouse=True)
def machine(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a home with three clients, their sessions and instructions."""
    for name in ("COPILOT_HOME", "QWEN_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("COLUMNS", "400")
    copytree(SAMPLES / "claude-code", home / ".claude" / "projects")
    copytree(SAMPLES / "codex" / "sessions", home / ".codex" / "sessions")
    (home / ".cursor").mkdir()
    (home / ".claude" / "CLAUDE.md").write_text(RULES)
    (home / ".claude.json").write_text(CLAUDE)
    (home / ".codex" / "config.toml").write_text(CODEX)
    return home


def brain(*words: str, **environment: str) -> str:
    done = run_brain(*words, COMMONBRAIN_MCP_SHARED="off", **environment)
    assert done.status == 0, done.out + done.err
    return done.out


def files(home: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in sorted(home.rglob("*")) if one.is_file()}


def outcomes(reply: dict[str, Any]) -> dict[str, str]:
    return {one["client"]: one["outcome"] for one in reply["clients"]}


def test_first_hour_from_setup_to_undo(machine: Path, tmp_path: Path) -> None:
    before = files(machine)

    preview = brain("setup")
    assert "4 sessions of 2 agents and 1 file of notes" in preview
    assert "Nothing was changed" in preview
    assert files(machine) == before
    assert run_brain("status", "--json").status == 4, "there is no store yet"

    report = brain("setup", "--yes", "--wait")
    assert "claude-code: added the server commonbrain to ~/.claude.json, added 9 hooks" in report
    assert "Backup: ~/.claude.json.bak" in report
    assert "nothing is sent anywhere" in report
    assert "Imported 4 sessions of 2 agents and 1 file of notes: 16 new memories" in report
    assert "A session costs about" in report
    attempt = next(one for one in report.splitlines() if one.startswith("Try: brain recall "))
    assert "mem_" in brain("recall", attempt.split('"')[1])
    assert "tide tests" in brain("recall", "what do I run before a commit?")

    connected = files(machine)
    again = brain("setup", "--yes", "--wait")
    assert again.count("connected already, nothing to change") == 3
    assert "0 new memories" in again
    assert "16 known before" in again
    assert files(machine) == connected

    # A test fails in Claude Code, and the agent mends it.
    claude = Session("claude-code", machine / ".claude" / "settings.json", tmp_path / "state")
    codex = Session("codex", machine / ".codex" / "hooks.json", tmp_path / "state")
    assert claude.fails() == ""
    claude.edits()
    claude.passes()
    # The same failure in Codex.
    shown = codex.fails()
    assert "src/shop/orders.py" in shown
    assert FIX in shown
    codex.edits()
    codex.passes()
    # What helped another agent is everybody's.
    assert FIX in brain("recall", "MissingGreenlet in list_orders")

    # The user corrects an agent in passing: a rule where the client shows who typed it.
    claude.prompt("Thanks. From now on use pnpm instead of npm.", **ATTENDED)
    until(lambda: "pnpm" in brain("recall", "pnpm or npm?", "--kind", "rule"))
    assert proposals() == []
    # Elsewhere it waits for the user, who declines it.
    codex.prompt(f"{TABS}.")
    until(lambda: bool(proposals()))
    [proposed] = proposals()
    brain("revise", "reject", proposed, "--reason", "not in this project")
    codex.prompt(f"{TABS}. From now on write commit messages in English.")
    until(lambda: bool(proposals()))
    [other] = proposals()
    assert "English" in brain("get", other)

    undone = brain("setup", "--undo")
    assert "restored ~/.claude.json" in undone
    assert files(machine) == before
    assert "No client was connected" in brain("setup", "--undo")


def test_agent_gets_json_and_its_rules_wait_for_the_user(machine: Path) -> None:
    reply = json.loads(brain("setup", "--yes", "--json", "--wait", **AS_AGENT))

    assert outcomes(reply) == dict.fromkeys(("claude-code", "codex", "cursor"), "connected")
    assert {one["format"] for one in reply["sources"]} == {"claude-code", "codex", "markdown"}
    assert reply["needs_review"]
    assert reply["tokens"]["tools"] > 0
    assert reply["undo"] == "brain setup --undo"
    assert reply["advice"] == []
    rules = json.loads(brain("recall", "tide tests", "--kind", "rule", "--json", **AS_AGENT))
    assert rules["items"] == []
    assert (machine / ".claude.json.bak").read_text() == CLAUDE


@pytest.mark.requirement("DO-33")
def test_notes_in_another_language_bring_the_advice_of_a_model_for_it(machine: Path) -> None:
    notes = ("Wir deployen nur am Dienstag", "Die Tests laufen mit pytest", "Der Server steht hier")
    (machine / ".claude" / "CLAUDE.md").write_text(
        "".join(f"- {one} und nicht am Abend.\n" for one in notes)
    )

    shown = brain("setup", "--yes", "--wait")

    assert shown.count("pip install 'commonbrain[multilingual]'") == 1


def test_without_a_terminal_a_worker_imports(machine: Path) -> None:
    reply = json.loads(brain("setup", "--yes", "--json"))

    assert all(one["outcome"] == "queued" and one["job"] for one in reply["sources"])
    assert not reply["is_importing"], "no process is shared"
    assert json.loads(brain("status", "--json"))["memories"] == 0
    brain("worker", "--once", "--kinds", "import")
    assert json.loads(brain("status", "--json"))["memories"] == 16
    assert machine.exists()


def test_choices_leave_out_hooks_imports_and_clients(machine: Path) -> None:
    words = ("--client", "cursor", "--no-hooks", "--no-import", "--yes", "--json")
    reply = json.loads(brain("setup", *words))

    assert outcomes(reply) == {"cursor": "connected"}
    assert reply["sources"] == []
    assert [one.name for one in (machine / ".cursor").iterdir()] == ["mcp.json"]


def test_entry_of_another_program_is_named_and_stays(machine: Path) -> None:
    foreign = '{"mcpServers": {"commonbrain": {"command": "other"}}}'
    (machine / ".cursor" / "mcp.json").write_text(foreign)

    done = run_brain("setup", "--yes", "--json", "--no-import")
    reply = json.loads(done.out)
    assert done.status != 0
    assert outcomes(reply)["cursor"] == "refused"
    assert outcomes(reply)["codex"] == "connected"
    undone = run_brain("setup", "--undo")
    assert "cursor: left as it is" in undone.out
    assert (machine / ".cursor" / "mcp.json").read_text() == foreign

    brain("setup", "--yes", "--no-import", "--force")
    assert "other" not in (machine / ".cursor" / "mcp.json").read_text()


def test_json_asks_nothing_and_an_unknown_client_changes_nothing(machine: Path) -> None:
    before = files(machine)
    for words in (("--json",), ("--client", "emacs", "--yes"), ("--client", "emacs", "--undo")):
        assert run_brain("setup", *words).status != 0
    assert files(machine) == before


def test_person_at_a_terminal_chooses(machine: Path) -> None:
    shown = at_terminal(
        [("Connect which", b"2,cursor\n"), ("Import which", b"markdown\n"), ("To undo", b"")]
    )

    assert "claude-code" in shown
    assert (machine / ".claude.json").read_text() == CLAUDE
    assert (machine / ".cursor" / "mcp.json").exists()
    assert "Imported 1 file of notes: 1 new memory, of these 1 rule." in shown
    assert "mem_" in brain("recall", "tide tests before a commit", "--kind", "rule")


def test_interrupted_import_goes_on_as_jobs(machine: Path) -> None:
    folder = machine / ".claude" / "projects" / "-srv-shop"
    folder.mkdir()
    # More than the fastest machine stores until the key is read.
    for number in range(90):
        texts = [f"The crane {number} of berth {turn} was greased." for turn in range(30)]
        file = write_session(folder / f"{number}.jsonl", *texts)
        text = file.read_text().replace('"s-1"', f'"s-{number}"')
        file.write_text(text.replace('"u-', f'"u{number}-'))

    shown = at_terminal(
        [("Connect which", b"none\n"), ("Import which", b"claude-code\n"), (" stored", b"\x03")]
    )

    assert "The import goes on when a worker runs" in shown
    brain("worker", "--once", "--kinds", "import")
    assert json.loads(brain("status", "--json"))["memories"] > 2700


def at_terminal(answers: Sequence[tuple[str, bytes]]) -> str:
    """Run `brain setup` at a terminal, and answer when a text is shown."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "commonbrain", "setup"],
        stdin=its,
        stdout=its,
        stderr=its,
        env=clean_environment(COMMONBRAIN_MCP_SHARED="off", TERM="xterm"),
        # The terminal's own signals reach the process only in a session that it leads.
        start_new_session=True,
        preexec_fn=controlling(its),  # noqa: PLW1509 it takes one call and no lock
    )
    os.close(its)
    shown, at = "", 0
    for text, typed in answers:
        while text not in shown[at:]:
            piece = os.read(ours, 65536).decode("utf-8", "replace")
            shown += piece
        at = len(shown)
        os.write(ours, typed)
    shown += rest_of(ours)
    assert process.wait(TIMEOUT_S) in {0, 1}, shown
    os.close(ours)
    return " ".join(shown.split())


def controlling(terminal: int) -> Callable[[], None]:
    import fcntl  # noqa: PLC0415 not on every system
    import termios  # noqa: PLC0415

    def take() -> None:
        fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
        # A shell that starts the tests in the background lets them ignore it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    return take


def rest_of(terminal: int) -> str:
    pieces = list[str]()
    try:
        while piece := os.read(terminal, 65536):
            pieces.append(piece.decode("utf-8", "replace"))
    except OSError:
        # The last process has closed it.
        pass
    return "".join(pieces)
