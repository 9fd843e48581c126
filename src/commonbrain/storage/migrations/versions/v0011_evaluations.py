"""Evaluations: how well a store was found to be searched, over time."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0011"
down_revision: Final = "0010"


def upgrade() -> None:
    """Add the table, which older code does not know."""
    op.create_table(
        "evaluations",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=24), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("figures", sa.JSON(), nullable=False),
        sa.Column("setup", sa.JSON(), nullable=False),
        sa.Column("took_ms", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_evaluations_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_evaluations")),
    )
    op.create_index(
        op.f("ix_evaluations_tenant_id_name_id"),
        "evaluations",
        ["tenant_id", "name", "id"],
        unique=False,
    )
