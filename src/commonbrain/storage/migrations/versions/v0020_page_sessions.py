"""Sessions of the web page."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0020"
down_revision: Final = "0019"


def upgrade() -> None:
    """Create the table; older programs ignore it."""
    op.create_table(
        "page_sessions",
        sa.Column("tenant_id", sa.String(128), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("agent", sa.String(128), nullable=False),
        sa.Column("key_prefix", sa.String(8)),
        sa.Column("token_role", sa.String(24)),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("last_seen_at", sa.BigInteger, nullable=False),
        sa.Column("ends_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "digest", name="pk_page_sessions"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name="fk_page_sessions_tenant_id"),
        sa.ForeignKeyConstraint(
            ["tenant_id", "key_prefix"],
            ["api_keys.tenant_id", "api_keys.prefix"],
            name="fk_page_sessions_tenant_id_key_prefix",
        ),
        sa.CheckConstraint("(key_prefix IS NULL) <> (token_role IS NULL)", name="credential"),
    )
    for column in ("agent", "ends_at"):
        name = f"ix_page_sessions_tenant_id_{column}"
        op.create_index(name, "page_sessions", ["tenant_id", column])
