"""Who wrote a memory, and for whom a job runs.

What is stored gets the authority that its trust, its capture and the calls of its agent show: agents
that called by the command line or the page alone are people, all others are models.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0024"
down_revision: Final = "0023"

_DERIVE: Final = """
UPDATE memories SET authority = CASE
    WHEN trust = 'untrusted_web' THEN 'web'
    WHEN auto_captured THEN 'captured'
    WHEN EXISTS (
        SELECT 1 FROM tool_events AS e
        WHERE e.tenant_id = memories.tenant_id AND e.agent = memories.agent
            AND e.door IN ('cli', 'web')
    ) AND NOT EXISTS (
        SELECT 1 FROM tool_events AS e
        WHERE e.tenant_id = memories.tenant_id AND e.agent = memories.agent
            AND e.door NOT IN ('cli', 'web')
    ) THEN 'person'
    ELSE 'model'
END
"""


def upgrade() -> None:
    """Add the columns, and derive the authority of what is stored."""
    for table in ("memories", "jobs"):
        column = sa.Column("authority", sa.String(24), nullable=False, server_default="model")
        op.add_column(table, column)
    op.execute(_DERIVE)
