"""The machine's own clock and chance."""

import secrets
import time
from datetime import UTC, datetime

from commonbrain.domain.times import to_utc


class SystemClock:
    """Wall time for the record, the monotonic counter for measuring."""

    def now(self) -> datetime:
        """Give the present as aware UTC in whole milliseconds."""
        return to_utc(datetime.now(UTC))

    def elapsed_ms(self) -> float:
        """Give milliseconds since some fixed point; never goes backwards."""
        return time.perf_counter() * 1000


class SystemChance:
    """Bits that nobody can guess."""

    def bits(self, count: int) -> int:
        """Give `count` random bits as an integer of 0 to 2**count - 1."""
        return secrets.randbits(count)
