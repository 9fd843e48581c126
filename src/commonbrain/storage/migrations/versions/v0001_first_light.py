"""First light: memories with a detail table per kind, their index, and the records of use."""

from typing import Final

import sqlalchemy as sa
from alembic import op

from commonbrain.storage.postgres.schema import FIRST_LIGHT

revision: Final = "0001"
down_revision: Final = None

_SQLITE: Final = (
    "CREATE VIRTUAL TABLE memory_text USING fts5(text, keywords, content='', "
    "contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')",
    # Full text knows a memory by its id alone, whatever its tenant.
    "CREATE UNIQUE INDEX ix_memories_id ON memories (id)",
    "CREATE TRIGGER audit_is_never_updated BEFORE UPDATE ON audit "
    "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
    "CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit "
    "BEGIN SELECT RAISE(ABORT, 'audit is append-only'); END",
)


def upgrade() -> None:
    """Make every table of an empty store."""
    op.create_table(
        "spaces",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("dimensions", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_spaces")),
        sa.UniqueConstraint("name", name=op.f("uq_spaces_name")),
    )
    op.create_table(
        "tenants",
        sa.Column("id", sa.String(length=128), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("audit_key", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tenants")),
    )
    op.create_table(
        "audit",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.String(length=24), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session", sa.String(length=128), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("content_hmac", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_audit_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_audit")),
    )
    op.create_index(
        op.f("ix_audit_tenant_id_memory_id"),
        "audit",
        ["tenant_id", "memory_id"],
        unique=False,
    )
    op.create_table(
        "memories",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("label", sa.String(length=128), nullable=True),
        sa.Column("headline", sa.String(length=120), nullable=False),
        sa.Column("state", sa.String(24), nullable=False),
        sa.Column("scope", sa.String(24), nullable=False),
        sa.Column("project", sa.String(length=128), nullable=True),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session", sa.String(length=128), nullable=True),
        sa.Column("trust", sa.String(24), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),
        sa.Column("salience", sa.Float(), nullable=False),
        sa.Column("rating", sa.Integer(), nullable=False),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("source_ref", sa.String(length=512), nullable=True),
        sa.Column("source_message_id", sa.BigInteger(), nullable=True),
        sa.Column("auto_captured", sa.Boolean(), nullable=False),
        sa.Column("semantic_hash", sa.String(length=32), nullable=False),
        sa.Column("recorded_at", sa.BigInteger(), nullable=False),
        sa.Column("occurred_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("access_count", sa.Integer(), nullable=False),
        sa.Column("last_access_at", sa.BigInteger(), nullable=True),
        sa.Column("superseded_at", sa.BigInteger(), nullable=True),
        sa.Column("superseded_by", sa.BigInteger(), nullable=True),
        sa.Column("superseded_count", sa.Integer(), nullable=False),
        sa.Column("payload", sa.JSON(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('rule', 'fact', 'incident', 'task', 'event', 'episode', 'atom', 'message')",
            name=op.f("ck_memories_kind"),
        ),
        sa.CheckConstraint(
            "scope IN ('private', 'team', 'global')", name=op.f("ck_memories_scope")
        ),
        sa.CheckConstraint(
            "state IN ('active', 'archived', 'superseded', 'forgotten', 'expired', 'quarantined', 'candidate')",
            name=op.f("ck_memories_state"),
        ),
        sa.CheckConstraint(
            "trust IN ('trusted_tool', 'user_claim', 'untrusted_web')",
            name=op.f("ck_memories_trust"),
        ),
        sa.CheckConstraint(
            "(superseded_by IS NULL) = (superseded_at IS NULL)",
            name=op.f("ck_memories_superseded"),
        ),
        sa.CheckConstraint(
            "confidence >= 0 AND confidence <= 1",
            name=op.f("ck_memories_confidence_fraction"),
        ),
        sa.CheckConstraint(
            "salience >= 0 AND salience <= 1",
            name=op.f("ck_memories_salience_fraction"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "source_message_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_memories_tenant_id_source_message_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "superseded_by"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_memories_tenant_id_superseded_by"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_memories_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_memories")),
        sa.UniqueConstraint("tenant_id", "id", "kind", name=op.f("uq_memories_tenant_id_id_kind")),
    )
    op.create_index(
        op.f("ix_memories_tenant_id_kind_semantic_hash_source_ref"),
        "memories",
        ["tenant_id", "kind", "semantic_hash", "source_ref"],
        unique=False,
    )
    op.create_index(
        op.f("ix_memories_tenant_id_occurred_at"),
        "memories",
        ["tenant_id", "occurred_at"],
        unique=False,
    )
    op.create_index(
        op.f("ix_memories_tenant_id_project_kind_state"),
        "memories",
        ["tenant_id", "project", "kind", "state"],
        unique=False,
    )
    op.create_index(
        op.f("ix_memories_tenant_id_superseded_by"),
        "memories",
        ["tenant_id", "superseded_by"],
        unique=True,
    )
    op.create_table(
        "outbox",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("topic", sa.String(length=64), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_outbox_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_outbox")),
    )
    op.create_table(
        "recall_traces",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("asked_at", sa.BigInteger(), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session", sa.String(length=128), nullable=True),
        sa.Column("query", sa.Text(), nullable=False),
        sa.Column("verdict", sa.String(length=24), nullable=False),
        sa.Column("considered", sa.JSON(), nullable=False),
        sa.Column("packed", sa.JSON(), nullable=False),
        sa.Column("degraded", sa.JSON(), nullable=False),
        sa.Column("stages_ms", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_recall_traces_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_recall_traces")),
    )
    op.create_table(
        "threads",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=512), nullable=False),
        sa.Column("subject", sa.String(length=512), nullable=False),
        sa.Column("project", sa.String(length=128), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_threads_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_threads")),
        sa.UniqueConstraint("tenant_id", "key", name=op.f("uq_threads_tenant_id_key")),
    )
    op.create_table(
        "atoms",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("action", sa.Text(), nullable=True),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("consequences", sa.Text(), nullable=True),
        sa.Column("outcome_delay_s", sa.Float(), nullable=True),
        sa.Column("consequence_delay_s", sa.Float(), nullable=True),
        sa.CheckConstraint("kind = 'atom'", name=op.f("ck_atoms_kind")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
            name=op.f("fk_atoms_tenant_id_memory_id_kind"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_atoms_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_atoms")),
    )
    op.create_table(
        "entities",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("type", sa.String(24), nullable=False),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("position", sa.SmallInteger(), nullable=False),
        sa.CheckConstraint(
            "type IN ('tag', 'person', 'topic', 'reference')",
            name=op.f("ck_entities_type"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_entities_tenant_id_memory_id"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_entities_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", "type", "name", name=op.f("pk_entities")),
    )
    op.create_index(
        op.f("ix_entities_tenant_id_type_name"),
        "entities",
        ["tenant_id", "type", "name"],
        unique=False,
    )
    op.create_table(
        "episodes",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind = 'episode'", name=op.f("ck_episodes_kind")),
        sa.CheckConstraint("ended_at >= started_at", name=op.f("ck_episodes_span")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
            name=op.f("fk_episodes_tenant_id_memory_id_kind"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_episodes_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_episodes")),
    )
    op.create_table(
        "events",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("actor", sa.String(length=128), nullable=True),
        sa.Column("importance", sa.Float(), nullable=True),
        sa.Column("recurrences", sa.Integer(), nullable=False),
        sa.CheckConstraint("kind = 'event'", name=op.f("ck_events_kind")),
        sa.CheckConstraint(
            "importance >= 0 AND importance <= 1",
            name=op.f("ck_events_importance_fraction"),
        ),
        sa.CheckConstraint("recurrences >= 0", name=op.f("ck_events_recurrences")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
            name=op.f("fk_events_tenant_id_memory_id_kind"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_events_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_events")),
    )
    op.create_table(
        "facts",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("ttl_s", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind = 'fact'", name=op.f("ck_facts_kind")),
        sa.CheckConstraint("ttl_s > 0", name=op.f("ck_facts_ttl_s")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
            name=op.f("fk_facts_tenant_id_memory_id_kind"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_facts_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_facts")),
    )
    op.create_table(
        "incidents",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("root_cause", sa.Text(), nullable=True),
        sa.Column("resolution", sa.Text(), nullable=True),
        sa.CheckConstraint("kind = 'incident'", name=op.f("ck_incidents_kind")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
            name=op.f("fk_incidents_tenant_id_memory_id_kind"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_incidents_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_incidents")),
    )
    op.create_table(
        "messages",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("thread_id", sa.BigInteger(), nullable=True),
        sa.Column("sender", sa.String(length=128), nullable=True),
        sa.Column("recipients", sa.JSON(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=True),
        sa.Column("priority", sa.String(24), nullable=False),
        sa.Column("parent_id", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("kind = 'message'", name=op.f("ck_messages_kind")),
        sa.CheckConstraint(
            "priority IN ('info', 'action', 'urgent')",
            name=op.f("ck_messages_priority"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
            name=op.f("fk_messages_tenant_id_memory_id_kind"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "parent_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_messages_tenant_id_parent_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "thread_id"],
            ["threads.tenant_id", "threads.id"],
            name=op.f("fk_messages_tenant_id_thread_id"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_messages_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_messages")),
    )
    op.create_table(
        "rules",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("severity", sa.String(24), nullable=False),
        sa.Column("skill", sa.JSON(none_as_null=True), nullable=True),
        sa.Column("must_ack", sa.Boolean(), nullable=False),
        sa.CheckConstraint("kind = 'rule'", name=op.f("ck_rules_kind")),
        sa.CheckConstraint("severity IN ('BLOCKER', 'PATTERN')", name=op.f("ck_rules_severity")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
            name=op.f("fk_rules_tenant_id_memory_id_kind"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_rules_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_rules")),
    )
    op.create_table(
        "tasks",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(24), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("status", sa.String(24), nullable=False),
        sa.Column("priority", sa.String(24), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.Column("must_ack", sa.Boolean(), nullable=False),
        sa.Column("assignee", sa.String(length=128), nullable=True),
        sa.CheckConstraint("kind = 'task'", name=op.f("ck_tasks_kind")),
        sa.CheckConstraint("priority IN ('low', 'medium', 'high')", name=op.f("ck_tasks_priority")),
        sa.CheckConstraint(
            "status IN ('open', 'blocked', 'done', 'stale')",
            name=op.f("ck_tasks_status"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id", "kind"],
            ["memories.tenant_id", "memories.id", "memories.kind"],
            name=op.f("fk_tasks_tenant_id_memory_id_kind"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_tasks_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_tasks")),
    )
    if op.get_bind().dialect.name == "postgresql":
        for statement in FIRST_LIGHT:
            op.execute(statement)
        return
    op.create_table(
        "vectors",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("part", sa.SmallInteger(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
        sa.ForeignKeyConstraint(["space_id"], ["spaces.id"], name=op.f("fk_vectors_space_id")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_vectors_tenant_id_memory_id"),
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_vectors_tenant_id")),
        sa.PrimaryKeyConstraint(
            "tenant_id", "memory_id", "space_id", "part", name=op.f("pk_vectors")
        ),
    )
    op.create_index(
        op.f("ix_vectors_tenant_id_space_id_seq"),
        "vectors",
        ["tenant_id", "space_id", "seq"],
        unique=False,
    )

    for statement in _SQLITE:
        op.execute(statement)
