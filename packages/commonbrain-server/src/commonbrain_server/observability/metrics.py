"""Prometheus metrics of a server.

Several processes of one server share the folder that `PROMETHEUS_MULTIPROC_DIR` names; each of them
then reports the sum. Labels have closed sets of values, except for tenants and models: the first
hundred of each have their own label, the rest share one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from errno import EADDRINUSE
from functools import cache, cached_property
from threading import Lock
from typing import Final
from wsgiref.simple_server import WSGIServer

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    start_http_server,
)
from prometheus_client.multiprocess import MultiProcessCollector

from commonbrain.model.model_card import ModelState
from commonbrain.observability.health import ReplicaReads
from commonbrain.observability.interface import (
    GaugeSnapshot,
    RecallMetrics,
    RememberMetrics,
    Telemetry,
)
from commonbrain.observability.tool_events import ToolEvent

TENANTS_MAX: Final = 100
OTHERS: Final = "others"
"""The label of every tenant and every model past the first hundred."""
WEIGHTS: Final = "weights"
"""The model label when fixed weights rank."""
_MULTIPROC_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"
_CALLS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.35, 0.5, 1, 2.5, 5, 10, 30)
"""Includes both latency targets, 250 ms and 350 ms, so that quantiles near them are exact."""
_STAGES_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_LEFT_OUT: Final = "Candidates missing from the answer, by reason."
_CONSIDERED: Final = "Tokens of all permitted candidates in full."
_ORDERED: Final = "Recalls by ranking model and outcome."
_REPLICA_READS: Final = "Reads by replica: answered, or left to the primary."
_LAG: Final = "Replication lag at the last check, in bytes."
_WORKED: Final = "Attempts at jobs by outcome."
_DONE: Final = "Time of the last successful job of a kind, in Unix seconds."
_SHARE: Final = "Highest share of a tenant's sessions that a canary serves."
_SCORES: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.5)
TURNED_AWAY: Final = frozenset(
    {
        "missing_credential",
        "invalid_credential",
        "insufficient_role",
        "insufficient_scope",
        "scope_denied",
        "tenant_mismatch",
        "agent_mismatch",
        "trust_override_denied",
        "address_denied",
    }
)
"""Error codes of failed authorization."""


class PrometheusMetrics(Telemetry):
    """Counts pipeline runs and calls; each instance has its own registry."""

    def __init__(self, *, version: str, space: str) -> None:
        self._registry = registry = CollectorRegistry()
        self._tenants: set[str] = set()
        self._models: set[str] = set()
        self._server: WSGIServer | None = None
        self._lock = Lock()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"commonbrain_{name}", text, labels, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(
                f"commonbrain_{name}",
                text,
                labels,
                registry=registry,
                multiprocess_mode="mostrecent",
            )

        def histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(
                f"commonbrain_{name}", text, labels, registry=registry, buckets=buckets
            )

        self._seconds = histogram(
            "call_seconds", "Duration of calls.", "tool", "transport", buckets=_CALLS_S
        )
        self._calls = counter(
            "calls", "Calls by outcome.", "tool", "transport", "outcome", "status"
        )
        self._slow = counter("slow_calls", "Calls that took over 10 s.", "tool")
        self._away = counter(
            "authorisation_failures", "Failed authorizations.", "code", "transport"
        )
        self._stages = histogram(
            "stage_seconds", "Duration of stages.", "path", "stage", buckets=_STAGES_S
        )
        self._stored = counter("memories_stored", "Stored memories.", "tenant", "kind")
        self._refused = counter("rejects", "Rejected memories by error code.", "code")
        self._recalls = counter("recalls", "Recalls by result status.", "verdict")
        self._scores = histogram(
            "recall_top_score", "Score of the first item of an answer.", buckets=_SCORES
        )
        self._left_out = counter("recall_left_out", _LEFT_OUT, "reason")
        self._considered = counter("recall_tokens_considered", _CONSIDERED)
        self._packed = counter("recall_tokens_packed", "Tokens of the answers.")
        self._ordered = counter("recalls_ordered", _ORDERED, "model", "outcome")
        self._votes = counter("votes", "Votes on recalled memories.", "vote")
        self._embedder = gauge("embedder_up", "Whether the last call of the embedder succeeded.")
        self._depth = gauge("jobs_waiting", "Jobs in the queue.")
        self._dead = gauge("jobs_dead", "Dead letters.")
        self._worked = counter("jobs_worked", _WORKED, "kind", "outcome")
        self._done = gauge("job_done_timestamp_seconds", _DONE, "kind")
        self._model_count = gauge("models", "Models by role and state.", "role", "state")
        self._share = gauge("canary_share", _SHARE, "role")
        self._known: dict[str, ReplicaReads] = {}
        self._replica_reads = counter("replica_reads", _REPLICA_READS, "replica", "outcome")
        self._replica_lag = gauge("replica_behind_bytes", _LAG, "replica")
        gauge("info", "What is running.", "version", "space").labels(version, space).set(1)

    # Label lookups in prometheus_client are slow and every call needs these: cache them.
    @cached_property
    def _call_seconds(self) -> Callable[..., Histogram]:
        return cache(self._seconds.labels)

    @cached_property
    def _call_count(self) -> Callable[..., Counter]:
        return cache(self._calls.labels)

    @cached_property
    def _stage_seconds(self) -> Callable[..., Histogram]:
        return cache(self._stages.labels)

    @property
    def is_on(self) -> bool:
        """Always true: metrics need the pipeline runs."""
        return True

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Count a call, its duration and its outcome."""
        self._call_seconds(event.tool, event.transport).observe(event.duration_ms / 1000)
        status = f"{http_status // 100}xx"
        self._call_count(event.tool, event.transport, event.outcome, status).inc()
        if event.is_slow:
            self._slow.labels(event.tool).inc()
        if event.outcome in TURNED_AWAY:
            self._away.labels(event.outcome, event.transport).inc()

    def turned_away(self, code: str, *, transport: str) -> None:
        """Count a rejected credential."""
        self._away.labels(code if code in TURNED_AWAY else "other", transport).inc()

    def remembered(self, run: RememberMetrics) -> None:
        """Count stored and rejected memories."""
        self._time("remember", run.stages_ms)
        tenant = self._label(run.tenant, self._tenants)
        for kind, count in run.stored.items():
            self._stored.labels(tenant, kind).inc(count)
        for code, count in run.refused.items():
            self._refused.labels(code).inc(count)
        if "embed" in run.stages_ms:
            self._embedder.set(run.is_embedding)

    def recalled(self, run: RecallMetrics) -> None:
        """Count results, scores and tokens of a recall."""
        self._time("recall", run.stages_ms)
        self._recalls.labels(run.verdict).inc()
        for reason, count in run.left_out.items():
            self._left_out.labels(reason).inc(count)
        if run.top_score is not None:
            self._scores.observe(run.top_score)
        self._considered.inc(run.tokens_considered)
        self._packed.inc(run.tokens)
        model = self._label(run.ranker, self._models) if run.ranker else WEIGHTS
        self._ordered.labels(model, "failed" if run.is_ranker_failed else "ordered").inc()
        if run.is_meaning_asked:
            self._embedder.set(run.is_meaning_found)

    def voted(self, vote: int) -> None:
        """Count a vote."""
        self._votes.labels("up" if vote > 0 else "down").inc()

    def queued(self, depth: int, *, dead: int) -> None:
        """Set the length of the queue."""
        self._depth.set(depth)
        self._dead.set(dead)

    def worked(self, kind: str, outcome: str, *, at: datetime) -> None:
        """Count an attempt, and record the time of the last success."""
        self._worked.labels(kind, outcome).inc()
        if outcome == "done":
            self._done.labels(kind).set(at.timestamp())

    def modelled(self, gauges: Sequence[GaugeSnapshot]) -> None:
        """Set the number of models by role and state."""
        for one in gauges:
            self._model_count.labels(one.role, one.state).set(one.count)
            if one.state is ModelState.CANARY:
                self._share.labels(one.role).set(one.percent / 100)

    def read_from(self, replicas: Sequence[ReplicaReads]) -> None:
        """Count replica reads since the last report.

        The primary answered the lagged and failed ones.
        """
        with self._lock:
            for one in replicas:
                known = self._known.get(one.replica, ReplicaReads(replica=one.replica))
                if one.attempts < known.attempts:
                    # Another thread has already reported newer counts.
                    continue
                self._known[one.replica] = one
                for outcome in ("answered", "lagged", "failed"):
                    more = getattr(one, outcome) - getattr(known, outcome)
                    self._replica_reads.labels(one.replica, outcome).inc(more)
                if one.behind_bytes is not None:
                    self._replica_lag.labels(one.replica).set(one.behind_bytes)

    def metrics(self) -> tuple[bytes, str]:
        """Return the metrics of all processes that share the folder, and their media type."""
        return generate_latest(self._collector()), CONTENT_TYPE_LATEST

    def listen(self, host: str, port: int) -> bool:
        """Serve the metrics at a port of their own; False if another process already does.

        Raises:
            OSError: The address cannot be used.

        """
        try:
            self._server, _ = start_http_server(port, host, registry=self._collector())
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise
            return False
        return True

    @property
    def port(self) -> int | None:
        """The port that serves the metrics."""
        return self._server.server_port if self._server else None

    def close(self) -> None:
        """Stop serving the metrics."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _collector(self) -> CollectorRegistry:
        if not os.environ.get(_MULTIPROC_VARIABLE):
            return self._registry
        merged = CollectorRegistry()
        MultiProcessCollector(merged)
        return merged

    def _time(self, path: str, stages_ms: Mapping[str, float]) -> None:
        for stage, taken_ms in stages_ms.items():
            self._stage_seconds(path, stage).observe(taken_ms / 1000)

    def _label(self, name: str, known: set[str]) -> str:
        with self._lock:
            if name not in known and len(known) < TENANTS_MAX:
                known.add(name)
            return name if name in known else OTHERS
