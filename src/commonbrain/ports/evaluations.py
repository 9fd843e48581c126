"""The shelf of what was measured."""

from __future__ import annotations

from typing import Protocol

from commonbrain.domain.evaluation import Evaluation


class Evaluations(Protocol):
    """Measurements of one tenant's memory; of each name the latest stay."""

    def add(self, evaluation: Evaluation) -> bool:
        """Keep one, unless its id is taken; say whether."""
        ...

    def listed(self, name: str, *, limit: int) -> list[Evaluation]:
        """List those of a name, the newest first."""
        ...

    def surplus(self, *, keep: int) -> int:
        """Count those that have so many newer ones of their name."""
        ...

    def drop(self, *, keep: int, limit: int) -> int:
        """Drop those, the oldest first and at most `limit`; say how many."""
        ...
