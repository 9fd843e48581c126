"""OpenTelemetry: one span per call, with a child span for each stage of recall and remember."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Span, SpanContext, Status, StatusCode, Tracer

from commonbrain.model import ids
from commonbrain.observability.interface import RecallMetrics, RememberMetrics, Telemetry
from commonbrain.observability.tool_events import ToolEvent

_NS_A_MS: Final = 1_000_000
_SERVICE: Final = "commonbrain"
_SERVER_ERROR: Final = 500
"""Statuses from here on are server errors."""
_SCOPE: Final = InstrumentationScope(_SERVICE)
_NO_STATUS: Final = Status(StatusCode.UNSET)


class OtelSpans(Telemetry):
    """Creates spans; attributes hold counts and names, never memory text."""

    def __init__(self, provider: TracerProvider, processor: SpanProcessor) -> None:
        self._provider = provider
        self._processor = processor
        self._tracer: Tracer = provider.get_tracer(_SERVICE)

    @classmethod
    def to(cls, processor: SpanProcessor, *, about: Mapping[str, str]) -> OtelSpans:
        """Send finished spans to a processor, with version and embedding space."""
        return cls(_provider(processor, about), processor)

    @classmethod
    def sent(cls, endpoint: str | None, *, about: Mapping[str, str]) -> OtelSpans:
        """Export spans by OTLP over HTTP, to `endpoint` or where the standard variables point."""
        url = f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None
        # The MCP library creates spans too: they belong to the same traces.
        return install_globally(BatchSpanProcessor(OTLPSpanExporter(endpoint=url)), about=about)

    @property
    def is_on(self) -> bool:
        """Always true: spans need the pipeline metrics."""
        return True

    def calling(self, tool: str, *, transport: str) -> AbstractContextManager[Span]:
        """Open the span of a call under the current span."""
        attributes = {"commonbrain.tool": tool, "commonbrain.transport": transport}
        return self._tracer.start_as_current_span(
            f"commonbrain {tool}",
            attributes=attributes,
            # Exception messages may repeat user input.
            record_exception=False,
            set_status_on_exception=False,
        )

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Record in the span of a call how it ended."""
        span = trace.get_current_span()
        if not span.is_recording():
            return
        attributes = {
            "commonbrain.outcome": event.outcome,
            "commonbrain.tenant": event.tenant,
            "commonbrain.agent": event.agent,
            "commonbrain.event": ids.show(ids.EVENT, event.id),
        }
        span.set_attributes(attributes)
        if http_status >= _SERVER_ERROR:
            span.set_status(Status(StatusCode.ERROR, event.outcome))

    def remembered(self, run: RememberMetrics) -> None:
        """Create the span of a remember and of its stages."""
        counts = {"stored": sum(run.stored.values()), "refused": sum(run.refused.values())}
        self._export_path("remember", run.stages_ms, counts=counts)

    def recalled(self, run: RecallMetrics) -> None:
        """Create the span of a recall and of its stages."""
        counts = {
            "considered": run.considered,
            "barred": run.left_out.get("not_allowed", 0),
            "packed": run.packed,
            "tokens": run.tokens,
            "model": run.ranker or "weights",
        }
        self._export_path("recall", run.stages_ms, counts=counts)

    def _export_path(
        self, path: str, stages_ms: Mapping[str, float], *, counts: Mapping[str, int | str]
    ) -> None:
        """Create the span of a finished path and, in sequence, those of its stages.

        Finished spans go straight to the processor: opening and closing live spans costs four times
        as much. Without a current span, the sampler decides on the span of the path.
        """
        end = time.time_ns()
        start = end - int(sum(stages_ms.values()) * _NS_A_MS)
        attributes = {f"commonbrain.{name}": count for name, count in counts.items()}
        call = trace.get_current_span()
        if call.is_recording():
            parent = call.get_span_context()
            path_context = self._child_context(parent)
            self._export_span(
                path, path_context, parent=parent, times_ns=(start, end), attributes=attributes
            )
        else:
            root = self._tracer.start_span(path, start_time=start, attributes=attributes)
            path_context = root.get_span_context()
            root.end(end)
        for stage, taken_ms in stages_ms.items():
            stage_end = start + int(taken_ms * _NS_A_MS)
            name, own = f"{path}.{stage}", self._child_context(path_context)
            self._export_span(
                name, own, parent=path_context, times_ns=(start, stage_end), attributes={}
            )
            start = stage_end

    def _export_span(
        self,
        name: str,
        own: SpanContext,
        *,
        parent: SpanContext,
        times_ns: tuple[int, int],
        attributes: Mapping[str, int | str],
    ) -> None:
        """Pass a finished span to the processor, which drops spans that are not sampled."""
        span = ReadableSpan(
            name,
            own,
            parent,
            self._provider.resource,
            attributes=attributes,
            status=_NO_STATUS,
            start_time=times_ns[0],
            end_time=times_ns[1],
            instrumentation_scope=_SCOPE,
        )
        self._processor.on_end(span)

    def _child_context(self, parent: SpanContext) -> SpanContext:
        """Create the context of a new span in the same trace."""
        id_ = self._provider.id_generator.generate_span_id()
        flags, state = parent.trace_flags, parent.trace_state
        return SpanContext(parent.trace_id, id_, False, flags, state)  # noqa: FBT003 not remote

    def close(self) -> None:
        """Flush pending spans and shut down."""
        self._provider.shutdown()


def _provider(processor: SpanProcessor, about: Mapping[str, str]) -> TracerProvider:
    service = os.environ.get("OTEL_SERVICE_NAME", _SERVICE)
    attributes = {f"{_SERVICE}.{name}": value for name, value in about.items()}
    provider = TracerProvider(resource=Resource.create({SERVICE_NAME: service, **attributes}))
    provider.add_span_processor(processor)
    return provider


def install_globally(processor: SpanProcessor, *, about: Mapping[str, str]) -> OtelSpans:
    """Create spans for this processor and install the provider for other libraries too."""
    provider = _provider(processor, about)
    trace.set_tracer_provider(provider)
    return OtelSpans(provider, processor)
