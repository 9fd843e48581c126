"""Statements that a thread sends to a database, by SQLAlchemy or by its driver."""

import re
from collections.abc import Generator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import psycopg
from sqlalchemy import event
from sqlalchemy.pool import Pool

_VALUE = re.compile(r"'(?:[^']|'')*'|\b\d+(?:\.\d+)?\b|x'[0-9a-f]*'", re.IGNORECASE)


ROWS = "/* rows:"
"""What follows a statement where it is known whether it found any."""


@contextmanager
def statements() -> Generator[list[str]]:
    """Gather the statements of this thread, without values; others write journal and audit."""
    made: list[str] = []
    here = get_ident()

    def take(statement: str) -> None:
        # SQLite reports it again each time that it waits for its turn.
        if get_ident() == here and statement != "BEGIN IMMEDIATE":
            made.append(_VALUE.sub("?", statement))

    class Recording(psycopg.Cursor[Any]):
        """A cursor that records its statements."""

        def execute(self, query: Any, *given: Any, **more: Any) -> "Recording":  # noqa: ANN401
            """Record it, and run it."""
            super().execute(query, *given, **more)
            statement = query if isinstance(query, str) else query.as_string(self)
            take(f"{statement} {ROWS} {'some' if self.rowcount else 'no'}")
            return self

        def executemany(self, query: Any, *given: Any, **more: Any) -> None:  # noqa: ANN401
            """Record it, and run it."""
            take(str(query))
            super().executemany(query, *given, **more)

    def listen(connection: Any, *_: object) -> None:  # noqa: ANN401 either driver's
        if isinstance(connection, psycopg.Connection):
            connection.cursor_factory = Recording
        else:
            connection.set_trace_callback(take)

    def leave(connection: Any, *_: object) -> None:  # noqa: ANN401 either driver's
        if isinstance(connection, psycopg.Connection):
            connection.cursor_factory = psycopg.Cursor
        elif connection is not None:
            connection.set_trace_callback(None)

    event.listen(Pool, "checkout", listen)
    event.listen(Pool, "checkin", leave)
    try:
        yield made
    finally:
        event.remove(Pool, "checkout", listen)
        event.remove(Pool, "checkin", leave)
