"""Sign codes of vectors, kept in process memory: a small, fast, approximate first look.

One bit per dimension (48 bytes at 384) stands for a vector; the Hamming distance of two codes goes
with the angle of their vectors. The nearest by code are scored exactly afterwards from the rows, so
codes decide only who is looked at: of the true ten nearest, 99% were among the best 500 codes at
100,000 vectors. The rows are the truth; codes follow them by their sequence number.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

_WORD_BITS: Final = 64
_DEAD: Final = np.uint16(np.iinfo(np.uint16).max)
"""A distance beyond every real one."""

Ids = NDArray[np.int64]
Change = tuple[int, int, bytes | None]
"""A row of the vectors table: its sequence number, its memory, its vector as float16 or none."""


def encode(vectors: NDArray[np.floating]) -> NDArray[np.uint64]:
    """Pack the signs of `(n, d)` vectors into `(n, ceil(d / 64))` words."""
    bits = np.packbits(vectors > 0, axis=1, bitorder="little")
    padding = -bits.shape[1] % (_WORD_BITS // 8)
    return np.pad(bits, ((0, 0), (0, padding))).view(np.uint64)


@dataclass(slots=True)
class Codes:
    """The codes of one tenant in one space, as of `seq`; threads may search while one updates."""

    dimensions: int
    seq: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    _count: int = 0
    _ids: Ids = field(init=False)
    _codes: NDArray[np.uint64] = field(init=False)
    _is_alive: NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        """Start empty, with room for a few."""
        words = -(-self.dimensions // _WORD_BITS)
        self._ids = np.empty(64, dtype=np.int64)
        self._codes = np.empty((64, words), dtype=np.uint64)
        self._is_alive = np.empty(64, dtype=np.bool_)

    def __len__(self) -> int:
        return self._count

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

    def nearest(self, query: NDArray[np.float32], *, limit: int, among: Ids | None = None) -> Ids:
        """Give the ids of up to `limit` living vectors nearest by code, in no order.

        An id may stand more than once, for several windows; `among` leaves only those ids.
        """
        with self.lock:
            count = self._count
            ids, codes, is_alive = (
                self._ids[:count],
                self._codes[:count],
                self._is_alive[:count],
            )
        distances = np.bitwise_count(codes ^ encode(query[None, :])).sum(axis=1, dtype=np.uint16)
        is_eligible = is_alive if among is None else is_alive & np.isin(ids, among)
        distances[~is_eligible] = _DEAD
        if count > limit:
            best = np.argpartition(distances, limit)[:limit]
            ids, distances = ids[best], distances[best]
        return ids[distances < _DEAD]

    def _append(self, added: Sequence[tuple[int, bytes]]) -> None:
        if not added:
            return
        end = self._count + len(added)
        self._make_room(end)
        halves = np.frombuffer(b"".join([blob for _, blob in added]), dtype=np.float16)
        self._ids[self._count : end] = [id_ for id_, _ in added]
        self._codes[self._count : end] = encode(halves.reshape(len(added), -1))
        self._is_alive[self._count : end] = True
        self._count = end

    def _make_room(self, needed: int) -> None:
        """Grow by doubling into new arrays; a search under way keeps the old ones."""
        capacity = len(self._ids)
        if needed <= capacity:
            return
        grown = max(needed, 2 * capacity)
        for name in ("_ids", "_codes", "_is_alive"):
            old: NDArray[np.generic] = getattr(self, name)
            new = np.empty((grown, *old.shape[1:]), dtype=old.dtype)
            new[: self._count] = old[: self._count]
            setattr(self, name, new)
