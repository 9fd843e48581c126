import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from subprocess import PIPE
from urllib.request import urlopen

import pytest
from commonbrain_server.observability.metrics import OTHERS, TENANTS_MAX, PrometheusMetrics
from prometheus_client.parser import text_string_to_metric_families

from commonbrain.api.operations import load_operations
from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.scope import Role
from commonbrain.observability.interface import SILENT, RememberMetrics
from commonbrain.testing.builders import a_brain
from commonbrain.text.tokens import estimate
from tests.asking import FailingEmbedder, stored
from tests.observability.reading import an_event, call, figure, figures, heard


@pytest.fixture
def meters() -> PrometheusMetrics:
    return PrometheusMetrics(version="1", space="words")


@pytest.fixture
def watched(brain: Brain, meters: PrometheusMetrics) -> Brain:
    return heard(brain, meters)


def test_calls_are_counted_by_tool_transport_and_outcome(
    watched: Brain, meters: PrometheusMetrics
) -> None:
    call(watched, "status")
    with pytest.raises(CommonbrainError):
        call(watched, "get", id="mem_0000000000000")
    ok = {"tool": "status", "transport": "mcp", "outcome": "ok", "status": "2xx"}
    missed = {"tool": "get", "transport": "mcp", "outcome": "not_found", "status": "4xx"}
    assert figure(meters, "calls_total", **ok) == 1
    assert figure(meters, "calls_total", **missed) == 1
    assert figure(meters, "call_seconds_count", tool="get", transport="mcp") == 1


def test_stored_memories_are_counted_by_kind_and_rejected_ones_by_code(
    watched: Brain, meters: PrometheusMetrics
) -> None:
    stored(watched, "The gate opens at six", kind="fact")
    watched.remember("The gate opens at six", kind="fact")
    watched.remember("The token is ghp_" + "a1B2" * 9)
    assert figure(meters, "memories_stored_total", tenant="default", kind="fact") == 1
    assert figure(meters, "rejects_total", code="secret_detected") == 1


def test_number_of_tenants_with_a_label_is_bounded(meters: PrometheusMetrics) -> None:
    run = RememberMetrics(
        tenant="", stages_ms={}, stored={"fact": 1}, refused={}, is_embedding=True
    )
    for number in range(TENANTS_MAX + 5):
        meters.remembered(replace(run, tenant=f"t{number}"))
    assert figure(meters, "memories_stored_total", tenant=OTHERS, kind="fact") == 5
    assert figure(meters, "memories_stored_total", tenant="t0", kind="fact") == 1


def test_recall_is_measured_by_result_score_tokens_and_stages(
    watched: Brain, meters: PrometheusMetrics
) -> None:
    for number in range(20):
        stored(watched, f"The harbour gate {number} opens at six in the morning", kind="fact")
    answer = watched.recall("When does the harbour gate open?", max_items=2)
    assert figure(meters, "recalls_total", verdict="found") == 1
    assert figure(meters, "recall_top_score_count") == 1
    assert figure(meters, "recall_tokens_packed_total") == answer.tokens
    assert figure(meters, "recall_tokens_considered_total") > answer.tokens
    left_out = [name for name, _ in figures(meters) if name == "recall_left_out_total"]
    assert left_out
    for path, stage in (("recall", "retrieve"), ("recall", "rank"), ("remember", "commit")):
        assert figure(meters, "stage_seconds_count", path=path, stage=stage) >= 1


def test_tokens_considered_and_packed_are_counted_by_one_estimator(
    watched: Brain, meters: PrometheusMetrics
) -> None:
    texts = [
        f"港口的{number}号闸门在早上六点打开晚上八点关闭由值班人员负责检查" for number in range(6)
    ]
    for text in texts:
        stored(watched, text, kind="message")
    watched.recall(max_items=20, max_tokens=4000)
    considered = figure(meters, "recall_tokens_considered_total")
    # A quarter of the characters is half of what these texts cost.
    assert 0.9 * sum(map(estimate, texts)) <= considered <= 1.1 * sum(map(estimate, texts))
    assert sum(map(len, texts)) // 4 < 0.7 * considered


def test_votes_are_counted(watched: Brain, meters: PrometheusMetrics) -> None:
    id_ = stored(watched, "The gate opens at six", kind="fact")
    watched.revise.rate(id_, "up")
    watched.revise.rate(id_, "down")
    assert figure(meters, "votes_total", vote="up") == 1
    assert figure(meters, "votes_total", vote="down") == 1


def test_denied_call_is_counted_as_authorisation_failure(
    watched: Brain, meters: PrometheusMetrics
) -> None:
    reader = Brain(watched.services, replace(watched.caller, role=Role.READER))
    with pytest.raises(CommonbrainError):
        call(reader, "remember", text="The gate opens at six")
    meters.turned_away("invalid_credential", transport="rest")
    meters.turned_away("made up by somebody", transport="rest")
    assert (
        figure(meters, "authorisation_failures_total", code="insufficient_role", transport="mcp")
        == 1
    )
    away = {"code": "invalid_credential", "transport": "rest"}
    assert figure(meters, "authorisation_failures_total", **away) == 1
    assert figure(meters, "authorisation_failures_total", code="other", transport="rest") == 1


def test_slow_calls_queue_length_and_version_are_metrics(meters: PrometheusMetrics) -> None:
    meters.called(an_event(duration_ms=10_001.0), http_status=200)
    meters.called(an_event(duration_ms=10_000.0), http_status=200)
    meters.queued(7, dead=2)
    assert figure(meters, "slow_calls_total", tool="recall") == 1
    assert figure(meters, "jobs_waiting") == 7
    assert figure(meters, "jobs_dead") == 2
    assert figure(meters, "info", version="1", space="words") == 1


def test_embedder_metric_follows_an_outage(path: Path, meters: PrometheusMetrics) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        watched = heard(brain, meters)
        embedder.is_down = True
        watched.recall("the gate")
        assert figure(meters, "embedder_up") == 0
        embedder.is_down = False
        stored(watched, "The gate opens at six", kind="fact")
        assert figure(meters, "embedder_up") == 1


COUNTING = """
import sys
from datetime import UTC, datetime
from commonbrain_server.observability.metrics import PrometheusMetrics
from commonbrain.observability.tool_events import ToolEvent
meters = PrometheusMetrics(version="1", space="words")
event = ToolEvent(id=1, tenant="default", at=datetime.now(UTC), session="", agent="ann",
                  tool="recall", transport="rest", duration_ms=1.0, outcome="ok")
for _ in range(int(sys.argv[1])):
    meters.called(event, http_status=200)
meters.queued(int(sys.argv[1]), dead=0)
sys.stdout.buffer.write(meters.metrics()[0])
"""


def test_processes_that_share_a_folder_show_common_metrics(tmp_path: Path) -> None:
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    pages = [
        subprocess.run(
            [sys.executable, "-c", COUNTING, count],
            env=environment,
            check=True,
            stdout=PIPE,
        ).stdout.decode()
        for count in ("3", "4")
    ]
    last = {
        sample.name: sample.value
        for family in text_string_to_metric_families(pages[-1])
        for sample in family.samples
    }
    assert last["commonbrain_calls_total"] == 7
    assert last["commonbrain_jobs_waiting"] == 4


@pytest.mark.requirement("OB-12")
def test_no_operation_takes_a_metric() -> None:
    fields = {name for one in load_operations() for name in one.request.model_fields}
    assert not fields & {"metric", "metrics_value", "duration_ms", "latency_ms"}


def test_brain_without_telemetry_has_no_metrics(brain: Brain) -> None:
    assert brain.services.telemetry is SILENT
    assert SILENT.metrics()[0] == b""
    assert not SILENT.is_on


def test_metrics_are_served_at_a_port_until_it_is_closed(
    meters: PrometheusMetrics,
) -> None:
    assert meters.listen("127.0.0.1", 0)
    other = PrometheusMetrics(version="1", space="words")
    assert meters.port
    assert not other.listen("127.0.0.1", meters.port)
    with urlopen(f"http://127.0.0.1:{meters.port}/metrics") as page:
        assert b"commonbrain_info" in page.read()
    meters.close()
    assert meters.port is None
