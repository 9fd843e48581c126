"""Cascade: what needs review because something that it rests on has fallen."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0004"
down_revision: Final = "0003"


def _of_memory(table: str, column: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant_id", column],
        ["memories.tenant_id", "memories.id"],
        name=op.f(f"fk_{table}_tenant_id_{column}"),
    )


def _of_tenant(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant_id"], ["tenants.id"], name=op.f(f"fk_{table}_tenant_id")
    )


def upgrade() -> None:
    """Add both tables and widen an index; older code, which knows neither, works on."""
    op.create_table(
        "reviews",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cause_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("fall", sa.String(length=24), nullable=False),
        sa.Column("via_id", sa.BigInteger(), nullable=False),
        sa.Column("depth", sa.Integer(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("earlier", sa.String(length=24), nullable=True),
        sa.Column("settled_at", sa.BigInteger(), nullable=True),
        sa.Column("settled_by", sa.String(length=128), nullable=True),
        sa.Column("reason", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "fall IN ('superseded', 'forgotten', 'contradicted', 'expired', 'pruned', 'erased', "
            "'unsupported')",
            name=op.f("ck_reviews_fall"),
        ),
        _of_tenant("reviews"),
        _of_memory("reviews", "memory_id"),
        _of_memory("reviews", "cause_id"),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", "cause_id", name=op.f("pk_reviews")),
    )
    op.create_index(
        "ix_reviews_tenant_id_cause_id_depth", "reviews", ["tenant_id", "cause_id", "depth"]
    )
    op.create_table(
        "falls",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        _of_tenant("falls"),
        _of_memory("falls", "memory_id"),
        sa.PrimaryKeyConstraint("tenant_id", "memory_id", name=op.f("pk_falls")),
    )
    op.create_index("ix_falls_tenant_id_due_at", "falls", ["tenant_id", "due_at"])
    op.create_index(
        "ix_links_tenant_id_to_id_type_from_id", "links", ["tenant_id", "to_id", "type", "from_id"]
    )
    op.drop_index("ix_links_tenant_id_to_id_type", "links")
