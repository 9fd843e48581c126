"""Agents and operators with replicas: replies are complete, and their health is shown."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from commonbrain_server.http.server import report_replicas
from commonbrain_server.observability.metrics import PrometheusMetrics
from sqlalchemy import make_url
from typer.testing import CliRunner

from commonbrain.api.operations import Transport
from commonbrain.cli.main import app
from commonbrain.client import Brain
from commonbrain.clock import Clock
from commonbrain.embeddings.interface import EmbeddingSpace
from commonbrain.model.scope import NO_POLICY, Admission, Role
from commonbrain.observability.health import ReplicaTrouble
from commonbrain.observability.interface import RecallMetrics, Telemetry
from commonbrain.runtime.models import make_embedder
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import FakeClock, a_brain, use_store_opener
from tests.observability.reading import call, figure, heard
from tests.replicas import Pair, wait_until

pytestmark = pytest.mark.part("distributed")

LOST = timedelta(seconds=2)
"""What a replica takes before it fails."""


def is_answered(brain: Brain, asking: Callable[[], object]) -> bool:
    """Ask, and say whether the replica answered whatever was asked."""
    [before] = brain.services.store.replicas()
    asking()
    [after] = brain.services.store.replicas()
    return after.answered > before.answered and after.lagged == before.lagged


@pytest.fixture
def replicated(pair: Pair, path: Path) -> Iterator[Brain]:
    """A brain that recalls from a real replica."""
    with ExitStack() as opened:

        def opener(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:  # noqa: ARG001 one database
            return opened.enter_context(pair.opened())

        with use_store_opener(opener), a_brain(path) as brain:
            yield brain


def test_agent_recalls_its_newest_memory_even_if_the_replica_lags(
    replicated: Brain, pair: Pair
) -> None:
    for number in range(5):
        saved = replicated.remember(f"The kettle number {number} is in the shed.")
        results = replicated.recall(f"kettle number {number}")
        assert saved.items[0].id in [item.id for item in results.items]
    with pair.paused():
        saved = replicated.remember("The teapot is on the shelf.")
        assert saved.items[0].id in [item.id for item in replicated.recall("teapot shelf").items]
        assert replicated.get(saved.items[0].id).body == "The teapot is on the shelf."
        assert replicated.status().memories == 6


def test_recall_get_and_status_are_answered_by_the_replica(replicated: Brain, pair: Pair) -> None:
    saved = replicated.remember("The teapot is on the shelf.").items[0].id or ""
    replicated.services.journal.flush()
    pair.catch_up()
    for asking in (
        lambda: replicated.recall("teapot", bump=False),
        lambda: replicated.get(saved, bump=False),
        replicated.status,
    ):
        wait_until(partial(is_answered, replicated, asking))


def test_boot_messages_traces_and_sessions_are_answered_by_the_primary(
    replicated: Brain, pair: Pair
) -> None:
    effect = replicated.remember("The deploy failed because the disk was full.").items[0].id or ""
    replicated.services.journal.flush()
    pair.catch_up()
    query: list[tuple[str, dict[str, object]]] = [
        ("boot", {"project": "shop"}),
        ("message", {"op": "inbox"}),
        ("trace", {"op": "causes", "id": effect}),
        ("session", {"op": "list"}),
    ]
    for tool, arguments in query:
        [before] = replicated.services.store.replicas()
        call(replicated, tool, transport=Transport.MCP, **arguments)
        [after] = replicated.services.store.replicas()
        assert after.attempts == before.attempts


def test_status_shows_the_health_of_replicas(replicated: Brain, pair: Pair) -> None:
    pair.catch_up()
    [reply] = call(replicated, "status", health=True).health.replicas
    assert (reply.answered + reply.lagged, reply.failed, reply.trouble) == (2, 0, None)
    with pair.paused():
        replicated.remember("The teapot is on the shelf.")
        [reply] = call(replicated, "status", health=True).health.replicas
        assert reply.lagged >= 1
        assert reply.behind_bytes > 0


def test_replicas_are_counted_for_prometheus(replicated: Brain, pair: Pair) -> None:
    meters = PrometheusMetrics(version="1", space="words")
    watched = heard(replicated, meters)
    report_replicas(watched)
    pair.catch_up()
    watched.recall("teapot")
    watched.recall("teapot")
    [replica] = replicated.services.store.replicas()
    where = {"replica": replica.replica}
    counted = {
        outcome: figure(meters, "replica_reads_total", **where, outcome=outcome)
        for outcome in ("answered", "lagged", "failed")
    }
    assert counted == {
        "answered": replica.answered,
        "lagged": replica.lagged,
        "failed": replica.failed,
    }
    assert replica.attempts >= 2
    assert figure(meters, "replica_behind_bytes", **where) == replica.behind_bytes


def test_command_reads_from_a_replica_given_by_a_setting(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = make_embedder(load_settings()).space
    with pair.server.database(space=space) as database:
        monkeypatch.setenv("COMMONBRAIN_STORE", database.program)
        monkeypatch.setenv("COMMONBRAIN_STORE_REPLICAS", pair.there(database.program))
        pair.catch_up()
        output = CliRunner().invoke(app, ["status", "--health"], catch_exceptions=False).stdout
    [line] = [line for line in output.splitlines() if line.startswith("replica ")]
    assert str(make_url(pair.standby).port) in line
    assert "keeps up" in line or "lags by" in line


def test_network_callers_do_not_see_the_address_of_a_replica(pair: Pair, path: Path) -> None:
    away = make_url(pair.copy).set(port=1).render_as_string(hide_password=False)
    with ExitStack() as opened:

        def opener(path: Path, *, space: EmbeddingSpace, clock: Clock) -> Store:  # noqa: ARG001 one database
            return opened.enter_context(pair.opened(away, pair.copy))

        with use_store_opener(opener), a_brain(path) as brain:
            admission = Admission(credential="ann", role=Role.ADMIN, policy=NO_POLICY)
            caller = replace(brain.caller, role=Role.ADMIN, admission=admission)
            reply = call(Brain(brain.services, caller), "status", health=True).health.replicas
            [primary_view, _] = call(brain, "status", health=True).health.replicas

    assert primary_view.replica.endswith(":1/" + (make_url(away).database or ""))
    assert "refused" in primary_view.trouble
    assert [one.replica for one in reply] == ["replica 1", "replica 2"]
    assert reply[0].trouble == ReplicaTrouble.FAILED
    assert reply[1].trouble is None


class Failing:
    """A store with a replica that takes its time over what is asked, and then fails."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self._store = store
        self._clock = clock

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read(self, tenant: str, ask: Callable[[Transaction], object]) -> object:
        with self._store.snapshot(tenant) as tx:
            ask(tx)
        self._clock.move(LOST)
        return self._store.read(tenant, ask)


class Ear(Telemetry):
    """Keeps what it hears of recalls."""

    def __init__(self) -> None:
        self.heard: list[RecallMetrics] = []

    @property
    def is_on(self) -> bool:
        return True

    def recalled(self, run: RecallMetrics) -> None:
        self.heard.append(run)


def test_time_lost_by_a_failed_replica_is_not_counted_as_retrieval(
    brain: Brain, clock: FakeClock
) -> None:
    brain.remember("The kettle is on the stove", kind="fact")
    ear = Ear()
    failing = cast("Store", Failing(brain.services.store, clock))
    services = replace(brain.services, store=failing, telemetry=ear)
    Brain(services, brain.caller).recall()

    [run] = ear.heard
    lost_ms = LOST / timedelta(milliseconds=1)
    assert run.stages_ms == {
        **dict.fromkeys(run.stages_ms, 0.0),
        "snapshot": lost_ms,
    }
    assert {"plan", "embed", "retrieve", "rank", "pack"} < {*run.stages_ms}
