"""An index of pinned memories, which every boot lists."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0027"
down_revision: Final = "0026"


def upgrade() -> None:
    """Make the index."""
    pinned = sa.text("pinned")
    op.create_index(
        "ix_memories_pinned",
        "memories",
        ["tenant_id", "id"],
        sqlite_where=pinned,
        postgresql_where=pinned,
    )
