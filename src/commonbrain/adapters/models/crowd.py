"""Who waits for an endpoint at once: when it answers none of them, nobody else queues behind."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import count
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator


class Crowd:
    """Those who wait for one endpoint; safe to use from several threads.

    Without it an endpoint that hangs takes every thread of a server within a second, and what
    needs no endpoint at all waits with them.
    """

    def __init__(self, at_most: int, *, silence_s: float) -> None:
        self._at_most = at_most
        self._silence_s = silence_s
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

    def heard(self) -> None:
        """Take down that it answered somebody, whatever it said."""
        self._heard_at = monotonic()

    @property
    def _hangs(self) -> bool:
        if len(self._waiting) < self._at_most:
            return False
        since = max(self._heard_at, min(self._waiting.values()))
        return monotonic() - since >= self._silence_s
