"""Runs calls in a bounded number of threads, each with a deadline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from threading import Lock
from time import monotonic
from typing import Final, TypeVar

import anyio

from commonbrain.client import Brain
from commonbrain.clock import UNTIL
from commonbrain.model.errors import UnavailableError
from commonbrain.model.sessions import UNKNOWN, ClientInfo

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
                hint="Ask again, with the same idempotency key where you gave one.",
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


@dataclass(slots=True, kw_only=True)
class Connection:
    """Assigns each call its session; a server creates one for every client.

    A call belongs to the session that the caller names, else to the one that the client reported,
    else to one created for this connection. `find` identifies the client at the first call;
    `reported_session` returns the key that it reported at the start.
    """

    find: Callable[[Brain], ClientInfo] = lambda _: UNKNOWN
    reported_session: Callable[[Brain], str | None] = lambda _: None
    _contact: ClientInfo | None = None
    _last: Brain | None = None
    _lock: Lock = field(default_factory=Lock)

    def view(self, brain: Brain, *, client: str | None = None) -> Brain:
        """Return the brain for the connection's session and project; counts as a heartbeat."""
        with self._lock:
            if self._contact is None:
                self._contact = replace(self.find(brain), client=client)
            last_session = self._last.caller.session if self._last else self.reported_session(brain)
            identified = brain.acting_as(contact=self._contact)
            session = identified.session.meet(last=last_session)
            project = session.project or brain.caller.project
            self._last = identified.acting_as(session=session.key, project=project)
            return self._last

    def close(self) -> None:
        """Record that the client disconnected; written soon, or when the brain is closed."""
        with self._lock:
            if self._last is not None:
                self._last.session.leave()
                self._last = None
