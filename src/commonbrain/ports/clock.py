"""Time and chance, so that tests may own both."""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """What the time is, for the record and for measuring."""

    def now(self) -> datetime:
        """Give the present as aware UTC in whole milliseconds."""
        ...

    def elapsed_ms(self) -> float:
        """Give milliseconds since some fixed point; never goes backwards."""
        ...


class Chance(Protocol):
    """Where random bits come from."""

    def bits(self, count: int) -> int:
        """Give `count` random bits as an integer of 0 to 2**count - 1."""
        ...
