"""The queue of a process by itself: who else works on the same store finds the rows."""

import queue
from contextlib import suppress
from typing import Final

from commonbrain.storage.job_queue import QueueMessage

_WAIT_S: Final = 1.0
_TICKETS_MAX: Final = 1000
"""Past it tickets are dropped: the jobs are found all the same."""


class LocalQueue:
    """Tickets in the memory of this process."""

    def __init__(self) -> None:
        self._tickets: queue.Queue[QueueMessage | None] = queue.Queue(_TICKETS_MAX)

    def put(self, ticket: QueueMessage) -> None:
        """Tell a worker of this process, if there is one."""
        with suppress(queue.Full):
            self._tickets.put_nowait(ticket)

    def take(self) -> QueueMessage | None:
        """Give a ticket, or None when there was none for a second."""
        with suppress(queue.Empty):
            return self._tickets.get(timeout=_WAIT_S)
        return None

    def close(self) -> None:
        """Wake who waits."""
        with suppress(queue.Full):
            self._tickets.put_nowait(None)
