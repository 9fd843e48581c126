"""The write-behind queue: what reads leave to be written after they return.

A recall must never wait for a writer. Its trace and accesses, and the heartbeat and tool event of
every call, enter a bounded queue here, and a thread writes them to the store. If the store is
locked, full or read-only, entries are dropped and counted; a read never fails because of them.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, TypeVar

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

_LOG = logging.getLogger(__name__)
_PAUSE_S = 1.0
"""Seconds between two checks for entries."""
_LEAVE_S = 1.0
"""Seconds that closing waits for the last entries."""
_OLD_EACH_MS: Final = 3_600_000
"""How often the old entries of a tenant are deleted, which are kept for days."""


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


_Entry = RecallTrace | MemoryAccess | Heartbeat | ToolEvent | _PendingUse
_EntryT = TypeVar("_EntryT", bound=_Entry)
_NAMES: Final = {
    RecallTrace: "recall traces",
    MemoryAccess: "accesses",
    Heartbeat: "heartbeats",
    ToolEvent: "tool events",
    _PendingUse: "uses",
}


def _tenant_of(entry: _Entry) -> str:
    match entry:
        case RecallTrace():
            return entry.caller.tenant
        case _PendingUse():
            return entry.use.tenant
        case _:
            return entry.tenant


def _of_type(type_: type[_EntryT], entries: Iterable[_Entry]) -> list[_EntryT]:
    return [one for one in entries if isinstance(one, type_)]


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
        self._waiting: deque[_Entry] = deque()
        self._in_flight: Sequence[_Entry] = ()
        self._dropped: Counter[type[_Entry]] = Counter()
        self._faults: deque[ToolEvent] = deque(maxlen=FAULTS_MAX)
        self._gather_s = flush_interval_s
        self._on_written = on_written
        self._since_ms: dict[str, float] = {}
        self._old_due_ms: dict[str, float] = {}
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._writer: threading.Thread | None = None

    def dropped(self, type_: type[RecallTrace | MemoryAccess | Heartbeat | ToolEvent]) -> int:
        """Count the entries of a type lost because the store could not take them in time."""
        return self._dropped[type_]

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
            self._queue(trace)

    def touch(self, access: MemoryAccess) -> None:
        """Queue an access and return at once; the oldest is dropped if the queue is full."""
        with self._lock:
            self._queue(access)

    def unwritten_shown(self, caller: Caller) -> tuple[ShownMemories, ...]:
        """Return what the caller's session was shown and the store may not hold yet, in order.

        Ask before the transaction that reads the rest begins: what is written in between is then
        in one of them.
        """
        with self._lock:
            accesses = _of_type(MemoryAccess, (*self._in_flight, *self._waiting))
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
            self._queue(_PendingUse(use=use, at_ms=self._clock.elapsed_ms()))

    def showing(self, use: FeedbackEvent) -> frozenset[int]:
        """Return the memories that an unwritten recall of this session has shown."""
        memory_ids = set(use.ids)
        with self._lock:
            return frozenset(
                id_
                for trace in _of_type(RecallTrace, (*self._in_flight, *self._waiting))
                if (trace.caller.agent, trace.caller.session) == (use.agent, use.session)
                and trace.caller.tenant == use.tenant
                for id_ in memory_ids.intersection(trace.packed)
            )

    def beat(self, beat: Heartbeat) -> None:
        """Queue a heartbeat and return at once; the oldest is dropped if the queue is full."""
        with self._lock:
            self._queue(beat)

    def note(self, event: ToolEvent) -> None:
        """Queue a tool event and return at once; the oldest is dropped if the queue is full."""
        with self._lock:
            if event.is_failed:
                self._faults.append(event)
            if self._ledger.event_retention:
                self._queue(event)

    def note_now(self, tenant: str, events: Sequence[ToolEvent]) -> None:
        """Write events of a tenant at once; each is stored once, however often it is passed.

        Raises:
            UnavailableError: the store cannot be written; nothing was stored.

        """
        if self._ledger.event_retention:
            since, retain_from = self._retained(tenant)
            happened = EventBatch(events=events, retained_since=since)
            self._store.note_reads(
                tenant, traces=(), accesses=(), happened=happened, retain_from=retain_from
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
                batch = [one for one in waiting if _tenant_of(one) == tenant]
                if batch:
                    self._write(tenant, batch)
            with self._lock:
                self._in_flight = ()

    def close(self) -> None:
        """Write the remaining entries, without waiting while the store is locked."""
        self._closing.set()
        if self._writer is not None:
            self._writer.join(_LEAVE_S)

    def _queue(self, entry: _Entry) -> None:
        """Append an entry for the writer thread, and drop the oldest if the queue is full."""
        if len(self._waiting) >= JOURNAL_ENTRIES_MAX:
            self._dropped[type(self._waiting.popleft())] += 1
        self._waiting.append(entry)
        self._since_ms.setdefault(_tenant_of(entry), self._clock.elapsed_ms())
        if self._writer is None and not self._closing.is_set():
            self._writer = threading.Thread(target=self._run, daemon=True, name="journal")
            self._writer.start()

    def _run(self) -> None:
        while not self._closing.wait(_PAUSE_S):
            self.flush(gathered_s=self._gather_s - _PAUSE_S, ripe_s=self._gather_s + _PAUSE_S)
        self.flush()

    def _take(self, tenants: Collection[str], *, ripe_ms: float) -> Sequence[_Entry]:
        """Take the entries of tenants from the queue, except feedback that is too recent."""
        for tenant in tenants:
            del self._since_ms[tenant]
        taken: list[_Entry] = []
        left: deque[_Entry] = deque()
        for one in self._waiting:
            is_ripe = not isinstance(one, _PendingUse) or one.at_ms <= ripe_ms
            is_taken = is_ripe and _tenant_of(one) in tenants
            (taken if is_taken else left).append(one)
            if isinstance(one, _PendingUse) and not is_taken:
                self._since_ms.setdefault(one.use.tenant, one.at_ms)
        self._waiting = left
        return taken

    def _write(self, tenant: str, batch: Sequence[_Entry]) -> None:
        traces = _of_type(RecallTrace, batch)
        events = _of_type(ToolEvent, batch)
        uses = [one.use for one in _of_type(_PendingUse, batch)]
        since, retain_from = self._retained(tenant)
        try:
            stored = self._store.note_reads(
                tenant,
                # Secrets are removed here, because the reader cannot wait for that.
                traces=[
                    replace(trace, query=redacted(trace.query, self._scanner.find(trace.query)))
                    for trace in traces
                ],
                accesses=_of_type(MemoryAccess, batch),
                beats=_of_type(Heartbeat, batch),
                happened=EventBatch(events=events, retained_since=since, uses=uses),
                retain_from=retain_from,
            )
        except CommonbrainError as error:
            _LOG.warning("%s: %s", self._count_lost(batch), error.message)
        except Exception:  # noqa: BLE001 the carrier must outlive whatever one write meets
            _LOG.warning("%s", self._count_lost(batch), exc_info=True)
        else:
            self._dropped[RecallTrace] += len(traces) - stored
            self._notify(tenant, traces)

    def _retained(self, tenant: str) -> tuple[datetime, datetime] | tuple[None, None]:
        """Return since when events and traces are kept, if older ones are due to be deleted."""
        now_ms = self._clock.elapsed_ms()
        if now_ms < self._old_due_ms.get(tenant, now_ms):
            return None, None
        self._old_due_ms[tenant] = now_ms + _OLD_EACH_MS
        now = self._clock.now()
        return now - self._ledger.event_retention, now - self._ledger.retention

    def _count_lost(self, batch: Sequence[_Entry]) -> str:
        """Count entries that could not be written as dropped, and describe them."""
        lost = Counter(map(type, batch))
        self._dropped += lost
        each = ", ".join(f"{count} {_NAMES[type_]}" for type_, count in lost.items())
        return f"{each} were dropped"

    def _notify(self, tenant: str, traces: Sequence[RecallTrace]) -> None:
        if self._on_written is None:
            return
        try:
            self._on_written(tenant, traces)
        except Exception:  # noqa: BLE001 and whatever one listener meets
            _LOG.warning("What was kept of %s could not be looked at.", tenant, exc_info=True)
