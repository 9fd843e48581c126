"""How copies of a store fare that reads are answered from."""

from __future__ import annotations

from dataclasses import dataclass


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

    @property
    def asked(self) -> int:
        """How often it was turned to."""
        return self.answered + self.lagged + self.failed
