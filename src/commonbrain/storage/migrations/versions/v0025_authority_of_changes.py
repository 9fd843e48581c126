"""Who changed a memory, and who wrote a note.

What is stored counts as a person's, so that no model undoes it, unless its agent called otherwise
than by the command line or the page, or is Commonbrain itself.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0025"
down_revision: Final = "0024"

_DERIVE: Final = """
UPDATE {table} SET authority = 'model'
WHERE EXISTS (
    SELECT 1 FROM tool_events AS e
    WHERE e.tenant_id = {table}.tenant_id AND e.agent = {table}.agent
        AND e.door NOT IN ('cli', 'web')
) OR agent IN ('upkeep', 'commonbrain')
"""


def upgrade() -> None:
    """Add the columns, and derive the authority of what is stored."""
    for table in ("changes", "notes"):
        column = sa.Column("authority", sa.String(24), nullable=False, server_default="person")
        op.add_column(table, column)
        op.execute(_DERIVE.format(table=table))
