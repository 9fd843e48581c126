"""Revision: links, annotations, before-images with spans of belief, idempotency keys."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"

_TRUST: Final = "trust IN ('trusted_tool', 'user_claim', 'untrusted_web')"
# What was done before there were before-images: who made what, and until when the superseded held.
# A line of audit and the change it tells of share their id.
_CREATED: Final = (
    "INSERT INTO changes (tenant_id, id, memory_id, action, agent, session, reason, at, "
    '"before", "after", believed_since, believed_until) '
    "SELECT a.tenant_id, a.id, a.memory_id, a.action, a.agent, a.session, a.reason, a.at, "
    "CASE a.action WHEN 'create' THEN '{}' WHEN 'forget' THEN '{\"state\":\"active\"}' "
    'ELSE \'{"state":"active","superseded_by": null, "superseded_at": null}\' END, '
    "CASE a.action WHEN 'create' THEN '{}' WHEN 'forget' THEN '{\"state\":\"forgotten\"}' "
    'ELSE \'{"state":"superseded"}\' END, '
    "CASE a.action WHEN 'create' THEN NULL ELSE m.recorded_at END, "
    "CASE a.action WHEN 'create' THEN NULL ELSE a.at END "
    "FROM audit a JOIN memories m ON m.tenant_id = a.tenant_id AND m.id = a.memory_id"
)


def upgrade() -> None:
    """Add what revision needs; nothing that is there changes, so that older code still reads it."""
    op.add_column("memories", sa.Column("believed_since", sa.BigInteger(), nullable=True))
    op.create_index(
        "ix_rules_skill",
        "rules",
        ["tenant_id", "memory_id"],
        unique=False,
        sqlite_where=sa.text("skill IS NOT NULL"),
        postgresql_where=sa.text("skill IS NOT NULL"),
    )
    op.create_table(
        "links",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("from_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("to_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("type", sa.String(24), nullable=False),
        sa.Column("strength", sa.Float(), nullable=False),
        sa.Column("observations", sa.Integer(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=True),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("trust", sa.String(24), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("observed_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "type IN ('derived_from', 'depends_on', 'supports', 'conflicts_with', 'causes', "
            "'enables', 'precedes', 'correlates', 'relates_to', 'about')",
            name=op.f("ck_links_type"),
        ),
        sa.CheckConstraint(_TRUST, name=op.f("ck_links_trust")),
        sa.CheckConstraint(
            "strength >= 0 AND strength <= 1", name=op.f("ck_links_strength_fraction")
        ),
        sa.CheckConstraint("from_id <> to_id", name=op.f("ck_links_ends")),
        sa.CheckConstraint("observations >= 1", name=op.f("ck_links_observations")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_links_tenant_id")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "from_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_links_tenant_id_from_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "to_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_links_tenant_id_to_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "from_id", "to_id", "type", name=op.f("pk_links")),
    )
    op.create_index(
        op.f("ix_links_tenant_id_to_id_type"), "links", ["tenant_id", "to_id", "type"], unique=False
    )
    op.create_table(
        "annotations",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("trust", sa.String(24), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(_TRUST, name=op.f("ck_annotations_trust")),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_annotations_tenant_id")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_annotations_tenant_id_memory_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_annotations")),
    )
    op.create_index(
        op.f("ix_annotations_tenant_id_memory_id"),
        "annotations",
        ["tenant_id", "memory_id"],
        unique=False,
    )
    op.create_table(
        "changes",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.String(24), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session", sa.String(length=128), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("before", sa.JSON(), nullable=False),
        sa.Column("after", sa.JSON(), nullable=False),
        sa.Column("believed_since", sa.BigInteger(), nullable=True),
        sa.Column("believed_until", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "(believed_since IS NULL) = (believed_until IS NULL)", name=op.f("ck_changes_believed")
        ),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_changes_tenant_id")),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_changes_tenant_id_memory_id"),
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_changes")),
    )
    op.create_index(
        op.f("ix_changes_tenant_id_memory_id"), "changes", ["tenant_id", "memory_id"], unique=False
    )
    op.create_index(op.f("ix_changes_tenant_id_at"), "changes", ["tenant_id", "at"], unique=False)
    op.create_table(
        "idempotency",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("body", sa.JSON(), nullable=False),
        sa.Column("memory_ids", sa.JSON(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_idempotency_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "agent", "key", name=op.f("pk_idempotency")),
    )
    if op.get_bind().dialect.name == "sqlite":
        # No store in Postgres is older than this.
        op.execute(_CREATED)
