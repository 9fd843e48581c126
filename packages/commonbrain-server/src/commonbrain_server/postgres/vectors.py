"""Vectors in Postgres: searched by pgvector, exactly in a small tenant and by HNSW in a large one.

One table has the windows of memories, one the fields of atoms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, LiteralString

import numpy as np
from pgvector import HalfVector
from sqlalchemy import (
    CTE,
    ColumnElement,
    Float,
    Integer,
    Select,
    Table,
    bindparam,
    func,
    literal_column,
    select,
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

HNSW_M: Final = 16
"""Neighbours of each node in the HNSW graph: pgvector's default."""
EF_CONSTRUCTION: Final = 200
"""Candidates considered when a node is inserted: hnswlib's default, three times pgvector's.

The graph is as large, and a search of it finds with 100 candidates what it found with 150; building
takes two to three times as long. `benchmarks load neighbours` compares others.
"""
EF_SEARCH: Final[LiteralString] = "150"
"""Candidates that HNSW returns at once, on one machine or several.

About as many as a search needs if half of them belong to another tenant; continuing the search
costs as much again.
"""
_WIDE: Final = ((80_000, 400), (50_000, 250))
"""Candidates in an index with more than so many vectors, the largest first.

Among 210,000 vectors, 400 candidates find 97% of the nearest ten, and 250 find 92%; among 70,000,
250 find 99%: see `benchmarks load nearest`, for a million memories of 20 tenants.
"""
HNSW_DIMENSIONS_MAX: Final = 4000
"""The maximum of pgvector's HNSW for half precision; other spaces are searched exhaustively."""
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
# Measured on 30,000 vectors of 384 dimensions; only what they are to each other matters.
_WALKED_MS: Final = 0.02
"""For each window that the index returns and that is checked against a scope."""
_ALLOWED_MS: Final = 0.01
"""For each memory that is checked, or compared because a scope allows it."""
_BUILT_MAX: Final = 256
_SCORE: Final = "score"


def vector_index_name(table: str, space_id: int) -> str:
    """Return the name of the index over the vectors of a space in a table or partition."""
    return f"ix_{table}_nearest_{space_id}"


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorTable:
    """Which vectors to search: the space, whole memories or one field, and how."""

    space_id: int
    dimensions: int
    field: CausalField | None = None
    is_indexed: bool = False
    """Whether to use the HNSW index; else every vector of the tenant is compared."""
    ef_search: int | None = None
    """Candidates of a search; by the size of the index if None."""

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
        # Exactly the expression of the index; otherwise the planner does not recognise it.
        own = f"{self.table.name}.vector::halfvec({int(self.dimensions)})"
        vector: ColumnElement[Any] = literal_column(own, Half())
        return vector.op("<#>", return_type=Float())(bindparam("query", type_=Half()))

    @property
    def order(self) -> ColumnElement[float]:
        """The sort key: a sum is in no index, so that every vector is compared."""
        return self.distance if self.is_indexed else self.distance + literal_column("0", Float)


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
        candidates = which.ef_search or ef_search(size)
        if size.is_large and candidates != int(EF_SEARCH):
            self.work.connection.exec_driver_sql(f"SET LOCAL hnsw.ef_search = {candidates}")
        own = {"query": half(query), "limit": limit, "farthest": -at_least}
        parameters = given(scope, self.work.tenant) | own
        least = max(_FIRST_MIN, int(_FIRST * limit))
        reach: int | None = max(least, size.reaches.get(scope.filter, least))
        while reach is not None:
            rows = self.work.rows(_near(which, scope.filter), parameters | {"reach": reach})
            *_, looked_at, farthest = rows[0]
            hits = _hits(rows)
            # A search of the index may end early, at `hnsw.max_scan_tuples` or its memory limit.
            is_cut_short = which.is_indexed and looked_at < reach
            is_complete = not is_cut_short and (looked_at < reach or farthest > -at_least)
            if is_complete or len(hits) >= limit:
                if reach > least:
                    size.note_reach(scope.filter, reach)
                return hits
            if is_cut_short:
                which = replace(which, is_indexed=False)
            checked, is_indexed = max(looked_at, 1), which.is_indexed
            reach = wider(checked, allowed=len(hits), limit=limit, size=size, is_indexed=is_indexed)
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


def ef_search(size: Size) -> int:
    """Return how many candidates a search of the index considers."""
    return next((wide for from_, wide in _WIDE if size.indexed > from_), int(EF_SEARCH))


def wider(reach: int, *, allowed: int, limit: int, size: Size, is_indexed: bool) -> int | None:
    """Return how many windows to check next, None to compare all that the scope allows.

    The windows checked so far tell which share the scope allows, and so what either costs.

    Args:
        reach: the number of windows checked so far.
        allowed: the number of memories among them that the scope allows, fewer than `limit`.
        limit: the number of memories wanted.
        size: the tenant's.
        is_indexed: whether the index finds them; else every vector of the tenant is compared.

    """
    share = (allowed + 1) / reach
    needed = max(2 * reach, int(_MARGIN * limit / share))
    if is_indexed and reach < _SECOND_MAX:
        # A few windows tell too little: what is near may be of other projects than most.
        needed = min(needed, _SECOND_MAX)
        share *= _UNCERTAINTY
    exactly_ms = size.memories * VECTOR_MS + needed * _ALLOWED_MS
    near_ms = needed * _WALKED_MS if is_indexed else exactly_ms
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
    near = (
        select(which.table.c.memory_id, which.order.label("distance"))
        .where(*which.here)
        .order_by(which.order)
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
