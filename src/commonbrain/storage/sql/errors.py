"""The only translation of driver errors into Commonbrain's."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import exc

from commonbrain.model.errors import CommonbrainError, StoreCorruptError, UnavailableError

_READ_ONLY = "25006"
"""The Postgres error for a write where writing is not allowed, as on a replica."""
_FULL = frozenset({"53100", "SQLITE_FULL"})
"""The errors of Postgres and SQLite for a full disk."""


_NAMES = ("sqlstate", "sqlite_errorname")
"""Attributes in which the drivers give the error code."""


@dataclass(slots=True)
class StatementInProgress:
    """The progress of a transaction."""

    is_ending: bool = False
    """Set when only the commit is left, whose reply may be lost."""


@contextmanager
def map_driver_errors(location: str) -> Generator[StatementInProgress]:
    """Translate driver errors.

    Raises:
        UnavailableError: locked for too long, full, read-only, or not accessible; rolled back. If
            the connection was lost during the commit, the outcome is unknown, and the message says
            so.
        StoreCorruptError: damaged, or not a database; rolled back.

    """
    under_way = StatementInProgress()
    try:
        yield under_way
    except CommonbrainError:
        raise
    except exc.IntegrityError:
        # A violated constraint is a bug of this program, not of the store.
        raise
    except (exc.OperationalError, exc.TimeoutError) as error:
        if (
            under_way.is_ending
            and isinstance(error, exc.DBAPIError)
            and error.connection_invalidated
        ):
            raise UnavailableError(
                f"The store {location} was lost before it said that all is kept: it may be.",
                hint="Look whether it was done, or ask again with the same idempotency key.",
            ) from error
        if _FULL & {getattr(getattr(error, "orig", None), name, None) for name in _NAMES}:
            raise UnavailableError(
                f"The store {location} is full: {cause_of(error)}.",
                code="store_full",
                hint="Nothing was changed, and reading still works. Free space on the "
                "disk of the store; writing then works again.",
            ) from error
        raise UnavailableError(
            f"The store {location} did not answer: {cause_of(error)}.",
            hint="Nothing was changed. Check that it is writable and not full, then try again.",
        ) from error
    except exc.DatabaseError as error:
        if getattr(error.orig, "sqlstate", None) == _READ_ONLY:
            raise UnavailableError(
                f"The store {location} is read-only.",
                code="store_read_only",
                hint="Nothing was written. It can be recalled from; write to the primary server.",
            ) from error
        if type(error) is not exc.DatabaseError:
            # An invalid statement or a missing driver feature is a bug of this program.
            raise
        raise StoreCorruptError(
            f"The store {location} cannot be read: {cause_of(error)}.",
            hint="Nothing was changed. `brain doctor` says what can be repaired; what cannot is "
            "replaced by `brain restore FILE`, which keeps it.",
        ) from error


def cause_of(error: exc.SQLAlchemyError) -> str:
    """Return the driver's message, without the statement and its parameters."""
    if not isinstance(error, exc.DBAPIError):
        return str(error).rstrip(".")
    diagnostics = getattr(error.orig, "diag", None)
    return str((diagnostics and diagnostics.message_primary) or error.orig).rstrip(".")
