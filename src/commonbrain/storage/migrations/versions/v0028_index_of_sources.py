"""An index by which a memory is found by the reference of its source."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0028"
down_revision: Final = "0027"


def upgrade() -> None:
    """Create the index, over the memories that have a source."""
    has_source = sa.text("source_ref IS NOT NULL")
    op.create_index(
        "ix_memories_source",
        "memories",
        ["tenant_id", "source_ref"],
        sqlite_where=has_source,
        postgresql_where=has_source,
    )
