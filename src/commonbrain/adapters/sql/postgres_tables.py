"""The tables of the index as Postgres has them, hash-partitioned by tenant, beside `METADATA`.

Full text and vectors are derived from the rows, so that each engine keeps them its own way. Both
are narrow and in partitions: an index of one tenant's neighbours is small and stays in memory.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
from pgvector import HalfVector
from sqlalchemy import (
    BigInteger,
    Column,
    Integer,
    MetaData,
    SmallInteger,
    String,
    Table,
    TypeDecorator,
)
from sqlalchemy.engine.interfaces import Dialect
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


class HalfBytes(TypeDecorator[bytes]):
    """A vector of half precision as SQLite keeps it: its numbers one after the other."""

    impl = Half
    cache_ok = True

    def process_bind_param(self, value: bytes | None, dialect: Dialect) -> HalfVector | None:  # noqa: ARG002
        """Write bytes as a vector."""
        return None if value is None else HalfVector(np.frombuffer(value, np.float16))

    def process_result_value(self, value: HalfVector | None, dialect: Dialect) -> bytes | None:  # noqa: ARG002
        """Read a vector as bytes."""
        return None if value is None else value.to_numpy().astype(np.float16).tobytes()


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


def _of_bytes(table: Table) -> Table:
    columns = (
        Column(
            one.name,
            HalfBytes() if isinstance(one.type, Half) else one.type,
            primary_key=one.primary_key,
            autoincrement=False,
        )
        for one in table.columns
    )
    return Table(table.name, MetaData(), *columns)


OF_BYTES: Final[Mapping[str, Table]] = {
    table.name: _of_bytes(table) for table in (vectors, field_vectors)
}
"""The tables of vectors by name, their values as any engine has them; for copies of stores."""
