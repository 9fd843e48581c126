"""Indexes of rules, of what waits for a decision, and of vectors without a value."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0021"
down_revision: Final = "0020"


def upgrade() -> None:
    """Add the indexes; older programs ignore them."""
    for name, table, columns, condition in (
        (
            "ix_memories_awaiting",
            "memories",
            "tenant_id occurred_at id",
            "state IN ('candidate', 'quarantined')",
        ),
        ("ix_memories_rules", "memories", "tenant_id occurred_at id", "kind = 'rule'"),
        ("ix_vectors_dropped", "vectors", "tenant_id space_id memory_id", "vector IS NULL"),
    ):
        op.create_index(
            name,
            table,
            columns.split(),
            if_not_exists=True,
            sqlite_where=sa.text(condition),
            postgresql_where=sa.text(condition),
        )
