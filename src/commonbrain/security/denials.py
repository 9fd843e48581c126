"""Writes down refusals and uses of keys behind the calls, one line for many alike."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Final

from commonbrain.clock import Clock
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.limits import REFUSALS_APART_MAX, REFUSALS_APART_S
from commonbrain.storage.interface import AccessEntry

if TYPE_CHECKING:
    from commonbrain.storage.store import Store, Transaction

_LOG: Final = logging.getLogger(__name__)
_MS: Final = 1000

_Sort = tuple[str, str, str | None, str | None, str | None]
"""Tenant, action, code, agent, credential: what refusals have in common that are alike."""


@dataclass(slots=True)
class _Line:
    """One sort of refusal: since when it is counted, the last of it, and how many are unwritten."""

    since_ms: float
    last: AccessEntry
    unwritten: int = 0


@dataclass(slots=True, kw_only=True)
class AccessDenials:
    """The first of a sort is written soon; what comes within a minute is counted in the next line.

    However many calls are refused, a minute brings one line of each sort, and at most
    `REFUSALS_APART_MAX` sorts. Lines are written by a thread of their own, so that nobody learns
    from the time of an answer whether a tenant is there. The last count waits for the next refusal
    or for the end of the process: what dies with a killed one is told in the log only.
    """

    store: Store
    clock: Clock
    _lines: dict[_Sort, _Line] = field(default_factory=dict["_Sort", "_Line"])
    _lock: Lock = field(default_factory=Lock)
    _swept_ms: float = 0.0
    _hand: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, "audit of access")
    )
    _room: BoundedSemaphore = field(default_factory=lambda: BoundedSemaphore(REFUSALS_APART_MAX))

    def note(self, tenant: str, entry: AccessEntry) -> None:
        """Take one in; it never raises, and never tells by its time what is known of the tenant."""
        now_ms = self.clock.elapsed_ms()
        sort = (tenant, entry.action, entry.code, entry.agent, entry.credential)
        with self._lock:
            due = self._swept(now_ms)
            line = self._lines.get(sort)
            if line is not None:
                line.unwritten += 1
                line.last = entry
            elif len(self._lines) < REFUSALS_APART_MAX:
                self._lines[sort] = _Line(now_ms, entry)
                due.append((tenant, entry))
            else:
                _LOG.warning("%s refused: %s; too many sorts to audit", entry.action, entry.code)
        for owner, one in due:
            self._write(owner, lambda tx, one=one: tx.credentials.note(one))

    def used(self, tenant: str, prefix: str, *, lost: Callable[[], None]) -> None:
        """Note that a key was used, some time soon; what cannot be written calls `lost`.

        It is called at once or by another thread.
        """
        at = self.clock.now()
        self._write(tenant, lambda tx: tx.credentials.used([prefix], at=at), lost=lost)

    def close(self) -> None:
        """Write what is left; afterwards nothing is taken in."""
        with self._lock:
            due = self._swept(None)
        for owner, one in due:
            self._write(owner, lambda tx, one=one: tx.credentials.note(one))
        self._hand.shutdown(wait=True)

    def _swept(self, now_ms: float | None) -> list[tuple[str, AccessEntry]]:
        """Take out the sorts whose minute is over, all of them at the end; give what is unwritten.

        Every one is looked at, but not more often than once a second.
        """
        if now_ms is not None and now_ms - self._swept_ms < _MS:
            return []
        self._swept_ms = now_ms or 0.0
        over = [
            (sort, line)
            for sort, line in self._lines.items()
            if now_ms is None or now_ms - line.since_ms >= REFUSALS_APART_S * _MS
        ]
        for sort, _ in over:
            del self._lines[sort]
        return [
            (sort[0], replace(line.last, count=line.unwritten))
            for sort, line in over
            if line.unwritten
        ]

    def _write(
        self,
        tenant: str,
        change: Callable[[Transaction], None],
        *,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        if not self._room.acquire(blocking=False):
            _LOG.warning("the audit of access is behind; a line is left out")
            lost()
            return

        def write() -> None:
            try:
                with self.store.begin(tenant) as tx:
                    if tx.credentials.tenant() is not None:
                        change(tx)
            except CommonbrainError as error:
                _LOG.warning("the audit of access cannot be written: %s", error.code)
                lost()
            finally:
                self._room.release()

        try:
            self._hand.submit(write)
        except RuntimeError:
            # The process is ending, and the thread took its last.
            self._room.release()
