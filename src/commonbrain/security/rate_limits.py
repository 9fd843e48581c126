"""Rates by moving windows, counted in this process or in Redis; comes with the extra `server`."""

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from limits import RateLimitItemPerMinute
from limits.errors import StorageError
from limits.storage import MemoryStorage, RedisStorage, Storage
from limits.strategies import MovingWindowRateLimiter

_LOG: Final = logging.getLogger(__name__)
_REDIS_S: Final = 0.25
"""What counting may hold up a call; past it this process counts by itself."""
_AGAIN_S: Final = 5.0
"""How long a Redis that did not answer is left alone."""
_COUNTED_UNDER: Final = "commonbrain"


@dataclass(slots=True, kw_only=True)
class MovingWindowLimiter:
    """Counts in Redis where there is one, so that all processes share the counts.

    While Redis is down each process counts by itself: nobody is shut out, and nobody calls more
    often than the rate times the number of processes.
    """

    shared: MovingWindowRateLimiter | None = None
    own: MovingWindowRateLimiter = field(
        default_factory=lambda: MovingWindowRateLimiter(MemoryStorage())
    )
    _alone_until: float = 0.0

    def take(self, name: str, *, per_minute: int) -> int | None:
        """Count one more unless that is too many; give the seconds to wait where it is."""

        def counted(window: MovingWindowRateLimiter) -> int | None:
            item = RateLimitItemPerMinute(per_minute)
            if window.hit(item, _COUNTED_UNDER, name):
                return None
            return _wait(window, item, name=name)

        return self._ask(counted)

    def wait(self, name: str, *, per_minute: int) -> int | None:
        """Give the seconds to wait where the next one would be too many; count nothing."""

        def looked(window: MovingWindowRateLimiter) -> int | None:
            item = RateLimitItemPerMinute(per_minute)
            if window.test(item, _COUNTED_UNDER, name):
                return None
            return _wait(window, item, name=name)

        return self._ask(looked)

    def _ask(self, ask: Callable[[MovingWindowRateLimiter], int | None]) -> int | None:
        if self.shared is None or time.monotonic() < self._alone_until:
            return ask(self.own)
        try:
            return ask(self.shared)
        except StorageError:
            self._alone_until = time.monotonic() + _AGAIN_S
            _LOG.warning("Redis does not answer: this process counts rates by itself")
            return ask(self.own)


def shared_rate_limiter(redis_url: str | None) -> MovingWindowLimiter:
    """Count in Redis if there is one, else in this process; Redis is asked for at the first call.

    Raises:
        ValueError: the address is none that Redis could have.

    """
    if redis_url is None:
        return MovingWindowLimiter()
    storage: Storage = RedisStorage(
        redis_url,
        wrap_exceptions=True,
        socket_timeout=_REDIS_S,
        socket_connect_timeout=_REDIS_S,
    )
    return MovingWindowLimiter(shared=MovingWindowRateLimiter(storage))


def _wait(window: MovingWindowRateLimiter, item: RateLimitItemPerMinute, *, name: str) -> int:
    left_s = window.get_window_stats(item, _COUNTED_UNDER, name).reset_time - time.time()
    return max(math.ceil(left_s), 1)
