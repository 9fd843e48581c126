"""What is told of the keeping of stores: of checks, backups, restores and moves."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

Progress = Callable[[float], None]
"""Told how far something long has come, 0..1."""


def ignore_progress(_fraction: float) -> None:
    """Take no notice of progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing a store's self-check looked at."""

    check: str
    is_sound: bool
    detail: str
    hint: str = ""
    """The next step, where there is one; what is sound and has a hint is a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """What a file holds, as far as people tell stores apart by it."""

    memories: int
    """Current ones: active and archived."""
    newest_at: datetime | None
    """When the newest of any state was recorded."""
    schema_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A backup that was written, verified and made durable."""

    path: str
    size_bytes: int
    memories: int
    newest_at: datetime | None
    schema_version: str
    digest: str
    """SHA-256 of the file, as `sha256sum` prints it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What a restore would put in the place of what."""

    file: str
    store: str
    comes: Holdings
    goes: Holdings | None
    """None: there is no store yet, or it cannot be read."""
    trouble: str | None = None
    """Why the present store cannot be read; it is kept nevertheless."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """A store that was put in place; what was there before lies beside it."""

    store: str
    memories: int
    newest_at: datetime | None
    kept: str | None
    """Where the store that was replaced is; None when there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeResult:
    """A store on a server that was brought to this program's schema."""

    store: str
    schema_version: str
    roles: tuple[str, ...]
    """Who may open it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributeResult:
    """What distributes a store on a server by tenant over many machines, in its order."""

    store: str
    flat: tuple[str, ...]
    """Statements of plain Postgres, in one transaction."""
    spread: tuple[str, ...]
    """Statements for Citus, each in a transaction of its own."""
    was_complete: bool
    """Whether nothing was left to do but to tell functions to every machine again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """The rows of one table of one tenant, in the store that is copied."""

    tenant: str
    table: str
    rows: int
    there: int
    """Rows that the destination had before, as an interrupted copy left them."""
    digest: str | None = None
    """What both stores have, computed over the rows whatever their order; None before a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCopy:
    """What a copy of a store brings, or, with digests, what it brought and verified."""

    source: str
    destination: str
    tables: tuple[CopiedTable, ...]

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return sum(one.rows for one in self.tables)

    @property
    def there(self) -> int:
        """How many of them the destination had before."""
        return sum(one.there for one in self.tables)
