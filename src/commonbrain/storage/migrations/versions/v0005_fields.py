"""Fields: each field of an atom is searched by its own words and its own vector."""

from typing import Final

import sqlalchemy as sa
from alembic import op

from commonbrain.storage.postgres.schema import FIELDS

revision: Final = "0005"
down_revision: Final = "0004"

_SQLITE: Final = (
    "CREATE VIRTUAL TABLE atom_text USING fts5(subject, action, outcome, consequences, content='', "
    "contentless_delete=1, tokenize='porter unicode61 remove_diacritics 2')",
    "INSERT INTO atom_text (rowid, subject, action, outcome, consequences) "
    "SELECT a.memory_id, coalesce(a.subject, ''), coalesce(a.action, ''), "
    "coalesce(a.outcome, ''), coalesce(a.consequences, '') FROM atoms a "
    "JOIN memories m ON m.tenant_id = a.tenant_id AND m.id = a.memory_id "
    "WHERE m.state IN ('active', 'archived', 'superseded')",
)


def upgrade() -> None:
    """Add a table and a full text; vectors of older atoms are made by `brain doctor --repair`."""
    if op.get_bind().dialect.name == "postgresql":
        for statement in FIELDS:
            op.execute(statement)
        return
    op.create_table(
        "field_vectors",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("space_id", sa.Integer(), nullable=False),
        sa.Column("field", sa.String(length=24), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("vector", sa.LargeBinary(), nullable=True),
        sa.CheckConstraint(
            "field IN ('subject', 'action', 'outcome', 'consequences')",
            name=op.f("ck_field_vectors_field"),
        ),
        sa.ForeignKeyConstraint(
            ["space_id"], ["spaces.id"], name=op.f("fk_field_vectors_space_id")
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id", "memory_id"],
            ["memories.tenant_id", "memories.id"],
            name=op.f("fk_field_vectors_tenant_id_memory_id"),
        ),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.id"], name=op.f("fk_field_vectors_tenant_id")
        ),
        sa.PrimaryKeyConstraint(
            "tenant_id", "memory_id", "space_id", "field", name=op.f("pk_field_vectors")
        ),
    )
    op.create_index(
        op.f("ix_field_vectors_tenant_id_space_id_field_seq"),
        "field_vectors",
        ["tenant_id", "space_id", "field", "seq"],
        unique=False,
    )
    for statement in _SQLITE:
        op.execute(statement)
