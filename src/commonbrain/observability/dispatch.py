"""Everything that listens, together."""

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
    """Tells each of several what it hears; one of them may draw spans, one may count."""

    def __init__(
        self,
        ears: Sequence[Telemetry],
        *,
        spans: Telemetry = SILENT,
        meters: Telemetry = SILENT,
    ) -> None:
        self._spans = spans
        self._meters = meters
        self._ears = tuple(one for one in (spans, meters, *ears) if one is not SILENT)

    @property
    def is_on(self) -> bool:
        """Say whether anybody wants to hear of the pipelines."""
        return any(one.is_on for one in self._ears)

    def calling(self, tool: str, *, transport: str) -> AbstractContextManager[object]:
        """Open the span of a call."""
        return self._spans.calling(tool, transport=transport)

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Tell of a call."""
        for ear in self._ears:
            ear.called(event, http_status=http_status)

    def remembered(self, run: RememberMetrics) -> None:
        """Tell of a run of the write path."""
        for ear in self._ears:
            ear.remembered(run)

    def recalled(self, run: RecallMetrics) -> None:
        """Tell of a run of the read path."""
        for ear in self._ears:
            ear.recalled(run)

    def voted(self, vote: int) -> None:
        """Tell of a mark."""
        for ear in self._ears:
            ear.voted(vote)

    def turned_away(self, code: str, *, transport: str) -> None:
        """Tell of somebody who was not let in."""
        for ear in self._ears:
            ear.turned_away(code, transport=transport)

    def queued(self, depth: int, *, dead: int) -> None:
        """Tell of the queue."""
        for ear in self._ears:
            ear.queued(depth, dead=dead)

    def worked(self, kind: str, outcome: str, *, at: datetime) -> None:
        """Tell of a job."""
        for ear in self._ears:
            ear.worked(kind, outcome, at=at)

    def modelled(self, standings: Sequence[GaugeSnapshot]) -> None:
        """Tell of the models."""
        for ear in self._ears:
            ear.modelled(standings)

    def read_from(self, replicas: Sequence[ReplicaReads]) -> None:
        """Tell of the replicas."""
        for ear in self._ears:
            ear.read_from(replicas)

    def metrics(self) -> tuple[bytes, str]:
        """Give what is counted."""
        return self._meters.metrics()

    def close(self) -> None:
        """Close each."""
        for ear in self._ears:
            ear.close()
