"""In-memory vectors: a binary code of each, and as many full vectors as a limit allows.

One bit per dimension (48 bytes at 384) represents a vector; the Hamming distance of two codes grows
with the angle of their vectors. The nearest by code are scored exactly, so codes only select
candidates: of the true ten nearest, 99% were among the best 500 codes at 100,000 vectors. The rows
are authoritative; the index follows them by their sequence number.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

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
Change = tuple[int, int, bytes | None]
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

    def apply(self, changes: Sequence[Change]) -> None:
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
        self._order = self._followed_by(self._ids[start:end])

    def _followed_by(self, added: Ids) -> tuple[Slots, Ids] | None:
        """Extend the known order: new ids are above all others and need no sort."""
        if self._order is None:
            return None
        order, ordered = self._order
        if np.any(np.diff(added, prepend=ordered[-1:]) < 0):
            return None
        slots = np.arange(self._count - len(added), self._count, dtype=order.dtype)
        return np.concatenate([order, slots]), np.concatenate([ordered, added])

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
