"""Connections that are closed when the caller no longer waits, or no reply will come.

TCP detects a server that is gone, but not one behind something that still acknowledges packets, and
the waiting thread would be lost.
"""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, ExceptionContext, event, exc

from commonbrain.clock import UNTIL

if TYPE_CHECKING:
    from collections.abc import Generator

    from psycopg.abc import PQGen

_T = TypeVar("_T")
_LATE_S: Final = 2.0
"""Seconds after the server's statement timeout before its error counts as overdue."""


class Abandoned(psycopg.OperationalError):
    """A connection was closed during a statement, because the caller's deadline passed."""


class CancellableConnection(psycopg.Connection[Any]):
    """A connection that is closed if a reply does not arrive in time."""

    silence_s: float | None = None
    """The longest wait for a reply; None is unlimited."""

    def wait(self, gen: PQGen[_T], *given: Any, **named: Any) -> _T:  # noqa: ANN401 as it has it
        """Wait for a reply, at most until the caller's deadline.

        Raises:
            Abandoned: the deadline passed; the connection is closed. psycopg.OperationalError: the
                reply is overdue, and the connection is closed; or it failed.

        """
        if len(given) > 1 or named.get("timeout") is not None:
            # The driver has a timeout of its own.
            return super().wait(gen, *given, **named)
        since, called_off = monotonic(), UNTIL.get()
        overdue = None if self.silence_s is None else since + self.silence_s
        ends = [one for one in (called_off, overdue) if one is not None]
        if not ends:
            return super().wait(gen, *given, **named)
        try:
            # A reply that has arrived is taken even after the deadline.
            left_s = max(min(ends) - since, 0.0)
            return super().wait(gen, *given, **{**named, "timeout": left_s})
        except psycopg.OperationalError as error:
            now = monotonic()
            if now < min(ends):
                raise
            self.close()
            if called_off is not None and now >= called_off:
                raise Abandoned("the caller no longer waits") from error
            raise psycopg.OperationalError("no word came from the server in time") from error


def silence_after(statement_s: float) -> float | None:
    """Return how long to wait for a server with this statement timeout; 0 is unlimited."""
    return statement_s + _LATE_S if statement_s else None


def wire(engine: Engine, *, silence_s: float | None) -> None:
    """Use such connections in a pool; None waits without limit."""

    def connect(*arguments: Any) -> CancellableConnection:  # noqa: ANN401 of the driver's own
        given, named = arguments[2:]
        made = CancellableConnection.connect(*given, **named)
        made.silence_s = silence_s
        return made

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "handle_error", _retain_others)


@contextmanager
def as_alchemy_s(connection: Connection, statement: str) -> Generator[Any]:
    """Yield a cursor of the driver whose errors are translated like those of every statement.

    Raises:
        exc.DBAPIError: whatever the driver raises.

    """
    driver: Any = connection.connection.dbapi_connection
    cursor = connection.connection.cursor()
    try:
        yield cursor
    except psycopg.Error as error:
        dialect = connection.dialect
        if driver.closed:
            # Otherwise the pool would roll back over it, and log a traceback.
            connection.invalidate(error)
        translated = exc.DBAPIError.instance(
            statement,
            None,
            error,
            psycopg.Error,
            hide_parameters=True,
            connection_invalidated=driver.closed,
            dialect=dialect,
        )
        raise translated from error
    finally:
        cursor.close()


def _retain_others(context: ExceptionContext) -> None:
    """Keep the other connections when one is closed; they may be fine."""
    if isinstance(context.original_exception, Abandoned):
        context.invalidate_pool_on_disconnect = False
