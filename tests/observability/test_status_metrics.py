import socket
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.scope import LOCAL_TENANT, Role
from commonbrain.observability.health import HealthProbes
from commonbrain.observability.tool_events import WEB_TRANSPORT
from commonbrain.testing.builders import FakeClock
from tests.conftest import Command
from tests.observability.reading import an_event, call


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def note(brain: Brain, number: int, **more: object) -> None:
    now = brain.services.clock.now()
    brain.services.journal.note(an_event(id=ids.make_id(now, number), at=now, **more))


@pytest.mark.requirement("OB-02")
def test_status_has_calls_errors_and_latencies_by_tool(brain: Brain) -> None:
    for number in range(100):
        note(brain, number, duration_ms=float(number + 1), tool="recall")
    note(brain, 200, duration_ms=10_001.0, tool="revise", outcome="not_found")
    brain.services.journal.flush()
    metrics = call(brain, "status", metrics=True).metrics
    recall = metrics["recall"]
    assert (recall.calls, recall.errors, recall.mean_ms) == (100, 0, 50.5)
    assert (recall.p50_ms, recall.p95_ms, recall.p99_ms) == (50.5, 95.05, 99.01)
    assert (metrics["revise"].errors, metrics["revise"].slow) == (1, 1)


def test_status_covers_the_last_day_of_one_tenant(brain: Brain, clock: FakeClock) -> None:
    note(brain, 1, tool="boot")
    brain.services.journal.flush()
    clock.move(timedelta(hours=25))
    note(brain, 2, tool="recall")
    note(brain, 3, tool="revise", tenant=LOCAL_TENANT + "s")
    note(brain, 4, tool="forget", outcome="not_found", tenant="elsewhere")
    with brain.services.store.begin(LOCAL_TENANT):
        pass
    reply = call(brain, "status", metrics=True, errors=10)
    assert "boot" not in reply.metrics
    assert "revise" not in reply.metrics
    assert reply.errors == ()


@pytest.mark.requirement("OB-03")
def test_status_lists_the_latest_errors_by_code_newest_first(
    brain: Brain,
) -> None:
    for number in range(5):
        note(brain, number, outcome="store_down", agent=f"a{number}")
    brain.services.journal.flush()
    errors = call(brain, "status", errors=3).errors
    assert [one.agent for one in errors] == ["a4", "a3", "a2"]
    assert {one.code for one in errors} == {"store_down"}


@pytest.mark.parametrize("is_stored", [True, False])
def test_agent_that_is_no_admin_sees_its_own_failed_calls_only(
    brain: Brain, subtests: pytest.Subtests, *, is_stored: bool
) -> None:
    note(brain, 1, outcome="store_down", agent="bo")
    note(brain, 2, outcome="not_found", agent="rea")
    if is_stored:
        brain.services.journal.flush()
    for role in (Role.READER, Role.WRITER):
        with subtests.test(role=role):
            rea = Brain(brain.services, replace(brain.caller, agent="rea", role=role))
            assert [one.agent for one in rea.metrics.faults(10)] == ["rea"]
    assert [one.agent for one in brain.metrics.faults(10)] == ["rea", "bo"]


def test_reads_of_the_page_are_not_counted_as_calls(brain: Brain) -> None:
    note(brain, 1, tool="recall")
    note(brain, 2, tool="recall", transport=WEB_TRANSPORT)
    note(brain, 3, tool="list", transport=WEB_TRANSPORT, outcome="not_found")
    brain.services.journal.flush()
    reply = call(brain, "status", metrics=True, trends=True, errors=10)
    assert {name: one.calls for name, one in reply.metrics.items()} == {"recall": 1}
    assert sum(one.calls for one in reply.trends.calls) == 1
    # A screen that failed is listed, with its transport.
    assert [one.transport for one in reply.errors] == [WEB_TRANSPORT]


def test_status_lists_errors_that_are_not_stored_yet(brain: Brain) -> None:
    note(brain, 1, outcome="store_down")
    [one] = brain.metrics.faults(10)
    assert one.code == "store_down"


def test_health_probes_every_dependency(
    brain: Brain, path: Path, clock: FakeClock, listening: int
) -> None:
    places = {
        "store": path,
        "queue": f"redis://:secret@127.0.0.1:{listening}/0",
        "embedder": "http://127.0.0.1:9",
        "nowhere": path.with_name("missing.db"),
    }
    services = replace(brain.services, probe=HealthProbes(places, clock), started_at=clock.now())
    clock.move(timedelta(seconds=90))
    health = call(Brain(services, brain.caller), "status", health=True).health
    there = {one.name: one.is_there for one in health.dependencies}
    assert there == {"store": True, "queue": True, "embedder": False, "nowhere": False}
    assert not health.is_sound
    assert health.uptime_s == 90
    assert "secret" not in str(health)


def test_plain_status_has_no_health_metrics_and_errors(brain: Brain) -> None:
    plain = call(brain, "status")
    assert (plain.health, plain.metrics, plain.errors) == (None, None, None)


def test_status_command_prints_text_and_json(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With other settings than the server's a command opens the store itself, and stores its event.
    monkeypatch.setenv("COMMONBRAIN_PROJECT", "shop")
    assert command("recall", "where is the gate", "--json")[0] == 0
    code, shown = command("status", "--metrics", "--health", "--trends", "--errors", "5")
    assert code == 0
    assert "recall: 1 calls" in shown
    assert ":00 calls: 1, 0 errors" in shown
    assert "store answers" in shown
    code, reply = command("status", "--metrics", "--json")
    assert '"p99_ms"' in reply
