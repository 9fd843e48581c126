"""Telemetry interface: what pipelines and transports report; receivers are optional.

Law: telemetry never changes or fails a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime
from typing import Final

from commonbrain.model.model_card import ModelRole, ModelState
from commonbrain.model.values import dataclass
from commonbrain.observability.health import ReplicaReads
from commonbrain.observability.tool_events import ToolEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberMetrics:
    """One run of the write path."""

    tenant: str
    stages_ms: Mapping[str, float]
    stored: Mapping[str, int]
    """Stored memories by kind."""
    refused: Mapping[str, int]
    """Rejected memories by error code."""
    is_embedding: bool
    """Whether the embedder answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMetrics:
    """One run of the read path."""

    tenant: str
    stages_ms: Mapping[str, float]
    verdict: str
    is_meaning_asked: bool
    """Whether the query was to be embedded; False without a query."""
    is_meaning_found: bool
    """Whether the embedder answered; True if it was not needed."""
    considered: int
    packed: int
    left_out: Mapping[str, int]
    """Candidates missing from the answer, by reason."""
    top_score: float | None
    """Score of the first item; None for an empty answer."""
    tokens: int
    """Tokens of the answer."""
    tokens_considered: int
    """Tokens of all permitted candidates in full, estimated as 4 characters each."""
    ranker: str | None = None
    """The model that ranked or failed to; None if fixed weights ranked."""
    is_ranker_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeSnapshot:
    """Number of models of one role in one state, over all tenants."""

    role: ModelRole
    state: ModelState
    count: int
    percent: float = 0.0
    """Highest percentage of a tenant's sessions that one canary serves."""


class Telemetry:
    """Ignores the reports of pipelines and transports; receivers override what they need."""

    @property
    def is_on(self) -> bool:
        """Whether anyone receives pipeline metrics: costly figures are computed only then."""
        return False

    def calling(self, tool: str, *, transport: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Open the span of a call; reports inside it belong to the call."""
        return _NOTHING

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Report a finished call; `http_status` is the status of its outcome over HTTP."""

    def remembered(self, run: RememberMetrics) -> None:
        """Report one run of the write path."""

    def recalled(self, run: RecallMetrics) -> None:
        """Report one run of the read path."""

    def voted(self, vote: int) -> None:
        """Report a vote on a recalled memory: above zero it helped."""

    def turned_away(self, code: str, *, transport: str) -> None:
        """Report a credential rejected before its tenant was known."""

    def queued(self, depth: int, *, dead: int) -> None:
        """Report how many jobs wait and how many are dead letters."""

    def worked(self, kind: str, outcome: str, *, at: datetime) -> None:
        """Report how an attempt at a job ended."""

    def modelled(self, gauges: Sequence[GaugeSnapshot]) -> None:
        """Report the number of models by role and state."""

    def read_from(self, replicas: Sequence[ReplicaReads]) -> None:
        """Report the replica reads of this process so far."""

    def metrics(self) -> tuple[bytes, str]:
        """Return the metrics in Prometheus format and their media type."""
        return b"", "text/plain; charset=utf-8"

    def close(self) -> None:
        """Flush pending data and release resources."""


_NOTHING: Final = nullcontext()
SILENT: Final = Telemetry()
