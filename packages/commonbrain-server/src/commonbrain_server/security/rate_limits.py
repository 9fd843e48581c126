"""Counts calls within a moving window, in this process or in Redis."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from limits import RateLimitItemPerMinute
from limits.errors import StorageError
from limits.storage import MemoryStorage, RedisStorage, Storage
from limits.strategies import MovingWindowRateLimiter

from commonbrain.model.errors import InvalidInputError

_LOG: Final = logging.getLogger(__name__)
_REDIS_S: Final = 0.25
"""Redis timeout; after it this process counts by itself."""
_RETRY_S: Final = 5.0
"""Pause before Redis is tried again: each try may take its timeout."""
_NAMESPACE: Final = "commonbrain"
_Answer = TypeVar("_Answer")


@dataclass(slots=True, kw_only=True)
class MovingWindowLimiter:
    """Counts in Redis if configured, so that all processes share the counts.

    While Redis is down each process counts by itself: no caller is locked out, and the effective
    limit is at most the rate times the number of processes.
    """

    shared: MovingWindowRateLimiter | None = None
    own: MovingWindowRateLimiter = field(
        default_factory=lambda: MovingWindowRateLimiter(MemoryStorage())
    )
    retry_s: float = _RETRY_S
    _local_until: float = 0.0
    _is_local: bool = False
    """Whether Redis is down, which is logged once per outage."""

    def take(self, name: str, *, per_minute: int) -> int | None:
        """Count one call, or return the seconds to wait if the limit is reached."""

        def hit(window: MovingWindowRateLimiter) -> int | None:
            item = RateLimitItemPerMinute(per_minute)
            if window.hit(item, _NAMESPACE, name):
                return None
            return _wait(window, item, name=name)

        return self._run(hit)

    def wait(self, name: str, *, per_minute: int) -> int | None:
        """Return the seconds to wait if the limit is reached, without counting."""

        def test(window: MovingWindowRateLimiter) -> int | None:
            item = RateLimitItemPerMinute(per_minute)
            if window.test(item, _NAMESPACE, name):
                return None
            return _wait(window, item, name=name)

        return self._run(test)

    def claim(self, name: str, *, minutes: int) -> bool:
        """Claim a name; return False if it was claimed within a number of minutes."""
        item = RateLimitItemPerMinute(1, minutes)
        return self._run(lambda window: window.hit(item, _NAMESPACE, name))

    def _run(self, query: Callable[[MovingWindowRateLimiter], _Answer]) -> _Answer:
        if self.shared is None or time.monotonic() < self._local_until:
            return query(self.own)
        try:
            answer = query(self.shared)
        except StorageError:
            self._local_until = time.monotonic() + self.retry_s
            if not self._is_local:
                _LOG.warning("Redis does not answer: this process counts rates by itself")
            self._is_local = True
            return query(self.own)
        self._is_local = False
        return answer


def make_rates(redis_url: str | None = None) -> MovingWindowLimiter:
    """Create a limiter in Redis, or in this process without a URL; connects on the first call.

    Raises:
        InvalidInputError: The URL is invalid.

    """
    if redis_url is None:
        return MovingWindowLimiter()
    try:
        storage: Storage = RedisStorage(
            redis_url,
            wrap_exceptions=True,
            socket_timeout=_REDIS_S,
            socket_connect_timeout=_REDIS_S,
        )
    except ValueError:
        raise InvalidInputError(
            "COMMONBRAIN_REDIS_URL is not a valid Redis URL.",
            hint="Set it to redis://host:6379/0, or unset it.",
        ) from None
    return MovingWindowLimiter(shared=MovingWindowRateLimiter(storage))


def _wait(window: MovingWindowRateLimiter, item: RateLimitItemPerMinute, *, name: str) -> int:
    left_s = window.get_window_stats(item, _NAMESPACE, name).reset_time - time.time()
    return max(math.ceil(left_s), 1)
