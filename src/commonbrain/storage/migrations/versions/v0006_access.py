"""Access: agents, their keys, what is refused, and what a tenant's policy settles."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0006"
down_revision: Final = "0005"

_TRUSTS: Final = "('trusted_tool', 'user_claim', 'untrusted_web')"
_SQLITE: Final = tuple(
    f"CREATE TRIGGER access_audit_is_never_{done} BEFORE {verb} ON access_audit "
    "BEGIN SELECT RAISE(ABORT, 'access_audit is append-only'); END"
    for verb, done in (("UPDATE", "updated"), ("DELETE", "deleted"))
)
_POSTGRES: Final = (
    "CREATE FUNCTION access_audit_is_append_only() RETURNS trigger LANGUAGE plpgsql AS "
    "$$ BEGIN RAISE EXCEPTION 'access_audit is append-only' "
    "USING ERRCODE = 'integrity_constraint_violation'; END $$",
    "CREATE TRIGGER access_audit_is_append_only BEFORE UPDATE OR DELETE ON access_audit "
    "FOR EACH ROW EXECUTE FUNCTION access_audit_is_append_only()",
)


def _tenant() -> sa.Column:
    return sa.Column("tenant_id", sa.String(length=128), nullable=False)


def _of_tenant(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant_id"], ["tenants.id"], name=op.f(f"fk_{table}_tenant_id")
    )


def upgrade() -> None:
    """Add three tables and two columns; older code, which knows none of them, works on."""
    op.add_column(
        "tenants", sa.Column("policy", sa.JSON(), nullable=False, server_default=sa.text("'{}'"))
    )
    op.add_column("tenants", sa.Column("suspended_at", sa.BigInteger(), nullable=True))
    op.create_table(
        "agents",
        _tenant(),
        sa.Column("name", sa.String(length=128), nullable=False),
        sa.Column("role", sa.String(length=24), nullable=False),
        sa.Column("trust_default", sa.String(length=24), nullable=False),
        sa.Column("trust_ceiling", sa.String(length=24), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("disabled_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("role IN ('reader', 'writer', 'admin')", name=op.f("ck_agents_role")),
        sa.CheckConstraint(f"trust_default IN {_TRUSTS}", name=op.f("ck_agents_trust_default")),
        sa.CheckConstraint(f"trust_ceiling IN {_TRUSTS}", name=op.f("ck_agents_trust_ceiling")),
        _of_tenant("agents"),
        sa.PrimaryKeyConstraint("tenant_id", "name", name=op.f("pk_agents")),
    )
    op.create_table(
        "api_keys",
        _tenant(),
        sa.Column("prefix", sa.String(length=8), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("label", sa.String(length=128), nullable=True),
        sa.Column("scopes", sa.JSON(), nullable=False),
        sa.Column("networks", sa.JSON(), nullable=False),
        sa.Column("seal", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["tenant_id", "agent"],
            ["agents.tenant_id", "agents.name"],
            name=op.f("fk_api_keys_tenant_id_agent"),
        ),
        _of_tenant("api_keys"),
        sa.PrimaryKeyConstraint("tenant_id", "prefix", name=op.f("pk_api_keys")),
    )
    op.create_index(op.f("ix_api_keys_tenant_id_agent"), "api_keys", ["tenant_id", "agent"])
    op.create_table(
        "access_audit",
        _tenant(),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("code", sa.String(length=64), nullable=True),
        sa.Column("agent", sa.String(length=128), nullable=True),
        sa.Column("credential", sa.String(length=160), nullable=True),
        sa.Column("request_id", sa.String(length=128), nullable=True),
        sa.Column("subject", sa.String(length=160), nullable=True),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.CheckConstraint("count >= 1", name=op.f("ck_access_audit_count")),
        _of_tenant("access_audit"),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_access_audit")),
    )
    bind = op.get_bind().dialect.name
    for statement in {"sqlite": _SQLITE, "postgresql": _POSTGRES}.get(bind, ()):
        op.execute(statement)
