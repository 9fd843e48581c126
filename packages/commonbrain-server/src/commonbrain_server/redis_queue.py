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
_PUT_S: Final = 0.25
"""Timeout of a notification: a caller waits for it, and polling finds the job without it."""
_CONNECT_S: Final = 1.0
_TAKE_S: Final = 3.0
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
        self._sender = _storage(url, connect_s=_PUT_S, answer_s=_PUT_S)
        self._receiver = _storage(url, connect_s=_CONNECT_S, answer_s=_TAKE_S)

    def put(self, ticket: QueueMessage) -> None:
        """Notify a worker."""
        with _translated():
            if self._sender.queue_size() < _TICKETS_MAX:
                self._sender.enqueue(json.dumps([ticket.tenant, ticket.job]).encode())

    def take(self) -> QueueMessage | None:
        """Return a message, or None after a second or if it is invalid."""
        with _translated():
            taken: bytes | None = self._receiver.dequeue()
        return None if taken is None else _read(taken)

    def close(self) -> None:
        """Close all connections."""
        for storage in (self._sender, self._receiver):
            storage.pool.disconnect()


def _storage(url: str, *, connect_s: float, answer_s: float) -> Any:  # noqa: ANN401 it has no types
    """Create a client with timeouts of its own; connects on first use."""
    try:
        pool: Any = ConnectionPool.from_url(  # pyright: ignore[reportUnknownMemberType]
            url, socket_connect_timeout=connect_s, socket_timeout=answer_s
        )
    except ValueError:
        # The error would repeat the URL, which may hold a password.
        raise InvalidInputError(
            "COMMONBRAIN_REDIS_URL is no URL of a Redis.",
            hint="It looks like redis://HOST:6379/0, or rediss:// with TLS.",
        ) from None
    return RedisStorage(_NAME, connection_pool=pool, read_timeout=1)


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
