"""The shelf of open conflicts: pairs that disagree and that nobody has settled."""

from __future__ import annotations

from typing import Protocol

from commonbrain.domain.links import Link
from commonbrain.ports.look import Look


class Disputes(Protocol):
    """Links of conflict between two memories that a look both allows."""

    def unsettled(self, look: Look, *, limit: int, skip: int = 0) -> list[Link]:
        """List them, the latest first; not those whose sides hold in projects of their own.

        Of two that are linked in both directions the link of the lesser id is given.
        """
        ...
