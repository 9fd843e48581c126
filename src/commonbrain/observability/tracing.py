"""OpenTelemetry: a span for every call, and in it one for every stage of the two paths."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Span, SpanContext, Status, StatusCode, Tracer

from commonbrain.extras import load_extra
from commonbrain.model import ids
from commonbrain.observability.interface import NoTelemetry, RecallMetrics, RememberMetrics
from commonbrain.observability.tool_events import ToolEvent

_NS_A_MS: Final = 1_000_000
_SERVICE: Final = "commonbrain"
_BROKEN: Final = 500
"""From this status on it is the server's fault."""
_SCOPE: Final = InstrumentationScope(_SERVICE)
_NO_STATUS: Final = Status(StatusCode.UNSET)


class OtelSpans(NoTelemetry):
    """Draws spans; the attributes hold counts and names, never a text."""

    def __init__(self, provider: TracerProvider, processor: SpanProcessor) -> None:
        self._provider = provider
        self._processor = processor
        self._tracer: Tracer = provider.get_tracer(_SERVICE)

    @classmethod
    def to(cls, processor: SpanProcessor, *, about: Mapping[str, str]) -> OtelSpans:
        """Give finished spans to a processor, with the version and the vector space."""
        return cls(_provider(processor, about), processor)

    @classmethod
    def sent(cls, endpoint: str | None, *, about: Mapping[str, str]) -> OtelSpans:
        """Send spans by OTLP over HTTP, to an endpoint or where the standard variables say.

        Raises:
            InvalidInputError: what sends them is not installed.

        """
        otlp = load_extra("opentelemetry.exporter.otlp.proto.http.trace_exporter", extra="server")
        url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        # The protocol's own library draws spans as well: they belong to the same traces.
        return made_global(BatchSpanProcessor(otlp.OTLPSpanExporter(endpoint=url)), about=about)

    @property
    def is_on(self) -> bool:
        """Say yes: it hears of the pipelines."""
        return True

    def calling(self, tool: str, *, transport: str) -> AbstractContextManager[Span]:
        """Open the span of a call under whatever span is open already."""
        attributes = {"commonbrain.tool": tool, "commonbrain.transport": transport}
        return self._tracer.start_as_current_span(
            f"commonbrain {tool}",
            attributes=attributes,
            # A message may repeat what was given.
            record_exception=False,
            set_status_on_exception=False,
        )

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Say in the span of a call how it ended."""
        span = trace.get_current_span()
        if not span.is_recording():
            return
        told = {
            "commonbrain.outcome": event.outcome,
            "commonbrain.tenant": event.tenant,
            "commonbrain.agent": event.agent,
            "commonbrain.event": ids.show(ids.EVENT, event.id),
        }
        span.set_attributes(told)
        if http_status >= _BROKEN:
            span.set_status(Status(StatusCode.ERROR, event.outcome))

    def remembered(self, run: RememberMetrics) -> None:
        """Draw the stages of the write path."""
        counts = {"stored": sum(run.stored.values()), "refused": sum(run.refused.values())}
        self._draw("remember", run.stages_ms, counts=counts)

    def recalled(self, run: RecallMetrics) -> None:
        """Draw the stages of the read path."""
        counts = {
            "considered": run.considered,
            "barred": run.left_out.get("not_allowed", 0),
            "packed": run.packed,
            "tokens": run.tokens,
            "model": run.ranker or "weights",
        }
        self._draw("recall", run.stages_ms, counts=counts)

    def _draw(
        self, path: str, stages_ms: Mapping[str, float], *, counts: Mapping[str, int | str]
    ) -> None:
        """Draw a path that is just over and, one behind the other, its stages.

        What has ended is handed over as it will be sent: what a span can do while it is open costs
        four times as much. Where nothing is open, the path's own decides whether it is sampled.
        """
        end = time.time_ns()
        begin = end - int(sum(stages_ms.values()) * _NS_A_MS)
        attributes = {f"commonbrain.{name}": count for name, count in counts.items()}
        call = trace.get_current_span()
        if call.is_recording():
            around = call.get_span_context()
            whole = self._within(around)
            self._hand_over(path, whole, around=around, lasted=(begin, end), attributes=attributes)
        else:
            drawn = self._tracer.start_span(path, start_time=begin, attributes=attributes)
            whole = drawn.get_span_context()
            drawn.end(end)
        for stage, taken_ms in stages_ms.items():
            over = begin + int(taken_ms * _NS_A_MS)
            name, own = f"{path}.{stage}", self._within(whole)
            self._hand_over(name, own, around=whole, lasted=(begin, over), attributes={})
            begin = over

    def _hand_over(
        self,
        name: str,
        own: SpanContext,
        *,
        around: SpanContext,
        lasted: tuple[int, int],
        attributes: Mapping[str, int | str],
    ) -> None:
        """Give a span that is over to whom all of them go; who is not sampled is not sent."""
        span = ReadableSpan(
            name,
            own,
            around,
            self._provider.resource,
            attributes=attributes,
            status=_NO_STATUS,
            start_time=lasted[0],
            end_time=lasted[1],
            instrumentation_scope=_SCOPE,
        )
        self._processor.on_end(span)

    def _within(self, around: SpanContext) -> SpanContext:
        """Name another span of the same trace."""
        id_ = self._provider.id_generator.generate_span_id()
        flags, state = around.trace_flags, around.trace_state
        return SpanContext(around.trace_id, id_, False, flags, state)  # noqa: FBT003 it is of here

    def close(self) -> None:
        """Send what waits."""
        self._provider.shutdown()


def _provider(processor: SpanProcessor, about: Mapping[str, str]) -> TracerProvider:
    service = os.environ.get("OTEL_SERVICE_NAME", _SERVICE)
    told = {f"{_SERVICE}.{name}": value for name, value in about.items()}
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service, **told}))
    provider.add_span_processor(processor)
    return provider


def made_global(processor: SpanProcessor, *, about: Mapping[str, str]) -> OtelSpans:
    """Give finished spans to a processor, and those of every other library as well."""
    provider = _provider(processor, about)
    trace.set_tracer_provider(provider)
    return OtelSpans(provider, processor)
