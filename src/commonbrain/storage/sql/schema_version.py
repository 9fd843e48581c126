"""The schema version: whether a database is a store, and upgrading it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from commonbrain.model.errors import StoreCorruptError
from commonbrain.model.values import dataclass
from commonbrain.storage.schema.memories import OURS
from commonbrain.storage.schema.types import UnreadableValueError

SCHEMA_VERSION: Final = "0028"
"""The newest migration; a test holds it to Alembic's head."""
VERSIONS: Final = text("SELECT version_num FROM alembic_version")
READABLE_FROM: Final = "0023"
"""The oldest version whose programs may use this schema on a server, while they are replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSchema:
    """What an engine adds to the migrations, which are shared by all engines."""

    tables: frozenset[str] = frozenset()
    """Tables that its statements make; the baseline leaves them out."""
    statements: Mapping[str, Sequence[str]]
    """What it runs after each migration, by version; never changed, as the migrations are not."""


def version_of(connection: Connection, location: str) -> str | None:
    """Return the schema version; None for an empty database.

    Raises:
        StoreCorruptError: it belongs to another program.
        UnreadableValueError: it names no version, or several.

    """
    names = set(inspect(connection).get_table_names())
    if not names:
        return None
    # Other programs use Alembic too.
    if not names.issuperset(OURS):
        raise StoreCorruptError(
            f"{location} is a database of another program.",
            code="store_foreign",
            hint="Choose another file with --store or COMMONBRAIN_STORE.",
        )
    return only_version(connection.execute(VERSIONS).scalars().all())


def only_version(versions: Sequence[str]) -> str:
    """Return the version of a store from its rows, of which there is one.

    Raises:
        UnreadableValueError: there is none, or several, after an interrupted change by hand.

    """
    if len(versions) != 1:
        raise UnreadableValueError(f"it names {len(versions)} schema versions instead of one")
    return versions[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrations:
    """The migrations of a folder, which lead from the oldest version to the newest."""

    folder: Path = Path(__file__).parents[1] / "migrations"
    newest: str = SCHEMA_VERSION
    oldest: str = "0023"
    """The baseline; versions of development stores, 0001 to 0022, sort before it."""

    def check_upgradable(self, version: str | None, location: str) -> None:
        """Refuse a store that a later version has upgraded, or that no migration leads from.

        Raises:
            StoreCorruptError: it is newer (`store_newer`), or was made before the first release
                (`store_older`); it was left as found.

        """
        if version is not None and version < self.oldest:
            raise StoreCorruptError(
                f"{location} has schema version {version} of a development version; this program "
                f"upgrades from {self.oldest} on.",
                code="store_older",
                hint="Export it with the version of Commonbrain that made it (`brain export`), "
                "then import the archive into a new store (`brain import`).",
            )
        if version is not None and version > self.newest:
            raise StoreCorruptError(
                f"{location} has schema version {version}; this program knows up to {self.newest}.",
                code="store_newer",
                hint="Upgrade Commonbrain.",
            )

    def upgrade(self, connection: Connection, engine: EngineSchema) -> None:
        """Run the missing migrations, in the transaction of a connection."""
        # Only a new or an older store pays for loading the migration tool.
        from alembic import command  # noqa: PLC0415
        from alembic.config import Config  # noqa: PLC0415

        config = Config()
        config.set_main_option("script_location", str(self.folder).replace("%", "%%"))
        config.attributes.update(connection=connection, engine=engine)
        command.upgrade(config, "head")


MIGRATIONS: Final = Migrations()
"""The migrations of this version."""
