"""Time and chance, so that tests may own both."""

import secrets
import time
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final, Protocol

from commonbrain.model.timestamps import to_utc


class Clock(Protocol):
    """What the time is, for the record and for measuring."""

    def now(self) -> datetime:
        """Give the present as aware UTC in whole milliseconds."""
        ...

    def elapsed_ms(self) -> float:
        """Give milliseconds since some fixed point; never goes backwards."""
        ...


class RandomSource(Protocol):
    """Where random bits come from."""

    def bits(self, count: int) -> int:
        """Give `count` random bits as an integer of 0 to 2**count - 1."""
        ...


UNTIL: Final[ContextVar[float | None]] = ContextVar("until", default=None)
"""A moment by `time.monotonic`; None where nobody has set one, as in work behind everybody's back.

It goes with the context of a call, so that what talks to a database far below knows it.
"""


class SystemClock:
    """Wall time for the record, the monotonic counter for measuring."""

    def now(self) -> datetime:
        """Give the present as aware UTC in whole milliseconds."""
        return to_utc(datetime.now(UTC))

    def elapsed_ms(self) -> float:
        """Give milliseconds since some fixed point; never goes backwards."""
        return time.perf_counter() * 1000


class SystemRandom:
    """Bits that nobody can guess."""

    def bits(self, count: int) -> int:
        """Give `count` random bits as an integer of 0 to 2**count - 1."""
        return secrets.randbits(count)
