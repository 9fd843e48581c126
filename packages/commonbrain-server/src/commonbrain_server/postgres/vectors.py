"""Vectors in Postgres: compared exactly in a small tenant, found by their codes in a large one.

A code has two bits for each number of a vector. HNSW finds the nearest codes, by the number of bits
that differ, and the vectors themselves decide among those.

One table has the windows of memories, one the fields of atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, sqrt
from typing import Any, Final

import numpy as np
from pgvector import HalfVector
from sqlalchemy import (
    CTE,
    ColumnElement,
    Float,
    Integer,
    Select,
    Table,
    TextClause,
    bindparam,
    func,
    literal_column,
    select,
    text,
    true,
)

from commonbrain.embeddings.interface import Matrix
from commonbrain.model.kinds import CausalField
from commonbrain.model.query import Filter
from commonbrain.storage.index import cosines_of
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.schema.memories import memories
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.filters import given, within
from commonbrain.storage.sql.statements import LISTED
from commonbrain_server.postgres.schema import Half, field_vectors, vectors
from commonbrain_server.postgres.statistics import VECTOR_MS, Size

HNSW_M: Final = 8
"""Neighbours of each code in the HNSW graph, which is most of an index of 300 bytes a vector."""
EF_CONSTRUCTION: Final = 400
"""Candidates considered when a code is inserted, which finds better neighbours than more of them.

With 100, a search has to compare a third more vectors to find as many of the nearest; an index of
the vectors themselves took longer to build with half as many.
"""
_EF_SEARCH_MAX: Final = 1000
"""pgvector's limit for the codes that HNSW finds at once; a search continues for more."""
_SLACK: Final = 1.1
"""Codes found for each that is expected to be needed: shares vary with the distance."""
_STEP: Final = 0.4
"""A number's bits tell whether it is above this and above minus this, times their average size.

Among a million vectors, the 4,000 nearest codes contain .97 of the nearest ten; with the sign
alone, .84. With four bits, a third as many codes do, but the index is a third larger.
"""
_CODES: Final = 2
"""How many times the windows to be checked are compared: those nearest by code are others."""
_FIRST: Final = 1.25
"""How many times the requested number of windows is checked against a scope first."""
_FIRST_MIN: Final = 40
_SECOND_MAX: Final = 1000
"""Windows checked next at most: enough to tell which share of them the scope allows."""
_UNCERTAINTY: Final = 4
"""How many times that share may be larger than the first windows suggest."""
_REACH_MAX: Final = 4000
"""Beyond it, everything that the scope allows is compared, exactly."""
_MARGIN: Final = 1.5
"""Windows checked for each that is expected to be needed: shares vary with the distance."""
# Measured on vectors of 384 dimensions; only what they are to each other matters.
_WALKED_MS: Final = 0.04
"""For each window that is checked against a scope, with the codes that the index returns for it."""
_ALLOWED_MS: Final = 0.01
"""For each memory that is checked, or compared because a scope allows it."""
_BUILT_MAX: Final = 256
_SCORE: Final = "score"
_QUERY: Final = bindparam("query", type_=Half())


def vector_index_name(table: str, space_id: int) -> str:
    """Return the name of the index over the vectors of a space in a table or partition."""
    return f"ix_{table}_nearest_{space_id}"


def code_of(vector: str, *, dimensions: int) -> str:
    """Return the SQL of a vector's code: by it, the planner recognises the index."""
    size = int(dimensions)
    own = f"CAST({vector} AS vector({size}))"
    step = f"CAST({_STEP / sqrt(size):.3f} AS real)"
    steps = f"CAST(array_fill({step}, ARRAY[{size}]) AS vector({size}))"
    bits = f"binary_quantize({own} - {steps}) || binary_quantize({own} + {steps})"
    return f"CAST({bits} AS bit({2 * size}))"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTable:
    """Which vectors to search: the space, whole memories or one field, and how."""

    space_id: int
    dimensions: int
    field: CausalField | None = None
    is_indexed: bool = False
    """Whether to search by the index of codes; else every vector of the tenant is compared."""
    codes: int | None = None
    """Vectors that a search by the index compares; by the size of the tenant if None."""

    @property
    def table(self) -> Table:
        """The table with the vectors."""
        return vectors if self.field is None else field_vectors

    @property
    def here(self) -> list[ColumnElement[bool]]:
        """The conditions that select them; the space is a literal, as in the index."""
        row = self.table.c
        conditions: list[ColumnElement[bool]] = [
            row.tenant_id == bindparam("tenant"),
            row.space_id == literal_column(str(int(self.space_id)), Integer),
            row.vector.is_not(None),
        ]
        if self.field is not None:
            conditions.append(row.field == self.field)
        return conditions

    @property
    def distance(self) -> ColumnElement[float]:
        """The negative inner product with a query, which orders unit vectors like the angle."""
        return self.table.c.vector.op("<#>", return_type=Float())(_QUERY)

    @property
    def code_distance(self) -> TextClause:
        """The number of bits in which the codes of a vector and of a query differ."""
        here, query = (
            code_of(vector, dimensions=self.dimensions)
            for vector in (f"{self.table.name}.vector", ":query")
        )
        # The query's code is computed once, and not for each vector that the index returns.
        return text(f"{here} <~> (SELECT {query})").bindparams(_QUERY)


@dataclass(frozen=True, slots=True, kw_only=True)
class PostgresVectors:
    """The vectors of one tenant's memories, or of one field, in one transaction."""

    work: SqlContext
    which: VectorTable

    def nearest(
        self, query: Matrix, scope: QueryScope, *, limit: int, at_least: float, size: Size
    ) -> list[Hit]:
        """Rank by cosine to a unit vector, the best window of each memory, best first."""
        which = replace(self.which, is_indexed=size.is_large)
        codes = which.codes or size.codes
        own = {"query": half(query), "limit": limit, "farthest": -at_least}
        parameters = given(scope, self.work.tenant) | own
        least = max(_FIRST_MIN, int(_FIRST * limit))
        reach: int | None = max(least, size.reaches.get(scope.filter, least))
        while reach is not None:
            compared = max(codes, _CODES * reach)
            if size.is_large:
                self.work.connection.exec_driver_sql(
                    f"SET LOCAL hnsw.ef_search = {ef_search(compared, size=size)}"
                )
            parameters |= {"reach": reach, "codes": compared}
            rows = self.work.rows(_near(which, scope.filter), parameters)
            *_, looked_at, farthest = rows[0]
            hits = _hits(rows)
            if looked_at < reach or farthest > -at_least or len(hits) >= limit:
                if reach > least:
                    size.note_reach(scope.filter, reach)
                return hits
            reach = wider(reach, allowed=len(hits), limit=limit, size=size)
        return _hits(self.work.rows(_among(which, scope.filter), parameters))

    def similarities(self, query: Matrix, ids: Sequence[int]) -> dict[int, float]:
        """Return the cosine of each memory to a unit vector; memories without one are absent."""
        if not ids:
            return {}
        parameters = {"query": half(query), "ids": list(ids)}
        return dict(self.work.rows(_cosines(self.which), parameters))

    def cosines(self, ids: Sequence[int]) -> list[list[float]]:
        """Return the cosine of every pair of these memories."""
        rows = self.work.rows(_windows(self.which), {"ids": list(ids)})
        return cosines_of(ids, ((id_, vector.to_numpy()) for id_, vector in rows))

    def firsts(self, ids: Sequence[int]) -> dict[int, Matrix]:
        """Return the vector of each memory's first window."""
        rows = self.work.rows(_firsts(self.which), {"ids": list(ids)})
        return {id_: vector.to_numpy().astype(np.float32) for id_, vector in rows}


def half(vector: Matrix) -> HalfVector:
    """Convert a vector to pgvector's form."""
    return HalfVector(np.asarray(vector, dtype=np.float32))


def ef_search(codes: int, *, size: Size) -> int:
    """Return how many codes HNSW finds at once: a search that continues finds as many again."""
    total = int(_SLACK * size.passed * codes)
    return ceil(total / ceil(total / _EF_SEARCH_MAX))


def wider(reach: int, *, allowed: int, limit: int, size: Size) -> int | None:
    """Return how many windows to check next, None to compare all that the scope allows.

    The windows checked so far tell which share the scope allows, and so what either costs.

    Args:
        reach: the number of windows checked so far.
        allowed: the number of memories among them that the scope allows, fewer than `limit`.
        limit: the number of memories wanted.
        size: the tenant's.

    """
    share = (allowed + 1) / reach
    needed = max(2 * reach, int(_MARGIN * limit / share))
    if size.is_large and reach < _SECOND_MAX:
        # A few windows tell too little: what is near may be of other projects than most.
        needed = min(needed, _SECOND_MAX)
        share *= _UNCERTAINTY
    exactly_ms = size.memories * VECTOR_MS + needed * _ALLOWED_MS
    near_ms = needed * _WALKED_MS if size.is_large else exactly_ms
    is_cheaper = near_ms < share * size.memories * _ALLOWED_MS
    return needed if is_cheaper and needed <= _REACH_MAX else None


def _hits(rows: Sequence[Sequence[Any]]) -> list[Hit]:
    return [Hit(id=id_, score=score) for id_, score, *_ in rows if id_ is not None]


@lru_cache(_BUILT_MAX)
def _near(which: VectorTable, criteria: Filter) -> Select[*tuple[Any, ...]]:
    """Select what a scope allows among the nearest windows, their number and their distance.

    The nearest windows are found first and checked against the scope afterwards: otherwise the
    planner would compare all that the scope allows, which may be a million.
    """
    compared = select(which.table.c.memory_id, which.distance.label("distance")).where(*which.here)
    if which.is_indexed:
        by_code = compared.order_by(which.code_distance).limit(bindparam("codes", type_=Integer))
        codes = by_code.cte("codes").prefix_with("MATERIALIZED")
        compared = select(codes.c.memory_id, codes.c.distance)
    near = (
        compared.order_by(literal_column("distance"))
        .limit(bindparam("reach", type_=Integer))
        .cte("near")
        .prefix_with("MATERIALIZED")
    )
    best = _best(near, memories.c.id == near.c.memory_id, within(criteria))
    count = select(func.count().label("looked_at"), func.max(near.c.distance).label("farthest"))
    reached = count.select_from(near).subquery("reached")
    return (
        select(best.c.id, best.c.score, reached.c.looked_at, reached.c.farthest)
        .select_from(reached.outerjoin(best, true()))
        .order_by(best.c.score.desc(), best.c.id.desc())
    )


def _best(near: CTE, *where: ColumnElement[bool]) -> Any:  # noqa: ANN401 a subquery of its columns
    score = func.max(-near.c.distance).label(_SCORE)
    return (
        select(memories.c.id, score)
        .select_from(near)
        .join(memories, where[0])
        .where(*where[1:], near.c.distance <= bindparam("farthest", type_=Float))
        .group_by(memories.c.id)
        .order_by(score.desc(), memories.c.id.desc())
        .limit(bindparam("limit", type_=Integer))
        .subquery("best")
    )


@lru_cache(_BUILT_MAX)
def _among(which: VectorTable, criteria: Filter) -> Select[*tuple[Any, ...]]:
    """Select the nearest of everything that a scope allows, if that is little."""
    row = which.table.c
    score = func.max(-which.distance).label(_SCORE)
    same = (row.tenant_id == memories.c.tenant_id) & (row.memory_id == memories.c.id)
    return (
        select(memories.c.id, score)
        .join_from(memories, which.table, same)
        .where(within(criteria), *which.here)
        .where(which.distance <= bindparam("farthest", type_=Float))
        .group_by(memories.c.id)
        .order_by(score.desc(), memories.c.id.desc())
        .limit(bindparam("limit", type_=Integer))
    )


@lru_cache(_BUILT_MAX)
def _cosines(which: VectorTable) -> Select[*tuple[Any, ...]]:
    row = which.table.c
    return (
        select(row.memory_id, func.max(-which.distance))
        .where(*which.here, row.memory_id.in_(LISTED))
        .group_by(row.memory_id)
    )


@lru_cache(_BUILT_MAX)
def _windows(which: VectorTable) -> Select[*tuple[Any, ...]]:
    row = which.table.c
    return select(row.memory_id, row.vector).where(*which.here, row.memory_id.in_(LISTED))


@lru_cache(_BUILT_MAX)
def _firsts(which: VectorTable) -> Select[*tuple[Any, ...]]:
    """Like `_windows` for the first window of each memory.

    One of another size counts as dropped.
    """
    row = which.table.c
    is_whole = func.vector_dims(row.vector) == which.dimensions
    firsts = _windows(which).where(is_whole)
    return firsts.where(row.part == 0) if which.field is None else firsts
