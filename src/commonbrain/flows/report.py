"""The fidelity report: what became of everything that was read."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace

from commonbrain.ports.store import Transaction

_REFUSALS_SHOWN_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """One piece that did not get in: where it stands in the source, and why."""

    where: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What became of every piece read: the counts of outcomes add up to `read`."""

    format: str
    source: str
    read: int = 0
    stored: int = 0
    exists: int = 0
    changed: int = 0
    """Known ones whose later state was taken in; only an export tells of such."""
    quarantined: int = 0
    rejected: int = 0
    unreadable: int = 0
    parts: int = 0
    """Of those that were read, the parts of texts that are too long for one memory."""
    refusals: tuple[Refusal, ...] = ()
    """The first hundred that were rejected or unreadable."""
    progress: float = 0.0
    """How far into the source this has come, 0..1."""

    def counting(
        self,
        outcomes: Iterable[str],
        *,
        refusals: Sequence[Refusal],
        progress: float,
        parts: int = 0,
    ) -> "Report":
        """Add one batch: an outcome a piece, by the names of the counts above."""
        counts = Counter(outcomes)
        return replace(
            self,
            read=self.read + counts.total(),
            parts=self.parts + parts,
            **{name: getattr(self, name) + count for name, count in counts.items()},
            refusals=tuple(refusals[:_REFUSALS_SHOWN_MAX]),
            progress=progress,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Going:
    """How an import goes on where another one stopped, and tells how far it has come."""

    since: Report | None = None
    """What the other one made of the pieces that it read; they are passed over."""
    around: Callable[[], AbstractContextManager[None]] = nullcontext
    """What every batch is done in."""
    beside: Callable[[Transaction, Report], None] = lambda _tx, _report: None
    """Told in the transaction of each batch."""


AT_ONCE = Going()
"""From the beginning to the end, by one."""
