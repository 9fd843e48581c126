"""The shelf of what needs review because something that it rests on has fallen."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from commonbrain.domain.cascade import Review


class Reviews(Protocol):
    """Reviews, and the list of memories whose fall has yet to be followed up."""

    def touch(self, ids: Sequence[int], *, at: datetime) -> None:
        """List what a change of these memories or of their links may unseat, to be looked at then.

        That is: those of them that something rests on or that need review, what they are in
        conflict with, and the causes of their reviews.
        """
        ...

    def listed(self) -> list[int]:
        """Give what this transaction has listed itself and not taken off again, by id."""
        ...

    def disputed(self, ids: Sequence[int]) -> list[int]:
        """Give the memories that are in conflict with any of these, by id."""
        ...

    def due(self, now: datetime, *, limit: int) -> list[int]:
        """Give the memories that are to be looked at by now, the longest due first."""
        ...

    def postpone(self, id_: int, until: datetime | None) -> None:
        """Take a memory off the list, or put it back for later."""
        ...

    def of(self, ids: Sequence[int]) -> dict[int, list[Review]]:
        """Give the reviews of memories, settled ones too, by their causes; others are absent."""
        ...

    def doubtful(self, ids: Sequence[int]) -> list[int]:
        """Give of memories those with an open review for which nobody has vouched."""
        ...

    def unsupported(self, ids: Sequence[int]) -> dict[int, Review]:
        """Give of memories that lost every support the reviews that say so."""
        ...

    def by(self, cause_id: int) -> list[Review]:
        """List what a cause unseated, settled ones too, the nearest first."""
        ...

    def add(self, reviews: Sequence[Review]) -> None:
        """Add reviews that are not there."""
        ...

    def put(self, reviews: Sequence[Review]) -> None:
        """Set reviews to exactly these, whether they were there or not."""
        ...

    def drop(self, reviews: Sequence[Review]) -> None:
        """Take reviews away."""
        ...

    def shaken(self, ids: Sequence[int]) -> list[int]:
        """Give these and, step by step, all that rests on them and has an open review."""
        ...
