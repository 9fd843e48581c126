"""Forwards telemetry to every configured receiver."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from datetime import datetime

from commonbrain.observability.health import ReplicaReads
from commonbrain.observability.interface import (
    SILENT,
    GaugeSnapshot,
    NoTelemetry,
    RecallMetrics,
    RememberMetrics,
    Telemetry,
)
from commonbrain.observability.tool_events import ToolEvent


class TelemetryDispatch(NoTelemetry):
    """Forwards each event to several receivers.

    At most one creates spans and one exports metrics.
    """

    def __init__(
        self,
        receivers: Sequence[Telemetry],
        *,
        spans: Telemetry = SILENT,
        meters: Telemetry = SILENT,
    ) -> None:
        self._spans = spans
        self._meters = meters
        self._receivers = tuple(one for one in (spans, meters, *receivers) if one is not SILENT)

    @property
    def is_on(self) -> bool:
        """Whether any receiver wants pipeline metrics."""
        return any(one.is_on for one in self._receivers)

    def calling(self, tool: str, *, transport: str) -> AbstractContextManager[object]:
        """Open the span of a call."""
        return self._spans.calling(tool, transport=transport)

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Forward a finished call."""
        for receiver in self._receivers:
            receiver.called(event, http_status=http_status)

    def remembered(self, run: RememberMetrics) -> None:
        """Forward one run of the write path."""
        for receiver in self._receivers:
            receiver.remembered(run)

    def recalled(self, run: RecallMetrics) -> None:
        """Forward one run of the read path."""
        for receiver in self._receivers:
            receiver.recalled(run)

    def voted(self, vote: int) -> None:
        """Forward a vote."""
        for receiver in self._receivers:
            receiver.voted(vote)

    def turned_away(self, code: str, *, transport: str) -> None:
        """Forward a rejected credential."""
        for receiver in self._receivers:
            receiver.turned_away(code, transport=transport)

    def queued(self, depth: int, *, dead: int) -> None:
        """Forward the length of the job queue."""
        for receiver in self._receivers:
            receiver.queued(depth, dead=dead)

    def worked(self, kind: str, outcome: str, *, at: datetime) -> None:
        """Forward a job attempt."""
        for receiver in self._receivers:
            receiver.worked(kind, outcome, at=at)

    def modelled(self, gauges: Sequence[GaugeSnapshot]) -> None:
        """Forward the number of models."""
        for receiver in self._receivers:
            receiver.modelled(gauges)

    def read_from(self, replicas: Sequence[ReplicaReads]) -> None:
        """Forward the state of the replicas."""
        for receiver in self._receivers:
            receiver.read_from(replicas)

    def metrics(self) -> tuple[bytes, str]:
        """Return the metrics and their media type."""
        return self._meters.metrics()

    def close(self) -> None:
        """Close every receiver."""
        for receiver in self._receivers:
            receiver.close()
