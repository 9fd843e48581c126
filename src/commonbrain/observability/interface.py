"""What pipelines and doors tell of themselves, for who watches; nobody has to listen.

Law: whatever a telemetry does, no call fails or changes for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from commonbrain.model.model_card import ModelRole, ModelState
from commonbrain.observability.health import ReplicaReads
from commonbrain.observability.tool_events import ToolEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberMetrics:
    """One run of the write path."""

    tenant: str
    stages_ms: Mapping[str, float]
    stored: Mapping[str, int]
    """How many became memories, by kind."""
    refused: Mapping[str, int]
    """How many did not, by code."""
    is_embedding: bool
    """Whether the embedder answered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallMetrics:
    """One run of the read path."""

    tenant: str
    stages_ms: Mapping[str, float]
    verdict: str
    is_meaning_asked: bool
    """Whether what the question means was looked for; False without a question."""
    is_meaning_found: bool
    """Whether the embedder answered, as far as it was asked."""
    considered: int
    packed: int
    left_out: Mapping[str, int]
    """How many of the considered are not in the answer, by why."""
    top_score: float | None
    """The score of the first item of the answer; None of an empty one."""
    tokens: int
    """What the answer costs its reader."""
    tokens_considered: int
    """What all that was considered and allowed would have cost, whole: about 4 characters each."""
    ranker: str | None = None
    """The model that ordered it, or failed to; None where fixed weights did."""
    is_ranker_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GaugeSnapshot:
    """How many models of one role are in one state, those of all tenants together."""

    role: ModelRole
    state: ModelState
    count: int
    percent: float = 0.0
    """The greatest share of its tenant's sessions that one of them serves by trial."""


class Telemetry(Protocol):
    """Listens to pipelines and doors."""

    @property
    def is_on(self) -> bool:
        """Whether anybody listens: what costs time to find out is found out only then."""
        ...

    def calling(self, tool: str, *, transport: str) -> AbstractContextManager[object]:
        """Open what spans one call; what is told inside of it belongs to the call."""
        ...

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Hear that a call is over; `http_status` is what its outcome is over HTTP."""
        ...

    def remembered(self, run: RememberMetrics) -> None:
        """Hear of one run of the write path."""
        ...

    def recalled(self, run: RecallMetrics) -> None:
        """Hear of one run of the read path."""
        ...

    def voted(self, vote: int) -> None:
        """Hear of a mark on what was recalled: above zero it helped."""
        ...

    def turned_away(self, code: str, *, transport: str) -> None:
        """Hear that somebody was not let in, before it was known whose call it was."""
        ...

    def queued(self, depth: int, *, dead: int) -> None:
        """Hear how many jobs wait, and how many were given up."""
        ...

    def worked(self, kind: str, outcome: str, *, at: datetime) -> None:
        """Hear how an attempt at a job ended."""
        ...

    def modelled(self, standings: Sequence[GaugeSnapshot]) -> None:
        """Hear how many models there are, of every role in every state."""
        ...

    def read_from(self, replicas: Sequence[ReplicaReads]) -> None:
        """Hear how the replicas fared so far in this process."""
        ...

    def metrics(self) -> tuple[bytes, str]:
        """Write what was counted as Prometheus reads it, and name the media type."""
        ...

    def close(self) -> None:
        """Send or write what waits, and let go of what is held."""
        ...


class NoTelemetry:
    """Listens to nothing; what listens to something is one of these that overrides the rest."""

    @property
    def is_on(self) -> bool:
        """Say no."""
        return False

    def calling(self, tool: str, *, transport: str) -> AbstractContextManager[object]:  # noqa: ARG002
        """Open nothing."""
        return _NOTHING

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Hear nothing."""

    def remembered(self, run: RememberMetrics) -> None:
        """Hear nothing."""

    def recalled(self, run: RecallMetrics) -> None:
        """Hear nothing."""

    def voted(self, vote: int) -> None:
        """Hear nothing."""

    def turned_away(self, code: str, *, transport: str) -> None:
        """Hear nothing."""

    def queued(self, depth: int, *, dead: int) -> None:
        """Hear nothing."""

    def worked(self, kind: str, outcome: str, *, at: datetime) -> None:
        """Hear nothing."""

    def modelled(self, standings: Sequence[GaugeSnapshot]) -> None:
        """Hear nothing."""

    def read_from(self, replicas: Sequence[ReplicaReads]) -> None:
        """Hear nothing."""

    def metrics(self) -> tuple[bytes, str]:
        """Tell nothing."""
        return b"", "text/plain; charset=utf-8"

    def close(self) -> None:
        """Hold nothing."""


_NOTHING: Final = nullcontext()
SILENT: Final = NoTelemetry()
