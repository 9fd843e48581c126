"""Job queue shared by many processes: a Redis list of messages, which name jobs of the store."""

import json
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from redis import ConnectionPool, Redis
from redis.exceptions import RedisError

from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.jobs import QueueMessage
from commonbrain_server.security.key_texts import check_tenant_name

_LIST: Final = "commonbrain.jobs"
_PUT_S: Final = 0.25
"""Timeout of a notification: a caller waits for it, and polling finds the job without it."""
_CONNECT_S: Final = 1.0
_WAIT_S: Final = 1
"""How long a worker blocks for a message; Redis limits it itself."""
_TAKE_S: Final = 3.0
"""Above the time that a worker blocks."""
_TICKETS_MAX: Final = 100_000
"""Past it messages are dropped: without workers, jobs are found later by polling."""


class RedisQueue:
    """Messages in a Redis list."""

    def __init__(self, url: str) -> None:
        """Create the client; connects on first use.

        Raises:
            InvalidInputError: The URL is not a Redis URL.

        """
        self._sender = _client(url, connect_s=_PUT_S, answer_s=_PUT_S)
        self._receiver = _client(url, connect_s=_CONNECT_S, answer_s=_TAKE_S)

    def put(self, ticket: QueueMessage) -> None:
        """Notify a worker."""
        with _translated():
            if self._sender.llen(_LIST) < _TICKETS_MAX:
                self._sender.lpush(_LIST, json.dumps([ticket.tenant, ticket.job]))

    def take(self) -> QueueMessage | None:
        """Return a message, or None after a second or if it is invalid."""
        with _translated():
            taken: tuple[bytes, bytes] | None = self._receiver.brpop([_LIST], timeout=_WAIT_S)
        return None if taken is None else _read(taken[1])

    def close(self) -> None:
        """Close all connections."""
        for client in (self._sender, self._receiver):
            client.connection_pool.disconnect()


def _client(url: str, *, connect_s: float, answer_s: float) -> Any:  # noqa: ANN401 of many types
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
    return Redis(connection_pool=pool)


def _read(taken: bytes) -> QueueMessage | None:
    """Parse a message of two plain words; foreign data is ignored, and never runs anything."""
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
