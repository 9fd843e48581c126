"""Clock and randomness under a test's control."""

import random
from datetime import UTC, datetime, timedelta


class FakeClock:
    """Advances only by `move`."""

    def __init__(self, now: datetime = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)) -> None:
        self._now = now
        self._elapsed_ms = 0.0

    def now(self) -> datetime:
        """Return the current time of the clock."""
        return self._now

    def elapsed_ms(self) -> float:
        """Return the total advance in milliseconds."""
        return self._elapsed_ms

    def move(self, by: timedelta) -> None:
        """Move the clock forward, or back: wall clocks do both."""
        self._now += by
        self._elapsed_ms += max(by / timedelta(milliseconds=1), 0.0)


class SeededRandom:
    """Random bits from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)  # noqa: S311 it is meant to be foreseen

    def bits(self, count: int) -> int:
        """Return `count` bits as an integer of 0 to 2**count - 1."""
        return self._random.getrandbits(count)
