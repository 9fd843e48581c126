"""Vectors kept in process memory: a sign code of each, and as many whole as a bound allows.

One bit per dimension (48 bytes at 384) stands for a vector; the Hamming distance of two codes goes
with the angle of their vectors. The nearest by code are scored exactly afterwards, so codes decide
only who is looked at: of the true ten nearest, 99% were among the best 500 codes at 100,000
vectors. The rows are the truth; what is kept follows them by their sequence number.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

_WORD_BITS: Final = 64
KEPT_BYTES_MAX: Final = 64 * 2**20
"""Whole vectors kept for each tenant: the first 87,000 of 384 dimensions; later ones are read.

Up to 43,000 are kept as float32, more of them as they are stored.
"""
KEPT_BYTES_MAX_OF_FIELD: Final = 16 * 2**20
"""The same for one field of atoms, once it is searched: the first 21,000."""
_ROOM: Final = 64
"""How many the arrays have room for at first."""

Ids = NDArray[np.int64]
Slots = NDArray[np.intp]
"""Places in the arrays, one per window of a memory."""
Wholes = NDArray[np.float32] | NDArray[np.float16]
Change = tuple[int, int, bytes | None]
"""A row of the vectors table: its sequence number, its memory, its vector as float16 or none."""


def encode(vectors: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Pack the signs of `(n, d)` vectors into `(n, ceil(d / 64))` words."""
    bits = np.packbits(vectors > 0, axis=1, bitorder="little")
    padding = -bits.shape[1] % (_WORD_BITS // 8)
    padded = np.pad(bits, ((0, 0), (0, padding))) if padding else bits
    return padded.view(np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kept:
    """What one search works on: views that stay as they are, but for what dies meanwhile."""

    ids: Ids
    codes: NDArray[np.uint64]
    """Transposed, `(words, n)`: a word of all codes lies together, which is six times as fast."""
    wholes: Wholes
    is_alive: NDArray[np.bool_]
    order: Slots
    """The slots in the order of their ids."""
    ordered: Ids
    """The ids in that order."""

    def slots(self, ids: Ids) -> Slots:
        """Give the slots of every window of these ids, each id's together."""
        first = np.searchsorted(self.ordered, ids, side="left")
        windows = np.searchsorted(self.ordered, ids, side="right") - first
        before = windows.cumsum() - windows
        return self.order[np.repeat(first - before, windows) + np.arange(windows.sum())]

    def unkept(self, slots: Slots) -> Ids:
        """Give the ids, once each, that have one of these slots and are not kept whole."""
        if len(self.wholes) == len(self.ids):
            return self.ids[:0]
        return np.unique(self.ids[slots[slots >= len(self.wholes)]])


@dataclass(slots=True)
class BinaryVectorIndex:
    """The vectors of one tenant in one space, as of `seq`; threads may search while one updates."""

    dimensions: int
    kept_bytes_max: int = KEPT_BYTES_MAX
    seq: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    _count: int = 0
    _ids: Ids = field(init=False)
    _codes: NDArray[np.uint64] = field(init=False)
    _wholes: Wholes = field(init=False)
    _is_alive: NDArray[np.bool_] = field(init=False)
    _order: tuple[Slots, Ids] | None = None

    def __post_init__(self) -> None:
        """Start empty, with room for a few."""
        words = -(-self.dimensions // _WORD_BITS)
        self._ids = np.empty(_ROOM, dtype=np.int64)
        self._codes = np.empty((words, _ROOM), dtype=np.uint64)
        self._wholes = self._room_for_wholes(_ROOM)
        self._is_alive = np.empty(_ROOM, dtype=np.bool_)

    def __len__(self) -> int:
        return self._count

    @property
    def _wholes_max(self) -> int:
        return self.kept_bytes_max // (self.dimensions * np.dtype(np.float16).itemsize)

    def apply(self, changes: Sequence[Change]) -> None:
        """Follow the rows: retire what lost its vector, add what has one; hold `lock` meanwhile.

        Within one batch a memory has either, for each of its rows tells its latest change.
        """
        dropped = [id_ for _, id_, blob in changes if blob is None]
        if dropped:
            known = self._ids[: self._count]
            self._is_alive[: self._count] &= ~np.isin(known, np.array(dropped, dtype=np.int64))
        self._append([(id_, blob) for _, id_, blob in changes if blob is not None])
        self.seq = max((self.seq, *(seq for seq, _, _ in changes)))

    def expect(self, count: int) -> None:
        """Make room for so many more at once: growing step by step leaves holes in the memory."""
        self._make_room(self._count + count)

    def nearest(self, query: NDArray[np.float32], *, limit: int, among: Ids | None = None) -> Ids:
        """Give the ids of up to `limit` living vectors nearest by code, in no order.

        An id may stand more than once, for several windows; `among` leaves only those ids.
        """
        kept = self._kept()
        is_eligible = kept.is_alive
        if among is not None:
            is_eligible = np.zeros_like(kept.is_alive)
            is_eligible[kept.slots(among)] = True
            is_eligible &= kept.is_alive
        distances = _distances(kept.codes, encode(query[None, :])[0])
        distances[~is_eligible] = self.dimensions + 1
        return kept.ids[_lowest(distances, self.dimensions, limit=limit)]

    def cosines(
        self, query: NDArray[np.float32], ids: Sequence[int]
    ) -> tuple[dict[int, float], list[int]]:
        """Score memories by their best window; give the ids apart that are not kept whole."""
        kept = self._kept()
        slots = kept.slots(np.array(sorted(set(ids)), dtype=np.int64))
        slots = slots[kept.is_alive[slots]]
        unkept = kept.unkept(slots)
        slots = slots[~np.isin(kept.ids[slots], unkept)] if len(unkept) else slots
        if not len(slots):
            return {}, unkept.tolist()
        owners = kept.ids[slots]
        firsts = np.flatnonzero(np.concatenate(([True], owners[1:] != owners[:-1])))
        cosines = kept.wholes[slots].astype(np.float32, copy=False) @ query
        best = np.maximum.reduceat(cosines, firsts)
        return dict(zip(owners[firsts].tolist(), best.tolist(), strict=True)), unkept.tolist()

    def _kept(self) -> _Kept:
        with self.lock:
            count = self._count
            if self._order is None:
                # Ids grow with time, so they are nearly in order, which a stable sort is fast at.
                order = np.argsort(self._ids[:count], kind="stable")
                self._order = order, self._ids[order]
            order, ordered = self._order
            return _Kept(
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
        self._make_room(end)
        halves = np.frombuffer(b"".join([blob for _, blob in added]), dtype=np.float16)
        halves = halves.reshape(len(added), -1)
        self._ids[start:end] = [id_ for id_, _ in added]
        self._codes[:, start:end] = encode(halves).T
        kept = self._wholes[start:end]
        kept[:] = halves[: len(kept)]
        self._is_alive[start:end] = True
        self._count = end
        self._order = self._followed_by(self._ids[start:end])

    def _followed_by(self, added: Ids) -> tuple[Slots, Ids] | None:
        """Go on with the order that is known: what is new is above all, and need not be sorted."""
        if self._order is None:
            return None
        order, ordered = self._order
        if np.any(np.diff(added, prepend=ordered[-1:]) < 0):
            return None
        slots = np.arange(self._count - len(added), self._count, dtype=order.dtype)
        return np.concatenate([order, slots]), np.concatenate([ordered, added])

    def _make_room(self, needed: int) -> None:
        """Grow by half into new arrays; a search under way keeps the old ones."""
        capacity = len(self._ids)
        if needed <= capacity:
            return
        grown = max(needed, capacity + capacity // 2)
        self._ids = _grown(self._ids, np.empty(grown, dtype=np.int64))
        self._codes = _grown(self._codes, np.empty((len(self._codes), grown), dtype=np.uint64))
        self._wholes = _grown(self._wholes, self._room_for_wholes(grown))
        self._is_alive = _grown(self._is_alive, np.empty(grown, dtype=np.bool_))

    def _room_for_wholes(self, count: int) -> Wholes:
        """Give an empty array, as float32 while it stays within the bound, else as it is stored.

        Each search scores hundreds, and to widen them takes as long as all the rest of it.
        """
        wide = np.dtype(np.float32).itemsize * self.dimensions
        if count * wide <= self.kept_bytes_max:
            return np.zeros((count, self.dimensions), dtype=np.float32)
        return np.zeros((min(count, self._wholes_max), self.dimensions), dtype=np.float16)


def _grown(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    new[tuple(slice(size) for size in old.shape)] = old
    return new


def _distances(codes: NDArray[np.uint64], query: NDArray[np.uint64]) -> NDArray[np.uint16]:
    distances = np.zeros(codes.shape[1], dtype=np.uint16)
    for word, asked in zip(codes, query, strict=True):
        distances += np.bitwise_count(word ^ asked)
    return distances


def _lowest(distances: NDArray[np.uint16], highest: int, *, limit: int) -> Slots:
    """Give up to `limit` slots with the lowest distances, none above `highest`.

    Distances are small whole numbers: counting them finds the bound faster than any sort.
    """
    within = np.bincount(distances, minlength=highest + 1)[: highest + 1].cumsum()
    if within[-1] <= limit:
        return np.flatnonzero(distances <= highest)
    bound = int(np.searchsorted(within, limit))
    closer = np.flatnonzero(distances < bound)
    return np.concatenate([closer, np.flatnonzero(distances == bound)[: limit - len(closer)]])
