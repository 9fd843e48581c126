"""The schema version: whether a database is a store, and upgrading it."""

from pathlib import Path
from typing import Final

from sqlalchemy import Connection, inspect, text

from commonbrain.model.errors import StoreCorruptError
from commonbrain.storage.schema.memories import OURS

SCHEMA_VERSION: Final = "0023"
"""The newest migration; a test holds it to Alembic's head."""
READABLE_FROM: Final = "0012"
"""The oldest version whose programs may use this schema on a server, while they are replaced."""
BASELINE: Final = "0012"
"""The oldest version that can be upgraded; versions of development stores, 0001 to 0011, sort
before it."""
MIGRATIONS: Final = Path(__file__).parents[1] / "migrations"


def version_of(connection: Connection, location: str) -> str | None:
    """Return the schema version; None for an empty database.

    Raises:
        StoreCorruptError: it belongs to another program.

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
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one()


def check_upgradable(version: str | None, location: str) -> None:
    """Refuse a store that a later version has upgraded, or that no migration leads from.

    Raises:
        StoreCorruptError: it is newer (`store_newer`), or was made before the first release
            (`store_older`); it was left as found.

    """
    if version is not None and version < BASELINE:
        raise StoreCorruptError(
            f"{location} has schema version {version} of a development version; this program "
            f"upgrades from {BASELINE} on.",
            code="store_older",
            hint="Export it with the version of Commonbrain that made it (`brain export`), then "
            "import the archive into a new store (`brain import`).",
        )
    if version is not None and version > SCHEMA_VERSION:
        raise StoreCorruptError(
            f"{location} has schema version {version}; this program knows up to {SCHEMA_VERSION}.",
            code="store_newer",
            hint="Upgrade Commonbrain.",
        )


def upgrade(connection: Connection, *, migrations: Path = MIGRATIONS) -> None:
    """Run the missing migrations of a folder, in the transaction of a connection."""
    # Only a new or an older store pays for loading the migration tool.
    from alembic import command  # noqa: PLC0415
    from alembic.config import Config  # noqa: PLC0415

    config = Config()
    config.set_main_option("script_location", str(migrations).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
