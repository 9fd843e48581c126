"""The tables of the index as Postgres has them, hash-partitioned by tenant, beside `METADATA`.

Full text and vectors are derived from the rows, so that each engine keeps them its own way. Both
are narrow and in partitions: an index of one tenant's neighbours is small and stays in memory.
"""

from typing import Final

from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
)
from sqlalchemy.types import UserDefinedType

from commonbrain.adapters.sql.columns import Word
from commonbrain.domain.atom import CausalField

INDEX: Final = MetaData()


class Half(UserDefinedType[object]):
    """A vector of half precision, which pgvector's codec reads and writes in binary."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        """Name it as pgvector does; its dimensions stand in the index over it."""
        return "halfvec"


vectors: Final = Table(
    "vectors",
    INDEX,
    Column("tenant_id", String(128), primary_key=True),
    Column("memory_id", BigInteger, primary_key=True, autoincrement=False),
    Column("space_id", Integer, primary_key=True, autoincrement=False),
    Column("part", SmallInteger, primary_key=True, autoincrement=False),
    Column("vector", Half),
)

field_vectors: Final = Table(
    "field_vectors",
    INDEX,
    Column("tenant_id", String(128), primary_key=True),
    Column("memory_id", BigInteger, primary_key=True, autoincrement=False),
    Column("space_id", Integer, primary_key=True, autoincrement=False),
    Column("field", Word(CausalField), primary_key=True),
    Column("vector", Half),
)
