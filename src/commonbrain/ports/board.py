"""The shelf of what a boot shows of the rows: rules that bind, and tasks that are owed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from commonbrain.ports.look import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """The first of some memories by their ids, best first, and how many there are in all."""

    ids: tuple[int, ...] = ()
    total: int = 0


class Board(Protocol):
    """The shelf of what binds and what is owed, within a look at active memories."""

    def blockers(self, look: Look, *, limit: int) -> Ranked:
        """Find BLOCKER rules without a trigger: pinned first, then of a project, then newest."""
        ...

    def patterns(self, look: Look) -> dict[int, bool]:
        """Give every PATTERN rule without a trigger, and whether it is pinned; newest first."""
        ...

    def has_patterns(self, look: Look) -> bool:
        """Say whether there is any PATTERN rule without a trigger."""
        ...

    def owed(self, look: Look, *, limit: int) -> Ranked:
        """Find tasks that are open or blocked: by priority, then the earliest due, then oldest."""
        ...

    def latest(self, look: Look, *, limit: int) -> list[int]:
        """List what a look of few rows allows, latest occurrence first."""
        ...
