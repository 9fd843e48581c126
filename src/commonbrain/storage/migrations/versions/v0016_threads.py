"""Who began a thread, whether it goes on, and its tags."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0016"
down_revision: Final = "0015"


def upgrade() -> None:
    """Add the columns; older programs leave them out."""
    op.add_column("threads", sa.Column("agent", sa.String(128)))
    op.add_column("threads", sa.Column("status", sa.String(24)))
    op.add_column("threads", sa.Column("tags", sa.JSON()))
