"""What a server counts, as Prometheus reads it.

Several processes of one server count into one folder that `PROMETHEUS_MULTIPROC_DIR` names: any of
them then answers for all. Labels are of closed sets, but for tenants and models: the first hundred
of either have a label of their own, all others share one.
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
    NoTelemetry,
    RecallMetrics,
    RememberMetrics,
)
from commonbrain.observability.tool_events import ToolEvent

TENANTS_MAX: Final = 100
OTHERS: Final = "others"
"""The label of every tenant, and every model, past the first hundred."""
WEIGHTS: Final = "weights"
"""The label of the model where none serves."""
_SHARED: Final = "PROMETHEUS_MULTIPROC_DIR"
_CALLS_S: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.35, 0.5, 1, 2.5, 5, 10, 30)
"""Both promises, 250 ms and 350 ms, are bounds, so that no quantile near them is guessed."""
_STAGES_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5)
_LEFT_OUT: Final = "Considered memories that are in no answer, by why."
_CONSIDERED: Final = "Tokens of all that was considered and allowed, whole."
_ORDERED: Final = "Recalls by the model that orders them, or failed to."
_REPLICA_READS: Final = "Reads by what a replica did: answered, or left to the primary."
_BEHIND: Final = "How much a replica lacked when it was last asked."
_WORKED: Final = "Attempts at jobs by how they ended."
_DONE: Final = "When a job of a kind was last done, in seconds since 1970."
_SHARE: Final = "The greatest share of its tenant's sessions that a canary serves."
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
"""Codes of errors that are failures of authorisation."""


class PrometheusMetrics(NoTelemetry):
    """Counts what pipelines and doors tell; each of these has a registry of its own."""

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
            "call_seconds", "How long calls took.", "tool", "transport", buckets=_CALLS_S
        )
        self._calls = counter(
            "calls", "Calls by how they ended.", "tool", "transport", "outcome", "status"
        )
        self._slow = counter("slow_calls", "Calls that took over 10 s.", "tool")
        self._away = counter(
            "authorisation_failures", "Calls refused for who called.", "code", "transport"
        )
        self._stages = histogram(
            "stage_seconds",
            "How long stages of both paths took.",
            "path",
            "stage",
            buckets=_STAGES_S,
        )
        self._stored = counter("memories_stored", "What became memories.", "tenant", "kind")
        self._refused = counter("rejects", "What did not become a memory, by code.", "code")
        self._recalls = counter("recalls", "Recalls by what their answer means.", "verdict")
        self._scores = histogram(
            "recall_top_score", "The score of the first item of an answer.", buckets=_SCORES
        )
        self._left_out = counter("recall_left_out", _LEFT_OUT, "reason")
        self._considered = counter("recall_tokens_considered", _CONSIDERED)
        self._packed = counter("recall_tokens_packed", "Tokens of the answers.")
        self._ordered = counter("recalls_ordered", _ORDERED, "model", "outcome")
        self._votes = counter("votes", "Marks given to what was recalled.", "vote")
        self._embedder = gauge("embedder_up", "Whether the embedder answered when last asked.")
        self._depth = gauge("jobs_waiting", "Jobs that wait to be done.")
        self._dead = gauge("jobs_dead", "Jobs that were given up.")
        self._worked = counter("jobs_worked", _WORKED, "kind", "outcome")
        self._done = gauge("job_done_timestamp_seconds", _DONE, "kind")
        self._standing = gauge("models", "Models of all tenants.", "role", "state")
        self._share = gauge("canary_share", _SHARE, "role")
        self._known: dict[str, ReplicaReads] = {}
        self._replica_reads = counter("replica_reads", _REPLICA_READS, "replica", "outcome")
        self._behind = gauge("replica_behind_bytes", _BEHIND, "replica")
        gauge("info", "What is served.", "version", "space").labels(version, space).set(1)

    # What every call asks for: of closed sets, and looked up by the library each time anew.
    @cached_property
    def _lasting(self) -> Callable[..., Histogram]:
        return cache(self._seconds.labels)

    @cached_property
    def _ending(self) -> Callable[..., Counter]:
        return cache(self._calls.labels)

    @cached_property
    def _staying(self) -> Callable[..., Histogram]:
        return cache(self._stages.labels)

    @property
    def is_on(self) -> bool:
        """Say yes: it hears of the pipelines."""
        return True

    def called(self, event: ToolEvent, *, http_status: int) -> None:
        """Count a call, its time and its end."""
        self._lasting(event.tool, event.transport).observe(event.duration_ms / 1000)
        status = f"{http_status // 100}xx"
        self._ending(event.tool, event.transport, event.outcome, status).inc()
        if event.is_slow:
            self._slow.labels(event.tool).inc()
        if event.outcome in TURNED_AWAY:
            self._away.labels(event.outcome, event.transport).inc()

    def turned_away(self, code: str, *, transport: str) -> None:
        """Count somebody who was not let in."""
        self._away.labels(code if code in TURNED_AWAY else "other", transport).inc()

    def remembered(self, run: RememberMetrics) -> None:
        """Count what was stored and what was not."""
        self._time("remember", run.stages_ms)
        tenant = self._label(run.tenant, self._tenants)
        for kind, count in run.stored.items():
            self._stored.labels(tenant, kind).inc(count)
        for code, count in run.refused.items():
            self._refused.labels(code).inc(count)
        if "embed" in run.stages_ms:
            self._embedder.set(run.is_embedding)

    def recalled(self, run: RecallMetrics) -> None:
        """Count what was found, how sure, and what it cost."""
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
        """Count a mark that somebody gave."""
        self._votes.labels("up" if vote > 0 else "down").inc()

    def queued(self, depth: int, *, dead: int) -> None:
        """Take down how the queue is."""
        self._depth.set(depth)
        self._dead.set(dead)

    def worked(self, kind: str, outcome: str, *, at: datetime) -> None:
        """Count how an attempt ended, and take down when one ended well."""
        self._worked.labels(kind, outcome).inc()
        if outcome == "done":
            self._done.labels(kind).set(at.timestamp())

    def modelled(self, standings: Sequence[GaugeSnapshot]) -> None:
        """Take down how many models are in which state."""
        for one in standings:
            self._standing.labels(one.role, one.state).set(one.count)
            if one.state is ModelState.CANARY:
                self._share.labels(one.role).set(one.percent / 100)

    def read_from(self, replicas: Sequence[ReplicaReads]) -> None:
        """Count what replicas did since this was last told; what they did not, the primary did."""
        with self._lock:
            for one in replicas:
                known = self._known.get(one.replica, ReplicaReads(replica=one.replica))
                if one.asked < known.asked:
                    # Another thread was quicker to tell of a later moment.
                    continue
                self._known[one.replica] = one
                for outcome in ("answered", "lagged", "failed"):
                    more = getattr(one, outcome) - getattr(known, outcome)
                    self._replica_reads.labels(one.replica, outcome).inc(more)
                if one.behind_bytes is not None:
                    self._behind.labels(one.replica).set(one.behind_bytes)

    def metrics(self) -> tuple[bytes, str]:
        """Write what was counted, by all processes where they share a folder."""
        return generate_latest(self._told()), CONTENT_TYPE_LATEST

    def listen(self, host: str, port: int) -> bool:
        """Answer Prometheus at a port of its own; say no where another process does already.

        Raises:
            OSError: nobody can listen there.

        """
        try:
            self._server, _ = start_http_server(port, host, registry=self._told())
        except OSError as error:
            if error.errno != EADDRINUSE:
                raise
            return False
        return True

    @property
    def port(self) -> int | None:
        """Where Prometheus is answered."""
        return self._server.server_port if self._server else None

    def close(self) -> None:
        """Answer nobody any more."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def _told(self) -> CollectorRegistry:
        if not os.environ.get(_SHARED):
            return self._registry
        every = CollectorRegistry()
        MultiProcessCollector(every)
        return every

    def _time(self, path: str, stages_ms: Mapping[str, float]) -> None:
        for stage, taken_ms in stages_ms.items():
            self._staying(path, stage).observe(taken_ms / 1000)

    def _label(self, name: str, known: set[str]) -> str:
        with self._lock:
            if name not in known and len(known) < TENANTS_MAX:
                known.add(name)
            return name if name in known else OTHERS
