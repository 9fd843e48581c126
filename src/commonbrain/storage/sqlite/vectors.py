"""Vectors in SQLite: searched by in-memory codes, scored by in-memory vectors or by rows.

There is one set for the windows of memories, and one for each field of atoms.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, Final

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from commonbrain.embeddings.interface import Matrix
from commonbrain.model.kinds import CausalField
from commonbrain.model.memory import FINDABLE_STATES
from commonbrain.model.query import Filter
from commonbrain.model.values import dataclass, field
from commonbrain.storage.index import cosines_of
from commonbrain.storage.interface import Hit, QueryScope
from commonbrain.storage.schema.memories import field_vectors, memories, vectors
from commonbrain.storage.sql.context import SqlContext
from commonbrain.storage.sql.filters import allowed, given, within
from commonbrain.storage.sql.statements import Row, json_of, rows_of

LOOKED_AT: Final = 200
"""Best results checked against a scope before a narrow scope is searched by itself."""
_RESERVE: Final = 4
"""One in this many results beyond the limit is checked before all of them are."""
_BUILT_MAX: Final = 256
"""Cached statements of recently used scopes."""
_MEMBERS: Final[sa.TextClause] = sa.text("SELECT value FROM json_each(:listed)")
LISTED: Final = _MEMBERS.columns(sa.column("value"))
"""The members of a JSON list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedIds:
    """Checks scopes against ids in one transaction."""

    work: SqlContext
    known: dict[QueryScope, list[int]] = field(default_factory=dict["QueryScope", "list[int]"])
    """Ids allowed by narrow scopes, because several retrievers use the same one."""

    def every(self, scope: QueryScope) -> list[int]:
        """Return all ids that a scope allows.

        A project is found by its index, others read all rows.
        """
        known = self.known.get(scope)
        if known is None or self.work.changed:
            parameters = given(scope, self.work.tenant)
            [(listed,)] = self.work.rows(_all_allowed(scope.filter), parameters)
            known = self.known[scope] = json.loads(listed)
        return known

    def best(self, scores: Mapping[int, float], scope: QueryScope, *, limit: int) -> list[Hit]:
        """Return the allowed ids with the best scores, best first, newest on a tie."""
        # Two sorts by one number each are faster than one by pairs.
        newest = sorted(scores, reverse=True)
        best = sorted(newest, key=scores.__getitem__, reverse=True)[:LOOKED_AT]
        chosen: list[int] = []
        enough = limit + limit // _RESERVE
        for some in (best[:enough], best[enough:]):
            if some and len(chosen) < limit:
                permitted = self.among(some, scope)
                chosen += [id_ for id_ in some if id_ in permitted]
        return [Hit(id=id_, score=scores[id_]) for id_ in chosen[:limit]]

    def among(self, ids: Sequence[int], scope: QueryScope) -> set[int]:
        """Return which of a few ids a scope allows."""
        parameters = given(scope, self.work.tenant) | {"listed": json_of(ids)}
        [(listed,)] = self.work.rows(_allowed_of(scope.filter), parameters)
        return set(json.loads(listed))

    def among_many(self, ids: Sequence[int], scope: QueryScope) -> set[int]:
        """Return which of many ids a scope allows: by checking each, or by an index."""
        return self.among(ids, scope) if scope.filter.project is None else set(self.every(scope))


# One row with a list of ids is read several times as fast as a row for each.
@lru_cache(_BUILT_MAX)
def _allowed_of(criteria: Filter) -> sa.Select[str]:
    """Select those of the ids in `listed`, a JSON list, that a scope allows."""
    ids = sa.func.json_group_array(memories.c.id)
    return sa.select(ids).where(within(criteria), memories.c.id.in_(LISTED))


@lru_cache(_BUILT_MAX)
def _all_allowed(criteria: Filter) -> sa.Select[str]:
    """Select all ids that a scope allows."""
    return sa.select(sa.func.json_group_array(allowed(criteria).subquery().c.id))


_WORD_BITS: Final = 64
MEMORY_BYTES_MAX: Final = 64 * 2**20
"""Bytes of full vectors per tenant: the first 87,000 of 384 dimensions; later ones are read.

Up to 43,000 are held as float32, more of them as stored.
"""
FIELD_MEMORY_BYTES_MAX: Final = 16 * 2**20
"""The same for one field of atoms, once it is searched: the first 21,000."""
_CAPACITY: Final = 64
"""Initial capacity of the arrays."""

Ids = NDArray[np.int64]
Slots = NDArray[np.intp]
"""Positions in the arrays, one per window of a memory."""
Wholes = NDArray[np.float32] | NDArray[np.float16]
VectorChange = tuple[int, int, bytes | None]
"""A row of the vectors table: sequence number, memory, and float16 vector or None."""


def encode(vectors: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Pack the signs of `(n, d)` vectors into `(n, ceil(d / 64))` words."""
    bits = np.packbits(vectors > 0, axis=1, bitorder="little")
    padding = -bits.shape[1] % (_WORD_BITS // 8)
    padded = np.pad(bits, ((0, 0), (0, padding))) if padding else bits
    return padded.view(np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ArraysView:
    """A view of the arrays for one search, unchanged except for removals."""

    ids: Ids
    codes: NDArray[np.uint64]
    """Transposed, `(words, n)`: one word of all codes is contiguous, which is six times as fast."""
    wholes: Wholes
    is_alive: NDArray[np.bool_]
    order: Slots
    """The slots in the order of their ids."""
    ordered: Ids
    """The ids in that order."""

    def slots(self, ids: Ids) -> Slots:
        """Return the slots of every window of these ids, grouped by id."""
        first = np.searchsorted(self.ordered, ids, side="left")
        windows = np.searchsorted(self.ordered, ids, side="right") - first
        before = windows.cumsum() - windows
        return self.order[np.repeat(first - before, windows) + np.arange(windows.sum())]

    def unkept(self, slots: Slots) -> Ids:
        """Return the distinct ids of slots whose full vectors are not in memory."""
        if len(self.wholes) == len(self.ids):
            return self.ids[:0]
        return np.unique(self.ids[slots[slots >= len(self.wholes)]])


@dataclass(slots=True)
class BinaryVectorIndex:
    """The vectors of one tenant in one space, as of `seq`; threads may search during an update."""

    dimensions: int
    memory_bytes_max: int = MEMORY_BYTES_MAX
    seq: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    _count: int = 0
    _ids: Ids = field(init=False)
    _codes: NDArray[np.uint64] = field(init=False)
    _wholes: Wholes = field(init=False)
    _is_alive: NDArray[np.bool_] = field(init=False)
    _order: tuple[Slots, Ids] | None = None

    def __post_init__(self) -> None:
        """Start empty."""
        words = -(-self.dimensions // _WORD_BITS)
        self._ids = np.empty(_CAPACITY, dtype=np.int64)
        self._codes = np.empty((words, _CAPACITY), dtype=np.uint64)
        self._wholes = self._new_wholes(_CAPACITY)
        self._is_alive = np.empty(_CAPACITY, dtype=np.bool_)

    def __len__(self) -> int:
        return self._count

    @property
    def _wholes_max(self) -> int:
        return self.memory_bytes_max // (self.dimensions * np.dtype(np.float16).itemsize)

    def apply(self, changes: Sequence[VectorChange]) -> None:
        """Apply changes of rows: remove and add vectors; the caller holds `lock`.

        Within one batch a memory is either removed or added, because rows contain the latest
        change.
        """
        dropped = [id_ for _, id_, blob in changes if blob is None]
        if dropped:
            known = self._ids[: self._count]
            self._is_alive[: self._count] &= ~np.isin(known, np.array(dropped, dtype=np.int64))
        self._append([(id_, blob) for _, id_, blob in changes if blob is not None])
        self.seq = max((self.seq, *(seq for seq, _, _ in changes)))

    def expect(self, count: int) -> None:
        """Reserve capacity at once: growing step by step fragments memory."""
        self._grow(self._count + count)

    def nearest(self, query: NDArray[np.float32], *, limit: int, among: Ids | None = None) -> Ids:
        """Return the ids of up to `limit` nearest vectors by code, unordered.

        An id may occur for several windows; `among` limits the result to those ids.
        """
        view = self._view()
        is_eligible = view.is_alive
        if among is not None:
            is_eligible = np.zeros_like(view.is_alive)
            is_eligible[view.slots(among)] = True
            is_eligible &= view.is_alive
        distances = _distances(view.codes, encode(query[None, :])[0])
        distances[~is_eligible] = self.dimensions + 1
        return view.ids[_lowest(distances, self.dimensions, limit=limit)]

    def cosines(
        self, query: NDArray[np.float32], ids: Sequence[int]
    ) -> tuple[dict[int, float], list[int]]:
        """Score memories by their best window; return the ids without full vectors separately."""
        view = self._view()
        slots = view.slots(np.array(sorted(set(ids)), dtype=np.int64))
        slots = slots[view.is_alive[slots]]
        unkept = view.unkept(slots)
        slots = slots[~np.isin(view.ids[slots], unkept)] if len(unkept) else slots
        if not len(slots):
            return {}, unkept.tolist()
        owners = view.ids[slots]
        firsts = np.flatnonzero(np.concatenate(([True], owners[1:] != owners[:-1])))
        cosines = view.wholes[slots].astype(np.float32, copy=False) @ query
        best = np.maximum.reduceat(cosines, firsts)
        return dict(zip(owners[firsts].tolist(), best.tolist(), strict=True)), unkept.tolist()

    def windows(
        self, ids: Sequence[int]
    ) -> tuple[list[tuple[int, NDArray[np.float32] | NDArray[np.float16]]], list[int]]:
        """Return the windows of memories; return the ids without full vectors separately."""
        view = self._view()
        slots = view.slots(np.array(sorted(set(ids)), dtype=np.int64))
        slots = slots[view.is_alive[slots]]
        unkept = set(view.unkept(slots).tolist())
        each = zip(view.ids[slots].tolist(), slots.tolist(), strict=True)
        return [(id_, view.wholes[slot]) for id_, slot in each if id_ not in unkept], [*unkept]

    def _view(self) -> _ArraysView:
        with self.lock:
            count = self._count
            if self._order is None:
                # Ids grow with time, so they are nearly sorted, which a stable sort exploits.
                order = np.argsort(self._ids[:count], kind="stable")
                self._order = order, self._ids[order]
            order, ordered = self._order
            return _ArraysView(
                ids=self._ids[:count],
                codes=self._codes[:, :count],
                wholes=self._wholes[:count],
                is_alive=self._is_alive[:count],
                order=order,
                ordered=ordered,
            )

    def _append(self, added: Sequence[tuple[int, bytes]]) -> None:
        if not added:
            return
        start, end = self._count, self._count + len(added)
        self._grow(end)
        halves = np.frombuffer(b"".join([blob for _, blob in added]), dtype=np.float16)
        halves = halves.reshape(len(added), -1)
        self._ids[start:end] = [id_ for id_, _ in added]
        self._codes[:, start:end] = encode(halves).T
        added_wholes = self._wholes[start:end]
        added_wholes[:] = halves[: len(added_wholes)]
        self._is_alive[start:end] = True
        self._count = end
        self._order = None

    def _grow(self, needed: int) -> None:
        """Grow by half into new arrays; a running search keeps the old ones."""
        capacity = len(self._ids)
        if needed <= capacity:
            return
        grown = max(needed, capacity + capacity // 2)
        self._ids = _grown(self._ids, np.empty(grown, dtype=np.int64))
        self._codes = _grown(self._codes, np.empty((len(self._codes), grown), dtype=np.uint64))
        self._wholes = _grown(self._wholes, self._new_wholes(grown))
        self._is_alive = _grown(self._is_alive, np.empty(grown, dtype=np.bool_))

    def _new_wholes(self, count: int) -> Wholes:
        """Return an empty array, as float32 within the limit, else as stored.

        Each search scores hundreds; converting them would take as long as everything else.
        """
        wide = np.dtype(np.float32).itemsize * self.dimensions
        if count * wide <= self.memory_bytes_max:
            return np.zeros((count, self.dimensions), dtype=np.float32)
        return np.zeros((min(count, self._wholes_max), self.dimensions), dtype=np.float16)


def _grown(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    new[tuple(slice(size) for size in old.shape)] = old
    return new


def _distances(codes: NDArray[np.uint64], query: NDArray[np.uint64]) -> NDArray[np.uint16]:
    distances = np.zeros(codes.shape[1], dtype=np.uint16)
    for word, query_word in zip(codes, query, strict=True):
        distances += np.bitwise_count(word ^ query_word)
    return distances


def _lowest(distances: NDArray[np.uint16], highest: int, *, limit: int) -> Slots:
    """Return up to `limit` slots with the lowest distances, none above `highest`.

    Distances are small integers, so counting finds the bound faster than sorting.
    """
    within = np.bincount(distances, minlength=highest + 1)[: highest + 1].cumsum()
    if within[-1] <= limit:
        return np.flatnonzero(distances <= highest)
    bound = int(np.searchsorted(within, limit))
    closer = np.flatnonzero(distances < bound)
    return np.concatenate([closer, np.flatnonzero(distances == bound)[: limit - len(closer)]])


_RESCORED: Final = 500
"""Nearest codes that are scored exactly."""
_RESCORED_OF_FIELD: Final = 1000
"""The same in a field: clauses are similar, and such searches rarer."""
_BITE: Final = 2000
"""Nearest codes checked against a narrow scope before everything that it allows is read."""
_BITE_HOLDS: Final = 2
"""Factor by which the checked codes must exceed the limit, since codes are approximate."""
_FOLLOWED_AT_ONCE: Final = 1000
"""Vectors read at a time to update the codes: less than a megabyte."""


@dataclass(frozen=True, slots=True)
class _Statements:
    """Statements of one set of vectors."""

    last_seq: sa.Select[int]
    changes: sa.Select[int, int, bytes]
    blobs: sa.Select[int, bytes]
    firsts: sa.Select[int, bytes]


@cache
def _statements(field: CausalField | None) -> _Statements:
    row = vectors.c if field is None else field_vectors.c
    here: list[sa.ColumnElement[bool]] = [
        row.tenant_id == sa.bindparam("tenant"),
        row.space_id == sa.bindparam("space"),
    ]
    if field is not None:
        here.append(row.field == field)
    # A vector of another size cannot be compared; it counts as removed.
    is_whole = sa.func.length(row.vector) == sa.bindparam("size")
    blobs = sa.select(row.memory_id, row.vector).where(*here, is_whole, row.memory_id.in_(LISTED))
    return _Statements(
        last_seq=sa.select(sa.func.coalesce(sa.func.max(row.seq), 0)).where(*here),
        changes=sa.select(row.seq, row.memory_id, sa.case((is_whole, row.vector)).label("vector"))
        .where(*here, row.seq > sa.bindparam("seq"))
        .order_by(row.seq),
        blobs=blobs,
        # A field is one clause, with one vector.
        firsts=blobs.where(vectors.c.part == 0) if field is None else blobs,
    )


_Scored = tuple[Sequence[int], dict[int, float], Sequence[int]]
"""The ids nearest by code, the cosines of those in memory, and the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteVectors:
    """The vectors of one tenant's memories, or of one field, in one transaction."""

    work: SqlContext
    space_id: int
    codes: BinaryVectorIndex
    permits: AllowedIds
    searched: dict[bytes, _Scored] = field(default_factory=dict[bytes, "_Scored"])
    """The vector searched with last, and what was found."""
    field: CausalField | None = None

    @property
    def here(self) -> dict[str, Any]:
        """Parameters of every statement."""
        return {"tenant": self.work.tenant, "space": self.space_id}

    @property
    def vector_bytes(self) -> int:
        """The size of a stored vector."""
        return self.codes.dimensions * np.dtype(np.float16).itemsize

    @property
    def last_seq(self) -> int:
        """The number of the latest change."""
        [(last,)] = rows_of(self.work.connection, self._of.last_seq, given=self.here)
        return last

    @property
    def _rescored(self) -> int:
        return _RESCORED if self.field is None else _RESCORED_OF_FIELD

    @property
    def _of(self) -> _Statements:
        return _statements(self.field)

    def nearest(
        self, query: Matrix, scope: QueryScope, *, limit: int, at_least: float
    ) -> list[Hit]:
        """Rank by cosine to a unit vector, the best window of each memory, best first."""
        self.follow()
        near, cosines = self._near(query)
        scores = {id_: cosine for id_, cosine in cosines.items() if cosine >= at_least}
        hits = self.permits.best(scores, scope, limit=limit)
        # Every vector was scored, or all others are farther than requested.
        is_all_scored = len(self.codes) <= self._rescored or len(scores) < len(set(near))
        if len(hits) < limit and not (is_all_scored and len(scores) <= LOOKED_AT):
            # The scope is narrow: most of the nearest were not allowed. Search among the allowed.
            among = self.codes.nearest(
                query, limit=self._rescored, among=self._among(query, scope, limit=limit)
            ).tolist()
            scores = self._scored(query, among, at_least=at_least)
            hits = self.permits.best(scores, scope, limit=limit)
        return hits

    def similarities(self, query: Matrix, ids: Sequence[int]) -> dict[int, float]:
        """Return the cosine of each memory to a unit vector; memories without one are absent."""
        self.follow()
        changed = self.work.changed.intersection(ids)
        # Most were scored when the nearest were searched with the same vector.
        _, scored, _ = self.searched.get(query.tobytes(), ((), {}, ()))
        cosines = {id_: scored[id_] for id_ in ids if id_ in scored and id_ not in changed}
        others = [id_ for id_ in ids if id_ not in cosines and id_ not in changed]
        more, unkept = self.codes.cosines(query, others) if others else ({}, [])
        return cosines | more | self._read_cosines(query, [*unkept, *changed])

    def cosines(self, ids: Sequence[int]) -> list[list[float]]:
        """Return the cosine of each pair of memories, by the means of their windows."""
        self.follow()
        changed = self.work.changed.intersection(ids)
        in_memory, unkept = self.codes.windows([id_ for id_ in ids if id_ not in changed])
        rows = self._read(self._of.blobs, [*unkept, *changed]) if unkept or changed else ()
        stored = ((id_, np.frombuffer(blob, np.float16)) for id_, blob in rows)
        return cosines_of(ids, (*in_memory, *stored))

    def firsts(self, ids: Sequence[int]) -> dict[int, Matrix]:
        """Return the vector of each memory's first window, from the rows."""
        rows = self._read(self._of.firsts, ids)
        return {id_: np.frombuffer(blob, np.float16).astype(np.float32) for id_, blob in rows}

    def follow(self) -> None:
        """Update the in-memory vectors, once per transaction, which sees no later rows.

        Rows of this transaction may be rolled back, so they are never included.
        """
        if self.field in self.work.followed:
            return
        last = self.last_seq
        if last > self.codes.seq:
            self._follow(last)
        self.work.followed.add(self.field)
        if self.field is None and not (self.work.is_snapshot or self.work.changed):
            # A writer continues from there, without asking again.
            self.work.highest.setdefault(vectors, last)

    def _follow(self, last: int) -> None:
        with self.codes.lock:
            for batch in self._changes(last):
                if len(batch) == _FOLLOWED_AT_ONCE:
                    self.codes.expect(last - self.codes.seq)
                settled = [
                    (seq, id_, blob) for seq, id_, blob in batch if id_ not in self.work.changed
                ]
                self.codes.apply(settled)

    def _changes(self, last: int) -> Iterable[Sequence[Row]]:
        """Return the rows since the last change that is in memory, in batches."""
        connection, seq = self.work.connection, self.codes.seq
        since = self.here | {"size": self.vector_bytes, "seq": seq}
        if last - seq < _FOLLOWED_AT_ONCE:
            # The few of the last write, in a third of the time.
            return [rows_of(connection, self._of.changes, given=since)]
        return connection.execute(self._of.changes, since).partitions(_FOLLOWED_AT_ONCE)

    def _near(self, query: Matrix) -> tuple[Sequence[int], Mapping[int, float]]:
        """Return the nearest by code, and the cosines of these and of what was changed here.

        A write searches twice with one vector, for duplicates and for what it changes: the second
        time, only what was written in between is scored.
        """
        key = query.tobytes()
        known = self.searched.get(key)
        if known is None:
            near = self.codes.nearest(query, limit=self._rescored).tolist()
            known = near, *self.codes.cosines(query, near)
            self.searched.clear()
            self.searched[key] = known
        near, cosines, unkept = known
        changed = self.work.changed
        if changed:
            cosines = {id_: cosine for id_, cosine in cosines.items() if id_ not in changed}
        return near, cosines | self._read_cosines(query, [*changed.union(unkept)])

    def _scored(self, query: Matrix, near: Sequence[int], *, at_least: float) -> dict[int, float]:
        """Score exactly the nearest by code, and the memories that this transaction changed."""
        cosines = self.similarities(query, [*self.work.changed, *near])
        return {id_: cosine for id_, cosine in cosines.items() if cosine >= at_least}

    def _read_cosines(self, query: Matrix, ids: Sequence[int]) -> dict[int, float]:
        """Score memories whose vectors are not in memory, from the rows."""
        rows = self._read(self._of.blobs, ids) if ids else ()
        if not rows:
            return {}
        matrix = np.frombuffer(b"".join([blob for _, blob in rows]), dtype=np.float16)
        cosines = matrix.reshape(len(rows), -1).astype(np.float32) @ query
        best: dict[int, float] = {}
        for (id_, _), cosine in zip(rows, cosines.tolist(), strict=True):
            best[id_] = max(cosine, best.get(id_, -1.0))
        return best

    def _read(
        self, statement: sa.Select[int, bytes], ids: Sequence[int]
    ) -> Sequence[tuple[int, bytes]]:
        """Read the vectors of some memories from the rows."""
        given = self.here | {"listed": json_of(ids), "size": self.vector_bytes}
        return rows_of(self.work.connection, statement, given=given)

    def _among(self, query: Matrix, scope: QueryScope, *, limit: int) -> Ids:
        """Return what a narrow scope allows: everything, or enough of the nearest by code."""
        if scope.filter.project is None and len(self.codes) > _BITE:
            near = self.permits.among(self.codes.nearest(query, limit=_BITE).tolist(), scope)
            if len(near) >= _BITE_HOLDS * limit:
                return np.array(sorted(near), dtype=np.int64)
        return np.array(self.permits.every(scope), dtype=np.int64)


# ruff: noqa: S608 the statements are built from constants of this file alone
_FINDABLE: Final = ", ".join(f"'{state}'" for state in sorted(FINDABLE_STATES))
_ORPHANS: Final = (
    "DELETE FROM {0} WHERE tenant_id = :tenant AND NOT EXISTS "
    "(SELECT 1 FROM memories m WHERE m.tenant_id = {0}.tenant_id AND m.id = memory_id)"
)
_DROP_ORPHANS: Final = sa.text(_ORPHANS.format("vectors"))
_DROP_ORPHANS_OF_FIELDS: Final = sa.text(_ORPHANS.format("field_vectors"))
# The rows stay without values under a new number, from which readers learn of the removal.
_UNSOUND: Final = (
    "UPDATE {0} SET vector = NULL, seq = {1} "
    "WHERE tenant_id = :tenant AND space_id = :space AND vector IS NOT NULL AND memory_id IN ("
    "SELECT w.memory_id FROM {0} w JOIN memories m "
    "ON m.tenant_id = w.tenant_id AND m.id = w.memory_id "
    "WHERE w.tenant_id = :tenant AND w.space_id = :space AND w.vector IS NOT NULL "
    f"AND (length(w.vector) <> :size OR m.state NOT IN ({_FINDABLE})))"
)
_EMPTY_UNSOUND: Final = sa.text(_UNSOUND.format("vectors", ":seq + part"))
# Each field numbers its own changes.
_EMPTY_UNSOUND_OF_FIELDS: Final = sa.text(
    _UNSOUND.format(
        "field_vectors",
        "(SELECT max(o.seq) + 1 FROM field_vectors o WHERE o.tenant_id = field_vectors.tenant_id "
        "AND o.space_id = field_vectors.space_id AND o.field = field_vectors.field)",
    )
)


def drop_unsound(
    connection: sa.Connection, *, tenant: str, space_id: int, size: int, seq: int
) -> int:
    """Clear vectors of the wrong size in bytes, or of unsearchable memories; return the rows.

    A memory loses all of its windows, or all of its fields, which are made together. Cleared rows
    get numbers from `seq`, per field, from which readers learn of it.
    """
    given = {"tenant": tenant, "space": space_id, "size": size}
    return (
        connection.execute(_DROP_ORPHANS, {"tenant": tenant}).rowcount
        + connection.execute(_DROP_ORPHANS_OF_FIELDS, {"tenant": tenant}).rowcount
        + connection.execute(_EMPTY_UNSOUND, given | {"seq": seq}).rowcount
        + connection.execute(_EMPTY_UNSOUND_OF_FIELDS, given).rowcount
    )
