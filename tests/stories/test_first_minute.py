"""A newcomer's first minute: one command connects three clients and fills the memory."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from tests.claude_sessions import write_session
from tests.in_process import run_brain
from tests.processes import AS_AGENT, TIMEOUT_S, clean_environment

SAMPLES = Path(__file__).parents[1] / "transfer" / "samples"
RULES = "# Rules\n\n- Always run the tide tests before you commit.\n"
CLAUDE = '{\n    "numStartups": 12,\n    "mcpServers": {"tides": {"command": "tides"}}\n}'
CODEX = 'model = "large"   # why not\n'


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


def test_one_command_connects_and_fills_and_another_undoes_it(machine: Path) -> None:
    before = files(machine)

    preview = brain("setup")
    assert "4 sessions of 2 agents and 1 file of notes" in preview
    assert "Nothing was changed" in preview
    assert files(machine) == before
    assert json.loads(brain("status", "--json"))["memories"] == 0

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
    rules = json.loads(brain("recall", "tide tests", "--kind", "rule", "--json", **AS_AGENT))
    assert rules["items"] == []
    assert (machine / ".claude.json.bak").read_text() == CLAUDE


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
    for number in range(12):
        texts = [f"The crane {number} of berth {turn} was greased." for turn in range(30)]
        file = write_session(folder / f"{number}.jsonl", *texts)
        text = file.read_text().replace('"s-1"', f'"s-{number}"')
        file.write_text(text.replace('"u-', f'"u{number}-'))

    shown = at_terminal(
        [("Connect which", b"none\n"), ("Import which", b"claude-code\n"), (" stored", b"\x03")]
    )

    assert "The import goes on when a worker runs" in shown
    brain("worker", "--once", "--kinds", "import")
    assert json.loads(brain("status", "--json"))["memories"] > 360


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
