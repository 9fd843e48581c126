"""In-process job queue; workers of other processes poll the store."""

import queue
from contextlib import suppress
from typing import Final

from commonbrain.storage.job_queue import QueueMessage

_WAIT_S: Final = 1.0
_TICKETS_MAX: Final = 1000
"""Past it messages are dropped: workers poll the store anyway."""


class LocalQueue:
    """Messages in the memory of this process."""

    def __init__(self) -> None:
        self._tickets: queue.Queue[QueueMessage | None] = queue.Queue(_TICKETS_MAX)

    def put(self, ticket: QueueMessage) -> None:
        """Notify a worker of this process, if any."""
        with suppress(queue.Full):
            self._tickets.put_nowait(ticket)

    def take(self) -> QueueMessage | None:
        """Return a message, or None after a second."""
        with suppress(queue.Empty):
            return self._tickets.get(timeout=_WAIT_S)
        return None

    def close(self) -> None:
        """Wake waiting workers."""
        with suppress(queue.Full):
            self._tickets.put_nowait(None)
