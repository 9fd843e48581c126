"""The write-behind queue: what reads leave to be written after they return.

A recall must never wait for a writer. Its trace and accesses, and the heartbeat and tool event of
every call, enter bounded queues here, and a thread writes them to the store. If the store is
locked, full or read-only, entries are dropped and counted; a read never fails because of them.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from commonbrain.clock import Clock
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import (
    EVENT_RETENTION_DAYS_DEFAULT,
    FAULTS_MAX,
    JOURNAL_ENTRIES_MAX,
    TRACE_RETENTION_DAYS_DEFAULT,
)
from commonbrain.model.query import FeedbackEvent, RecallTrace
from commonbrain.model.scope import Caller
from commonbrain.model.values import dataclass, replace
from commonbrain.observability.tool_events import EventBatch, ToolEvent
from commonbrain.security.secret_values import redacted
from commonbrain.security.secrets import SecretScanner
from commonbrain.storage.interface import Heartbeat, MemoryAccess, ShownMemories

if TYPE_CHECKING:
    from commonbrain.storage.store import Store

QueueEntry = TypeVar(
    "QueueEntry", "RecallTrace", "MemoryAccess", "Heartbeat", "ToolEvent", "_PendingUse"
)

_LOG = logging.getLogger(__name__)
_PAUSE_S = 1.0
"""Seconds between two checks for entries."""
_LEAVE_S = 1.0
"""Seconds that closing waits for the last entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallLogPolicy:
    """What is stored of recalls: a share of the traces, 0..1, and for how long."""

    share: float = 1.0
    retention: timedelta = timedelta(days=TRACE_RETENTION_DAYS_DEFAULT)
    event_retention: timedelta = timedelta(days=EVENT_RETENTION_DAYS_DEFAULT)
    """Retention of tool events; zero stores none."""

    def takes(self, trace_id: int) -> bool:
        """Return whether a trace is sampled.

        It depends on its random bits, so all processes agree.
        """
        return trace_id % (1 << ids.RANDOM_BITS) < self.share * (1 << ids.RANDOM_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingUse:
    """Feedback that waits until the recall that showed the memory is written."""

    use: FeedbackEvent
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """Entries that are written together."""

    traces: Sequence[RecallTrace] = ()
    accesses: Sequence[MemoryAccess] = ()
    beats: Sequence[Heartbeat] = ()
    events: Sequence[ToolEvent] = ()
    uses: Sequence[_PendingUse] = ()

    def __bool__(self) -> bool:
        """Return whether there is anything to write."""
        queues = (self.traces, self.accesses, self.beats, self.events, self.uses)
        return any(queues)

    def of(self, tenant: str) -> _Batch:
        """Return the entries of one tenant."""
        return _Batch(
            traces=[trace for trace in self.traces if trace.caller.tenant == tenant],
            accesses=[access for access in self.accesses if access.tenant == tenant],
            beats=[beat for beat in self.beats if beat.tenant == tenant],
            events=[event for event in self.events if event.tenant == tenant],
            uses=[one for one in self.uses if one.use.tenant == tenant],
        )

    def lost(self) -> str:
        """Describe what was dropped."""
        return (
            f"{len(self.traces)} recall traces, {len(self.accesses)} accesses, "
            f"{len(self.beats)} heartbeats, {len(self.events)} tool events and "
            f"{len(self.uses)} uses were dropped"
        )


class WriteBehindQueue:
    """Writes what reads leave behind; close it to write the rest."""

    def __init__(
        self,
        store: Store,
        scanner: SecretScanner,
        *,
        clock: Clock,
        ledger: RecallLogPolicy | None = None,
        flush_interval_s: float = _PAUSE_S,
        on_written: Callable[[str, Sequence[RecallTrace]], None] | None = None,
    ) -> None:
        """Create the queue of a store, whose entries are written together at an interval.

        `on_written` is called with every stored batch of a tenant's traces.
        """
        self._store = store
        self._scanner = scanner
        self._clock = clock
        self._ledger = ledger or RecallLogPolicy()
        self._waiting: deque[RecallTrace] = deque()
        self._accesses: deque[MemoryAccess] = deque()
        self._beats: deque[Heartbeat] = deque()
        self._events: deque[ToolEvent] = deque()
        self._uses: deque[_PendingUse] = deque()
        self._faults: deque[ToolEvent] = deque(maxlen=FAULTS_MAX)
        self._in_flight = _Batch()
        self._gather_s = flush_interval_s
        self._on_written = on_written
        self._since_ms: dict[str, float] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._writer: threading.Thread | None = None
        self._dropped = 0
        self._accesses_dropped = 0
        self._beats_dropped = 0
        self._events_dropped = 0

    @property
    def dropped(self) -> int:
        """Traces lost because the store could not take them in time."""
        return self._dropped

    @property
    def accesses_dropped(self) -> int:
        """Accesses lost because the store could not take them in time."""
        return self._accesses_dropped

    @property
    def beats_dropped(self) -> int:
        """Heartbeats lost because the store could not take them in time."""
        return self._beats_dropped

    @property
    def events_dropped(self) -> int:
        """Tool events lost because the store could not take them in time."""
        return self._events_dropped

    def faults(self, tenant: str) -> list[ToolEvent]:
        """List the latest failed calls of a tenant in this process, newest first.

        They are available even if the store cannot be written.
        """
        with self._lock:
            return [event for event in reversed(self._faults) if event.tenant == tenant]

    def record(self, trace: RecallTrace) -> None:
        """Queue a trace and return at once; the oldest is dropped if the queue is full."""
        if not (trace.is_watched or self._ledger.takes(trace.id)):
            return
        with self._lock:
            self._dropped += _queue(self._waiting, trace)
            self._start(trace.caller.tenant)

    def touch(self, access: MemoryAccess) -> None:
        """Queue an access and return at once; the oldest is dropped if the queue is full."""
        with self._lock:
            self._accesses_dropped += _queue(self._accesses, access)
            self._start(access.tenant)

    def unwritten_shown(self, caller: Caller) -> tuple[ShownMemories, ...]:
        """Return what the caller's session was shown and the store may not hold yet, in order.

        Ask before the transaction that reads the rest begins: what is written in between is then
        in one of them.
        """
        with self._lock:
            accesses = [*self._in_flight.accesses, *self._accesses]
        return tuple(
            access.shown
            for access in accesses
            if access.tenant == caller.tenant
            and access.shown is not None
            and (access.shown.agent, access.shown.session) == (caller.agent, caller.session)
        )

    def use(self, use: FeedbackEvent) -> None:
        """Queue feedback and return at once; the oldest is dropped if the queue is full.

        It marks the recall that showed the memories once that is written; without one it is
        dropped.
        """
        with self._lock:
            _queue(self._uses, _PendingUse(use=use, at_ms=self._clock.elapsed_ms()))
            self._start(use.tenant)

    def showing(self, use: FeedbackEvent) -> frozenset[int]:
        """Return the memories that an unwritten recall of this session has shown."""
        memory_ids = set(use.ids)
        with self._lock:
            return frozenset(
                id_
                for trace in (*self._in_flight.traces, *self._waiting)
                if (trace.caller.agent, trace.caller.session) == (use.agent, use.session)
                and trace.caller.tenant == use.tenant
                for id_ in memory_ids.intersection(trace.packed)
            )

    def beat(self, beat: Heartbeat) -> None:
        """Queue a heartbeat and return at once; the oldest is dropped if the queue is full."""
        with self._lock:
            self._beats_dropped += _queue(self._beats, beat)
            self._start(beat.tenant)

    def note(self, event: ToolEvent) -> None:
        """Queue a tool event and return at once; the oldest is dropped if the queue is full."""
        with self._lock:
            if event.is_failed:
                self._faults.append(event)
            if self._ledger.event_retention:
                self._events_dropped += _queue(self._events, event)
                self._start(event.tenant)

    def note_now(self, tenant: str, events: Sequence[ToolEvent]) -> None:
        """Write events of a tenant at once; each is stored once, however often it is passed.

        Raises:
            UnavailableError: the store cannot be written; nothing was stored.

        """
        now = self._clock.now()
        if self._ledger.event_retention:
            self._store.note_reads(
                tenant,
                traces=(),
                accesses=(),
                happened=EventBatch(
                    events=events, retained_since=now - self._ledger.event_retention
                ),
                retain_from=now - self._ledger.retention,
            )

    def flush(self, *, gathered_s: float = 0.0, ripe_s: float = 0.0) -> None:
        """Write the entries of tenants whose first entry has waited for `gathered_s` seconds.

        Entries that cannot be written are dropped and counted. Feedback waits for at least
        `ripe_s`, because another process may have to write the recall first.
        """
        # After a flush, entries that another thread was writing are written too.
        with self._writing:
            with self._lock:
                now_ms = self._clock.elapsed_ms()
                first = list(self._since_ms.items())
                due = {tenant for tenant, at_ms in first if now_ms - at_ms >= gathered_s * 1000}
                waiting = self._take(due, ripe_ms=now_ms - ripe_s * 1000)
                # Until it is stored, readers find it here.
                self._in_flight = waiting
            for tenant in due:
                batch = waiting.of(tenant)
                if batch:
                    self._write(tenant, batch)
            with self._lock:
                self._in_flight = _Batch()

    def close(self) -> None:
        """Write the remaining entries, without waiting while the store is locked."""
        self._closing.set()
        if self._writer is not None:
            self._writer.join(_LEAVE_S)

    def _start(self, tenant: str) -> None:
        """Start the writer thread if there is something to write."""
        self._since_ms.setdefault(tenant, self._clock.elapsed_ms())
        if self._writer is None and not self._closing.is_set():
            self._writer = threading.Thread(target=self._run, daemon=True, name="journal")
            self._writer.start()

    def _run(self) -> None:
        while not self._closing.wait(_PAUSE_S):
            self.flush(gathered_s=self._gather_s - _PAUSE_S, ripe_s=self._gather_s + _PAUSE_S)
        self.flush()

    def _take(self, tenants: Collection[str], *, ripe_ms: float) -> _Batch:
        """Take the entries of tenants from the queues, except feedback that is too recent."""
        for tenant in tenants:
            del self._since_ms[tenant]
        uses = _drain(self._uses, lambda one: one.use.tenant in tenants and one.at_ms <= ripe_ms)
        for one in self._uses:
            self._since_ms.setdefault(one.use.tenant, one.at_ms)
        return _Batch(
            uses=uses,
            traces=_drain(self._waiting, lambda one: one.caller.tenant in tenants),
            accesses=_drain(self._accesses, lambda one: one.tenant in tenants),
            beats=_drain(self._beats, lambda one: one.tenant in tenants),
            events=_drain(self._events, lambda one: one.tenant in tenants),
        )

    def _write(self, tenant: str, batch: _Batch) -> None:
        now = self._clock.now()
        happened = EventBatch(
            events=batch.events,
            retained_since=now - self._ledger.event_retention,
            uses=[one.use for one in batch.uses],
        )
        try:
            stored = self._store.note_reads(
                tenant,
                # Secrets are removed here, because the reader cannot wait for that.
                traces=[
                    replace(trace, query=redacted(trace.query, self._scanner.find(trace.query)))
                    for trace in batch.traces
                ],
                accesses=batch.accesses,
                beats=batch.beats,
                happened=happened if batch.events or batch.uses else None,
                retain_from=now - self._ledger.retention,
            )
        except CommonbrainError as error:
            _LOG.warning("%s: %s", batch.lost(), error.message)
        except Exception:  # noqa: BLE001 the carrier must outlive whatever one write meets
            _LOG.warning("%s", batch.lost(), exc_info=True)
        else:
            self._dropped += len(batch.traces) - stored
            self._notify(tenant, batch.traces)
            return
        self._dropped += len(batch.traces)
        self._accesses_dropped += len(batch.accesses)
        self._beats_dropped += len(batch.beats)
        self._events_dropped += len(batch.events)

    def _notify(self, tenant: str, traces: Sequence[RecallTrace]) -> None:
        if self._on_written is None:
            return
        try:
            self._on_written(tenant, traces)
        except Exception:  # noqa: BLE001 and whatever one listener meets
            _LOG.warning("What was kept of %s could not be looked at.", tenant, exc_info=True)


def _queue(waiting: deque[QueueEntry], entry: QueueEntry) -> int:
    """Append an entry; return the number of entries dropped for it."""
    is_full = len(waiting) >= JOURNAL_ENTRIES_MAX
    if is_full:
        waiting.popleft()
    waiting.append(entry)
    return int(is_full)


def _drain(waiting: deque[QueueEntry], matches: Callable[[QueueEntry], bool]) -> list[QueueEntry]:
    """Take the matching entries from a queue; the others keep their order."""
    entries = list(waiting)
    waiting.clear()
    waiting.extend(entry for entry in entries if not matches(entry))
    return [entry for entry in entries if matches(entry)]
