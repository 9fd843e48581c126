"""What prompt hooks showed to a session, so that nothing is shown to it twice."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0014"
down_revision: Final = "0013"


def upgrade() -> None:
    """Add the column; older programs ignore it."""
    op.add_column("sessions", sa.Column("shown", sa.JSON()))
