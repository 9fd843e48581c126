"""Indexes of the columns that lists of memories are filtered and counted by, and of tags."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0019"
down_revision: Final = "0018"


def upgrade() -> None:
    """Add the indexes; older programs ignore them."""
    for name, table, columns, condition in (
        (
            "ix_memories_listed",
            "memories",
            "tenant_id project kind state label agent scope trust pinned expires_at occurred_at "
            "recorded_at id",
            "scope <> ''",
        ),
        ("ix_entities_tags", "entities", "tenant_id name memory_id", "type = 'tag'"),
    ):
        op.create_index(
            name,
            table,
            columns.split(),
            if_not_exists=True,
            sqlite_where=sa.text(condition),
            postgresql_where=sa.text(condition),
        )
