"""What sessions say of themselves, such as their branch, and indexes of the live ones."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0015"
down_revision: Final = "0014"

_INDEXES: Final = {
    "ix_sessions_heartbeat": ["tenant_id", "heartbeat_at"],
    "ix_sessions_project": ["tenant_id", "project", "heartbeat_at"],
}


def upgrade() -> None:
    """Add the column and the indexes; older programs ignore them."""
    op.add_column("sessions", sa.Column("metadata", sa.JSON()))
    live = sa.text("ended_at IS NULL")
    for name, columns in _INDEXES.items():
        op.create_index(name, "sessions", columns, sqlite_where=live, postgresql_where=live)
