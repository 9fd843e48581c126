"""The queue that many processes share: huey's storage on Redis, which carries tickets only.

Huey's own tasks are pickled, and whoever may write to the Redis could have a worker run anything.
A ticket is two plain words instead, and what it points at is read from the store.
"""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from huey.storage import RedisStorage  # pyright: ignore[reportMissingTypeStubs]
from redis import ConnectionPool
from redis.exceptions import RedisError

from commonbrain.model import ids
from commonbrain.model.agents import check_tenant_name
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.storage.job_queue import QueueMessage

_NAME: Final = "commonbrain"
_CONNECT_S: Final = 1.0
_ANSWER_S: Final = 3.0
"""Longer than a worker waits for a ticket, which the server answers by itself."""
_TICKETS_MAX: Final = 100_000
"""Past it tickets are dropped: where nobody works, the jobs are found by who does so later."""


class RedisQueue:
    """Tickets in one list of a Redis."""

    def __init__(self, url: str) -> None:
        """Connect to nothing yet.

        Raises:
            InvalidInputError: the URL is none of a Redis.

        """
        try:
            pool: Any = ConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
                url, socket_connect_timeout=_CONNECT_S, socket_timeout=_ANSWER_S
            )
        except ValueError:
            # The error would repeat the URL, which may hold a password.
            raise InvalidInputError(
                "COMMONBRAIN_REDIS_URL is no URL of a Redis.",
                hint="It looks like redis://HOST:6379/0, or rediss:// with TLS.",
            ) from None
        self._pool = pool
        # Neither library tells its types.
        self._storage: Any = RedisStorage(_NAME, connection_pool=pool, read_timeout=1)

    def put(self, ticket: QueueMessage) -> None:
        """Tell one of the workers."""
        with _translated():
            if self._storage.queue_size() < _TICKETS_MAX:
                self._storage.enqueue(json.dumps([ticket.tenant, ticket.job]).encode())

    def take(self) -> QueueMessage | None:
        """Give a ticket, or None when there was none for a second or it cannot be read."""
        with _translated():
            taken: bytes | None = self._storage.dequeue()
        return None if taken is None else _read(taken)

    def close(self) -> None:
        """Let go of every connection."""
        self._pool.disconnect()


def _read(taken: bytes) -> QueueMessage | None:
    """Read a ticket; what anybody else put there is passed over."""
    try:
        match json.loads(taken):
            case [str(tenant), int(job)] if 0 <= job <= ids.LAST:
                return QueueMessage(tenant=check_tenant_name(tenant), job=job)
            case _:
                return None
    except (ValueError, RecursionError, InvalidInputError):
        return None


@contextmanager
def _translated() -> Generator[None]:
    try:
        yield
    except RedisError as error:
        raise UnavailableError(
            f"The queue did not answer: {type(error).__name__}.",
            code="queue_down",
            hint="Jobs are found without it, some seconds later. Check COMMONBRAIN_REDIS_URL.",
        ) from error
