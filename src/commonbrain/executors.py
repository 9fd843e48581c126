"""Foreign code that may hang works aside: on threads that nobody waits for, not even the end."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock, Thread
from typing import Any, TypeVar

Answer = TypeVar("Answer")


class DetachedExecutor:
    """So many threads at most; what finds none free waits its turn, and none is kept idle.

    Who no longer wants an answer cancels its future: what has not begun then never does.
    """

    def __init__(self, threads: int, *, name: str) -> None:
        """Work on that many threads at most, which bear a name."""
        self._threads = threads
        self._name = name
        self._lock = Lock()
        self._working = 0
        self._waiting: deque[tuple[Future[Any], Callable[[], None]]] = deque()

    def submit(self, task: Callable[[], Answer]) -> Future[Answer]:
        """Have something done; it fails as its future does."""
        future: Future[Answer] = Future()

        def work() -> None:
            try:
                future.set_result(task())
            except BaseException as error:  # noqa: BLE001 it is foreign code, and may panic
                future.set_exception(error)

        with self._lock:
            # Threads that all hang let go of what nobody awaits any more, too.
            live = (one for one in self._waiting if not one[0].cancelled())
            if self._working < self._threads:
                # It begins when this lets go; where there can be none, nothing has changed.
                Thread(target=self._work, daemon=True, name=self._name).start()
                self._working += 1
            self._waiting = deque([*live, (future, work)])
        return future

    def close(self) -> None:
        """Leave undone what has not begun; what is being done is not waited for."""
        with self._lock:
            for future, _ in self._waiting:
                future.cancel()
            self._waiting.clear()

    def _work(self) -> None:
        while (work := self._next()) is not None:
            work()

    def _next(self) -> Callable[[], None] | None:
        """Take what waits longest and is still wanted; None where there is nothing."""
        with self._lock:
            while self._waiting:
                future, work = self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    return work
            self._working -= 1
            return None
