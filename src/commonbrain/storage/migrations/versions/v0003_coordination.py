"""Coordination: sessions, notes, acknowledgements, receipts, leases of tasks."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0003"
down_revision: Final = "0002"


def _tenant() -> sa.Column:
    return sa.Column("tenant_id", sa.String(length=128), nullable=False)


def _of_tenant(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant_id"], ["tenants.id"], name=op.f(f"fk_{table}_tenant_id")
    )


def _of_memory(table: str, column: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant_id", column],
        ["memories.tenant_id", "memories.id"],
        name=op.f(f"fk_{table}_tenant_id_{column}"),
    )


def upgrade() -> None:
    """Add what coordination needs; nothing that is there changes, so that older code reads it."""
    op.add_column("tasks", sa.Column("lease_holder", sa.String(length=128), nullable=True))
    op.add_column("tasks", sa.Column("lease_until", sa.BigInteger(), nullable=True))
    for name, table, where in (
        ("ix_tasks_owed", "tasks", "status IN ('open', 'blocked')"),
        ("ix_tasks_must_ack", "tasks", "must_ack"),
        ("ix_rules_must_ack", "rules", "must_ack"),
        ("ix_tasks_given", "tasks", "assignee IS NOT NULL"),
    ):
        op.create_index(
            name,
            table,
            ["tenant_id", "memory_id"],
            unique=False,
            sqlite_where=sa.text(where),
            postgresql_where=sa.text(where),
        )
    op.create_index("ix_messages_thread", "messages", ["tenant_id", "thread_id", "memory_id"])
    op.create_table(
        "sessions",
        _tenant(),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("project", sa.String(length=128), nullable=True),
        sa.Column("task", sa.Text(), nullable=True),
        sa.Column("client", sa.String(length=128), nullable=True),
        sa.Column("cwd", sa.Text(), nullable=True),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("pid", sa.BigInteger(), nullable=True),
        sa.Column("pid_created_at", sa.BigInteger(), nullable=True),
        sa.Column("server_pid", sa.BigInteger(), nullable=True),
        sa.Column("server_created_at", sa.BigInteger(), nullable=True),
        sa.Column("probed_at", sa.BigInteger(), nullable=True),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("heartbeat_at", sa.BigInteger(), nullable=False),
        sa.Column("booted_at", sa.BigInteger(), nullable=True),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("ending", sa.String(24), nullable=True),
        sa.CheckConstraint(
            "ending IN ('ended', 'closed', 'dead', 'rebooted', 'silent')",
            name=op.f("ck_sessions_ending"),
        ),
        _of_tenant("sessions"),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_sessions")),
        sa.UniqueConstraint(
            "tenant_id", "agent", "key", name=op.f("uq_sessions_tenant_id_agent_key")
        ),
    )
    op.create_index(
        "ix_sessions_live",
        "sessions",
        ["tenant_id", "id"],
        unique=False,
        sqlite_where=sa.text("ended_at IS NULL"),
        postgresql_where=sa.text("ended_at IS NULL"),
    )
    op.create_table(
        "notes",
        _tenant(),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session", sa.String(length=128), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("value", sa.Text(), nullable=False),
        sa.Column("project", sa.String(length=128), nullable=True),
        sa.Column("pinned", sa.Boolean(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        _of_tenant("notes"),
        sa.PrimaryKeyConstraint("tenant_id", "agent", "session", "key", name=op.f("pk_notes")),
    )
    op.create_index(
        "ix_notes_pinned",
        "notes",
        ["tenant_id", "project"],
        unique=False,
        sqlite_where=sa.text("pinned"),
        postgresql_where=sa.text("pinned"),
    )
    op.create_table(
        "acks",
        _tenant(),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session", sa.String(length=128), nullable=False),
        sa.Column("decision", sa.String(24), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("until", sa.BigInteger(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "decision IN ('will_execute', 'already_done', 'not_relevant', 'deferred')",
            name=op.f("ck_acks_decision"),
        ),
        _of_tenant("acks"),
        _of_memory("acks", "memory_id"),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", "agent", "session", name=op.f("pk_acks")),
    )
    op.create_table(
        "receipts",
        _tenant(),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("message_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("sender", sa.String(length=128), nullable=False),
        sa.Column("project", sa.String(length=128), nullable=True),
        sa.Column("is_urgent", sa.Boolean(), nullable=False),
        sa.Column("read_at", sa.BigInteger(), nullable=True),
        sa.Column("acked_at", sa.BigInteger(), nullable=True),
        sa.Column("answer", sa.Text(), nullable=True),
        _of_tenant("receipts"),
        _of_memory("receipts", "message_id"),
        sa.PrimaryKeyConstraint("tenant_id", "agent", "message_id", name=op.f("pk_receipts")),
    )
    op.create_index("ix_receipts_message", "receipts", ["tenant_id", "message_id"], unique=False)
    op.create_index(
        "ix_receipts_unread",
        "receipts",
        ["tenant_id", "agent", "project", "is_urgent", "message_id"],
        unique=False,
        sqlite_where=sa.text("read_at IS NULL"),
        postgresql_where=sa.text("read_at IS NULL"),
    )
    op.create_table(
        "mailboxes",
        _tenant(),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("taken_until", sa.BigInteger(), nullable=False),
        _of_tenant("mailboxes"),
        sa.PrimaryKeyConstraint("tenant_id", "agent", name=op.f("pk_mailboxes")),
    )
    op.add_column("threads", sa.Column("last_id", sa.BigInteger(), nullable=True))
    op.create_index("ix_threads_last", "threads", ["tenant_id", "last_id"], unique=False)
    op.execute(
        "UPDATE threads SET last_id = (SELECT max(memory_id) FROM messages"
        " WHERE messages.tenant_id = threads.tenant_id AND messages.thread_id = threads.id)"
    )
