"""The tables of administration: agents, API keys, the access audit, jobs and tool events."""

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    text,
)

from commonbrain.model.jobs import JobState
from commonbrain.model.scope import Role, Trust
from commonbrain.storage.schema.types import METADATA, EnumText, Instant, Names, fraction, tenant

agents = Table(
    "agents",
    METADATA,
    tenant(),
    Column("name", String(128), nullable=False),
    Column("role", EnumText(Role), nullable=False),
    Column("trust_default", EnumText(Trust), nullable=False),
    Column("trust_ceiling", EnumText(Trust), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("disabled_at", Instant),
    PrimaryKeyConstraint("tenant_id", "name"),
)

api_keys = Table(
    "api_keys",
    METADATA,
    tenant(),
    Column("prefix", String(8), nullable=False),
    Column("agent", String(128), nullable=False),
    Column("label", String(128)),
    Column("scopes", Names, nullable=False),
    Column("networks", Names, nullable=False),
    # Never the secret: an argon2id hash with its salt and parameters.
    Column("seal", String(255), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("expires_at", Instant),
    Column("revoked_at", Instant),
    Column("last_used_at", Instant),
    PrimaryKeyConstraint("tenant_id", "prefix"),
    ForeignKeyConstraint(["tenant_id", "agent"], ["agents.tenant_id", "agents.name"]),
    Index(None, "tenant_id", "agent"),
)

# Separate from `audit`, where every line belongs to a memory and has a digest of its content.
access_audit = Table(
    "access_audit",
    METADATA,
    tenant(),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("at", Instant, nullable=False),
    Column("action", String(64), nullable=False),
    Column("code", String(64)),
    Column("agent", String(128)),
    Column("credential", String(160)),
    Column("request_id", String(128)),
    Column("subject", String(160)),
    Column("count", Integer, nullable=False),
    PrimaryKeyConstraint("tenant_id", "id"),
    CheckConstraint("count >= 1", name="count"),
)


IS_LIVE = text("state IN ('queued', 'running')")

# Kinds are no closed set here: a worker skips kinds that it does not know, so that programs of two
# versions can serve one store.
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


# The caller assigns the id, so that an event sent twice is stored once. A row holds no text of a
# memory, so that erasure need not search here. Calls without a session use the empty key.
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
