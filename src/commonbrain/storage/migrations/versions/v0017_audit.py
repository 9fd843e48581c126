"""The request that a line of the audit belongs to, and indexes to read it by agent and request."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0017"
down_revision: Final = "0016"


def upgrade() -> None:
    """Add the column and the indexes; older programs ignore them."""
    op.add_column("audit", sa.Column("request_id", sa.String(128)))
    op.create_index("ix_audit_agent", "audit", ["tenant_id", "agent", "id"])
    named = sa.text("request_id IS NOT NULL")
    op.create_index(
        "ix_audit_request",
        "audit",
        ["tenant_id", "request_id"],
        sqlite_where=named,
        postgresql_where=named,
    )
