"""Threads for foreign code that may hang, and what a forked child, which has none, must do."""

from __future__ import annotations

import os
from collections import deque
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

Answer = TypeVar("Answer")


class DetachedExecutor:
    """A bounded pool whose threads end when idle; excess tasks wait.

    Cancel the future of a task that is no longer needed: if it has not started, it never does.
    """

    def __init__(self, threads: int, *, name: str) -> None:
        """Use at most that many threads, with this name."""
        self._threads = threads
        self._name = name
        self._lock = Lock()
        self._working = 0
        self._waiting: deque[tuple[Future[Any], Callable[[], None]]] = deque()

    def submit(self, task: Callable[[], Answer]) -> Future[Answer]:
        """Run a task; its error is that of the future."""
        # Every command imports this module, and few run foreign code.
        from concurrent.futures import Future  # noqa: PLC0415

        future: Future[Answer] = Future()

        def work() -> None:
            try:
                future.set_result(task())
            except BaseException as error:  # noqa: BLE001 it is foreign code, and may panic
                future.set_exception(error)

        with self._lock:
            # Even if all threads hang, cancelled tasks are released.
            live = (one for one in self._waiting if not one[0].cancelled())
            if self._working < self._threads:
                # It starts when the lock is released; if no thread can be created, nothing has
                # changed.
                Thread(target=self._work, daemon=True, name=self._name).start()
                self._working += 1
            self._waiting = deque([*live, (future, work)])
        return future

    def close(self) -> None:
        """Cancel tasks that have not started, without waiting for the others."""
        with self._lock:
            for future, _ in self._waiting:
                future.cancel()
            self._waiting.clear()

    def _work(self) -> None:
        while (work := self._next()) is not None:
            work()

    def _next(self) -> Callable[[], None] | None:
        """Return the oldest task that was not cancelled; None if there is none."""
        with self._lock:
            while self._waiting:
                future, work = self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    return work
            self._working -= 1
            return None


def after_fork(act: Callable[[], None]) -> None:
    """Call a function in every forked child; never on systems that cannot fork.

    A lock that another thread held stays locked there for ever, and SQLite cannot be used across a
    fork: https://sqlite.org/howtocorrupt.html#_carrying_an_open_database_file_across_a_fork
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=act)
