import re
from collections.abc import Iterator

import pytest
from commonbrain_server.http.middleware import TracingMiddleware
from commonbrain_server.observability.metrics import PrometheusMetrics
from commonbrain_server.observability.tracing import OtelSpans, install_globally
from opentelemetry import trace
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from commonbrain.client import Brain
from tests.observability.reading import call, heard

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
EXPORTED = InMemorySpanExporter()


@pytest.fixture(scope="module")
def spans() -> OtelSpans:
    """A process has one tracer for good."""
    return install_globally(SimpleSpanProcessor(EXPORTED), about={"version": "1", "space": "words"})


@pytest.fixture
def client(brain: Brain, spans: OtelSpans) -> Iterator[TestClient]:
    EXPORTED.clear()
    watched = heard(brain, spans)

    async def recall(_: Request) -> Response:
        call(watched, "recall", query="the gate")
        return Response("done")

    async def fail(_: Request) -> Response:
        return Response("broken", status_code=503)

    routes = [Route("/recall", recall), Route("/fail", fail)]
    with TestClient(Starlette(routes=routes, middleware=[Middleware(TracingMiddleware)])) as client:
        yield client


def test_request_continues_the_trace_of_its_header(client: TestClient) -> None:
    given = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
    answer = client.get("/recall", headers=given)
    assert answer.headers["traceparent"].split("-")[1] == TRACE
    of_trace = {
        span.name
        for span in EXPORTED.get_finished_spans()
        if trace.format_trace_id(span.get_span_context().trace_id) == TRACE  # pyright: ignore[reportOptionalMemberAccess]
    }
    assert {"GET", "commonbrain recall", "recall", "recall.retrieve"} <= of_trace


def test_request_without_a_trace_starts_one(client: TestClient) -> None:
    assert client.get("/recall").headers["traceparent"]
    [span] = [one for one in EXPORTED.get_finished_spans() if one.kind is SpanKind.SERVER]
    assert span.parent is None


def test_span_of_a_reply_with_status_503_is_an_error(client: TestClient) -> None:
    client.get("/fail")
    [span] = EXPORTED.get_finished_spans()
    assert not span.status.is_ok
    assert (span.attributes or {})["http.response.status_code"] == 503


def test_prometheus_reads_the_metrics_of_a_brain(brain: Brain) -> None:
    watched = heard(brain, PrometheusMetrics(version="1", space="words"))
    call(watched, "status")
    page, media_type = watched.services.telemetry.metrics()
    assert media_type.startswith("text/plain")
    assert re.search(rb'commonbrain_calls_total\{outcome="ok",[^}]*transport="mcp"', page)
