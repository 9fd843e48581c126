"""Clock, stage timer and random source, passed in so that tests control time and chance."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from commonbrain.model.errors import DeadlineError, UnavailableError
from commonbrain.model.timestamps import to_utc
from commonbrain.model.values import dataclass, field

if TYPE_CHECKING:
    from concurrent.futures import Future

Result = TypeVar("Result")


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


@dataclass(slots=True)
class StageTimer:
    """Measures how long each stage of a call takes, in milliseconds."""

    clock: Clock
    stages_ms: dict[str, float] = field(default_factory=dict[str, float])
    last_ms: float = field(init=False)
    """When the previous stage ended, or the call began."""

    def __post_init__(self) -> None:
        """Start the timer."""
        self.last_ms = self.clock.elapsed_ms()

    def end_stage(self, stage: str) -> None:
        """Add the time since the previous stage ended."""
        now_ms = self.clock.elapsed_ms()
        self.stages_ms[stage] = round(self.stages_ms.get(stage, 0.0) + now_ms - self.last_ms, 3)
        self.last_ms = now_ms

    def split_stage(self, stage: str, parts_ms: Mapping[str, float]) -> None:
        """Record parts of a finished stage as stages of their own."""
        if parts_ms:
            rest_ms = max(self.stages_ms[stage] - sum(parts_ms.values()), 0.0)
            self.stages_ms[stage] = round(rest_ms, 3)
            self.stages_ms.update(parts_ms)


@dataclass(frozen=True, slots=True)
class Deadline:
    """The time at which recall stops asking further retrievers; None means no limit."""

    clock: Clock
    at_ms: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed."""
        return self.at_ms is not None and self.clock.elapsed_ms() >= self.at_ms

    @property
    def left_ms(self) -> float | None:
        """Time until the deadline, negative after it; None without a deadline."""
        return None if self.at_ms is None else self.at_ms - self.clock.elapsed_ms()

    def wait_for(self, future: Future[Result]) -> Result:
        """Wait for a result, at most until the deadline.

        Raises:
            UnavailableError: `deadline`, there is no result yet, and the call is cancelled; or the
                error with which the call failed.

        """
        if self.at_ms is None:
            return future.result()
        left_ms = self.at_ms - self.clock.elapsed_ms()
        try:
            if left_ms > 0:
                return future.result(left_ms / 1000)
        except TimeoutError:
            pass
        future.cancel()
        raise UnavailableError("It did not answer in time.", code="deadline")


def check_awaited() -> None:
    """Start nothing after the caller's deadline.

    Raises:
        DeadlineError: it has passed.

    """
    until = UNTIL.get()
    if until is not None and time.monotonic() >= until:
        raise DeadlineError(
            "The caller no longer waits; nothing more was started.",
            hint="Ask again, with the same idempotency key where you gave one.",
        )
