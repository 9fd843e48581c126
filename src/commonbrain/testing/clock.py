"""Time and chance that a test owns."""

import random
from datetime import UTC, datetime, timedelta


class FakeClock:
    """Stands still until it is moved."""

    def __init__(self, now: datetime = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)) -> None:
        self._now = now
        self._elapsed_ms = 0.0

    def now(self) -> datetime:
        """Give the moment it stands at."""
        return self._now

    def elapsed_ms(self) -> float:
        """Give how far it was moved forward."""
        return self._elapsed_ms

    def move(self, by: timedelta) -> None:
        """Move to a later moment, or an earlier one: wall clocks do both."""
        self._now += by
        self._elapsed_ms += max(by / timedelta(milliseconds=1), 0.0)


class SeededRandom:
    """The same bits for the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 it is meant to be foreseen

    def bits(self, count: int) -> int:
        """Give `count` bits as an integer of 0 to 2**count - 1."""
        return self._random.getrandbits(count)
