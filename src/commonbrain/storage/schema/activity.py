"""The tables of sessions, messages, keys, jobs, models, evaluations and the audit."""

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKeyConstraint,
    Index,
    Integer,
    String,
    Text,
    UniqueConstraint,
)

from commonbrain.model.jobs import JobState
from commonbrain.model.model_card import ModelRole, ModelState
from commonbrain.model.query import FeedbackMark
from commonbrain.model.scope import Authority, Role, Trust
from commonbrain.model.sessions import Ending
from commonbrain.model.tasks import Decision
from commonbrain.storage.schema.types import (
    EnumText,
    Instant,
    Names,
    authority_column,
    fraction,
    only,
    tenant_table,
)

# A client at work on a task. Memories name a session by its key, which is the id that the client
# gives it, if any.
sessions = tenant_table(
    "sessions",
    Column("id", BigInteger, primary_key=True),
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
    # Pairs of the id of a memory that a prompt hook showed to it, and whether it needed review.
    Column("shown", JSON(none_as_null=True)),
    # Short texts by name, such as branch, worktree and model.
    Column("metadata", JSON(none_as_null=True)),
    UniqueConstraint("tenant_id", "agent", "key"),
    Index("ix_sessions_live", "tenant_id", "id", **only("ended_at IS NULL")),
    Index("ix_sessions_heartbeat", "tenant_id", "heartbeat_at", **only("ended_at IS NULL")),
    Index(
        "ix_sessions_project", "tenant_id", "project", "heartbeat_at", **only("ended_at IS NULL")
    ),
    Index("ix_sessions_process", "tenant_id", "agent", "host", "pid", **only("ended_at IS NULL")),
)

# Short-lived keys and values of a session; callers without one use the empty key.
notes = tenant_table(
    "notes",
    Column("agent", String(128), primary_key=True),
    Column("session", String(128), primary_key=True),
    Column("key", String(128), primary_key=True),
    Column("value", Text, nullable=False),
    Column("project", String(128)),
    Column("pinned", Boolean, nullable=False),
    authority_column(Authority.PERSON),
    Column("at", Instant, nullable=False),
    Column("expires_at", Instant),
    Index("ix_notes_pinned", "tenant_id", "project", **only("pinned")),
)

# Decisions on action items; callers without a session use the empty key.
acks = tenant_table(
    "acks",
    Column("memory_id", BigInteger, primary_key=True),
    Column("agent", String(128), primary_key=True),
    Column("session", String(128), primary_key=True),
    Column("decision", EnumText(Decision), nullable=False),
    Column("reason", Text),
    Column("until", Instant),
    Column("at", Instant, nullable=False),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
)

# Delivery of a message to an agent. A broadcast has one row for all agents, never read, which each
# reader's mailbox copies. A shared memory also has a row per agent, marked as read: these rows give
# agents other than the author access to a private memory.
receipts = tenant_table(
    "receipts",
    Column("agent", String(128), primary_key=True),
    Column("message_id", BigInteger, primary_key=True),
    Column("sender", String(128), nullable=False),
    # The project of a broadcast; a message to one agent has none and is shown in every project.
    Column("project", String(128)),
    Column("is_urgent", Boolean, nullable=False),
    Column("read_at", Instant),
    Column("acked_at", Instant),
    Column("answer", Text),
    ForeignKeyConstraint(["tenant_id", "message_id"], ["memories.tenant_id", "memories.id"]),
    Index(
        "ix_receipts_unread",
        *("tenant_id", "agent", "project", "is_urgent", "message_id"),
        **only("read_at IS NULL"),
    ),
    Index("ix_receipts_message", "tenant_id", "message_id"),
)

# The last broadcast that an agent's own rows cover.
mailboxes = tenant_table(
    "mailboxes",
    Column("agent", String(128), primary_key=True),
    Column("taken_until", BigInteger, nullable=False),
)


recall_traces = tenant_table(
    "recall_traces",
    Column("id", BigInteger, primary_key=True),
    Column("asked_at", Instant, nullable=False),
    Column("agent", String(128), nullable=False),
    Column("session", String(128)),
    Column("query", Text, nullable=False),
    Column("verdict", String(24), nullable=False),
    Column("considered", JSON, nullable=False),
    Column("packed", JSON, nullable=False),
    Column("degraded", JSON, nullable=False),
    Column("stages_ms", JSON, nullable=False),
    Column("ranker", BigInteger),
    Index(None, "tenant_id", "ranker", "id", **only("ranker IS NOT NULL")),
)

models = tenant_table(
    "models",
    Column("id", BigInteger, primary_key=True),
    Column("role", EnumText(ModelRole), nullable=False),
    Column("state", EnumText(ModelState), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("features", Names, nullable=False),
    Column("told", JSON, nullable=False),
    Column("parent", BigInteger),
    Column("percent", Float, nullable=False),
    Column("allow", Names, nullable=False),
    Column("made_at", Instant, nullable=False),
    Column("moved_at", Instant, nullable=False),
    Column("reason", Text),
    # Each role has one active model and one canary, also under concurrent moves.
    Index(
        "uq_models_serving",
        "tenant_id",
        "role",
        "state",
        unique=True,
        **only("state IN ('canary', 'active')"),
    ),
    CheckConstraint("percent >= 0 AND percent <= 100", name="percent_of_hundred"),
)

# No foreign key to the trace: both are deleted when they are old, and feedback on a missing trace
# is skipped.
feedback = tenant_table(
    "feedback",
    Column("trace_id", BigInteger, primary_key=True),
    Column("memory_id", BigInteger, primary_key=True),
    Column("mark", EnumText(FeedbackMark), primary_key=True),
    Column("agent", String(128), nullable=False),
    Column("session", String(128)),
    Column("at", Instant, nullable=False),
    Index(None, "tenant_id", "memory_id"),
)


# Figures are JSON: new ones are added over time, and no query filters by them.
evaluations = tenant_table(
    "evaluations",
    Column("id", BigInteger, primary_key=True),
    Column("name", String(24), nullable=False),
    Column("at", Instant, nullable=False),
    Column("agent", String(128), nullable=False),
    Column("figures", JSON, nullable=False),
    Column("setup", JSON, nullable=False),
    Column("took_ms", JSON, nullable=False),
    Index(None, "tenant_id", "name", "id"),
)


agents = tenant_table(
    "agents",
    Column("name", String(128), primary_key=True),
    Column("role", EnumText(Role), nullable=False),
    Column("trust_default", EnumText(Trust), nullable=False),
    Column("trust_ceiling", EnumText(Trust), nullable=False),
    Column("created_at", Instant, nullable=False),
    Column("disabled_at", Instant),
)

api_keys = tenant_table(
    "api_keys",
    Column("prefix", String(8), primary_key=True),
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
    ForeignKeyConstraint(["tenant_id", "agent"], ["agents.tenant_id", "agents.name"]),
    Index(None, "tenant_id", "agent"),
)

# Logins to the web page. The caller of an API key is read from the key and its agent; no row
# describes a token, so its role is stored.
page_sessions = tenant_table(
    "page_sessions",
    # Never the secret: the SHA-256 of its 256 random bits.
    Column("digest", String(64), primary_key=True),
    Column("agent", String(128), nullable=False),
    Column("key_prefix", String(8)),
    Column("token_role", EnumText(Role)),
    Column("created_at", Instant, nullable=False),
    Column("last_seen_at", Instant, nullable=False),
    Column("ends_at", Instant, nullable=False),
    ForeignKeyConstraint(["tenant_id", "key_prefix"], ["api_keys.tenant_id", "api_keys.prefix"]),
    Index(None, "tenant_id", "agent"),
    Index(None, "tenant_id", "ends_at"),
    CheckConstraint("(key_prefix IS NULL) <> (token_role IS NULL)", name="credential"),
)

# Separate from `audit`, where every line belongs to a memory and has a digest of its content.
access_audit = tenant_table(
    "access_audit",
    Column("id", BigInteger, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("action", String(64), nullable=False),
    Column("code", String(64)),
    Column("agent", String(128)),
    Column("credential", String(160)),
    Column("request_id", String(128)),
    Column("subject", String(160)),
    Column("count", Integer, nullable=False),
    CheckConstraint("count >= 1", name="count"),
)


_IS_LIVE: Final = "state IN ('queued', 'running')"

# Kinds are no closed set here: a worker skips kinds that it does not know, so that programs of two
# versions can serve one store.
jobs = tenant_table(
    "jobs",
    Column("id", BigInteger, primary_key=True),
    Column("kind", String(24), nullable=False),
    Column("agent", String(128), nullable=False),
    Column("session", String(128)),
    Column("project", String(128)),
    Column("role", EnumText(Role), nullable=False),
    Column("trust_default", EnumText(Trust), nullable=False),
    Column("trust_ceiling", EnumText(Trust), nullable=False),
    authority_column(Authority.MODEL),
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
    Index("ix_jobs_due", "tenant_id", "due_at", **only(_IS_LIVE)),
    Index("uq_jobs_key", "tenant_id", "key", unique=True, **only(_IS_LIVE)),
    fraction("progress"),
)


_TRANSPORT: Final = "door"
OF_HOOKS: Final = f"{_TRANSPORT} = 'hook'"
"""The condition of the indexes of hooks; SQLite uses one only for a query that repeats it."""

# The caller assigns the id, so that an event sent twice is stored once. A row holds no text of a
# memory, so that erasure need not search here. Calls without a session use the empty key.
tool_events = tenant_table(
    "tool_events",
    Column("id", BigInteger, primary_key=True),
    Column("at", Instant, nullable=False),
    Column("session", String(128), nullable=False),
    Column("agent", String(128), nullable=False),
    Column("tool", String(64), nullable=False),
    Column(_TRANSPORT, String(16), nullable=False),
    Column("duration_ms", Float, nullable=False),
    Column("outcome", String(64), nullable=False),
    Column("args", String(80), nullable=False),
    Index(None, "tenant_id", "session", "id"),
    Index("ix_tool_events_hook", "tenant_id", "id", **only(OF_HOOKS)),
    Index("ix_tool_events_hook_agent", "tenant_id", "agent", "id", **only(OF_HOOKS)),
)
