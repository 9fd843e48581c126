"""The tables of cascades: what needs review by which cause, and what has yet to be followed up."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from commonbrain.adapters.sql.columns import Instant, Word, one_of
from commonbrain.adapters.sql.metadata import METADATA, tenant
from commonbrain.domain.cascade import Fall
from commonbrain.domain.memory import State

reviews = Table(
    "reviews",
    METADATA,
    tenant(),
    Column("memory_id", BigInteger, nullable=False, autoincrement=False),
    Column("cause_id", BigInteger, nullable=False, autoincrement=False),
    Column("fall", Word(Fall), nullable=False),
    Column("via_id", BigInteger, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Column("earlier", Word(State)),
    Column("settled_at", Instant),
    Column("settled_by", String(128)),
    Column("reason", Text),
    PrimaryKeyConstraint("tenant_id", "memory_id", "cause_id"),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    ForeignKeyConstraint(["tenant_id", "cause_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "cause_id", "depth"),
    one_of("fall", Fall),
)

# Memories whose fall, or return, has yet to be followed up: at once, or when they will expire. A
# row is deleted in the transaction that has finished with it, so that no death loses one.
falls = Table(
    "falls",
    METADATA,
    tenant(),
    Column("memory_id", BigInteger, nullable=False, autoincrement=False),
    Column("due_at", Instant, nullable=False),
    PrimaryKeyConstraint("tenant_id", "memory_id"),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "due_at"),
)
