"""Works on calls in threads of its own: so many at once, and each for so long."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import anyio

from commonbrain.domain.errors import Unavailable

_T = TypeVar("_T")


class Threads:
    """A bounded number of threads; what comes while all are busy waits its turn.

    With `seconds_max` a call, its wait counted, is left behind when that is over: its thread goes
    on and stays taken until it ends. Without, whoever asked waits for it, even when called off.
    """

    def __init__(self, at_once: int, *, seconds_max: float | None = None) -> None:
        self._pool = ThreadPoolExecutor(at_once, "call")
        self._seconds_max = seconds_max

    async def run(self, work: Callable[[], _T]) -> _T:
        """Do it in a thread and give what it gives.

        Raises:
            Unavailable: `deadline`; what was begun goes on and may still be done.
            CommonbrainError: whatever the work raises.

        """
        future = self._pool.submit(copy_context().run, work)
        answer = asyncio.wrap_future(future)
        try:
            with anyio.CancelScope(shield=self._seconds_max is None):
                async with asyncio.timeout(self._seconds_max):
                    await asyncio.wait({answer})
            return await answer
        except TimeoutError as error:
            if answer.done():
                raise
            raise Unavailable(
                f"This took longer than {self._seconds_max:g} seconds; it may still be done.",
                code="deadline",
                hint="Ask again, with the same idempotency key where you gave one.",
            ) from error
        finally:
            # What still waits for its turn is not begun.
            future.cancel()

    def close(self) -> None:
        """Take on nothing more; what is under way ends by itself."""
        self._pool.shutdown(wait=False, cancel_futures=True)
