"""Reads a safetensors file with numpy alone; https://github.com/huggingface/safetensors#format."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

DTYPES = {"F32": np.dtype("<f4"), "I64": np.dtype("<i8")}
"""The two types this model's file holds."""


def read_tensors(content: bytes) -> dict[str, NDArray[Any]]:
    """Give every tensor by name, as views of `content`.

    The file is the header's length (8 bytes, little-endian), a JSON header, then the numbers.
    """
    start = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:start])
    header.pop("__metadata__", None)
    return {name: _tensor(content, start, entry) for name, entry in header.items()}


def _tensor(content: bytes, start: int, entry: dict[str, Any]) -> NDArray[Any]:
    first, end = entry["data_offsets"]
    numbers = memoryview(content)[start + first : start + end]
    return np.frombuffer(numbers, DTYPES[entry["dtype"]]).reshape(entry["shape"])
