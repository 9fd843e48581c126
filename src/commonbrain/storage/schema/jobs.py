"""The table of jobs: the truth about what is to be done, which a queue only points at."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

from commonbrain.model.jobs import JobState
from commonbrain.model.scope import Role
from commonbrain.model.trust import Trust
from commonbrain.storage.schema.types import METADATA, EnumText, Instant, fraction, tenant

IS_LIVE = text("state IN ('queued', 'running')")

# Kinds are no closed set here: a worker leaves alone what it does not know, so that programs of
# two versions may serve one store.
jobs = Table(
    "jobs",
    METADATA,
    tenant(),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("kind", String(24), nullable=False),
    Column("agent", String(128), nullable=False),
    Column("session", String(128)),
    Column("project", String(128)),
    Column("role", EnumText(Role), nullable=False),
    Column("trust_default", EnumText(Trust), nullable=False),
    Column("trust_ceiling", EnumText(Trust), nullable=False),
    Column("given", JSON, nullable=False),
    Column("key", String(128)),
    Column("state", EnumText(JobState), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", Instant, nullable=False),
    Column("worker", String(128)),
    Column("progress", Float, nullable=False),
    Column("reached", JSON, nullable=False),
    Column("fault_code", String(64)),
    Column("fault_message", Text),
    Column("result", JSON(none_as_null=True)),
    Column("created_at", Instant, nullable=False),
    Column("started_at", Instant),
    Column("finished_at", Instant),
    PrimaryKeyConstraint("tenant_id", "id"),
    Index("ix_jobs_due", "tenant_id", "due_at", sqlite_where=IS_LIVE, postgresql_where=IS_LIVE),
    Index(
        "uq_jobs_key",
        "tenant_id",
        "key",
        unique=True,
        sqlite_where=IS_LIVE,
        postgresql_where=IS_LIVE,
    ),
    fraction("progress"),
)


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
