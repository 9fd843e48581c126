"""The schema of the first release: memories with a table per kind, their index, and all records.

Written out once and never changed, whatever becomes of `storage.schema`: a later migration starts
from exactly these tables. Words of closed sets have no CHECK, so that a new kind, state or link
type needs no migration of old tables; `EnumText` rejects unknown words before they are written.
"""

from typing import Final

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.schema import CreateIndex, CreateTable

revision: Final = "0023"
down_revision: Final = None

SCHEMA: Final = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
INDEXES: Final = [
    sa.Index(
        "uq_spaces_current",
        "state",
        unique=True,
        info={"where": "state = 'current'"},
    )
]
"""The index of `spaces`, and those of tables with tenants; in the order of their creation."""
NAME: Final = sa.String(128)
WORD: Final = sa.String(24)
"""A word of a closed set."""
INSTANT: Final = sa.BigInteger()
"""Milliseconds since 1970 in UTC."""


def upgrade() -> None:
    """Make every table of an empty store but those that its engine makes itself."""
    own = context.config.attributes["engine"].tables
    made = [table for table in SCHEMA.sorted_tables if table.name not in own]
    for table in made:
        op.execute(CreateTable(table))
    # SQLite prefers the newer of two indexes that serve a query alike, and a table has a mere set.
    for index in INDEXES:
        if index.table.name not in own:
            if where := index.info["where"]:
                index.dialect_kwargs[f"{op.get_bind().dialect.name}_where"] = sa.text(where)
            op.execute(CreateIndex(index))


def _table(name: str, *items: sa.schema.SchemaItem) -> None:
    """Add a table whose keys begin with the tenant."""
    tenant = sa.Column("tenant_id", NAME, sa.ForeignKey("tenants.id"), nullable=False)
    sa.Table(name, SCHEMA, tenant, *items)


def _detail(kind: str, *items: sa.schema.SchemaItem) -> None:
    """Add the table of the details of a kind."""
    _table(
        f"{kind}s",
        _column("memory_id", sa.BigInteger),
        _column("kind", WORD),
        _column("body", sa.Text),
        *items,
        _key("memory_id"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
        ),
        sa.CheckConstraint(f"kind = '{kind}'", name="kind"),
    )


def _column(
    name: str, type_: sa.types.TypeEngine | type[sa.types.TypeEngine], *items: sa.schema.SchemaItem
) -> sa.Column:
    return sa.Column(name, type_, *items, nullable=False)


def _optional(name: str, type_: sa.types.TypeEngine | type[sa.types.TypeEngine]) -> sa.Column:
    return sa.Column(name, type_)


def _key(*columns: str) -> sa.PrimaryKeyConstraint:
    return sa.PrimaryKeyConstraint("tenant_id", *columns)


def _reference(column: str, table: str = "memories") -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(["tenant_id", column], [f"{table}.tenant_id", f"{table}.id"])


def _index(
    *columns: str, name: str | None = None, unique: bool = False, where: str | None = None
) -> sa.Index:
    index = sa.Index(name, "tenant_id", *columns, unique=unique, info={"where": where})
    INDEXES.append(index)
    return index


sa.Table(
    "tenants",
    SCHEMA,
    sa.Column("id", NAME, primary_key=True),
    _column("created_at", INSTANT),
    _column("audit_key", sa.LargeBinary),
    sa.Column("policy", sa.JSON, nullable=False, server_default=sa.text("'{}'")),
    _optional("suspended_at", INSTANT),
)
sa.Table(
    "spaces",
    SCHEMA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", NAME, nullable=False, unique=True),
    _column("dimensions", sa.Integer),
    sa.Column("state", WORD, nullable=False, server_default=sa.text("'current'")),
    *INDEXES,
)
_table(
    "access_audit",
    _column("id", sa.BigInteger),
    _column("at", INSTANT),
    _column("action", sa.String(64)),
    _optional("code", sa.String(64)),
    _optional("agent", NAME),
    _optional("credential", sa.String(160)),
    _optional("request_id", NAME),
    _optional("subject", sa.String(160)),
    _column("count", sa.Integer),
    _key("id"),
    sa.CheckConstraint("count >= 1", name="count"),
)
_table(
    "agents",
    _column("name", NAME),
    _column("role", WORD),
    _column("trust_default", WORD),
    _column("trust_ceiling", WORD),
    _column("created_at", INSTANT),
    _optional("disabled_at", INSTANT),
    _key("name"),
)
_table(
    "audit",
    _column("id", sa.BigInteger),
    _column("at", INSTANT),
    _column("action", WORD),
    _column("memory_id", sa.BigInteger),
    _column("agent", NAME),
    _optional("session", NAME),
    _optional("reason", sa.Text),
    _column("content_hmac", sa.LargeBinary),
    _optional("request_id", NAME),
    _key("id"),
    _index("memory_id"),
    _index("agent", "id", name="ix_audit_agent"),
    _index("request_id", name="ix_audit_request", where="request_id IS NOT NULL"),
)
_table(
    "evaluations",
    _column("id", sa.BigInteger),
    _column("name", WORD),
    _column("at", INSTANT),
    _column("agent", NAME),
    _column("figures", sa.JSON),
    _column("setup", sa.JSON),
    _column("took_ms", sa.JSON),
    _key("id"),
    _index("name", "id"),
)
_table(
    "feedback",
    _column("trace_id", sa.BigInteger),
    _column("memory_id", sa.BigInteger),
    _column("mark", WORD),
    _column("agent", NAME),
    _optional("session", NAME),
    _column("at", INSTANT),
    _key("trace_id", "memory_id", "mark"),
    _index("memory_id"),
)
_table(
    "idempotency",
    _column("agent", NAME),
    _column("key", NAME),
    _column("digest", sa.String(64)),
    _column("body", sa.JSON),
    _column("memory_ids", sa.JSON),
    _column("at", INSTANT),
    _key("agent", "key"),
)
_table(
    "jobs",
    _column("id", sa.BigInteger),
    _column("kind", WORD),
    _column("agent", NAME),
    _optional("session", NAME),
    _optional("project", NAME),
    _column("role", WORD),
    _column("trust_default", WORD),
    _column("trust_ceiling", WORD),
    _column("given", sa.JSON),
    _optional("key", NAME),
    _column("state", WORD),
    _column("attempts", sa.Integer),
    _column("due_at", INSTANT),
    _optional("worker", NAME),
    _column("progress", sa.Float),
    _column("reached", sa.JSON),
    _optional("fault_code", sa.String(64)),
    _optional("fault_message", sa.Text),
    _optional("result", sa.JSON),
    _column("created_at", INSTANT),
    _optional("started_at", INSTANT),
    _optional("finished_at", INSTANT),
    _key("id"),
    sa.CheckConstraint("progress >= 0 AND progress <= 1", name="progress_fraction"),
    _index("due_at", name="ix_jobs_due", where="state IN ('queued', 'running')"),
    _index("key", name="uq_jobs_key", unique=True, where="state IN ('queued', 'running')"),
)
_table(
    "mailboxes",
    _column("agent", NAME),
    _column("taken_until", sa.BigInteger),
    _key("agent"),
)
_table(
    "memories",
    _column("id", sa.BigInteger),
    _column("kind", WORD),
    _optional("label", NAME),
    _column("headline", sa.String(120)),
    _column("state", WORD),
    _column("scope", WORD),
    _optional("project", NAME),
    _column("agent", NAME),
    _optional("session", NAME),
    _column("trust", WORD),
    _column("confidence", sa.Float),
    _column("salience", sa.Float),
    _column("rating", sa.Integer),
    _column("pinned", sa.Boolean),
    _optional("source_ref", sa.String(512)),
    _optional("source_message_id", sa.BigInteger),
    _column("auto_captured", sa.Boolean),
    _column("semantic_hash", sa.String(32)),
    _column("recorded_at", INSTANT),
    _column("occurred_at", INSTANT),
    _optional("expires_at", INSTANT),
    _column("access_count", sa.Integer),
    _optional("last_access_at", INSTANT),
    _optional("believed_since", INSTANT),
    _optional("superseded_at", INSTANT),
    _optional("superseded_by", sa.BigInteger),
    _column("superseded_count", sa.Integer),
    _column("payload", sa.JSON),
    _optional("reading", sa.Text),
    _key("id"),
    _reference("source_message_id"),
    _reference("superseded_by"),
    sa.UniqueConstraint("tenant_id", "id", "kind"),
    sa.CheckConstraint("confidence >= 0 AND confidence <= 1", name="confidence_fraction"),
    sa.CheckConstraint("salience >= 0 AND salience <= 1", name="salience_fraction"),
    sa.CheckConstraint("(superseded_by IS NULL) = (superseded_at IS NULL)", name="superseded"),
    _index("kind", "semantic_hash", "source_ref"),
    _index("occurred_at"),
    _index("project", "kind", "state"),
    _index("superseded_by", unique=True),
    _index("session", "id", name="ix_memories_session", where="session IS NOT NULL"),
    _index(
        *("project", "kind", "state", "label", "agent", "scope", "trust", "pinned"),
        *("expires_at", "occurred_at", "recorded_at", "id"),
        name="ix_memories_listed",
        where="scope <> ''",
    ),
    _index(
        "occurred_at",
        "id",
        name="ix_memories_awaiting",
        where="state IN ('candidate', 'quarantined')",
    ),
    _index("occurred_at", "id", name="ix_memories_rules", where="kind = 'rule'"),
)
_table(
    "models",
    _column("id", sa.BigInteger),
    _column("role", WORD),
    _column("state", WORD),
    _column("digest", sa.String(64)),
    _column("features", sa.JSON),
    _column("told", sa.JSON),
    _optional("parent", sa.BigInteger),
    _column("percent", sa.Float),
    _column("allow", sa.JSON),
    _column("made_at", INSTANT),
    _column("moved_at", INSTANT),
    _optional("reason", sa.Text),
    _key("id"),
    sa.CheckConstraint("percent >= 0 AND percent <= 100", name="percent_of_hundred"),
    _index(
        "role",
        "state",
        name="uq_models_serving",
        unique=True,
        where="state IN ('canary', 'active')",
    ),
)
_table(
    "notes",
    _column("agent", NAME),
    _column("session", NAME),
    _column("key", NAME),
    _column("value", sa.Text),
    _optional("project", NAME),
    _column("pinned", sa.Boolean),
    _column("at", INSTANT),
    _optional("expires_at", INSTANT),
    _key("agent", "session", "key"),
    _index("project", name="ix_notes_pinned", where="pinned"),
)
_table(
    "outbox",
    _column("id", sa.BigInteger),
    _column("topic", sa.String(64)),
    _column("memory_id", sa.BigInteger),
    _column("at", INSTANT),
    _key("id"),
)
_table(
    "recall_traces",
    _column("id", sa.BigInteger),
    _column("asked_at", INSTANT),
    _column("agent", NAME),
    _optional("session", NAME),
    _column("query", sa.Text),
    _column("verdict", WORD),
    _column("considered", sa.JSON),
    _column("packed", sa.JSON),
    _column("degraded", sa.JSON),
    _column("stages_ms", sa.JSON),
    _optional("ranker", sa.BigInteger),
    _key("id"),
    _index("ranker", "id", where="ranker IS NOT NULL"),
)
_table(
    "sessions",
    _column("id", sa.BigInteger),
    _column("key", NAME),
    _column("agent", NAME),
    _optional("project", NAME),
    _optional("task", sa.Text),
    _optional("client", NAME),
    _optional("cwd", sa.Text),
    _optional("host", sa.String(255)),
    _optional("pid", sa.BigInteger),
    _optional("pid_created_at", INSTANT),
    _optional("server_pid", sa.BigInteger),
    _optional("server_created_at", INSTANT),
    _optional("probed_at", INSTANT),
    _column("started_at", INSTANT),
    _column("heartbeat_at", INSTANT),
    _optional("booted_at", INSTANT),
    _optional("ended_at", INSTANT),
    _optional("ending", WORD),
    _optional("shown", sa.JSON),
    _optional("metadata", sa.JSON),
    _key("id"),
    sa.UniqueConstraint("tenant_id", "agent", "key"),
    _index("id", name="ix_sessions_live", where="ended_at IS NULL"),
    _index("heartbeat_at", name="ix_sessions_heartbeat", where="ended_at IS NULL"),
    _index("project", "heartbeat_at", name="ix_sessions_project", where="ended_at IS NULL"),
    _index("agent", "host", "pid", name="ix_sessions_process", where="ended_at IS NULL"),
)
_table(
    "threads",
    _column("id", sa.BigInteger),
    _column("key", sa.String(512)),
    _column("subject", sa.String(512)),
    _optional("project", NAME),
    _column("created_at", INSTANT),
    _optional("last_id", sa.BigInteger),
    _optional("agent", NAME),
    _optional("status", WORD),
    _optional("tags", sa.JSON),
    _key("id"),
    sa.UniqueConstraint("tenant_id", "key"),
    _index("last_id", name="ix_threads_last"),
)
_table(
    "tool_events",
    _column("id", sa.BigInteger),
    _column("at", INSTANT),
    _column("session", NAME),
    _column("agent", NAME),
    _column("tool", sa.String(64)),
    _column("door", sa.String(16)),
    _column("duration_ms", sa.Float),
    _column("outcome", sa.String(64)),
    _column("args", sa.String(80)),
    _key("id"),
    _index("session", "id"),
    _index("id", name="ix_tool_events_hook", where="door = 'hook'"),
    _index("agent", "id", name="ix_tool_events_hook_agent", where="door = 'hook'"),
)
_table(
    "acks",
    _column("memory_id", sa.BigInteger),
    _column("agent", NAME),
    _column("session", NAME),
    _column("decision", WORD),
    _optional("reason", sa.Text),
    _optional("until", INSTANT),
    _column("at", INSTANT),
    _key("memory_id", "agent", "session"),
    _reference("memory_id"),
)
_table(
    "annotations",
    _column("id", sa.BigInteger),
    _column("memory_id", sa.BigInteger),
    _column("text", sa.Text),
    _column("agent", NAME),
    _column("trust", WORD),
    _column("at", INSTANT),
    _key("id"),
    _reference("memory_id"),
    _index("memory_id"),
)
_table(
    "api_keys",
    _column("prefix", sa.String(8)),
    _column("agent", NAME),
    _optional("label", NAME),
    _column("scopes", sa.JSON),
    _column("networks", sa.JSON),
    _column("seal", sa.String(255)),
    _column("created_at", INSTANT),
    _optional("expires_at", INSTANT),
    _optional("revoked_at", INSTANT),
    _optional("last_used_at", INSTANT),
    _key("prefix"),
    sa.ForeignKeyConstraint(["tenant_id", "agent"], ["agents.tenant_id", "agents.name"]),
    _index("agent"),
)
_table(
    "page_sessions",
    _column("digest", sa.String(64)),
    _column("agent", NAME),
    _optional("key_prefix", sa.String(8)),
    _optional("token_role", WORD),
    _column("created_at", INSTANT),
    _column("last_seen_at", INSTANT),
    _column("ends_at", INSTANT),
    _key("digest"),
    sa.ForeignKeyConstraint(["tenant_id", "key_prefix"], ["api_keys.tenant_id", "api_keys.prefix"]),
    sa.CheckConstraint("(key_prefix IS NULL) <> (token_role IS NULL)", name="credential"),
    _index("agent"),
    _index("ends_at"),
)
_detail(
    "atom",
    _optional("subject", sa.Text),
    _optional("action", sa.Text),
    _optional("outcome", sa.Text),
    _optional("consequences", sa.Text),
    _optional("outcome_delay_s", sa.Float),
    _optional("consequence_delay_s", sa.Float),
)
_table(
    "changes",
    _column("id", sa.BigInteger),
    _column("memory_id", sa.BigInteger),
    _column("action", WORD),
    _column("agent", NAME),
    _optional("session", NAME),
    _optional("reason", sa.Text),
    _column("at", INSTANT),
    _column("before", sa.JSON),
    _column("after", sa.JSON),
    _optional("believed_since", INSTANT),
    _optional("believed_until", INSTANT),
    _key("id"),
    _reference("memory_id"),
    sa.CheckConstraint("(believed_since IS NULL) = (believed_until IS NULL)", name="believed"),
    _index("at"),
    _index("memory_id"),
)
_table(
    "entities",
    _column("memory_id", sa.BigInteger),
    _column("type", WORD),
    _column("name", NAME),
    _column("position", sa.SmallInteger),
    _key("memory_id", "type", "name"),
    _reference("memory_id"),
    _index("type", "name"),
    _index("name", "memory_id", name="ix_entities_tags", where="type = 'tag'"),
)
_detail(
    "episode",
    _optional("started_at", INSTANT),
    _optional("ended_at", INSTANT),
    sa.CheckConstraint("ended_at >= started_at", name="span"),
)
_detail(
    "event",
    _optional("actor", NAME),
    _optional("importance", sa.Float),
    _column("recurrences", sa.Integer),
    sa.CheckConstraint("importance >= 0 AND importance <= 1", name="importance_fraction"),
    sa.CheckConstraint("recurrences >= 0", name="recurrences"),
)
_detail(
    "fact",
    _optional("subject", sa.Text),
    _optional("ttl_s", sa.BigInteger),
    sa.CheckConstraint("ttl_s > 0", name="ttl_s"),
)
_table(
    "falls",
    _column("memory_id", sa.BigInteger),
    _column("due_at", INSTANT),
    _key("memory_id"),
    _reference("memory_id"),
    _index("due_at"),
)
_table(
    "field_vectors",
    _column("memory_id", sa.BigInteger),
    _column("space_id", sa.Integer, sa.ForeignKey("spaces.id")),
    _column("field", WORD),
    _column("seq", sa.BigInteger),
    _optional("vector", sa.LargeBinary),
    _key("memory_id", "space_id", "field"),
    _reference("memory_id"),
    _index("space_id", "field", "seq"),
)
_detail(
    "incident",
    _optional("root_cause", sa.Text),
    _optional("resolution", sa.Text),
)
_table(
    "links",
    _column("from_id", sa.BigInteger),
    _column("to_id", sa.BigInteger),
    _column("type", WORD),
    _column("strength", sa.Float),
    _column("observations", sa.Integer),
    _optional("basis", sa.Text),
    _column("agent", NAME),
    _column("trust", WORD),
    _column("created_at", INSTANT),
    _column("observed_at", INSTANT),
    _key("from_id", "to_id", "type"),
    _reference("from_id"),
    _reference("to_id"),
    sa.CheckConstraint("from_id <> to_id", name="ends"),
    sa.CheckConstraint("observations >= 1", name="observations"),
    sa.CheckConstraint("strength >= 0 AND strength <= 1", name="strength_fraction"),
    _index("to_id", "type", "from_id"),
)
_detail(
    "message",
    _optional("thread_id", sa.BigInteger),
    _optional("sender", NAME),
    _column("recipients", sa.JSON),
    _optional("subject", sa.Text),
    _column("priority", WORD),
    _optional("parent_id", sa.BigInteger),
    _reference("parent_id"),
    _reference("thread_id", "threads"),
    _index("thread_id", "memory_id", name="ix_messages_thread"),
)
_table(
    "receipts",
    _column("agent", NAME),
    _column("message_id", sa.BigInteger),
    _column("sender", NAME),
    _optional("project", NAME),
    _column("is_urgent", sa.Boolean),
    _optional("read_at", INSTANT),
    _optional("acked_at", INSTANT),
    _optional("answer", sa.Text),
    _key("agent", "message_id"),
    _reference("message_id"),
    _index(
        "agent",
        "project",
        "is_urgent",
        "message_id",
        name="ix_receipts_unread",
        where="read_at IS NULL",
    ),
    _index("message_id", name="ix_receipts_message"),
)
_table(
    "reviews",
    _column("memory_id", sa.BigInteger),
    _column("cause_id", sa.BigInteger),
    _column("fall", WORD),
    _column("via_id", sa.BigInteger),
    _column("depth", sa.Integer),
    _column("at", INSTANT),
    _optional("earlier", WORD),
    _optional("settled_at", INSTANT),
    _optional("settled_by", NAME),
    _optional("reason", sa.Text),
    _key("memory_id", "cause_id"),
    _reference("cause_id"),
    _reference("memory_id"),
    _index("cause_id", "depth"),
)
_detail(
    "rule",
    _column("severity", WORD),
    _optional("skill", sa.JSON),
    _column("must_ack", sa.Boolean),
    _index("memory_id", name="ix_rules_must_ack", where="must_ack"),
    _index("memory_id", name="ix_rules_skill", where="skill IS NOT NULL"),
)
_detail(
    "task",
    _column("status", WORD),
    _column("priority", WORD),
    _optional("due_at", INSTANT),
    _column("must_ack", sa.Boolean),
    _optional("assignee", NAME),
    _optional("lease_holder", NAME),
    _optional("lease_until", INSTANT),
    _index("memory_id", name="ix_tasks_given", where="assignee IS NOT NULL"),
    _index("memory_id", name="ix_tasks_must_ack", where="must_ack"),
    _index("memory_id", name="ix_tasks_owed", where="status IN ('open', 'blocked')"),
)
_table(
    "vectors",
    _column("memory_id", sa.BigInteger),
    _column("space_id", sa.Integer, sa.ForeignKey("spaces.id")),
    _column("part", sa.SmallInteger),
    _column("seq", sa.BigInteger),
    _optional("vector", sa.LargeBinary),
    _key("memory_id", "space_id", "part"),
    _reference("memory_id"),
    _index("space_id", "seq"),
    _index("space_id", "memory_id", name="ix_vectors_dropped", where="vector IS NULL"),
)
