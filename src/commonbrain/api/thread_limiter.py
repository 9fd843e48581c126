"""Runs calls in a bounded number of threads, each with a deadline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from time import monotonic
from typing import Final, TypeVar

import anyio

from commonbrain.clock import UNTIL
from commonbrain.model.errors import UnavailableError

_T = TypeVar("_T")
_AFTER_S: Final = 0.1
"""The thread's deadline is later than the caller's by this, so that the caller raises first."""


class ThreadLimiter:
    """A bounded number of threads; a call waits while all are busy.

    With `seconds_max`, `run` stops waiting after that time, which includes the wait for a thread.
    Waits inside the call have the same deadline, so that its thread is freed; a computation goes
    on. Without it, `run` waits for the end of the call, even if it is cancelled.
    """

    def __init__(
        self,
        at_once: int,
        *,
        seconds_max: float | None = None,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Start `at_once` threads; each call runs inside the context that `around` returns."""
        self._pool = ThreadPoolExecutor(at_once, "call")
        self._seconds_max = seconds_max
        self._around = around

    async def run(self, call: Callable[[], _T]) -> _T:
        """Run a call in a thread and return its result.

        Raises:
            UnavailableError: `deadline`; a call that has started continues and may succeed.
            CommonbrainError: raised by the call.

        """
        context = copy_context()
        if self._seconds_max is not None:
            context.run(UNTIL.set, monotonic() + self._seconds_max + _AFTER_S)
        future = self._pool.submit(context.run, self._inside, call)
        answer = asyncio.wrap_future(future)
        try:
            with anyio.CancelScope(shield=self._seconds_max is None):
                await asyncio.wait({answer}, timeout=self._seconds_max)
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

    def _inside(self, call: Callable[[], _T]) -> _T:
        with self._around():
            return call()

    def close(self) -> None:
        """Accept no more calls; those in progress finish."""
        self._pool.shutdown(wait=False, cancel_futures=True)
