import json
import logging
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError
from commonbrain.observability.logs import ServerLog, TerminalFormatter, TerminalHandler
from tests.asking import stored
from tests.faults.mounts import small_disk
from tests.observability.reading import an_event, call, heard


@pytest.fixture
def log(tmp_path: Path) -> Iterator[ServerLog]:
    log = ServerLog(tmp_path / "log", "serve")
    yield log
    log.close()


def lines(log: ServerLog) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.path.read_text("utf-8").splitlines()]


@pytest.mark.requirement("OB-01")
def test_each_call_is_logged_with_request_tenant_agent_and_tool(
    brain: Brain, log: ServerLog
) -> None:
    watched = heard(brain.acting_as(agent="bob", session="s1"), log)
    call(watched, "recall", query="where is the gate")
    with pytest.raises(CommonbrainError):
        call(watched, "get", id="mem_0000000000000")
    first, second = lines(log)
    assert first["request"].startswith("evt_")
    fields = ("tenant", "agent", "session", "tool", "transport")
    assert [first[one] for one in fields] == ["default", "bob", "s1", "recall", "mcp"]
    assert (first["outcome"], second["outcome"]) == ("ok", "not_found")


def test_log_contains_no_text_of_queries_and_memories(brain: Brain, log: ServerLog) -> None:
    watched = heard(brain, log)
    secret = "ghp_" + "a1B2" * 9
    stored(watched, "The mongoose opens the gate", kind="fact")
    call(watched, "remember", text=f"The token is {secret}")
    call(watched, "recall", query="mongoose")
    assert "mongoose" not in log.path.read_text("utf-8")
    assert secret not in log.path.read_text("utf-8")


def test_exception_is_logged_by_type_and_place_without_its_message(log: ServerLog) -> None:
    try:
        int("The mongoose opens the gate")
    except ValueError:
        logging.getLogger("commonbrain.mcp.server").exception("recall failed")
    [line] = lines(log)
    assert (line["message"], line["error"]) == ("recall failed", "ValueError")
    assert "test_log.py" in line["places"][0]
    assert "mongoose" not in json.dumps(line)


def test_terminal_shows_the_type_of_an_exception_without_its_message() -> None:
    try:
        int("The mongoose\x1b[2J opens the gate")
    except ValueError:
        record_fields = (logging.ERROR, "x", 1, "a request failed", None, sys.exc_info())
        record = logging.LogRecord("x", *record_fields)
        assert TerminalFormatter().format(record) == "a request failed (ValueError)"


def test_slow_call_is_a_warning_and_a_failed_call_is_an_error(log: ServerLog) -> None:
    log.called(an_event(duration_ms=10_001.0), http_status=200)
    log.called(an_event(outcome="store_down"), http_status=503)
    slow, broken = lines(log)
    assert (slow["level"], slow["slow"]) == ("WARNING", True)
    assert broken["level"] == "ERROR"


@pytest.mark.requirement("OB-01")
def test_log_rotates_at_five_megabytes_to_five_files(log: ServerLog) -> None:
    event = an_event(args="x" * 100_000)
    for _ in range(300):
        log.called(event, http_status=200)
    files = list(log.path.parent.glob("serve.jsonl*"))
    assert len(files) == 5
    assert max(file.stat().st_size for file in files) <= 5 * 1024 * 1024


def test_each_process_logs_to_a_file_of_its_own(log: ServerLog) -> None:
    second = ServerLog(log.path.parent, "serve")
    try:
        assert second.path.name == "serve-2.jsonl"
    finally:
        second.close()
    third = ServerLog(log.path.parent, "serve")
    third.close()
    assert third.path.name == "serve-2.jsonl"


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_log_is_readable_by_its_owner_only(log: ServerLog) -> None:
    log.called(an_event(), http_status=200)
    assert stat.S_IMODE(log.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(log.path.stat().st_mode) & 0o077 == 0


def test_full_disk_is_reported_once_and_fails_no_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk", size="64k") as disk:
        log = ServerLog(disk, "serve")
        for _ in range(20):
            log.called(an_event(args="x" * 10_000), http_status=200)
        log.close()
    assert capsys.readouterr().err.count("\n") == 1


def test_record_that_cannot_be_formatted_raises_nothing(
    log: ServerLog, capsys: pytest.CaptureFixture[str]
) -> None:
    # The records go to our own handler alone, for those of pytest raise or cannot pass them on.
    name = "commonbrain.flows.recall"
    for message in (("%s", "a\udcffb"), ("%d secret", "mongoose"), ("%s", "after")):
        record = logging.makeLogRecord({"name": name, "msg": message[0], "args": message[1:]})
        for handler in logging.getLogger("commonbrain").handlers:
            handler.handle(record)

    assert [line["message"] for line in lines(log)] == ["a\udcffb", "after"]
    assert capsys.readouterr().err == "The log cannot be written (TypeError).\n"


def test_closed_stderr_fails_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = ServerLog(tmp_path, "serve")
    log.path.mkdir()
    for stream in (None, (tmp_path / "closed").open("w")):
        if stream is not None:
            stream.close()
        with monkeypatch.context() as changed:
            changed.setattr(sys, "stderr", stream)
            log.called(an_event(), http_status=200)
    log.close()


def test_terminal_shows_nothing_of_a_record_that_cannot_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = logging.makeLogRecord({"msg": "%d secret", "args": ("mongoose",)})
    closed = (tmp_path / "closed").open("w")
    closed.close()
    for stream in (sys.stderr, closed):
        TerminalHandler(stream).handle(wrong)
        TerminalHandler(closed).handle(logging.makeLogRecord({"msg": "fine"}))
    assert not capsys.readouterr().err


def test_disk_that_is_full_again_is_reported_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with small_disk(tmp_path / "disk", size="64k") as disk:
        log = ServerLog(disk, "serve")
        for _ in range(2):
            fill(disk / "filler")
            for _ in range(5):
                log.called(an_event(args="x" * 10_000), http_status=200)
            (disk / "filler").unlink()
            log.called(an_event(), http_status=200)
        log.close()
    assert capsys.readouterr().err.count("\n") == 2


def fill(file: Path) -> None:
    with file.open("wb", buffering=0) as filler, suppress(OSError):
        while filler.write(b"x" * 4096):
            pass
