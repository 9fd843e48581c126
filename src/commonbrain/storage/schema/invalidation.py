"""The tables of cascades: what needs review by which cause, and what has yet to be followed up."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    String,
    Table,
    Text,
)

from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import State
from commonbrain.model.support import InvalidationReason
from commonbrain.storage.schema.types import METADATA, EnumText, Instant, tenant

reviews = Table(
    "reviews",
    METADATA,
    tenant(),
    Column("memory_id", BigInteger, nullable=False, autoincrement=False),
    Column("cause_id", BigInteger, nullable=False, autoincrement=False),
    Column("fall", EnumText(InvalidationReason), nullable=False),
    Column("via_id", BigInteger, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("at", Instant, nullable=False),
    Column("earlier", EnumText(State)),
    Column("settled_at", Instant),
    Column("settled_by", String(128)),
    Column("reason", Text),
    PrimaryKeyConstraint("tenant_id", "memory_id", "cause_id"),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    ForeignKeyConstraint(["tenant_id", "cause_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "cause_id", "depth"),
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


field_vectors = Table(
    "field_vectors",
    METADATA,
    tenant(),
    Column("memory_id", BigInteger, nullable=False, autoincrement=False),
    Column("space_id", Integer, ForeignKey("spaces.id"), nullable=False),
    Column("field", EnumText(CausalField), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("vector", LargeBinary),
    PrimaryKeyConstraint("tenant_id", "memory_id", "space_id", "field"),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "space_id", "field", "seq"),
)
