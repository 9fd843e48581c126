"""Who linked two memories, and who annotated one.

What is stored counts as a person's, unless its agent called otherwise than by the command line or
the page, or is Commonbrain itself. What a program from before this leaves out is a model's.
"""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0026"
down_revision: Final = "0025"

_DERIVE: Final = """
UPDATE {table} SET authority = 'person'
WHERE agent NOT IN ('upkeep', 'commonbrain') AND NOT EXISTS (
    SELECT 1 FROM tool_events AS e
    WHERE e.tenant_id = {table}.tenant_id AND e.agent = {table}.agent
        AND e.door NOT IN ('cli', 'web')
)
"""


def upgrade() -> None:
    """Add the columns, and derive the authority of what is stored."""
    for table in ("links", "annotations"):
        column = sa.Column("authority", sa.String(24), nullable=False, server_default="model")
        op.add_column(table, column)
        op.execute(_DERIVE.format(table=table))
