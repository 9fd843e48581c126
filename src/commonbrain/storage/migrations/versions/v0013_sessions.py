"""An index by session, to read what a session stored just before and after a memory."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0013"
down_revision: Final = "0012"


def upgrade() -> None:
    """Make the index; older programs ignore it."""
    named = sa.text("session IS NOT NULL")
    op.create_index(
        "ix_memories_session",
        "memories",
        ["tenant_id", "session", "id"],
        sqlite_where=named,
        postgresql_where=named,
    )
