"""What recall reads out of a text, stored with the memory."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0023"
down_revision: Final = "0022"


def upgrade() -> None:
    """Add the column; older programs leave it out, and maintenance fills it."""
    op.add_column("memories", sa.Column("reading", sa.Text()))
