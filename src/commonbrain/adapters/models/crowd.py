"""Who waits for an endpoint at once: when it answers none of them, nobody else queues behind."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from itertools import count
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Generator

_ANSWERS: Final = 16
"""By so many of its last answers an endpoint is known to be slow."""
_TIMES: Final = 2
"""One that took so many times as long as the longest of them hangs."""


class Crowd:
    """Those who wait for one endpoint; safe to use from several threads.

    Without it an endpoint that hangs takes every thread of a server within a second, and what
    needs no endpoint at all waits with them. One that is slow and answers is no such endpoint: its
    last answers tell how long to wait for the next, up to a bound.
    """

    def __init__(self, at_most: int, *, silence_s: float, longest_s: float) -> None:
        self._at_most = at_most
        self._silence_s = silence_s
        self._longest_s = longest_s
        self._took_s: deque[float] = deque(maxlen=_ANSWERS)
        self._lock = Lock()
        self._numbers = count()
        self._waiting: dict[int, float] = {}
        self._heard_at = float("-inf")

    @contextmanager
    def joined(self, *, is_trial: bool) -> Generator[bool]:
        """Wait with the others, and say whether that makes sense; a trial is made by one alone."""
        with self._lock:
            hangs = bool(self._waiting) if is_trial else self._hangs
            number = next(self._numbers)
            if not hangs:
                self._waiting[number] = monotonic()
        try:
            yield not hangs
        finally:
            with self._lock:
                self._waiting.pop(number, None)

    def heard(self, *, after_s: float) -> None:
        """Take down that it answered somebody, whatever it said, and how long that took."""
        with self._lock:
            self._heard_at = monotonic()
            self._took_s.append(after_s)

    @property
    def _hangs(self) -> bool:
        if len(self._waiting) < self._at_most:
            return False
        since = max(self._heard_at, min(self._waiting.values()))
        slow_s = _TIMES * max(self._took_s, default=0.0)
        return monotonic() - since >= min(max(self._silence_s, slow_s), self._longest_s)
