from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from commonbrain_server.observability.tracing import OtelSpans
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from commonbrain.api.dispatch import CallContext, record_event
from commonbrain.api.operations import Transport
from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError, UnavailableError
from tests.asking import stored
from tests.observability.reading import TOOLS, call, heard


@dataclass(frozen=True, slots=True)
class Drawn:
    brain: Brain
    exporter: InMemorySpanExporter

    def spans(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> ReadableSpan:
        [one] = [span for span in self.spans() if span.name == name]
        return one


@pytest.fixture
def drawn(brain: Brain) -> Iterator[Drawn]:
    exporter = InMemorySpanExporter()
    spans = OtelSpans.to(SimpleSpanProcessor(exporter), about={"version": "1", "space": "words"})
    yield Drawn(heard(brain, spans), exporter)
    spans.close()


def parent(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None


def own(span: ReadableSpan) -> int:
    context = span.get_span_context()
    assert context is not None
    return context.span_id


@pytest.mark.requirement("OB-13")
def test_each_stage_of_remember_and_recall_has_a_span_under_its_call(drawn: Drawn) -> None:
    call(drawn.brain, "remember", text="The gate opens at six", kind="fact")
    call(drawn.brain, "recall", query="the gate")
    stages = {
        "remember": {"gate", "embed", "decide", "commit"},
        "recall": {"plan", "embed", "retrieve", "rank", "pack"},
    }
    for path, expected in stages.items():
        whole = drawn.named(path)
        assert parent(whole) == own(drawn.named(f"commonbrain {path}"))
        inside = {span.name for span in drawn.spans() if parent(span) == own(whole)}
        assert {f"{path}.{stage}" for stage in expected} <= inside


def test_spans_of_stages_are_gapless(drawn: Drawn) -> None:
    drawn.brain.recall("the gate")
    whole = drawn.named("recall")
    stages = [span for span in drawn.spans() if parent(span) == own(whole)]
    for one, following in pairwise(stages):
        assert one.end_time == following.start_time
    assert stages[0].start_time == whole.start_time


def test_span_of_a_failed_call_is_an_error_without_its_message(drawn: Drawn) -> None:
    context = CallContext(operation=TOOLS["recall"], transport=Transport.REST)
    with pytest.raises(UnavailableError), record_event(drawn.brain, context):
        raise UnavailableError("The store at /secret/place is away.")
    span = drawn.named("commonbrain recall")
    assert not span.status.is_ok
    assert (span.attributes or {})["commonbrain.outcome"] == "store_down"
    assert "secret" not in span.to_json()


def test_span_of_a_wrong_request_is_no_error(drawn: Drawn) -> None:
    with pytest.raises(CommonbrainError):
        call(drawn.brain, "get", id="mem_0000000000000")
    assert drawn.named("commonbrain get").status.is_unset


def test_spans_contain_no_text_of_queries_and_memories(drawn: Drawn) -> None:
    stored(drawn.brain, "The mongoose opens the gate", kind="fact")
    call(drawn.brain, "recall", query="who opens? the mongoose")
    assert not [span for span in drawn.spans() if "mongoose" in span.to_json()]


@pytest.mark.requirement("OB-07")
def test_spans_have_counts_rejections_tokens_and_the_vector_space(drawn: Drawn) -> None:
    drawn.brain.remember("The token is ghp_" + "a1B2" * 9)
    stored(drawn.brain, "The gate opens at six", kind="fact")
    answer = drawn.brain.recall("When does the gate open?")
    writes = [span.attributes or {} for span in drawn.spans() if span.name == "remember"]
    span = drawn.named("recall")
    read = span.attributes or {}
    assert [one["commonbrain.refused"] for one in writes] == [1, 0]
    assert (read["commonbrain.packed"], read["commonbrain.barred"]) == (1, 0)
    assert read["commonbrain.tokens"] == answer.tokens
    assert span.resource.attributes["commonbrain.space"] == "words"
