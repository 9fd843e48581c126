"""How often something may be done."""

from typing import Protocol


class Rates(Protocol):
    """Counts what is done within the last minute, for every process that shares the counts."""

    def take(self, name: str, *, per_minute: int) -> int | None:
        """Count one more unless that is too many; give the seconds to wait where it is."""
        ...

    def wait(self, name: str, *, per_minute: int) -> int | None:
        """Give the seconds to wait where the next one would be too many; count nothing."""
        ...
