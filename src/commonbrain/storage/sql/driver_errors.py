"""The errors of the drivers, translated once."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

from sqlalchemy import exc

from commonbrain.model.errors import CommonbrainError, StoreCorruptError, UnavailableError
from commonbrain.model.values import dataclass
from commonbrain.storage.schema.types import UnreadableValueError

_READ_ONLY = "25006"
"""The Postgres error for a write where writing is not allowed, as on a replica."""
_INTERNAL = "XX000"
"""The Postgres error for a bug in a server. Citus also gives it if another server was lost, even
during the commit."""
_FULL = frozenset({"53100", "SQLITE_FULL"})
"""The errors of Postgres and SQLite for a full disk."""


_NAMES = ("sqlstate", "sqlite_errorname")
"""Attributes in which the drivers give the error code."""


@dataclass(slots=True)
class StatementInProgress:
    """The progress of a transaction."""

    is_ending: bool = False
    """Set when only the commit is left, whose reply may be lost."""
    is_distributed: bool = False
    """Whether Citus runs statements on other servers, which may be lost."""


class ReportDamage(Protocol):
    """Makes the error for a damaged store, of the cause."""

    def __call__(self, cause: str, *, is_derived: bool = False) -> StoreCorruptError:
        """Return the error; what is derived from the rows can be repaired in place."""
        ...


def corrupt_error(location: str, cause: str, *, is_derived: bool = False) -> StoreCorruptError:  # noqa: ARG001
    """Return the error for a damaged store whose backups are not known."""
    return StoreCorruptError(
        f"The store {location} cannot be read: {cause}.",
        hint="Nothing was changed. `brain doctor` says what can be repaired; the rest comes from a "
        "backup.",
    )


@contextmanager
def map_driver_errors(
    location: str, report_damage: ReportDamage | None = None, *, is_distributed: bool = False
) -> Generator[StatementInProgress]:
    """Translate driver errors.

    An internal error of Postgres means a lost server if the store is distributed; otherwise it is
    not translated.

    Raises:
        UnavailableError: locked for too long, full, read-only, or not accessible; rolled back. If
            the connection was lost during the commit, the outcome is unknown, and the message says
            so.
        StoreCorruptError: damaged, or not a database; rolled back.

    """
    under_way = StatementInProgress(is_distributed=is_distributed)
    report = report_damage or partial(corrupt_error, location)
    try:
        yield under_way
    except CommonbrainError:
        raise
    except exc.IntegrityError:
        # A violated constraint is a bug of this program, not of the store.
        raise
    except (UnreadableValueError, UnicodeDecodeError) as error:
        # The driver cannot decode SQLite's message where that quotes a damaged schema.
        is_value = isinstance(error, UnreadableValueError)
        raise report(str(error) if is_value else "its schema is damaged") from error
    except (exc.OperationalError, exc.TimeoutError) as error:
        damage = damage_in(str(getattr(error, "orig", "")))
        if damage is not None:
            raise report(damage) from error
        raise _unavailable(location, error, is_ending=under_way.is_ending) from error
    except exc.DatabaseError as error:
        sqlstate = getattr(error.orig, "sqlstate", None)
        if sqlstate == _READ_ONLY:
            raise UnavailableError(
                f"The store {location} is read-only.",
                code="store_read_only",
                hint="Nothing was written. It can be recalled from; write to the primary server.",
            ) from error
        if sqlstate == _INTERNAL and under_way.is_distributed:
            raise _unavailable(location, error, is_ending=under_way.is_ending) from error
        if type(error) is not exc.DatabaseError:
            # A bug: an invalid statement, a missing driver feature, or an internal error.
            raise
        is_derived = getattr(error.orig, "sqlite_errorname", None) == _DERIVED
        raise report(cause_of(error), is_derived=is_derived) from error


_DERIVED: Final = "SQLITE_CORRUPT_VTAB"
"""The error of SQLite for a damaged full text."""


def _unavailable(
    location: str, error: exc.DatabaseError | exc.TimeoutError, *, is_ending: bool
) -> UnavailableError:
    """Return the error for a store that did not run a statement."""
    is_lost = isinstance(error, exc.DBAPIError) and (
        error.connection_invalidated or getattr(error.orig, "sqlstate", None) == _INTERNAL
    )
    if is_ending and is_lost:
        return UnavailableError(
            f"The connection to {location} was lost during the commit: it may have succeeded.",
            hint="Check whether it was done, or retry with the same idempotency key.",
        )
    if _FULL & {getattr(getattr(error, "orig", None), name, None) for name in _NAMES}:
        return UnavailableError(
            f"The store {location} is full: {cause_of(error)}.",
            code="store_full",
            hint="Nothing was changed, and reading still works. Free space on the "
            "disk of the store; writing then works again.",
        )
    return UnavailableError(
        f"The store {location} did not answer: {cause_of(error)}.",
        hint="Nothing was changed. Check that it is writable and not full, then try again.",
    )


_UNDECODED: Final = "Could not decode to UTF-8"
"""How Python's driver begins its error for a text of invalid UTF-8, which it quotes."""
_FOREIGN_SCHEMA: Final = ("unsupported file format", "no such table", "no such column")
"""How SQLite begins its errors for a schema that is not the one that was written."""


def damage_in(message: str) -> str | None:
    """Return which damage SQLite reports as a failed operation; None if it is none."""
    if message.startswith(_UNDECODED):
        return "a text is not valid UTF-8"
    return message if message.startswith(_FOREIGN_SCHEMA) else None


def cause_of(error: exc.SQLAlchemyError) -> str:
    """Return the driver's message, without the statement and its parameters."""
    if not isinstance(error, exc.DBAPIError):
        return str(error).rstrip(".")
    diagnostics = getattr(error.orig, "diag", None)
    return str((diagnostics and diagnostics.message_primary) or error.orig).rstrip(".")
