"""The errors of Postgres, translated once."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from sqlalchemy import exc

from commonbrain.model.errors import UnavailableError
from commonbrain.model.values import dataclass
from commonbrain.storage.sql.context import (
    StatementInProgress,
    full_error,
    map_driver_errors,
    unavailable_error,
)

_READ_ONLY: Final = "25006"
"""A write where writing is not allowed, as on a replica."""
_INTERNAL: Final = "XX000"
"""A bug in a server. Citus also gives it if another server was lost, even during the commit."""
_FULL: Final = "53100"
"""A full disk."""


@dataclass(slots=True)
class ServerStatement(StatementInProgress):
    """The progress of a transaction on a server."""

    is_distributed: bool = False
    """Whether Citus runs statements on other servers, which may be lost."""


@contextmanager
def map_postgres_errors(
    location: str, *, is_distributed: bool = False
) -> Generator[ServerStatement]:
    """Translate driver errors.

    An internal error means a lost server if the store is distributed; otherwise it is not
    translated.

    Raises:
        UnavailableError: locked for too long, full, read-only, or not accessible; rolled back. If
            the connection was lost during the commit, the outcome is unknown, and the message says
            so.
        StoreCorruptError: damaged; rolled back.

    """
    progress = ServerStatement(is_distributed=is_distributed)
    with map_driver_errors(location) as shared:
        try:
            yield progress
        except exc.DatabaseError as error:
            shared.is_ending = progress.is_ending
            sqlstate = getattr(error.orig, "sqlstate", None)
            if sqlstate == _READ_ONLY:
                raise UnavailableError(
                    f"The store {location} is read-only.",
                    code="store_read_only",
                    hint="Nothing was written. It can be recalled from; write to the primary "
                    "server.",
                ) from error
            if sqlstate == _FULL:
                raise full_error(location, error) from error
            if sqlstate == _INTERNAL and progress.is_distributed:
                may_be_done = progress.is_ending
                raise unavailable_error(location, error, may_be_done=may_be_done) from error
            raise
