"""Runs calls in a bounded number of threads, each with a deadline; callers take turns."""

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from functools import partial
from threading import RLock
from time import monotonic
from typing import Any, Final, TypeVar

import anyio

from commonbrain.clock import UNTIL
from commonbrain.model.errors import (
    BusyError,
    CommonbrainError,
    LimitExceededError,
    UnavailableError,
)
from commonbrain.model.scope import Caller

_T = TypeVar("_T")
_LANE: Final[ContextVar[str]] = ContextVar("lane", default="")
"""Whose calls the present task makes; empty for those that no lane limits."""
_STRANGERS: Final = "strangers"
_LANE_MIN: Final = 2
"""Threads that one caller may have, if a quarter of all are fewer: an agent may send two calls."""
_QUEUE_SHARE: Final = 1 / 3
"""Of the time for a call, the share that it may wait for a thread.

An overloaded server that lets every call wait to its deadline works for clients that have given up.
"""
_RETRY_AFTER_S: Final = 5
_HELD_S: Final = 0.1
"""How often a call that is held before it takes a thread looks whether it may."""
_AFTER_S: Final = 0.1
"""The thread's deadline is later than the caller's by this, so that the caller raises first."""


def enter_lane(caller: Caller | None) -> None:
    """Make the calls of the present task those of a caller; None stands for all who are unknown.

    Call it for each request: with asyncio's own loop, a request can begin in the context of the one
    before it on its connection.
    """
    _LANE.set(f"{caller.tenant}/{caller.agent}" if caller else _STRANGERS)


def enter_counting_lane(caller: Caller) -> None:
    """Make the calls of the present task those that count a caller's refused requests.

    Slow calls of the caller must not delay the count that limits it.
    """
    _LANE.set(f"count {caller.tenant}/{caller.agent}")


@dataclass(slots=True)
class _Waiting:
    """A call that waits for a thread."""

    future: Future[Any]
    call: Callable[[], Any]

    def release(self, _: Future[Any]) -> None:
        """Drop the call, and so its request, once it has ended or been cancelled."""
        self.call = _nothing


def _nothing() -> None:
    """Replace a released call."""


class _FairPool:
    """A pool of threads in which lanes take turns, and none has more than its share.

    So a caller who sends many slow calls hardly delays those of others, and leaves the event loop
    its share of the interpreter's lock, which every thread competes for.
    Calls without a lane are not limited.
    """

    def __init__(self, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, "call")
        self._free = threads
        self.lane_max = max(_LANE_MIN, threads // 4)
        """Threads that one lane may have at once."""
        self._lock = RLock()
        """Reentrant: a call that has ended already ends here."""
        self._waiting: dict[str, deque[_Waiting]] = {}
        """The lane whose turn is next comes first."""
        self._running: Counter[str] = Counter()
        self._is_closed = False

    def submit(self, call: Callable[[], _T], *, lane: str) -> Future[_T]:
        future: Future[_T] = Future()
        with self._lock:
            if self._is_closed:
                raise RuntimeError("The process ends.")
            waiting = _Waiting(future, call)
            self._waiting.setdefault(lane, deque()).append(waiting)
            self._start()
        future.add_done_callback(waiting.release)
        return future

    def has_share(self, lane: str) -> bool:
        """Return whether a lane has all the threads that it may have."""
        with self._lock:
            return bool(lane) and self._running[lane] >= self.lane_max

    def _start(self) -> None:
        """Start waiting calls while there are threads; the lock is held."""
        while self._free:
            turns = (one for one in self._waiting if not self.has_share(one))
            lane = next(turns, None)
            if lane is None:
                return
            calls = self._waiting.pop(lane)
            first = calls.popleft()
            if calls:
                self._waiting[lane] = calls
            if first.future.set_running_or_notify_cancel():
                self._free -= 1
                self._running[lane] += 1
                run = self._pool.submit(first.call)
                run.add_done_callback(partial(self._end, future=first.future, lane=lane))

    def _end(self, run: Future[_T], *, future: Future[_T], lane: str) -> None:
        """Hand on the outcome of a call, and start the next."""
        error = run.exception()
        if error is None:
            future.set_result(run.result())
        else:
            future.set_exception(error)
        with self._lock:
            self._free += 1
            self._running[lane] -= 1
            if not self._running[lane]:
                del self._running[lane]
            self._start()

    def close(self) -> None:
        with self._lock:
            waiting = [one.future for calls in self._waiting.values() for one in calls]
            self._waiting.clear()
            self._is_closed = True
        for future in waiting:
            future.cancel()
        self._pool.shutdown(wait=False)


class ThreadLimiter:
    """A bounded number of threads; a call waits while all are busy.

    The calls of each lane (`enter_lane`) start in order, and lanes take turns.

    With `seconds_max`, `run` stops waiting after that time, which includes the wait for a thread,
    and refuses a call that has no thread after a third of it. Waits inside the call have the same
    deadline, so that its thread is freed; a computation goes on. Without it, `run` waits for the
    end of the call, even if it is cancelled.
    """

    def __init__(
        self,
        at_once: int,
        *,
        seconds_max: float | None = None,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        """Start `at_once` threads; each call runs inside the context that `around` returns.

        Calls wait without a thread as long as `is_held`, for instance while the store restarts.
        """
        self._pool = _FairPool(at_once)
        self._seconds_max = seconds_max
        self._queue_s = (seconds_max or 0) * _QUEUE_SHARE
        self._around = around
        self._is_held = is_held

    async def run(
        self,
        call: Callable[[], _T],
        *,
        on_end: Callable[[], object] = lambda: None,
        on_refusal: Callable[[CommonbrainError, float], object] = lambda _error, _waited_s: None,
    ) -> _T:
        """Run a call in a thread and return its result.

        Args:
            call: what to run.
            on_end: called once when the call has ended, or never starts. This may be after `run`
                has raised `deadline`, so that it can free what the call still uses.
            on_refusal: called with the error and the seconds waited if no thread was free in time.

        Raises:
            BusyError: no thread was free in time; the call never starts.
            LimitExceededError: `rate_limited`, as many calls of the caller ran as may run at once
                until its time to wait was over; the call never starts.
            UnavailableError: `deadline`; a call that has started continues and may succeed.
            CommonbrainError: raised by the call.

        """
        context = copy_context()
        until = monotonic() + (self._seconds_max or 0)
        if self._seconds_max is not None:
            context.run(UNTIL.set, until + _AFTER_S)
        lane = _LANE.get()
        try:
            while self._is_held() and monotonic() < until - self._queue_s:  # noqa: ASYNC110 no event
                await asyncio.sleep(_HELD_S)
            future = self._pool.submit(lambda: context.run(self._inside, call), lane=lane)
        except (RuntimeError, asyncio.CancelledError):
            # The process ends, or the caller is gone.
            on_end()
            raise
        future.add_done_callback(lambda _: on_end())
        answer = asyncio.wrap_future(future)
        try:
            with self._shielded():
                if await self._wait(answer, future, until=until):
                    # No variable has the error: its traceback would hold the call until the next
                    # garbage collection.
                    raise self._refused(lane, on_refusal)
            if answer.done():
                return await answer
            raise UnavailableError(
                f"This took longer than {self._seconds_max:g} seconds; it may still be done.",
                code="deadline",
                hint="Retry, with the same idempotency key if you gave one.",
            )
        finally:
            # A call that has not started never will, and the result of one that has is dropped.
            answer.cancel()
            future.cancel()

    async def _wait(self, answer: asyncio.Future[_T], future: Future[_T], *, until: float) -> bool:
        """Wait for the end of a call, at most for its time; return whether it got no thread."""
        if self._seconds_max is None:
            await asyncio.wait({answer})
            return False
        await asyncio.wait({answer}, timeout=self._queue_s)
        if answer.done():
            return False
        # A call that has started, or ended, cannot be cancelled.
        if future.cancel():
            return True
        await asyncio.wait({answer}, timeout=max(until - monotonic(), 0))
        return False

    def _shielded(self) -> AbstractContextManager[object]:
        """Return what lets `run` wait for the end of a call without a deadline."""
        return anyio.CancelScope(shield=True) if self._seconds_max is None else nullcontext()

    def _refused(
        self, lane: str, on_refusal: Callable[[CommonbrainError, float], object]
    ) -> CommonbrainError:
        """Return the error of a call that was not started: its caller is busy, or the server."""
        error: CommonbrainError
        if lane != _STRANGERS and self._pool.has_share(lane):
            error = LimitExceededError(
                f"{self._pool.lane_max} of your calls are running, the most that one caller may "
                "have; the call was not started.",
                hint="Send fewer at once.",
                retry_after_s=_RETRY_AFTER_S,
            )
        else:
            error = BusyError(
                "The server is busy; the call was not started.",
                hint="Retry in some seconds.",
                retry_after_s=_RETRY_AFTER_S,
            )
        on_refusal(error, self._queue_s)
        return error

    def _inside(self, call: Callable[[], _T]) -> _T:
        with self._around():
            return call()

    def close(self) -> None:
        """Accept no more calls; those in progress finish."""
        self._pool.close()
