"""Indexes of live sessions by process, in place of one by folder, and of the events of hooks.

Subjects of threads that repeat an erased message are emptied.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0018"
down_revision: Final = "0017"

# Erasing took a message out of its thread, which kept its headline as the subject. The first
# message of a thread is recorded when the thread is created.
_ERASED: Final = (
    "UPDATE messages SET thread_id = (SELECT min(t.id) FROM memories m "
    "JOIN threads t ON t.tenant_id = m.tenant_id AND t.created_at = m.recorded_at "
    "WHERE m.tenant_id = messages.tenant_id AND m.id = messages.memory_id "
    "AND m.headline = '(erased)') WHERE thread_id IS NULL",
    "UPDATE threads SET subject = '(erased)', tags = NULL WHERE EXISTS (SELECT 1 FROM messages d "
    "JOIN memories m ON m.tenant_id = d.tenant_id AND m.id = d.memory_id "
    "WHERE d.tenant_id = threads.tenant_id AND d.thread_id = threads.id "
    "AND m.headline = '(erased)' AND m.recorded_at = threads.created_at)",
)


def upgrade() -> None:
    """Replace and add indexes, which older programs use or ignore; empty old subjects."""
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
    for statement in _ERASED:
        op.execute(statement)
