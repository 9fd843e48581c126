import json
import logging
import stat
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.api.dispatch import record_call, record_failed_open
from commonbrain.api.operations import Transport, load_operations
from commonbrain.cli.context import GlobalOptions
from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, UnavailableError
from commonbrain.observability.tool_events import EarlyEventFile, ToolEvent
from commonbrain.testing.builders import FakeClock
from tests.conftest import Command
from tests.observability.reading import an_event, events

TENANT = "default"


@pytest.fixture
def early(tmp_path: Path, clock: FakeClock) -> EarlyEventFile:
    return EarlyEventFile(tmp_path / "state" / "early.jsonl", clock)


def taken(early: EarlyEventFile, agent: str = "ann", tenant: str = TENANT) -> list[ToolEvent]:
    """Hand an agent's events over to a list."""
    got: list[ToolEvent] = []
    early.drain(tenant, agent, write=got.extend)
    return got


def at_once(early: EarlyEventFile, number: int) -> ToolEvent:
    """Make an event of the present."""
    now = early.clock.now()
    return an_event(id=ids.make_id(now, number), at=now, session=None)


def put_thirty(path: Path, first: int) -> int:
    """Put events into the file; return how many were logged as lost, for want of the lock."""
    lost: list[str] = []
    log = logging.getLogger("commonbrain.observability.tool_events")
    log.setLevel(logging.DEBUG)
    log.addFilter(lambda record: lost.append(record.getMessage()) or True)
    early = EarlyEventFile(path, FakeClock())
    for number in range(first, first + 30):
        early.put(at_once(early, number))
    return len(lost)


def test_early_event_waits_for_its_agent_and_tenant(early: EarlyEventFile) -> None:
    mine, other = at_once(early, 1), replace(at_once(early, 2), agent="bob")
    foreign = replace(at_once(early, 3), tenant="elsewhere")
    for event in (mine, other, foreign):
        early.put(event)
    assert taken(early) == [mine]
    assert taken(early) == []
    assert taken(early, "bob") == [other]
    assert taken(early, tenant="elsewhere") == [foreign]
    assert not early.path.exists()


@pytest.mark.requirement("OB-11")
def test_early_events_are_a_thousand_at_most_and_wait_a_day(
    early: EarlyEventFile, clock: FakeClock
) -> None:
    stored = [at_once(early, number) for number in range(1000)]
    early.put(stored[0])
    early.path.write_text(early.path.read_text() * 1000)
    last = at_once(early, 1001)
    early.put(last)
    assert len(early.path.read_text().splitlines()) == 1000
    clock.move(timedelta(hours=25))
    assert taken(early) == []


def test_early_event_that_cannot_be_written_waits(early: EarlyEventFile) -> None:
    event = at_once(early, 1)
    early.put(event)

    def refuse(_: Sequence[ToolEvent]) -> None:
        raise UnavailableError("The store is away.")

    with pytest.raises(UnavailableError):
        early.drain(TENANT, "ann", write=refuse)
    assert taken(early) == [event]


def test_unreadable_line_of_early_events_is_skipped(early: EarlyEventFile) -> None:
    event = at_once(early, 1)
    early.put(event)
    with early.path.open("a") as file:
        file.write('{"half": \n[]\n{"id": 1}\n')
    assert taken(early) == [event]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_file_of_early_events_is_readable_by_its_owner_only(early: EarlyEventFile) -> None:
    early.put(at_once(early, 1))
    assert stat.S_IMODE(early.path.stat().st_mode) == 0o600


def test_early_event_without_a_folder_is_dropped(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "file").write_text("")
    early = EarlyEventFile(tmp_path / "file" / "early.jsonl", clock)
    early.put(at_once(early, 1))
    assert taken(early) == []


def test_early_events_of_concurrent_processes_are_all_stored_or_logged_as_lost(
    early: EarlyEventFile,
) -> None:
    with ProcessPoolExecutor(3) as pool:
        lost = list(pool.map(put_thirty, [early.path] * 3, [0, 30, 60]))
    assert len({event.id for event in taken(early)}) + sum(lost) == 90
    assert sum(lost) < 90


@pytest.mark.requirement("OB-04")
def test_boot_stores_each_early_event_once_with_its_session(
    brain: Brain, early: EarlyEventFile
) -> None:
    booting = replace(brain.services, early=early)
    event = at_once(early, 7)
    early.put(event)
    first = Brain(booting, replace(brain.caller, session="s1"))
    first.boot()
    early.put(event)
    Brain(booting, replace(brain.caller, session="s2")).boot()
    assert events(first) == [replace(event, session="s1")]


def test_command_that_cannot_open_its_store_is_recorded_at_the_next_boot(
    command: Command, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COMMONBRAIN_AGENT", "ann")
    path.write_bytes(b"no database at all, but long enough to look at" * 50)
    code, _ = command("recall", "where is the kettle", "--json")
    assert code
    [line] = (tmp_path / "state" / "early.jsonl").read_text().splitlines()
    recorded = json.loads(line)
    assert (recorded["tool"], recorded["transport"], recorded["agent"]) == ("recall", "cli", "ann")
    assert recorded["outcome"] == "store_corrupt"
    path.unlink()
    assert command("boot", "--json")[0] == 0
    assert not (tmp_path / "state" / "early.jsonl").exists()


def test_failed_open_with_an_invalid_setting_raises_no_second_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COMMONBRAIN_TRACE_RETENTION_DAYS", "many")
    status = next(one for one in load_operations() if one.name == "status")
    with pytest.raises(CommonbrainError) as error:
        GlobalOptions().open()
    call = record_call(status, status.request.model_validate({}), transport=Transport.MCP)
    record_failed_open(call, error.value, agent=None)
