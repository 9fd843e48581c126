"""Audit log of denials, and uses of keys and sessions, written in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock, RandomSource, SystemRandom
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import REFUSALS_APART_MAX, REFUSALS_APART_S
from commonbrain.model.values import dataclass, field, replace
from commonbrain.storage.interface import AccessEntry
from commonbrain_server.security.keys import KeyRepository
from commonbrain_server.security.stored_page_sessions import PageSessionRepository

if TYPE_CHECKING:
    from commonbrain.storage.store import Store, Transaction

_LOG: Final = logging.getLogger(__name__)
_MS: Final = 1000

_DenialKey = tuple[str, str, str | None, str | None, str | None]
"""Tenant, action, code, agent, credential: denials that share these are counted together."""


@dataclass(slots=True)
class _DenialCount:
    """Denials that share a key: start of the count, the latest one, and the unwritten number."""

    since_ms: float
    last: AccessEntry
    last_id: int
    unwritten: int = 0


@dataclass(frozen=True, slots=True)
class _Unwritten:
    """An entry to write, with the id that was generated when the denial happened."""

    tenant: str
    id: int
    entry: AccessEntry


@dataclass(slots=True, kw_only=True)
class AccessDenials:
    """Writes the first denial of a kind soon and counts repetitions per minute in one entry.

    A minute writes at most one entry per kind, and at most `REFUSALS_APART_MAX` kinds. A thread
    writes the entries, so that response times do not reveal whether a tenant exists. The last count
    is written with the next denial or at exit; a killed process leaves it in the server log only.

    The audit lists the denials of a process in the order in which they happened, not in which they
    were written, also those of one millisecond.
    """

    store: Store
    clock: Clock
    random_source: RandomSource = field(default_factory=SystemRandom)
    _counts: dict[_DenialKey, _DenialCount] = field(
        default_factory=dict["_DenialKey", "_DenialCount"]
    )
    _lock: Lock = field(default_factory=Lock)
    _last_scan_ms: float = 0.0
    _last_id: int = 0
    _writer: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, "access-audit")
    )
    _slots: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(REFUSALS_APART_MAX))

    def note(self, tenant: str, entry: AccessEntry, *, wait_s: float = 0.0) -> None:
        """Record a denial.

        Never raises, and takes the same time whether or not the tenant exists.

        Args:
            tenant: the tenant of the credential.
            entry: what was denied.
            wait_s: how long to wait at most until the entry is written, so that who reads of the
                denial finds it in the audit; only for callers of a tenant that is known to exist.

        """
        now_ms = self.clock.elapsed_ms()
        key = (tenant, entry.action, entry.code, entry.agent, entry.credential)
        with self._lock:
            due = self._take_due(now_ms)
            counted = self._counts.get(key)
            if counted is not None:
                counted.unwritten += 1
                counted.last, counted.last_id = entry, self._next_id(entry)
            elif len(self._counts) < REFUSALS_APART_MAX:
                id_ = self._next_id(entry)
                self._counts[key] = _DenialCount(now_ms, entry, id_)
                due.append(_Unwritten(tenant, id_, entry))
            else:
                _LOG.warning("%s refused: %s; too many kinds to audit", entry.action, entry.code)
        written = self._write_due(due)
        if wait_s:
            wait(written, wait_s)

    def page_session_used(self, tenant: str, digest: str, *, prefix: str | None) -> None:
        """Record the use of a session of the web page, and of its key, in the background."""
        at = self.clock.now()

        def change(tx: Transaction) -> None:
            PageSessionRepository(tx.work).record_use(digest, at=at)
            if prefix is not None:
                KeyRepository(tx.work).used([prefix], at=at)

        self._write(tenant, change)

    def used(self, tenant: str, prefix: str, *, lost: Callable[[], None]) -> None:
        """Record the use of a key in the background; calls `lost` if that fails."""
        at = self.clock.now()
        self._write(tenant, lambda tx: KeyRepository(tx.work).used([prefix], at=at), lost=lost)

    def close(self) -> None:
        """Write what is pending; later calls are ignored."""
        with self._lock:
            due = self._take_due(None)
        self._write_due(due)
        self._writer.shutdown(wait=True)

    def _next_id(self, entry: AccessEntry) -> int:
        """Generate an id that is higher than those of all earlier denials."""
        drawn = ids.make_id(entry.at, self.random_source.bits(ids.RANDOM_BITS))
        self._last_id = ids.after(self._last_id, drawn)
        return self._last_id

    def _take_due(self, now_ms: float | None) -> list[_Unwritten]:
        """Remove the kinds whose minute has passed, or all at exit; return the unwritten entries.

        Scans all kinds, at most once a second.
        """
        if now_ms is not None and now_ms - self._last_scan_ms < _MS:
            return []
        self._last_scan_ms = now_ms or 0.0
        over = [
            (key, counted)
            for key, counted in self._counts.items()
            if now_ms is None or now_ms - counted.since_ms >= REFUSALS_APART_S * _MS
        ]
        for key, _ in over:
            del self._counts[key]
        return [
            _Unwritten(key[0], counted.last_id, replace(counted.last, count=counted.unwritten))
            for key, counted in over
            if counted.unwritten
        ]

    def _write_due(self, due: list[_Unwritten]) -> list[Future[None]]:
        written = [
            self._write(one.tenant, lambda tx, one=one: tx.credentials.note(one.entry, id_=one.id))
            for one in due
        ]
        return [one for one in written if one is not None]

    def _write(
        self,
        tenant: str,
        change: Callable[[Transaction], None],
        *,
        lost: Callable[[], None] = lambda: None,
    ) -> Future[None] | None:
        """Write in the background; return None if nothing more can be written."""
        if not self._slots.acquire(blocking=False):
            _LOG.warning("the access audit queue is full; an entry was dropped")
            lost()
            return None

        def write() -> None:
            try:
                with self.store.begin(tenant) as tx:
                    if tx.credentials.tenant() is not None:
                        change(tx)
            except CommonbrainError as error:
                _LOG.warning("the access audit cannot be written: %s", error.code)
                lost()
            finally:
                self._slots.release()

        try:
            return self._writer.submit(write)
        except RuntimeError:
            # The process is exiting and the thread has stopped.
            self._slots.release()
