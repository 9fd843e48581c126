"""The table of field vectors: what atoms say in each of their fields, to be searched by itself.

They stand apart from `vectors`, so that a search of whole memories neither reads nor weighs them.
A vector that was dropped stays as a row without its value under a new `seq`, as there.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
)

from commonbrain.adapters.sql.columns import Word, one_of
from commonbrain.adapters.sql.metadata import METADATA, tenant
from commonbrain.domain.atom import CausalField

field_vectors = Table(
    "field_vectors",
    METADATA,
    tenant(),
    Column("memory_id", BigInteger, nullable=False, autoincrement=False),
    Column("space_id", Integer, ForeignKey("spaces.id"), nullable=False),
    Column("field", Word(CausalField), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("vector", LargeBinary),
    PrimaryKeyConstraint("tenant_id", "memory_id", "space_id", "field"),
    ForeignKeyConstraint(["tenant_id", "memory_id"], ["memories.tenant_id", "memories.id"]),
    Index(None, "tenant_id", "space_id", "field", "seq"),
    one_of("field", CausalField),
)
