"""Works on calls in threads of its own: so many at once, and each for so long."""

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
"""How much later than whoever asked the thread gives up: who waits hears of it first."""


class ThreadLimiter:
    """A bounded number of threads; what comes while all are busy waits its turn.

    With `seconds_max` a call, its wait counted, is left behind when that is over. What it waits
    for below knows that moment and lets go, so that its thread comes back; what computes goes on.
    Without, whoever asked waits for it, even when called off.
    """

    def __init__(
        self,
        at_once: int,
        *,
        seconds_max: float | None = None,
        around: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Have so many threads; each call is worked on inside what `around` gives."""
        self._pool = ThreadPoolExecutor(at_once, "call")
        self._seconds_max = seconds_max
        self._around = around

    async def run(self, call: Callable[[], _T]) -> _T:
        """Do it in a thread and give what it gives.

        Raises:
            UnavailableError: `deadline`; what was begun goes on and may still be done.
            CommonbrainError: whatever the work raises.

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
                hint="Ask again, with the same idempotency key where you gave one.",
            )
        finally:
            # What still waits for its turn is not begun, and nobody hears how the rest ends.
            answer.cancel()
            future.cancel()

    def _inside(self, call: Callable[[], _T]) -> _T:
        with self._around():
            return call()

    def close(self) -> None:
        """Take on nothing more; what is under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
