import json
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
from commonbrain.cli.context import State
from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, UnavailableError
from commonbrain.observability.tool_events import EarlyEventFile, ToolEvent
from commonbrain.testing.builders import FakeClock
from tests.doors.conftest import Command
from tests.telemetry.reading import an_event, events

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


def keep_fifty(path: Path, first: int) -> None:
    early = EarlyEventFile(path, FakeClock())
    for number in range(first, first + 50):
        early.put(at_once(early, number))


def test_events_wait_until_their_agent_takes_them(early: EarlyEventFile) -> None:
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
def test_at_most_a_thousand_wait_and_a_day_at_most(early: EarlyEventFile, clock: FakeClock) -> None:
    keep_many = [at_once(early, number) for number in range(1000)]
    early.put(keep_many[0])
    early.path.write_text(early.path.read_text() * 1000)
    last = at_once(early, 1001)
    early.put(last)
    assert len(early.path.read_text().splitlines()) == 1000
    clock.move(timedelta(hours=25))
    assert taken(early) == []


def test_what_cannot_be_written_waits_on(early: EarlyEventFile) -> None:
    event = at_once(early, 1)
    early.put(event)

    def refuse(_: Sequence[ToolEvent]) -> None:
        raise UnavailableError("The store is away.")

    with pytest.raises(UnavailableError):
        early.drain(TENANT, "ann", write=refuse)
    assert taken(early) == [event]


def test_lines_that_cannot_be_read_are_passed_over(early: EarlyEventFile) -> None:
    event = at_once(early, 1)
    early.put(event)
    with early.path.open("a") as file:
        file.write('{"half": \n[]\n{"id": 1}\n')
    assert taken(early) == [event]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_only_the_owner_reads_them(early: EarlyEventFile) -> None:
    early.put(at_once(early, 1))
    assert stat.S_IMODE(early.path.stat().st_mode) == 0o600


def test_a_folder_that_cannot_be_made_fails_no_call(tmp_path: Path, clock: FakeClock) -> None:
    (tmp_path / "file").write_text("")
    early = EarlyEventFile(tmp_path / "file" / "early.jsonl", clock)
    early.put(at_once(early, 1))
    assert taken(early) == []


def test_processes_that_write_at_once_lose_nothing(early: EarlyEventFile) -> None:
    with ProcessPoolExecutor(4) as pool:
        list(pool.map(keep_fifty, [early.path] * 4, [0, 50, 100, 150]))
    assert len({event.id for event in taken(early)}) == 200


@pytest.mark.requirement("OB-04")
def test_boot_gives_early_events_its_session_and_keeps_each_once(
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


def test_a_command_whose_store_cannot_be_opened_is_told_at_the_next_boot(
    command: Command, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("COMMONBRAIN_AGENT", "ann")
    path.write_bytes(b"no database at all, but long enough to look at" * 50)
    code, _ = command("recall", "where is the kettle", "--json")
    assert code
    [line] = (tmp_path / "state" / "early.jsonl").read_text().splitlines()
    kept = json.loads(line)
    assert (kept["tool"], kept["transport"], kept["agent"]) == ("recall", "cli", "ann")
    assert kept["outcome"] == "store_corrupt"
    path.unlink()
    assert command("boot", "--json")[0] == 0
    assert not (tmp_path / "state" / "early.jsonl").exists()


def test_an_unreadable_setting_hides_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMMONBRAIN_TRACE_RETENTION_DAYS", "many")
    status = next(one for one in load_operations() if one.name == "status")
    with pytest.raises(CommonbrainError) as error:
        State().open()
    call = record_call(status, status.request.model_validate({}), transport=Transport.MCP)
    record_failed_open(call, error.value, agent=None)
