"""The table of evaluations: how well this store was found to be searched, over time."""

from sqlalchemy import JSON, BigInteger, Column, Index, PrimaryKeyConstraint, String, Table

from commonbrain.adapters.sql.columns import Instant
from commonbrain.adapters.sql.metadata import METADATA, tenant

# Figures are no columns: what is measured grows, and nothing is ever looked up by it.
evaluations = Table(
    "evaluations",
    METADATA,
    tenant(),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("name", String(24), nullable=False),
    Column("at", Instant, nullable=False),
    Column("agent", String(128), nullable=False),
    Column("figures", JSON, nullable=False),
    Column("setup", JSON, nullable=False),
    Column("took_ms", JSON, nullable=False),
    PrimaryKeyConstraint("tenant_id", "id"),
    Index(None, "tenant_id", "name", "id"),
)
