"""Indexes of live sessions by process, in place of one by folder, and of the events of hooks."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0018"
down_revision: Final = "0017"


def upgrade() -> None:
    """Replace and add indexes; older programs use or ignore them."""
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
    hooks = sa.text("door = 'hook'")
    for name, *agent in (["ix_tool_events_hook"], ["ix_tool_events_hook_agent", "agent"]):
        op.create_index(
            name,
            "tool_events",
            ["tenant_id", *agent, "id"],
            sqlite_where=hooks,
            postgresql_where=hooks,
        )
