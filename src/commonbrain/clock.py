"""Clock and random source, passed in so that tests control both."""

import secrets
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, Protocol

from commonbrain.model.timestamps import to_utc


class Clock(Protocol):
    """The current time, and durations."""

    def now(self) -> datetime:
        """Return the current time as aware UTC in whole milliseconds."""
        ...

    def elapsed_ms(self) -> float:
        """Return milliseconds since a fixed point; never decreases."""
        ...


class RandomSource(Protocol):
    """A source of random bits."""

    def bits(self, count: int) -> int:
        """Return `count` random bits as an integer from 0 to 2**count - 1."""
        ...


UNTIL: Final[ContextVar[float | None]] = ContextVar("until", default=None)
"""Deadline of the current call by `time.monotonic`; None without one, as in background work.

It is a context variable, so that database code deep in a call knows it.
"""


class SystemClock:
    """Wall clock for timestamps, monotonic clock for durations."""

    def now(self) -> datetime:
        """Return the current time as aware UTC in whole milliseconds."""
        return to_utc(datetime.now(UTC))

    def elapsed_ms(self) -> float:
        """Return milliseconds since a fixed point; never decreases."""
        return time.perf_counter() * 1000


class SystemRandom:
    """Cryptographically secure random bits."""

    def bits(self, count: int) -> int:
        """Return `count` random bits as an integer from 0 to 2**count - 1."""
        return secrets.randbits(count)
