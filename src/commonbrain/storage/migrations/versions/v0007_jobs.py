"""Jobs: work that outlives the call that asked for it, as rows."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0007"
down_revision: Final = "0006"

_STATES: Final = "state IN ('queued', 'running', 'done', 'dead', 'cancelled')"
_ROLES: Final = "role IN ('reader', 'writer', 'admin')"
_TRUSTS: Final = "('trusted_tool', 'user_claim', 'untrusted_web')"
_IS_LIVE: Final = "state IN ('queued', 'running')"


def _is(name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_jobs_{name}"))


def _of_live(name: str, column: str, *, unique: bool) -> None:
    op.create_index(
        name,
        "jobs",
        ["tenant_id", column],
        unique=unique,
        sqlite_where=sa.text(_IS_LIVE),
        postgresql_where=sa.text(_IS_LIVE),
    )


def upgrade() -> None:
    """Add the table; older code, which does not know it, works on."""
    op.create_table(
        "jobs",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("kind", sa.String(length=24), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session", sa.String(length=128), nullable=True),
        sa.Column("project", sa.String(length=128), nullable=True),
        sa.Column("role", sa.String(length=24), nullable=False),
        sa.Column("trust_default", sa.String(length=24), nullable=False),
        sa.Column("trust_ceiling", sa.String(length=24), nullable=False),
        sa.Column("given", sa.JSON(), nullable=False),
        sa.Column("key", sa.String(length=128), nullable=True),
        sa.Column("state", sa.String(length=24), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=False),
        sa.Column("worker", sa.String(length=128), nullable=True),
        sa.Column("progress", sa.Float(), nullable=False),
        sa.Column("reached", sa.JSON(), nullable=False),
        sa.Column("fault_code", sa.String(length=64), nullable=True),
        sa.Column("fault_message", sa.Text(), nullable=True),
        sa.Column("result", sa.JSON(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=True),
        sa.Column("finished_at", sa.BigInteger(), nullable=True),
        _is("state", _STATES),
        _is("role", _ROLES),
        _is("trust_default", f"trust_default IN {_TRUSTS}"),
        _is("trust_ceiling", f"trust_ceiling IN {_TRUSTS}"),
        _is("progress_fraction", "progress >= 0 AND progress <= 1"),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.id"], name=op.f("fk_jobs_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_jobs")),
    )
    _of_live("ix_jobs_due", "due_at", unique=False)
    _of_live("uq_jobs_key", "key", unique=True)
