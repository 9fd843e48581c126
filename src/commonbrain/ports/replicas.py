"""How copies of a store fare that reads are answered from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Trouble(StrEnum):
    """What may be wrong with a replica, told without where it is."""

    FAILED = "it failed when it was last asked"
    UNFIT = "it may not be read from"
    NO_REPLICA = "it is no replica"
    TIMELINE = "it is not known to be on the primary's timeline"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reads:
    """What one replica did for this process; what it did not answer the primary answered."""

    replica: str
    """Where it is, without a secret."""
    answered: int = 0
    lagged: int = 0
    """Reads that came before it had replayed what they must see."""
    failed: int = 0
    behind_bytes: int | None = None
    """How much was missing when it was last asked; None where nobody knows."""
    trouble: str | None = None
    """What is wrong with it, if anything was when it was last asked."""
    sort: Trouble | None = None
    """What sort of trouble that is."""

    @property
    def asked(self) -> int:
        """How often it was turned to."""
        return self.answered + self.lagged + self.failed

    def masked(self, number: int) -> Reads:
        """Tell the same without where it is."""
        trouble = None if self.sort is None else self.sort.value
        return replace(self, replica=f"replica {number}", trouble=trouble)
