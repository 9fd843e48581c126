"""Indexes of memories and their names with the columns that lists are filtered and counted by."""

from typing import Final

from alembic import op

revision: Final = "0019"
down_revision: Final = "0018"

_WIDER: Final = (
    (
        "ix_memories_tenant_id_project_kind_state",
        "ix_memories_listed",
        "memories",
        "tenant_id project kind state label agent scope trust pinned expires_at occurred_at "
        "recorded_at id",
    ),
    (
        "ix_memories_tenant_id_occurred_at",
        "ix_memories_occurred",
        "memories",
        "tenant_id occurred_at id",
    ),
    (
        "ix_entities_tenant_id_type_name",
        "ix_entities_named",
        "entities",
        "tenant_id type name memory_id",
    ),
)


def upgrade() -> None:
    """Replace indexes by wider ones with the same first columns, which older programs use too."""
    for old, new, table, columns in _WIDER:
        op.create_index(new, table, columns.split(), if_not_exists=True)
        op.drop_index(old, table, if_exists=True)
