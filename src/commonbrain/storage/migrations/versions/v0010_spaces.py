"""Spaces: several may be kept of a store, one of which serves."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0010"
down_revision: Final = "0009"

_STATE: Final = (
    "ALTER TABLE spaces ADD COLUMN state VARCHAR(24) DEFAULT 'current' NOT NULL "
    "CONSTRAINT ck_spaces_state CHECK (state IN ('building', 'current', 'retired', 'dropped'))"
)
# A copied store may have brought several; most of its vectors are in the one that it is used with.
_RETIRE: Final = (
    "UPDATE spaces SET state = 'retired' WHERE id <> (SELECT s.id FROM spaces s ORDER BY "
    "(SELECT count(*) FROM vectors v WHERE v.space_id = s.id) DESC, s.id LIMIT 1)"
)


def upgrade() -> None:
    """Say which space serves; older code goes on with the one that it knows by name."""
    op.execute(_STATE)
    if op.get_bind().execute(sa.text("SELECT count(*) FROM spaces")).scalar_one() > 1:
        op.execute(_RETIRE)
    serves = sa.text("state = 'current'")
    op.create_index(
        "uq_spaces_current",
        "spaces",
        ["state"],
        unique=True,
        sqlite_where=serves,
        postgresql_where=serves,
    )
