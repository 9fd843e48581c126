"""The tables of learning: recall traces, feedback, model cards and evaluations."""

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    Index,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from commonbrain.model.model_card import ModelRole, ModelState
from commonbrain.model.query import FeedbackMark
from commonbrain.storage.schema.types import (
    METADATA,
    EnumText,
    Instant,
    Names,
    only,
    tenant,
)

recall_traces = Table(
    "recall_traces",
    METADATA,
    tenant(),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("asked_at", Instant, nullable=False),
    Column("agent", String(128), nullable=False),
    Column("session", String(128)),
    Column("query", Text, nullable=False),
    Column("verdict", String(24), nullable=False),
    Column("considered", JSON, nullable=False),
    Column("packed", JSON, nullable=False),
    Column("degraded", JSON, nullable=False),
    Column("stages_ms", JSON, nullable=False),
    Column("ranker", BigInteger),
    PrimaryKeyConstraint("tenant_id", "id"),
    Index(None, "tenant_id", "ranker", "id", **only("ranker IS NOT NULL")),
)

models = Table(
    "models",
    METADATA,
    tenant(),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("role", EnumText(ModelRole), nullable=False),
    Column("state", EnumText(ModelState), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("features", Names, nullable=False),
    Column("told", JSON, nullable=False),
    Column("parent", BigInteger),
    Column("percent", Float, nullable=False),
    Column("allow", Names, nullable=False),
    Column("made_at", Instant, nullable=False),
    Column("moved_at", Instant, nullable=False),
    Column("reason", Text),
    PrimaryKeyConstraint("tenant_id", "id"),
    # Each role has one active model and one canary, also under concurrent moves.
    Index(
        "uq_models_serving",
        "tenant_id",
        "role",
        "state",
        unique=True,
        **only("state IN ('canary', 'active')"),
    ),
    CheckConstraint("percent >= 0 AND percent <= 100", name="percent_of_hundred"),
)

# No foreign key to the trace: both are deleted when they are old, and feedback on a missing trace
# is skipped.
feedback = Table(
    "feedback",
    METADATA,
    tenant(),
    Column("trace_id", BigInteger, nullable=False),
    Column("memory_id", BigInteger, nullable=False),
    Column("mark", EnumText(FeedbackMark), nullable=False),
    Column("agent", String(128), nullable=False),
    Column("session", String(128)),
    Column("at", Instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "trace_id", "memory_id", "mark"),
    Index(None, "tenant_id", "memory_id"),
)


# Figures are JSON: new ones are added over time, and no query filters by them.
evaluations = Table(
    "evaluations",
    METADATA,
    tenant(),
    Column("id", BigInteger, nullable=False, autoincrement=False),
    Column("name", String(24), nullable=False),
    Column("at", Instant, nullable=False),
    Column("agent", String(128), nullable=False),
    Column("figures", JSON, nullable=False),
    Column("setup", JSON, nullable=False),
    Column("took_ms", JSON, nullable=False),
    PrimaryKeyConstraint("tenant_id", "id"),
    Index(None, "tenant_id", "name", "id"),
)
