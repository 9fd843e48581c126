"""Status and doctor: what the store contains, and whether it is sound."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from commonbrain.administration.backup import Repaired
from commonbrain.model.errors import UnavailableError
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.scope import Caller
from commonbrain.model.timestamps import show_instant
from commonbrain.services import Services
from commonbrain.storage.job_queue import key_of
from commonbrain.storage.maintenance import Finding

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
    traces_dropped: int
    accesses_dropped: int
    heartbeats_dropped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnosis:
    """All checks with their results; `is_sound` if all passed."""

    store: str
    is_sound: bool
    findings: tuple[Finding, ...]
    repaired: Repaired | None = None
    """What was rewritten before these checks, if requested."""


@dataclass(frozen=True, slots=True)
class Status:
    """Counts for one caller."""

    services: Services
    caller: Caller

    def __call__(self) -> StoreStatus:
        """Count the contents.

        Raises:
            UnavailableError: the store cannot be read.

        """
        counts, pending, jobs = self.services.store.read(
            self.caller.tenant,
            lambda tx: (tx.memories.counts(), tx.index.pending(), tx.jobs.counts()),
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
            traces_dropped=self.services.journal.dropped,
            accesses_dropped=self.services.journal.accesses_dropped,
            heartbeats_dropped=self.services.journal.beats_dropped,
        )


@dataclass(frozen=True, slots=True)
class Doctor:
    """Checks the store for one caller."""

    services: Services
    caller: Caller

    def __call__(self) -> Diagnosis:
        """Check the store, its derived data and the embedder; changes nothing."""
        findings = (*self.services.store.examine(), self._upkeep(), self._embedder(), self._space())
        return Diagnosis(
            store=self.services.store.location,
            is_sound=all(finding.is_sound for finding in findings),
            findings=findings,
        )

    def _space(self) -> Finding:
        moved_to, own = self.services.store.moved_to, self.services.store.space.name
        if moved_to is None:
            return Finding(check="space", is_sound=True, detail=f"{own} serves")
        return Finding(
            check="space",
            is_sound=False,
            detail=f"this program knows {own}, {moved_to} serves",
            hint="Start it with the embedder that serves; see `brain embeddings list`.",
        )

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

    def _embedder(self) -> Finding:
        name = self.services.embedder.space.name
        try:
            # Not as a query, whose vector may be cached.
            self.services.embedder.passages(["Is anybody there?"])
        except UnavailableError as error:
            return Finding(check="embedder", is_sound=False, detail=f"{name}: {error}")
        return Finding(check="embedder", is_sound=True, detail=f"{name} answers")
