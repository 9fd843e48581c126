"""Sessions of commands: named ones, and those of a shell's terminal."""

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.in_process import run_brain
from tests.laid_out_stores import lay_out_store
from tests.processes import TIMEOUT_S, clean_environment, command

posix_only = pytest.mark.skipif(sys.platform == "win32", reason="sessions of terminals")


def run(path: Path, *words: str, **settings: str) -> Any:  # noqa: ANN401 each its own
    """Give what a command prints as JSON."""
    lay_out_store(path)
    done = run_brain("--store", str(path), *words, "--json", **settings)
    assert done.status == 0, done.err
    return json.loads(done.out)


def listed(path: Path) -> list[str]:
    """Give the sessions that a command of no session is shown."""
    return [one["session"] for one in run(path, "session", "list")["sessions"]]


@pytest.mark.requirement("SE-17")
def test_command_counts_as_a_heartbeat_of_its_named_session(path: Path) -> None:
    run(path, "--session", "k1", "recall", "kettle")
    assert listed(path) == ["k1"]
    run(path, "session", "task", "Mend it", COMMONBRAIN_SESSION="k1")
    [shown] = run(path, "session", "list")["sessions"]
    assert (shown["session"], shown["task"], shown["is_idle"]) == ("k1", "Mend it", False)

    run(path, "session", "end", COMMONBRAIN_SESSION="k1")
    assert listed(path) == []


def test_command_of_an_agent_remembers_in_the_project_of_its_session(path: Path) -> None:
    run(path, "--agent", "claude-code", "--session", "c1", "boot", "--project", "shop")
    for text, named, project in (
        ("The cart is blue.", (), "shop"),
        ("The depot is in Kiel.", ("--project", "depot"), "depot"),
        ("I prefer short answers.", (), None),
    ):
        words = ("--agent", "claude-code", "remember", text, *named)
        stored = run(path, *words, CLAUDE_CODE_SESSION_ID="c1")
        shown = run(path, "get", stored["items"][0]["id"])
        assert shown.get("project") == project


def test_table_of_sessions_shows_no_control_characters(path: Path) -> None:
    run(path, "--session", "k1", "session", "task", "Mend \x1b[31mit")
    shown = run_brain("--store", str(path), "session", "list", COLUMNS="200").out

    assert "k1" in shown
    assert "active" in shown
    assert "\x1b[31m" not in shown


@pytest.mark.requirement("DM-35")
def test_command_sets_branch_and_model_of_its_session(path: Path) -> None:
    run(path, "--session", "k1", "session", "task", "Mend it", "--metadata", "model=opus")
    run(path, "--session", "k1", "session", "task", "--metadata", "branch=fix/parser")
    [shown] = run(path, "session", "list")["sessions"]
    assert shown["task"] == "Mend it"
    assert shown["metadata"].items() >= {"branch": "fix/parser", "model": "opus"}.items()


SHELL = """
import io, json, sys
from commonbrain.__main__ import main

stdout = sys.stdout
for words in json.loads(sys.argv[1]):
    sys.argv = ["brain", *words, "--json"]
    sys.stdout = io.TextIOWrapper(io.BytesIO())
    try:
        main()
    except SystemExit as end:
        assert not end.code, words
    sys.stdout.flush()
    stdout.write(sys.stdout.buffer.getvalue().decode())
stdout.flush()
"""
"""A program that runs several commands, which saves the start of each."""
TWO_PROCESSES = '"$1" -c "$2" "$3" && "$1" -c "$2" "$4"; exit $?'


def in_one_terminal(path: Path, *commands: tuple[str, ...]) -> list[Any]:
    """Give what commands print as JSON that one shell runs, in two processes of its terminal."""
    lines = [["--store", str(path), *words] for words in commands]
    half = len(lines) // 2
    parts = [json.dumps(lines[:half]), json.dumps(lines[half:])]
    done = subprocess.run(
        ["/bin/sh", "-c", TWO_PROCESSES, "sh", sys.executable, SHELL, *parts],
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
        text=True,
        env=clean_environment(),
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]


@posix_only
@pytest.mark.requirement("SE-35")
def test_shell_has_one_session_until_it_ends_that_its_commands_need_not_name(path: Path) -> None:
    lay_out_store(path)
    first, second, peers, task, note, notes, ended, none = in_one_terminal(
        path,
        ("boot", "--project", "api", "--task", "Read the log"),
        ("boot", "--project", "api"),
        ("session", "list"),
        ("session", "task", "Mend the parser"),
        ("session", "note", "at", "line 7"),
        ("session", "notes"),
        ("session", "end", "The parser is mended."),
        ("session", "list"),
    )

    assert first["session"] != second["session"]
    assert second.get("siblings", []) == peers["sessions"] == []
    assert {one["session"] for one in (task, note, notes, ended)} == {second["session"]}
    assert [one["key"] for one in notes["notes"]] == ["at"]
    assert none["session"] is None
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{shlex.join(command(path, 'boot', '--json'))}; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
        start_new_session=True,
    ) as other:
        assert other.stdout is not None
        there = json.loads(other.stdout.readline())
        assert there["session"] not in {first["session"], second["session"]}
        assert there.get("siblings", []) == []
        # The shell of this process is a third one.
        assert listed(path) == [there["session"]]
        other.communicate(b"\n", timeout=TIMEOUT_S)
    assert listed(path) == []
    assert "The parser is mended." in run(path, "boot", "--project", "api")["handoff"]["text"]
