"""The table of calls: one row for each, whatever its door and its end."""

from sqlalchemy import BigInteger, Column, Float, Index, PrimaryKeyConstraint, String, Table

from commonbrain.adapters.sql.columns import Instant
from commonbrain.adapters.sql.metadata import METADATA, tenant

# The id is drawn where the call was made, so that telling of it twice keeps it once. It is of no
# memory: nothing that a memory says is in a row, and no erase has to look here. The empty session
# is that of who has none, as with notes.
tool_events = Table(
    "tool_events",
    METADATA,
    tenant(),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("at", Instant, nullable=False),
    Column("session", String(128), nullable=False),
    Column("agent", String(128), nullable=False),
    Column("tool", String(64), nullable=False),
    Column("door", String(16), nullable=False),
    Column("duration_ms", Float, nullable=False),
    Column("outcome", String(64), nullable=False),
    Column("args", String(80), nullable=False),
    PrimaryKeyConstraint("tenant_id", "id"),
    Index(None, "tenant_id", "session", "id"),
)
