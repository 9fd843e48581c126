"""An index of live sessions by process, in place of one by folder, which has no bound."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0018"
down_revision: Final = "0017"


def upgrade() -> None:
    """Replace the index; older programs find the sessions of a process with it too."""
    # Postgres refuses rows of an index above 2,700 bytes, and a path may have 4,096.
    op.drop_index("ix_sessions_folder", "sessions", if_exists=True)
    live = sa.text("ended_at IS NULL")
    op.create_index(
        "ix_sessions_process",
        "sessions",
        ["tenant_id", "agent", "host", "pid"],
        sqlite_where=live,
        postgresql_where=live,
    )
