"""How similar stored memories are to each other, by their vectors; the same in both engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_PRODUCTS_MAX: Final = 200_000
"""Multiplications at once; for more, BLAS wakes threads, which takes longer than the product."""

Window = NDArray[np.float16] | NDArray[np.float32]


def cosines_of(ids: Sequence[int], windows: Iterable[tuple[int, Window]]) -> list[list[float]]:
    """Compare memories by the means of their windows; without one the similarity is 0.

    Args:
        ids: the memories, in the order of rows and columns.
        windows: unit vectors of shape `(dimensions,)`, by memory in any order.

    """
    sums: dict[int, NDArray[np.float32]] = {}
    for id_, window in windows:
        whole = np.asarray(window, dtype=np.float32)
        sums[id_] = sums[id_] + whole if id_ in sums else whole
    if not sums:
        return [[0.0] * len(ids) for _ in ids]
    none = np.zeros_like(next(iter(sums.values())))
    matrix = np.stack([sums.get(id_, none) for id_ in ids])
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix /= np.where(lengths > 0, lengths, 1)
    step = max(1, _PRODUCTS_MAX // matrix.size)
    parts = [matrix[at : at + step] @ matrix.T for at in range(0, len(ids), step)]
    return np.concatenate(parts).tolist()
