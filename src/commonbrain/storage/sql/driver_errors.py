"""The errors of the drivers, translated once."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from typing import Final, Protocol

from sqlalchemy import exc

from commonbrain.model.errors import CommonbrainError, StoreCorruptError, UnavailableError
from commonbrain.model.values import dataclass
from commonbrain.storage.schema.types import UnreadableValueError

_FULL: Final = "SQLITE_FULL"
"""The error of SQLite for a full disk."""


@dataclass(slots=True)
class StatementInProgress:
    """The progress of a transaction."""

    is_ending: bool = False
    """Set when only the commit is left, whose reply may be lost."""


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
    location: str,
    report_damage: ReportDamage | None = None,
    *,
    find_damage: Callable[[], str | None] = lambda: None,
) -> Generator[StatementInProgress]:
    """Translate driver errors.

    Args:
        location: where the store is, for messages.
        report_damage: makes the error for a damaged store.
        find_damage: looks for the damage that may be behind a violated constraint.

    Raises:
        UnavailableError: locked for too long, full, read-only, or not accessible; rolled back. If
            the connection was lost during the commit, the outcome is unknown, and the message says
            so.
        StoreCorruptError: damaged, or not a database; rolled back.

    """
    under_way = StatementInProgress()
    report = report_damage or partial(corrupt_error, location)
    try:
        yield under_way
    except CommonbrainError:
        raise
    except exc.IntegrityError as error:
        damage = find_damage()
        if damage is None:
            # A violated constraint is a bug of this program, not of the store.
            raise
        raise report(damage) from error
    except (UnreadableValueError, UnicodeDecodeError) as error:
        # The driver cannot decode SQLite's message where that quotes a damaged schema.
        is_value = isinstance(error, UnreadableValueError)
        raise report(str(error) if is_value else "its schema is damaged") from error
    except (exc.OperationalError, exc.TimeoutError) as error:
        damage = damage_in(str(getattr(error, "orig", "")))
        if damage is not None:
            raise report(damage) from error
        if getattr(getattr(error, "orig", None), "sqlite_errorname", None) == _FULL:
            raise full_error(location, error) from error
        is_lost = isinstance(error, exc.DBAPIError) and error.connection_invalidated
        raise unavailable_error(
            location, error, may_be_done=is_lost and under_way.is_ending
        ) from error
    except exc.DatabaseError as error:
        if type(error) is not exc.DatabaseError:
            # A bug: an invalid statement, a missing driver feature, or an internal error.
            raise
        is_derived = getattr(error.orig, "sqlite_errorname", None) == _DERIVED
        raise report(cause_of(error), is_derived=is_derived) from error


_DERIVED: Final = "SQLITE_CORRUPT_VTAB"
"""The error of SQLite for a damaged full text."""


def unavailable_error(
    location: str, error: exc.SQLAlchemyError, *, may_be_done: bool = False
) -> UnavailableError:
    """Return the error for a store that did not run a statement, or was lost during a commit."""
    if may_be_done:
        return UnavailableError(
            f"The connection to {location} was lost during the commit: it may have succeeded.",
            hint="Check whether it was done, or retry with the same idempotency key.",
        )
    return UnavailableError(
        f"The store {location} did not answer: {cause_of(error)}.",
        hint="Nothing was changed. Check that it is writable and not full, then try again.",
    )


def full_error(location: str, error: exc.SQLAlchemyError) -> UnavailableError:
    """Return the error for a store whose disk is full."""
    return UnavailableError(
        f"The store {location} is full: {cause_of(error)}.",
        code="store_full",
        hint="Nothing was changed, and reading still works. Free space on the "
        "disk of the store; writing then works again.",
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
