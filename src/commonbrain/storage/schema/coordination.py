"""The tables by which agents know of each other: sessions, notes, acknowledgements, receipts."""

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

# One live client with a task. Memories name a session by its key, which is the client's own id of
# it where it gives one.
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

# Short-lived keys and values of a session; who has no session writes under the empty one.
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

# What was decided on an action item; who has no session decides under the empty one.
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

# To whom a message went, and what became of it there: a broadcast has one row for everybody, never
# read, which each reader's mailbox takes over. What was shared with somebody has a row as well, as
# if read: these rows say who beside its author sees a private memory.
receipts = Table(
    "receipts",
    METADATA,
    tenant(),
    Column("agent", String(128), nullable=False),
    Column("message_id", BigInteger, nullable=False, autoincrement=False),
    Column("sender", String(128), nullable=False),
    # The project of a broadcast; what is for one agent has none and is shown in every project.
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

# Up to which broadcast an agent's own rows say what it has read.
mailboxes = Table(
    "mailboxes",
    METADATA,
    tenant(),
    Column("agent", String(128), nullable=False),
    Column("taken_until", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "agent"),
)
