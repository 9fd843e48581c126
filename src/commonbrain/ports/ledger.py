"""The shelf of the ledger: traces of recalls as they are read again, and the marks on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.domain.ids import LAST
from commonbrain.domain.ledger import Entry, Feedback, Use


@dataclass(frozen=True, slots=True, kw_only=True)
class EntryFilter:
    """Which recalls are read; what is left out does not matter."""

    since: datetime | None = None
    until: datetime | None = None
    """Asked before."""
    is_marked: bool = False
    """Only those with a mark."""
    ranker: int | None = None
    """Only those that this model ordered."""
    is_by_weights: bool = False
    """Only those with a question that no model ordered."""
    share: float = 1.0
    """Only so many of them, 0..1, drawn by their ids: every reader draws the same."""
    agent: str | None = None
    """Only this one's."""
    session: str | None = None


class Ledger(Protocol):
    """The shelf of the ledger of one tenant."""

    def mark(self, told: Sequence[Feedback]) -> int:
        """Keep marks, each once; a mark on a trace that is not there is passed over. Count."""
        ...

    def showing(self, use: Use) -> Mapping[int, int]:
        """Give the latest trace of the session that packed each, of those within `MARKED_WITHIN`.

        Absent where none did, and for a fetch where that trace had told the whole of it.
        """
        ...

    def credit(self, use: Use) -> Sequence[int]:
        """Mark what was used on the traces that showed it; give what none that is here did."""
        ...

    def entries(self, wanted: EntryFilter, *, after: int = 0, limit: int) -> list[Entry]:
        """List recalls above an id with their marks, the oldest first."""
        ...

    def latest(
        self, wanted: EntryFilter, *, before: int = LAST, limit: int, is_brief: bool = False
    ) -> list[Entry]:
        """List recalls below an id, the newest first; the brief without what was considered."""
        ...
