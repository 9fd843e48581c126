"""The tables of coordination: sessions, notes, acknowledgements and receipts."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from commonbrain.model.sessions import Ending
from commonbrain.model.tasks import Decision
from commonbrain.storage.schema.types import METADATA, EnumText, Instant, only, tenant

# A client at work on a task. Memories name a session by its key, which is the id that the client
# gives it, if any.
sessions = Table(
    "sessions",
    METADATA,
    tenant(),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("key", String(128), nullable=False),
    Column("agent", String(128), nullable=False),
    Column("project", String(128)),
    Column("task", Text),
    Column("client", String(128)),
    Column("cwd", Text),
    Column("host", String(255)),
    Column("pid", BigInteger),
    Column("pid_created_at", Instant),
    Column("server_pid", BigInteger),
    Column("server_created_at", Instant),
    Column("probed_at", Instant),
    Column("started_at", Instant, nullable=False),
    Column("heartbeat_at", Instant, nullable=False),
    Column("booted_at", Instant),
    Column("ended_at", Instant),
    Column("ending", EnumText(Ending)),
    PrimaryKeyConstraint("tenant_id", "id"),
    UniqueConstraint("tenant_id", "agent", "key"),
    Index("ix_sessions_live", "tenant_id", "id", **only("ended_at IS NULL")),
)

# Short-lived keys and values of a session; callers without one use the empty key.
notes = Table(
    "notes",
    METADATA,
    tenant(),
    Column("agent", String(128), nullable=False),
    Column("session", String(128), nullable=False),
    Column("key", String(128), nullable=False),
    Column("value", Text, nullable=False),
    Column("project", String(128)),
    Column("pinned", Boolean, nullable=False),
    Column("at", Instant, nullable=False),
    Column("expires_at", Instant),
    PrimaryKeyConstraint("tenant_id", "agent", "session", "key"),
    Index("ix_notes_pinned", "tenant_id", "project", **only("pinned")),
)

# Decisions on action items; callers without a session use the empty key.
acks = Table(
    "acks",
    METADATA,
    tenant(),
    Column("memory_id", BigInteger, nullable=False, autoincrement=False),
    Column("agent", String(128), nullable=False),
    Column("session", String(128), nullable=False),
    Column("decision", EnumText(Decision), nullable=False),
    Column("reason", Text),
    Column("until", Instant),
    Column("at", Instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "memory_id", "agent", "session"),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
)

# Delivery of a message to an agent. A broadcast has one row for all agents, never read, which each
# reader's mailbox copies. A shared memory also has a row per agent, marked as read: these rows give
# agents other than the author access to a private memory.
receipts = Table(
    "receipts",
    METADATA,
    tenant(),
    Column("agent", String(128), nullable=False),
    Column("message_id", BigInteger, nullable=False, autoincrement=False),
    Column("sender", String(128), nullable=False),
    # The project of a broadcast; a message to one agent has none and is shown in every project.
    Column("project", String(128)),
    Column("is_urgent", Boolean, nullable=False),
    Column("read_at", Instant),
    Column("acked_at", Instant),
    Column("answer", Text),
    PrimaryKeyConstraint("tenant_id", "agent", "message_id"),
    ForeignKeyConstraint(["tenant_id", "message_id"], ["memories.tenant_id", "memories.id"]),
    Index("ix_receipts_message", "tenant_id", "message_id"),
    Index(
        "ix_receipts_unread",
        "tenant_id",
        "agent",
        "project",
        "is_urgent",
        "message_id",
        **only("read_at IS NULL"),
    ),
)

# The last broadcast that an agent's own rows cover.
mailboxes = Table(
    "mailboxes",
    METADATA,
    tenant(),
    Column("agent", String(128), nullable=False),
    Column("taken_until", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "agent"),
)
