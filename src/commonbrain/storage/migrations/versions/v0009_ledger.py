"""The ledger: which model ordered a recall, the marks on what it packed, and cards of models."""

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0009"
down_revision: Final = "0008"

_SERVES: Final = sa.text("state IN ('canary', 'active')")
_RANKED: Final = sa.text("ranker IS NOT NULL")
_STATES: Final = "state IN ('candidate', 'canary', 'active', 'retired', 'rolled_back')"


def _of_tenant(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["tenant_id"], ["tenants.id"], name=op.f(f"fk_{table}_tenant_id")
    )


def _is(table: str, name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{table}_{name}"))


def upgrade() -> None:
    """Add a column that older code leaves empty, and two tables that it does not know."""
    op.add_column("recall_traces", sa.Column("ranker", sa.BigInteger(), nullable=True))
    op.create_index(
        op.f("ix_recall_traces_tenant_id_ranker_id"),
        "recall_traces",
        ["tenant_id", "ranker", "id"],
        unique=False,
        sqlite_where=_RANKED,
        postgresql_where=_RANKED,
    )
    op.create_table(
        "feedback",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("trace_id", sa.BigInteger(), nullable=False),
        sa.Column("memory_id", sa.BigInteger(), nullable=False),
        sa.Column("mark", sa.String(length=24), nullable=False),
        sa.Column("agent", sa.String(length=128), nullable=False),
        sa.Column("session", sa.String(length=128), nullable=True),
        sa.Column("at", sa.BigInteger(), nullable=False),
        _is("feedback", "mark", "mark IN ('used', 'useful', 'wrong')"),
        _of_tenant("feedback"),
        sa.PrimaryKeyConstraint(
            "tenant_id", "trace_id", "memory_id", "mark", name=op.f("pk_feedback")
        ),
    )
    op.create_index(
        op.f("ix_feedback_tenant_id_memory_id"),
        "feedback",
        ["tenant_id", "memory_id"],
        unique=False,
    )
    op.create_table(
        "models",
        sa.Column("tenant_id", sa.String(length=128), nullable=False),
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("role", sa.String(length=24), nullable=False),
        sa.Column("state", sa.String(length=24), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("features", sa.JSON(), nullable=False),
        sa.Column("told", sa.JSON(), nullable=False),
        sa.Column("parent", sa.BigInteger(), nullable=True),
        sa.Column("percent", sa.Float(), nullable=False),
        sa.Column("allow", sa.JSON(), nullable=False),
        sa.Column("made_at", sa.BigInteger(), nullable=False),
        sa.Column("moved_at", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        _is("models", "role", "role IN ('reranker', 'salience')"),
        _is("models", "state", _STATES),
        _is("models", "percent_of_hundred", "percent >= 0 AND percent <= 100"),
        _of_tenant("models"),
        sa.PrimaryKeyConstraint("tenant_id", "id", name=op.f("pk_models")),
    )
    op.create_index(
        "uq_models_serving",
        "models",
        ["tenant_id", "role", "state"],
        unique=True,
        sqlite_where=_SERVES,
        postgresql_where=_SERVES,
    )
