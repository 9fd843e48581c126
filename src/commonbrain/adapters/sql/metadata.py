"""What every table belongs to, and the column that every key begins with."""

from typing import Any, Final

from sqlalchemy import Column, ForeignKey, MetaData, String, text

METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def tenant() -> Column[str]:
    """Make the column that confines a row to its tenant."""
    return Column("tenant_id", String(128), ForeignKey("tenants.id"), nullable=False)


def only(condition: str) -> dict[str, Any]:
    """Confine an index to the rows of a condition, whatever the engine."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}
