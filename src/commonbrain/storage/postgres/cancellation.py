"""Connections that are let go when nobody waits for the answer any more, or none will come.

A server that is gone without a word is noticed by TCP; one behind something that still acknowledges
every packet is not, and the thread that asked it would be taken for ever.
"""

from __future__ import annotations

from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, ExceptionContext, event, exc

from commonbrain.clock import UNTIL
from commonbrain.model.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator

    from psycopg.abc import PQGen

_T = TypeVar("_T")
_LATE_S: Final = 2.0
"""How much later than the server gives a statement up its word of that may come."""


class Abandoned(psycopg.OperationalError):
    """A connection was closed in the middle of a statement, because the caller had no more time."""


class CancellableConnection(psycopg.Connection[Any]):
    """A connection that is closed when an answer is not there in time."""

    silence_s: float | None = None
    """The longest wait for an answer, None for as long as it takes."""

    def wait(self, gen: PQGen[_T], *given: Any, **named: Any) -> _T:  # noqa: ANN401 as it has it
        """Wait for an answer, but no longer than the caller of all this does.

        Raises:
            LetGo: nobody waits for it any more; the connection is closed.
            psycopg.OperationalError: it is overdue, and the connection is closed; or it failed.

        """
        if len(given) > 1 or named.get("timeout") is not None:
            # The driver has an end of its own in mind.
            return super().wait(gen, *given, **named)
        since, called_off = monotonic(), UNTIL.get()
        ends = [one for one in (called_off, self._overdue(since)) if one is not None]
        if not ends:
            return super().wait(gen, *given, **named)
        try:
            # What is there already is taken even by who comes too late.
            left_s = max(min(ends) - since, 0.0)
            return super().wait(gen, *given, **{**named, "timeout": left_s})
        except psycopg.OperationalError as error:
            now = monotonic()
            if now < min(ends):
                raise
            self.close()
            if called_off is not None and now >= called_off:
                raise Abandoned("whoever asked waits no longer") from error
            raise psycopg.OperationalError("no word came from the server in time") from error

    def _overdue(self, since: float) -> float | None:
        return None if self.silence_s is None else since + self.silence_s


def silence_after(statement_s: float) -> float | None:
    """Say how long to wait for a server that gives a statement up after so long; 0 is never."""
    return statement_s + _LATE_S if statement_s else None


def wire(engine: Engine, *, silence_s: float | None) -> None:
    """Let a pool be of connections that wait so long for an answer; None, as long as it takes."""

    def connect(*told: Any) -> CancellableConnection:  # noqa: ANN401 of the driver's own
        given, named = told[2:]
        made = CancellableConnection.connect(*given, **named)
        made.silence_s = silence_s
        return made

    event.listen(engine, "do_connect", connect)
    event.listen(engine, "handle_error", _keep_others)


@contextmanager
def as_alchemy_s(connection: Connection, statement: str) -> Generator[Any]:
    """Give a cursor of the driver's own, whose errors are told as those of every statement.

    Raises:
        exc.DBAPIError: whatever the driver raises.

    """
    cursor = connection.connection.cursor()
    try:
        yield cursor
    except psycopg.Error as error:
        dialect = connection.dialect
        told = exc.DBAPIError.instance(
            statement, None, error, psycopg.Error, hide_parameters=True, dialect=dialect
        )
        raise told from error
    finally:
        cursor.close()


def check_awaited() -> None:
    """Begin nothing for a caller who has gone.

    Raises:
        UnavailableError: `deadline`.

    """
    until = UNTIL.get()
    if until is not None and monotonic() >= until:
        raise UnavailableError(
            "Whoever asked waits no longer; nothing more was begun.",
            code="deadline",
            hint="Ask again, with the same idempotency key where you gave one.",
        )


def _keep_others(context: ExceptionContext) -> None:
    """Keep the other connections when one was let go: they may be as sound as ever."""
    if isinstance(context.original_exception, Abandoned):
        context.invalidate_pool_on_disconnect = False
