"""What upkeep asks of the shelf of memories: what may be due, and what lacks a part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.domain.retention import Retention


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBy:
    """What upkeep looks for: memories whose time is over, tasks long due, what is too old."""

    now: datetime
    tasks_before: datetime
    """Tasks that are not done and were due before it."""
    rules: Sequence[Retention] = ()


class Ageing(Protocol):
    """Memories as upkeep goes through them: by ascending ids, page by page."""

    def due(self, wanted: DueBy, *, after: int, limit: int) -> list[int]:
        """List ids above one id, ascending, of current memories that may be due for something."""
        ...

    def bodiless(self, *, after: int, limit: int) -> list[int]:
        """List ids above one id, ascending, of rows whose body is lost; there should be none."""
        ...
