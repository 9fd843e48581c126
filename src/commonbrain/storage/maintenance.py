"""Results of checks, backups, restores, upgrades and copies of stores."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

Progress = Callable[[float], None]
"""Called with the fraction done, 0..1."""


def ignore_progress(_fraction: float) -> None:
    """Ignore progress."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The result of one check of a store."""

    check: str
    is_sound: bool
    detail: str
    hint: str = ""
    """The next step, if any; a sound finding with a hint is a warning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Holdings:
    """The content of a store file, as shown before a restore."""

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
    """Preview of a restore: the backup and the store that it replaces."""

    file: str
    store: str
    comes: Holdings
    goes: Holdings | None
    """None if there is no store or it cannot be read."""
    trouble: str | None = None
    """Why the present store cannot be read; it is kept all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreResult:
    """A restored store; the one that it replaced is kept next to it."""

    store: str
    memories: int
    newest_at: datetime | None
    kept: str | None
    """Path of the replaced store; None if there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UpgradeResult:
    """A store on a server that was upgraded to this program's schema."""

    store: str
    schema_version: str
    roles: tuple[str, ...]
    """Roles that may open it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DistributeResult:
    """The statements that distribute a store by tenant over many machines, in order."""

    store: str
    flat: tuple[str, ...]
    """Statements of plain Postgres, in one transaction."""
    spread: tuple[str, ...]
    """Statements for Citus, each in a transaction of its own."""
    was_complete: bool
    """Whether only functions had to be sent to every machine again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedTable:
    """One table of one tenant in the source of a copy."""

    tenant: str
    table: str
    rows: int
    there: int
    """Rows already in the destination, left by an interrupted copy."""
    digest: str | None = None
    """Digest of the rows in both stores, independent of order; None before a copy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreCopy:
    """A planned copy of a store or, with digests, a verified one."""

    source: str
    destination: str
    tables: tuple[CopiedTable, ...]

    @property
    def rows(self) -> int:
        """Total number of rows."""
        return sum(one.rows for one in self.tables)

    @property
    def there(self) -> int:
        """Number of rows already in the destination."""
        return sum(one.there for one in self.tables)
