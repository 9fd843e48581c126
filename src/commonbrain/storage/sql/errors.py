"""The only translation of driver errors into those of the house."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import exc

from commonbrain.model.errors import CommonbrainError, StoreCorruptError, UnavailableError

_READ_ONLY = "25006"
"""What Postgres calls a write where nothing may be written, as on a replica."""
_FULL = frozenset({"53100", "SQLITE_FULL"})
"""What Postgres and SQLite call a disk without room."""


_NAMES = ("sqlstate", "sqlite_errorname")
"""Where the two drivers say which error it is."""


@dataclass(slots=True)
class StatementInProgress:
    """How far a transaction has come."""

    is_ending: bool = False
    """Set when everything was done but the commit, whose answer may be lost."""


@contextmanager
def map_driver_errors(location: str) -> Generator[StatementInProgress]:
    """Turn a driver's error into one of the house's, here and nowhere else.

    Raises:
        UnavailableError: locked for too long, full, read-only, or not to be opened; rolled back.
            Where the connection was lost during the commit nobody knows, and the message says so.
        StoreCorruptError: damaged, or not a database at all; rolled back.

    """
    under_way = StatementInProgress()
    try:
        yield under_way
    except CommonbrainError:
        raise
    except exc.IntegrityError:
        # A row that breaks the schema's promises is a fault of ours, not of the store's.
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
                hint="Nothing was changed, and what is stored can be recalled. Make room on the "
                "disk of the store; writing goes on by itself then.",
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
            # A statement that is wrong, or of a driver that lacks something: a fault of ours.
            raise
        raise StoreCorruptError(
            f"The store {location} cannot be read: {cause_of(error)}.",
            hint="Nothing was changed. `brain doctor` says what can be mended; what cannot is "
            "replaced by `brain restore FILE`, which keeps it.",
        ) from error


def cause_of(error: exc.SQLAlchemyError) -> str:
    """Give the driver's own words, without the statement, its parameters and what it was about."""
    if not isinstance(error, exc.DBAPIError):
        return str(error).rstrip(".")
    told = getattr(error.orig, "diag", None)
    return str((told and told.message_primary) or error.orig).rstrip(".")
