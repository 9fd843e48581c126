"""Status and doctor: what the store contains, and whether it is sound."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.administration.backup import Repaired
from commonbrain.administration.secret_scan import ScanSecrets, SecretScan
from commonbrain.administration.trends import Trends, read_trends
from commonbrain.coordination.hook_activity import (
    HookActivity,
    SilentClient,
    TokenUse,
    recent_runs,
    report_hooks,
    token_use,
)
from commonbrain.embeddings.interface import Thresholds
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, UnavailableError
from commonbrain.model.escaping import pluralize
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import EVENTS_WINDOW, SCANNED_MAX, SLOW_CALL_MS
from commonbrain.model.memory import CLOCK_TOLERANCE, CURRENT_STATES, State
from commonbrain.model.model_card import model_name
from commonbrain.model.query import Filter, RecallTrace
from commonbrain.model.scope import Role
from commonbrain.model.timestamps import show_instant, show_second
from commonbrain.observability.health import Dependency, ReplicaReads
from commonbrain.observability.tool_events import OK, REFUSED, ToolEvent
from commonbrain.security.authority import awaits_person
from commonbrain.services import Capability
from commonbrain.storage.interface import (
    EntryFilter,
    Finding,
    Heartbeat,
    MemoryAccess,
    Progress,
    QueryScope,
    ignore_progress,
)
from commonbrain.storage.job_queue import key_of
from commonbrain.text.languages import is_english

if TYPE_CHECKING:
    from commonbrain.storage.repositories.records import Timing
    from commonbrain.storage.store import Transaction

_WINDOW: Final = timedelta(days=1)
_PERCENTILES: Final = (50, 95, 99)
_OF_ENGLISH: Final = "all-minilm"
"""The beginning of the name of the space of the built-in model, which was trained on English."""
_TEXTS_READ: Final = 200
"""Newest memories, and questions, by which the languages of a store are known."""
_FOREIGN_MIN: Final = 3
"""Fewer say nothing of a small store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStats:
    """Agents' calls of one tool in the last day, from the latest ten thousand of all tools."""

    calls: int
    errors: int
    slow: int
    """Calls that took over 10 seconds."""
    mean_ms: float
    p50_ms: float
    p95_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedCall:
    """A call that failed."""

    id: str
    at: datetime
    tool: str
    transport: str
    agent: str
    session: str | None
    code: str
    duration_ms: float
    args: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Whether the dependencies answer."""

    is_sound: bool
    dependencies: tuple[Dependency, ...]
    uptime_s: float | None
    """How long this process has had the store open; None if not recorded."""
    tool_events_dropped: int
    replicas: tuple[ReplicaReads, ...] = ()
    """Replicas that this process reads from; empty if the primary answers."""


class CallMetrics(Capability):
    """Reads the recorded calls of one tenant."""

    def figures(self) -> Mapping[str, ToolStats]:
        """Return figures of agents' calls by tool, over all processes of this store.

        People who read the page are left out: each of its screens makes several calls.

        Raises:
            UnavailableError: the store cannot be read.

        """
        since = self.services.clock.now() - _WINDOW
        timings = self.services.store.read(
            self.caller.tenant, lambda tx: tx.events.timings(limit=EVENTS_WINDOW, since=since)
        )
        taken: defaultdict[str, list[Timing]] = defaultdict(list)
        for one in timings:
            taken[one.tool].append(one)
        return {tool: _figures(taken[tool]) for tool in sorted(taken)}

    def faults(self, limit: int) -> tuple[FailedCall, ...]:
        """List the latest failed calls; without the store, those of this process.

        Agents other than admins see their own only.
        """
        own = None if self.caller.role is Role.ADMIN else self.caller.agent
        here = self.services.journal.faults(self.caller.tenant)
        known = {one.id: one for one in here if own in {None, one.agent}}
        with suppress(CommonbrainError):
            known |= {event.id: event for event in self._failed(limit, agent=own)}
        return tuple(_fault(known[id_]) for id_ in sorted(known, reverse=True)[:limit])

    def trends(self) -> Trends:
        """Return figures over time: memories, recalls, calls and tokens.

        Raises:
            UnavailableError: the store cannot be read.

        """
        return read_trends(self.services, self.caller)

    def health(self) -> Health:
        """Probe every dependency; takes at most five seconds."""
        dependencies, replicas = tuple(self.services.probe()), self._replicas()
        if self.caller.admission is not None:
            # Network callers must not learn hosts and files.
            dependencies = tuple(replace(one, detail="at the server") for one in dependencies)
            replicas = tuple(one.masked(number) for number, one in enumerate(replicas, start=1))
        since = self.services.started_at
        return Health(
            is_sound=all(one.is_there for one in dependencies),
            dependencies=dependencies,
            uptime_s=(self.services.clock.now() - since).total_seconds() if since else None,
            tool_events_dropped=self.services.journal.dropped(ToolEvent),
            replicas=replicas,
        )

    def _replicas(self) -> tuple[ReplicaReads, ...]:
        """Query each replica, so that its status is current."""
        for _ in self.services.store.replicas():
            # If the primary is down, its own probe says so.
            with suppress(CommonbrainError):
                self.services.store.read(self.caller.tenant, lambda tx: tx.jobs.counts())
        return tuple(self.services.store.replicas())

    def _failed(self, limit: int, *, agent: str | None) -> Sequence[ToolEvent]:
        since = self.services.clock.now() - _WINDOW
        return self.services.store.read(
            self.caller.tenant,
            lambda tx: tx.events.failed(limit=limit, since=since, agent=agent),
        )


def _figures(calls: Sequence[Timing]) -> ToolStats:
    taken = [one.duration_ms for one in calls]
    import numpy as np  # noqa: PLC0415 only the metrics of calls need it

    p50, p95, p99 = (round(float(one), 3) for one in np.percentile(taken, _PERCENTILES))
    return ToolStats(
        calls=len(calls),
        errors=sum(one.outcome not in {OK, REFUSED} for one in calls),
        slow=sum(duration > SLOW_CALL_MS for duration in taken),
        mean_ms=round(sum(taken) / len(taken), 3),
        p50_ms=p50,
        p95_ms=p95,
        p99_ms=p99,
    )


def _fault(event: ToolEvent) -> FailedCall:
    return FailedCall(
        id=ids.show(ids.EVENT, event.id),
        at=event.at,
        tool=event.tool,
        transport=event.transport,
        agent=event.agent,
        session=event.session or None,
        code=event.outcome,
        duration_ms=event.duration_ms,
        args=event.args,
    )


_LATE_SHOWN: Final = 3
"""Memories with a time in the future that doctor names."""
_RULES_SHOWN: Final = 10
"""Rules without a person's word that doctor names."""
_OVERDUE_AFTER: Final = timedelta(days=7)
"""Maintenance is due daily; a week without it means that no process runs it."""
_REMOTE_STORE: Final = "the server's store"
"""The location that network callers see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStatus:
    """The contents of the store for this tenant, and its embedding space."""

    store: str
    """Its location, for callers on the same machine."""
    memories: int
    """Current memories: active and archived."""
    by_kind: Mapping[str, int]
    by_state: Mapping[str, int]
    embedding_pending: int
    jobs: Mapping[str, int]
    """Jobs by state; dead ones need attention."""
    space: str
    thresholds: Thresholds
    """The similarities in force, and how they were chosen."""
    reranker: str | None
    """The cross-encoder that orders the best candidates; None if there is none."""
    traces_dropped: int
    accesses_dropped: int
    heartbeats_dropped: int
    hooks: tuple[HookActivity, ...] = ()
    """The hooks of clients that ran in the last 30 days."""
    silent_clients: tuple[SilentClient, ...] = ()
    token_use: TokenUse = field(default_factory=TokenUse)
    """In the last 30 days."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All checks with their results; `is_sound` if all passed."""

    store: str
    is_sound: bool
    findings: tuple[Finding, ...]
    repaired: Repaired | None = None
    """What was rewritten before these checks, if requested."""
    secrets: SecretScan | None = None
    """Stored secrets, if requested."""


class Status(Capability):
    """Counts for one caller."""

    def __call__(self) -> StoreStatus:
        """Count the contents.

        Raises:
            UnavailableError: the store cannot be read.

        """
        counts, pending, jobs, (hooks, silent), tokens = self.services.store.read(
            self.caller.tenant,
            lambda tx: (
                tx.memories.counts(),
                tx.missing_embeddings.pending(),
                tx.jobs.counts(),
                *self._hooks(tx),
            ),
        )
        by_kind: Counter[str] = Counter()
        by_state: Counter[str] = Counter()
        for (kind, state), count in counts.items():
            by_state[state] += count
            by_kind[kind] += count if state in CURRENT_STATES else 0
        return StoreStatus(
            store=_REMOTE_STORE if self.caller.admission else self.services.store.location,
            memories=by_kind.total(),
            by_kind=+by_kind,
            by_state=by_state,
            embedding_pending=pending,
            jobs={str(state): count for state, count in sorted(jobs.items())},
            space=self.services.store.space.name,
            thresholds=self.services.store.space.thresholds,
            reranker=model.name if (model := self.services.reranker) else None,
            traces_dropped=self.services.journal.dropped(RecallTrace),
            accesses_dropped=self.services.journal.dropped(MemoryAccess),
            heartbeats_dropped=self.services.journal.dropped(Heartbeat),
            hooks=hooks,
            silent_clients=silent,
            token_use=tokens,
        )

    def _hooks(
        self, tx: Transaction
    ) -> tuple[tuple[tuple[HookActivity, ...], tuple[SilentClient, ...]], TokenUse]:
        """Read the runs of hooks once; return what they did and the tokens that were used."""
        now = self.services.clock.now()
        runs = recent_runs(tx, self.caller, now=now)
        return (
            report_hooks(runs, services=self.services, caller=self.caller),
            token_use(tx, self.caller, now=now, session=None, runs=runs),
        )


class Doctor(Capability):
    """Checks the store for one caller."""

    def __call__(
        self, *, secrets: bool = False, on_progress: Progress = ignore_progress
    ) -> Diagnosis:
        """Check the store, its derived data and the embedder; changes nothing.

        Args:
            secrets: also list the memories and messages that today's patterns would refuse.
            on_progress: called with the progress of that scan, 0..1.

        """
        scanner = ScanSecrets(self.services, self.caller)
        scan = scanner(on_progress) if secrets else None
        findings = (
            *self.services.store.examine(),
            self._future(),
            *self._unconfirmed(),
            self._upkeep(),
            *self._hooks(),
            self._embedder(),
            *self._reranker(),
            self._reflection(),
            *self._trained(),
            self._space(),
            *self.languages(),
            scanner.finding(scan),
        )
        return Diagnosis(
            store=self.services.store.location,
            is_sound=all(finding.is_sound for finding in findings),
            findings=findings,
            secrets=scan,
        )

    def _space(self) -> Finding:
        moved_to, own = self.services.store.moved_to, self.services.store.space.name
        if moved_to is None:
            return Finding(check="space", is_sound=True, detail=f"{own} serves")
        return Finding(
            check="space",
            is_sound=False,
            detail=f"this program knows {own}, {moved_to} serves",
            hint="Start it with the serving embedder; see `brain embeddings list`.",
        )

    def languages(self) -> Sequence[Finding]:
        """Recommend the model of many languages if a tenth of what is new is not English.

        That is of the memories that the caller may see, or of the questions; nothing if another
        model than that of English serves.
        """
        if not self.services.store.space.name.startswith(_OF_ENGLISH):
            return ()
        shown = Filter(states=tuple(CURRENT_STATES))
        scope = QueryScope(caller=self.caller, filter=shown, now=self.services.clock.now())
        with self.services.store.snapshot(self.caller.tenant) as tx:
            newest = [hit.id for hit in tx.memories.newest(scope, limit=_TEXTS_READ)]
            texts = [one.text for one in tx.memories.get(newest).values()]
            recalls = tx.recall_log.latest(EntryFilter(), limit=_TEXTS_READ, is_brief=True)
            questions = [one.query for one in recalls if one.query]
        for name, those in {"memories": texts, "questions": questions}.items():
            foreign = sum(not is_english(one) for one in those)
            if foreign >= max(_FOREIGN_MIN, len(those) / 10):
                return (
                    Finding(
                        check="languages",
                        is_sound=True,
                        detail=f"{foreign} of the newest {len(those)} {name} are not in English",
                        hint="A model of many languages finds them by meaning: pip install "
                        "'commonbrain[multilingual]', then brain embeddings build multilingual.",
                    ),
                )
        return ()

    def _future(self) -> Finding:
        """Report memories with a time in the future: plans, mistakes, or of a wrong clock."""
        limit = self.services.clock.now() + CLOCK_TOLERANCE
        with self.services.store.snapshot(self.caller.tenant) as tx:
            late = tx.memories.from_future(limit)
        first = ", ".join(
            f"{ids.show(ids.MEMORY, id_)} ({show_instant(at)})" for id_, at in late[:_LATE_SHOWN]
        )
        return Finding(
            check="times",
            is_sound=True,
            detail=f"{len(late)} in the future: {first}" if late else "none is in the future",
            hint="If it is no plan, the clock or the given time was wrong: store the text again "
            "with brain revise supersede ID TEXT --reason WHY."
            if late
            else "",
        )

    def _unconfirmed(self) -> list[Finding]:
        """Report what binds or reaches everybody but no person wrote, as older versions stored."""
        active = Filter(kinds=(Kind.RULE,), states=(State.ACTIVE,))
        scope = QueryScope(caller=self.caller, filter=active, now=self.services.clock.now())
        with self.services.store.snapshot(self.caller.tenant) as tx:
            blockers = tx.briefing.blockers(scope, limit=SCANNED_MAX).ids
            rules = tx.memories.get([*blockers, *tx.memories.skills(scope)]).values()
        due = [
            ids.show(ids.MEMORY, one.id)
            for one in rules
            if awaits_person(one.kind, one.detail, scope=one.scope, authority=one.authority)
        ]
        if not due:
            return []
        count = pluralize(len(due), "binding rule", many="binding rules")
        return [
            Finding(
                check="rules",
                is_sound=True,
                detail=f"no person confirmed {count}: {', '.join(due[:_RULES_SHOWN])}",
                hint="Read each, then brain revise approve ID --reason WHY, or brain forget ID.",
            )
        ]

    def _upkeep(self) -> Finding:
        """Report when maintenance last ran; without a server or hook, no process runs it."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            last = tx.jobs.newest("maintain", key=key_of("maintain", {}))
        is_late = last is None or last + _OVERDUE_AFTER <= self.services.clock.now()
        return Finding(
            check="upkeep",
            is_sound=True,
            detail=f"last {show_instant(last)}" if last else "never done yet",
            hint="brain maintain does it now." if is_late else "",
        )

    def _hooks(self) -> list[Finding]:
        """Report the hooks of each client; a silent one is no fault of the store."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            runs = recent_runs(tx, self.caller, now=self.services.clock.now())
        hooks, silent = report_hooks(runs, services=self.services, caller=self.caller)
        quiet = {one.client: one for one in silent}
        findings: list[Finding] = []
        for client in sorted({one.client for one in hooks} | quiet.keys()):
            runs = [
                f"{one.event} {show_second(one.last_run)}" for one in hooks if one.client == client
            ]
            alarm = quiet.get(client)
            state = f"silent since {show_second(alarm.since)}" if alarm else "they run"
            findings.append(
                Finding(
                    check=f"hooks of {client}",
                    is_sound=True,
                    detail=f"{state}; last {', '.join(runs)}" if runs else state,
                    hint=alarm.advice if alarm else "",
                )
            )
        return findings

    def _embedder(self) -> Finding:
        name = self.services.embedder.space.name
        try:
            # Not as a query, whose vector may be cached.
            self.services.embedder.passages(["Is anybody there?"])
        except UnavailableError as error:
            return Finding(check="embedder", is_sound=False, detail=f"{name}: {error}")
        return Finding(check="embedder", is_sound=True, detail=f"{name} answers")

    def _reranker(self) -> list[Finding]:
        """Load the reranker, if one is set, and score a pair."""
        model = self.services.reranker
        if model is None:
            return []
        try:
            model.check()
        except CommonbrainError as error:
            return [Finding(check="reranker", is_sound=False, detail=f"{model.name}: {error}")]
        return [Finding(check="reranker", is_sound=True, detail=f"{model.name} answers")]

    def _reflection(self) -> Finding:
        detail = (
            f"{self.services.reflector.name} summarizes events by schedule"
            if self.services.schedules_reflection
            else "runs only when asked, because an episode answers 39% of the questions on one"
            " thing, its events 95%; COMMONBRAIN_REFLECTOR=extractive runs it by schedule"
        )
        return Finding(check="reflection", is_sound=True, detail=detail)

    def _trained(self) -> list[Finding]:
        """Report a model in service that nothing runs, because its package is not installed."""
        with self.services.store.snapshot(self.caller.tenant) as tx:
            cards = tx.models.serving()
        if not cards or self.services.trained.runner() is not None:
            return []
        serving = ", ".join(f"{model_name(card)} for {card.role}" for card in cards)
        detail = f"{serving} is in service, but fixed weights and rules answer: "
        missing = self.services.trained.missing
        return [
            Finding(
                check="models",
                is_sound=False,
                detail=f"{detail}{missing.message if missing else ''}",
                hint=missing.hint if missing else "",
            )
        ]
