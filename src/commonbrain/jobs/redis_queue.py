"""Job queue shared by many processes: huey's Redis storage, used for plain messages only.

Huey pickles its tasks, so anyone who can write to Redis could run code in a worker. Messages here
hold two plain words instead; workers read the job from the store.
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
"""Above the time that a worker blocks for a message, which Redis limits itself."""
_TICKETS_MAX: Final = 100_000
"""Past it messages are dropped: without workers, jobs are found later by polling."""


class RedisQueue:
    """Messages in a Redis list."""

    def __init__(self, url: str) -> None:
        """Create the client; connects on first use.

        Raises:
            InvalidInputError: The URL is not a Redis URL.

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
        # Neither library has type annotations.
        self._storage: Any = RedisStorage(_NAME, connection_pool=pool, read_timeout=1)

    def put(self, ticket: QueueMessage) -> None:
        """Notify a worker."""
        with _translated():
            if self._storage.queue_size() < _TICKETS_MAX:
                self._storage.enqueue(json.dumps([ticket.tenant, ticket.job]).encode())

    def take(self) -> QueueMessage | None:
        """Return a message, or None after a second or if it is invalid."""
        with _translated():
            taken: bytes | None = self._storage.dequeue()
        return None if taken is None else _read(taken)

    def close(self) -> None:
        """Close all connections."""
        self._pool.disconnect()


def _read(taken: bytes) -> QueueMessage | None:
    """Parse a message; foreign data is ignored."""
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
