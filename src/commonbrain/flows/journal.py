"""What reads leave behind, written after the reader has its answer.

A recall must never wait for a writer: its trace goes into a bounded queue here and a thread of its
own carries queues to the store. When the store is locked, full or read-only, entries are dropped
and counted, never raised into a read.
"""

import logging
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from commonbrain.domain.errors import CommonbrainError
from commonbrain.domain.limits import JOURNAL_ENTRIES_MAX
from commonbrain.domain.query import Trace
from commonbrain.domain.screening import redacted
from commonbrain.ports.screen import Screen
from commonbrain.ports.store import IdTaken, Store, Transaction

_LOG = logging.getLogger(__name__)
_PAUSE_S = 0.5
"""How long entries gather before they are written together."""
_LEAVE_S = 1.0
"""How long the last entries may hold up who leaves: a read has its answer and waits for nobody."""


class Journal:
    """Carries recall traces to the store behind the reader's back; close it to write the rest."""

    def __init__(self, store: Store, screen: Screen) -> None:
        self._store = store
        self._screen = screen
        self._waiting: deque[Trace] = deque()
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._carrier: threading.Thread | None = None
        self._dropped = 0

    @property
    def dropped(self) -> int:
        """How many entries were lost because the store could not take them in time."""
        return self._dropped

    def record(self, trace: Trace) -> None:
        """Queue one trace and return at once; the oldest gives way when the queue is full."""
        with self._lock:
            if len(self._waiting) >= JOURNAL_ENTRIES_MAX:
                self._waiting.popleft()
                self._dropped += 1
            self._waiting.append(trace)
            if self._carrier is None and not self._closing.is_set():
                self._carrier = threading.Thread(target=self._carry, daemon=True, name="journal")
                self._carrier.start()

    def flush(self) -> None:
        """Write what waits now; what cannot be written is dropped and counted."""
        with self._lock:
            traces = list(self._waiting)
            self._waiting.clear()
        if traces:
            self._write(traces)

    def close(self) -> None:
        """Let the carrier write what is left; it is not waited for while the store is locked."""
        self._closing.set()
        if self._carrier is not None:
            self._carrier.join(_LEAVE_S)

    def _carry(self) -> None:
        while not self._closing.wait(_PAUSE_S):
            self.flush()
        self.flush()

    def _write(self, traces: Sequence[Trace]) -> None:
        tenants = {trace.caller.tenant for trace in traces}
        for tenant in tenants:
            own = [trace for trace in traces if trace.caller.tenant == tenant]
            try:
                with self._store.begin(tenant) as tx:
                    taken = sum(not _keep(tx, self._screened(trace)) for trace in own)
                self._dropped += taken
            except CommonbrainError as error:
                _LOG.warning("%d recall traces were dropped: %s", len(own), error.message)
                self._dropped += len(own)
            except Exception:  # noqa: BLE001 the carrier must outlive whatever one write meets
                _LOG.warning("%d recall traces were dropped", len(own), exc_info=True)
                self._dropped += len(own)

    def _screened(self, trace: Trace) -> Trace:
        """Take secrets out of what was asked; here, for the reader has no time to wait for it."""
        return replace(trace, query=redacted(trace.query, self._screen.find(trace.query)))


def _keep(tx: Transaction, trace: Trace) -> bool:
    """Write one trace unless its id is taken; its caller knows it by no other."""
    try:
        tx.records.trace(trace)
    except IdTaken:
        return False
    return True
