"""Sessions across real processes: servers that leave or are killed, commands of a moment."""

import json
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.doors.test_stdio import posix_only, served
from tests.processes import PATIENCE_S, clean_environment, command

KETTLE = "The kettle is in the blue cupboard."


def run(path: Path, *arguments: str, **settings: str) -> Any:  # noqa: ANN401 each its own
    """What a command prints as JSON."""
    done = subprocess.run(
        command(path, *arguments, "--json"),
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
        env=clean_environment(**settings),
    )
    return json.loads(done.stdout)


def listed(path: Path) -> list[str]:
    """The sessions that a command of no session is shown."""
    return [one["session"] for one in run(path, "session", "list")["sessions"]]


@posix_only
@pytest.mark.requirement("SE-08")
@pytest.mark.parametrize("how", ["hang up", "SIGTERM", "SIGKILL"])
def test_a_server_that_left_is_no_longer_listed(path: Path, how: str) -> None:
    with served(path) as server:
        server.shake_hands()
        key = server.call("session", {"op": "task", "text": "Mend it"}, number=2)["session"]
        assert listed(path) == [key]
        if how != "hang up":
            server.process.send_signal(getattr(signal, how))
            server.process.wait(PATIENCE_S)
        server.leave()

    assert listed(path) == []


@posix_only
def test_a_session_that_only_read_is_listed_while_it_lasts(path: Path) -> None:
    with served(path) as server:
        server.shake_hands()
        server.call("recall", {"query": "where is the kettle?"}, number=2)
        key = server.call("session", {"op": "list"}, number=3)["session"]
        server.call("remember", {"text": KETTLE}, number=4)
        server.leave()
    with served(path) as server:
        server.shake_hands()
        again = server.call("session", {"op": "list"}, number=2)

    assert again["session"] != key
    assert again["sessions"] == []


@pytest.mark.requirement("SE-17")
def test_a_command_of_a_moment_keeps_its_session_alive_and_ends_none(path: Path) -> None:
    run(path, "--session", "k1", "recall", "kettle")
    assert listed(path) == ["k1"]
    run(path, "session", "task", "Mend it", COMMONBRAIN_SESSION="k1")
    [shown] = run(path, "session", "list")["sessions"]
    assert (shown["session"], shown["task"], shown["is_idle"]) == ("k1", "Mend it", False)

    run(path, "session", "end", COMMONBRAIN_SESSION="k1")
    assert listed(path) == []


def test_the_table_shows_who_is_at_work_and_nothing_a_terminal_would_obey(path: Path) -> None:
    run(path, "--session", "k1", "session", "task", "Mend \x1b[31mit")
    done = subprocess.run(
        command(path, "session", "list"),
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
        env=clean_environment(COLUMNS="200"),
    )
    shown = done.stdout.decode()

    assert "k1" in shown
    assert "active" in shown
    assert "\x1b[31m" not in shown


def in_one_terminal(path: Path, *commands: tuple[str, ...], **settings: str) -> list[Any]:
    """What commands print as JSON that one shell runs, which leads its own terminal session."""
    lines = [shlex.join([*command(path, *words), "--json"]) for words in commands]
    done = subprocess.run(
        ["/bin/sh", "-c", "; echo; ".join([*lines, "true"])],
        capture_output=True,
        timeout=PATIENCE_S,
        check=True,
        env=clean_environment(**settings),
        start_new_session=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines() if line.strip()]


@posix_only
@pytest.mark.requirement("SE-35")
def test_a_shell_has_one_session_that_its_commands_need_not_name(path: Path) -> None:
    first, second, listed_there, task, note, notes, ended, none = in_one_terminal(
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
    assert second.get("siblings", []) == listed_there["sessions"] == []
    assert {one["session"] for one in (task, note, notes, ended)} == {second["session"]}
    assert [one["key"] for one in notes["notes"]] == ["at"]
    assert none["session"] is None
    [[briefing]] = [in_one_terminal(path, ("boot", "--project", "api"))]
    assert "The parser is mended." in briefing["handoff"]["text"]


@posix_only
@pytest.mark.requirement("SE-35")
def test_a_shell_that_closed_ended_its_session_and_two_shells_have_two(path: Path) -> None:
    [first] = in_one_terminal(path, ("session", "task", "Mend the parser"))
    with subprocess.Popen(
        ["/bin/sh", "-c", f"{shlex.join(command(path, 'boot', '--json'))}; read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=clean_environment(),
        start_new_session=True,
    ) as other:
        assert other.stdout is not None
        there = json.loads(other.stdout.readline())
        assert there["session"] != first["session"]
        assert there.get("siblings", []) == []
        [shown] = in_one_terminal(path, ("session", "list"))
        assert [one["session"] for one in shown["sessions"]] == [there["session"]]
        other.communicate(b"\n", timeout=PATIENCE_S)
    assert in_one_terminal(path, ("session", "list"))[0]["sessions"] == []


@pytest.mark.requirement("DM-35")
def test_the_command_line_tells_branch_and_model(path: Path) -> None:
    run(path, "--session", "k1", "session", "task", "Mend it", "--metadata", "model=opus")
    run(path, "--session", "k1", "session", "task", "--metadata", "branch=fix/parser")
    [shown] = run(path, "session", "list")["sessions"]
    assert shown["task"] == "Mend it"
    assert shown["metadata"].items() >= {"branch": "fix/parser", "model": "opus"}.items()
