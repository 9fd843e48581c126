"""What reads leave behind, written after the reader has its answer.

A recall must never wait for a writer: its trace, the accesses that it and every get count, and the
sign of life and the event that every call is, go into bounded queues here, and a thread of its own
carries them to the store. When the store is locked, full or read-only, entries are dropped and
counted, never raised into a read.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TypeVar

from commonbrain.clock import Clock
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import FAULTS_MAX, JOURNAL_ENTRIES_MAX
from commonbrain.model.query import FeedbackEvent, Trace
from commonbrain.observability.tool_events import EventBatch, ToolEvent
from commonbrain.security.secrets import SecretScanner
from commonbrain.storage.coordination import Heartbeat
from commonbrain.storage.interface import Store
from commonbrain.storage.records import MemoryAccess
from commonbrain.text.redaction import redacted

QueueEntry = TypeVar("QueueEntry", "Trace", "MemoryAccess", "Heartbeat", "ToolEvent", "_PendingUse")

_LOG = logging.getLogger(__name__)
_PAUSE_S = 1.0
"""How often it is looked for what is to be written."""
_LEAVE_S = 1.0
"""How long the last entries may hold up who leaves: a read has its answer and waits for nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallLogPolicy:
    """How much of what was recalled is kept: a share of the traces, 0..1, for how long."""

    share: float = 1.0
    kept: timedelta = timedelta(days=90)
    events_kept: timedelta = timedelta(days=30)
    """How long it is kept who called what; nothing of it when that is no time."""

    def takes(self, trace_id: int) -> bool:
        """Say whether a trace is of the share; told by its random bits, so that all agree."""
        return trace_id % (1 << ids.RANDOM_BITS) < self.share * (1 << ids.RANDOM_BITS)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PendingUse:
    """A use that waits until whatever showed what was used is written, in whichever process."""

    use: FeedbackEvent
    at_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Batch:
    """What is written together."""

    traces: Sequence[Trace]
    accesses: Sequence[MemoryAccess]
    beats: Sequence[Heartbeat]
    events: Sequence[ToolEvent]
    uses: Sequence[_PendingUse]

    def __bool__(self) -> bool:
        """Say whether there is anything to write."""
        queues = (self.traces, self.accesses, self.beats, self.events, self.uses)
        return any(queues)

    def of(self, tenant: str) -> "_Batch":
        """Pick one tenant's."""
        return _Batch(
            traces=[trace for trace in self.traces if trace.caller.tenant == tenant],
            accesses=[access for access in self.accesses if access.tenant == tenant],
            beats=[beat for beat in self.beats if beat.tenant == tenant],
            events=[event for event in self.events if event.tenant == tenant],
            uses=[one for one in self.uses if one.use.tenant == tenant],
        )

    def lost(self) -> str:
        """Say what was dropped."""
        return (
            f"{len(self.traces)} recall traces, {len(self.accesses)} accesses, "
            f"{len(self.beats)} heartbeats, {len(self.events)} tool events and "
            f"{len(self.uses)} uses were dropped"
        )


class WriteBehindQueue:
    """Carries what reads leave to the store behind their back; close it to write the rest."""

    def __init__(
        self,
        store: Store,
        screen: SecretScanner,
        *,
        clock: Clock,
        ledger: RecallLogPolicy | None = None,
        flush_interval_s: float = _PAUSE_S,
        told: Callable[[str, Sequence[Trace]], None] | None = None,
    ) -> None:
        """Carry for a store whose tenants' entries are written together once so many seconds.

        Whoever is `told` hears of every batch of a tenant's traces that was kept.
        """
        self._store = store
        self._screen = screen
        self._clock = clock
        self._ledger = ledger or RecallLogPolicy()
        self._waiting: deque[Trace] = deque()
        self._accesses: deque[MemoryAccess] = deque()
        self._beats: deque[Heartbeat] = deque()
        self._events: deque[ToolEvent] = deque()
        self._uses: deque[_PendingUse] = deque()
        self._faults: deque[ToolEvent] = deque(maxlen=FAULTS_MAX)
        self._gather_s = flush_interval_s
        self._on_written = told
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
        """How many traces were lost because the store could not take them in time."""
        return self._dropped

    @property
    def accesses_dropped(self) -> int:
        """How many accesses were lost because the store could not take them in time."""
        return self._accesses_dropped

    @property
    def beats_dropped(self) -> int:
        """How many signs of life were lost because the store could not take them in time."""
        return self._beats_dropped

    @property
    def events_dropped(self) -> int:
        """How many tool events were lost because the store could not take them in time."""
        return self._events_dropped

    def faults(self, tenant: str) -> list[ToolEvent]:
        """List the latest calls of a tenant that failed in this process, the newest first.

        They are told even where the store takes nothing.
        """
        with self._lock:
            return [event for event in reversed(self._faults) if event.tenant == tenant]

    def record(self, trace: Trace) -> None:
        """Queue one trace and return at once; the oldest gives way when the queue is full."""
        if not (trace.is_watched or self._ledger.takes(trace.id)):
            return
        with self._lock:
            self._dropped += _queue(self._waiting, trace)
            self._start(trace.caller.tenant)

    def touch(self, access: MemoryAccess) -> None:
        """Queue an access and return at once; the oldest gives way when the queue is full."""
        with self._lock:
            self._accesses_dropped += _queue(self._accesses, access)
            self._start(access.tenant)

    def use(self, use: FeedbackEvent) -> None:
        """Queue what was done with memories and return at once; the oldest gives way.

        It is marked on the recall that showed them once that is written; where none did, nowhere.
        """
        with self._lock:
            _queue(self._uses, _PendingUse(use=use, at_ms=self._clock.elapsed_ms()))
            self._start(use.tenant)

    def showing(self, use: FeedbackEvent) -> frozenset[int]:
        """Give what of a use a recall of its session has shown of which the store knows nothing."""
        memory_ids = set(use.ids)
        with self._lock:
            return frozenset(
                id_
                for trace in self._waiting
                if (trace.caller.agent, trace.caller.session) == (use.agent, use.session)
                and trace.caller.tenant == use.tenant
                for id_ in memory_ids.intersection(trace.packed)
            )

    def beat(self, beat: Heartbeat) -> None:
        """Queue a sign of life and return at once; the oldest gives way when the queue is full."""
        with self._lock:
            self._beats_dropped += _queue(self._beats, beat)
            self._start(beat.tenant)

    def note(self, event: ToolEvent) -> None:
        """Queue a tool event and return at once; the oldest gives way when the queue is full."""
        with self._lock:
            if event.is_failed:
                self._faults.append(event)
            if self._ledger.events_kept:
                self._events_dropped += _queue(self._events, event)
                self._start(event.tenant)

    def note_now(self, tenant: str, events: Sequence[ToolEvent]) -> None:
        """Write events of a tenant at once; each is kept once however often it is told.

        Raises:
            UnavailableError: the store cannot take them; nothing was kept.

        """
        now = self._clock.now()
        if self._ledger.events_kept:
            self._store.note_reads(
                tenant,
                traces=(),
                accesses=(),
                happened=EventBatch(events=events, retained_since=now - self._ledger.events_kept),
                keep_from=now - self._ledger.kept,
            )

    def flush(self, *, gathered_s: float = 0.0, ripe_s: float = 0.0) -> None:
        """Write what waits, of the tenants whose first entry has waited for so many seconds.

        What cannot be written is dropped and counted. Uses wait for `ripe_s` at least, since the
        recall that they are marked on may be another process's to write.
        """
        # Who flushes finds written what somebody else has taken and is at.
        with self._writing:
            with self._lock:
                now_ms = self._clock.elapsed_ms()
                first = list(self._since_ms.items())
                due = {tenant for tenant, at_ms in first if now_ms - at_ms >= gathered_s * 1000}
                waiting = self._take(due, ripe_ms=now_ms - ripe_s * 1000)
            for tenant in due:
                batch = waiting.of(tenant)
                if batch:
                    self._write(tenant, batch)

    def close(self) -> None:
        """Let the carrier write what is left; it is not waited for while the store is locked."""
        self._closing.set()
        if self._writer is not None:
            self._writer.join(_LEAVE_S)

    def _start(self, tenant: str) -> None:
        """Put the carrier to work when there is something to carry."""
        self._since_ms.setdefault(tenant, self._clock.elapsed_ms())
        if self._writer is None and not self._closing.is_set():
            self._writer = threading.Thread(target=self._run, daemon=True, name="journal")
            self._writer.start()

    def _run(self) -> None:
        while not self._closing.wait(_PAUSE_S):
            self.flush(gathered_s=self._gather_s - _PAUSE_S, ripe_s=self._gather_s + _PAUSE_S)
        self.flush()

    def _take(self, tenants: Collection[str], *, ripe_ms: float) -> "_Batch":
        """Take what waits of tenants out of the queues, but for uses that came later than that."""
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

    def _write(self, tenant: str, batch: "_Batch") -> None:
        now = self._clock.now()
        happened = EventBatch(
            events=batch.events,
            retained_since=now - self._ledger.events_kept,
            uses=[one.use for one in batch.uses],
        )
        try:
            kept = self._store.note_reads(
                tenant,
                traces=[self._screened(trace) for trace in batch.traces],
                accesses=batch.accesses,
                beats=batch.beats,
                happened=happened if batch.events or batch.uses else None,
                keep_from=now - self._ledger.kept,
            )
        except CommonbrainError as error:
            _LOG.warning("%s: %s", batch.lost(), error.message)
        except Exception:  # noqa: BLE001 the carrier must outlive whatever one write meets
            _LOG.warning("%s", batch.lost(), exc_info=True)
        else:
            self._dropped += len(batch.traces) - kept
            self._notify(tenant, batch.traces)
            return
        self._dropped += len(batch.traces)
        self._accesses_dropped += len(batch.accesses)
        self._beats_dropped += len(batch.beats)
        self._events_dropped += len(batch.events)

    def _notify(self, tenant: str, traces: Sequence[Trace]) -> None:
        if self._on_written is None:
            return
        try:
            self._on_written(tenant, traces)
        except Exception:  # noqa: BLE001 and whatever one listener meets
            _LOG.warning("What was kept of %s could not be looked at.", tenant, exc_info=True)

    def _screened(self, trace: Trace) -> Trace:
        """Take secrets out of what was asked; here, for the reader has no time to wait for it."""
        return replace(trace, query=redacted(trace.query, self._screen.find(trace.query)))


def _queue(waiting: deque[QueueEntry], entry: QueueEntry) -> int:
    """Put an entry at the end of its queue; give how many had to give way."""
    is_full = len(waiting) >= JOURNAL_ENTRIES_MAX
    if is_full:
        waiting.popleft()
    waiting.append(entry)
    return int(is_full)


def _drain(waiting: deque[QueueEntry], is_wanted: Callable[[QueueEntry], bool]) -> list[QueueEntry]:
    """Take the wanted entries out of a queue; the others stay in their order."""
    entries = list(waiting)
    waiting.clear()
    waiting.extend(entry for entry in entries if not is_wanted(entry))
    return [entry for entry in entries if is_wanted(entry)]
