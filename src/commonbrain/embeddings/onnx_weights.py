"""The files that hold weights of an ONNX model, read from its graph without loading the model.

Sources: onnx/onnx (`onnx/onnx.proto`, `docs/ExternalData.md`) for the messages, and Protocol
Buffers' encoding (protobuf.dev/programming-guides/encoding) for how they are written.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Final, TypeAlias

from commonbrain.model.errors import InvalidInputError, UnavailableError

_Span: TypeAlias = tuple[int, int]
"""Where bytes begin, and where they end."""

_NESTED: Final[Mapping[str, Mapping[int, str]]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
"""Fields of each message that lead to tensors, with the messages in them."""
_EXTERNAL_DATA: Final = 13
_DATA_LOCATION: Final = 14
_EXTERNAL: Final = 1
_KEY: Final = 1
_VALUE: Final = 2
_VARINT_BITS_MAX: Final = 64
_SHOWN_CHARS: Final = 80


def weight_files(model: Path) -> tuple[Path, ...]:
    """Return the file of a model and those that its tensors name, each once.

    Raises:
        InvalidInputError: a file is missing, not readable or outside the model's folder.
        UnavailableError: `embedder_down`, the model is damaged.

    """
    named = {_inside(model, location) for location in _read_locations(model)}
    return (model, *sorted(named))


def _inside(model: Path, location: str) -> Path:
    """Return a named file: a model from elsewhere must not name other files of this machine."""
    shown = location[:_SHOWN_CHARS]
    try:
        real = Path(os.path.realpath(model.parent / location))
        # In a cache of Hugging Face, the model and its weights are links into one other folder.
        folders = {Path(os.path.realpath(model.parent)), Path(os.path.realpath(model)).parent}
        is_inside = not PureWindowsPath(location).anchor and any(
            real.is_relative_to(folder) for folder in folders
        )
        is_missing = is_inside and not real.is_file()
    except (OSError, ValueError) as error:
        raise InvalidInputError(
            f"{model} names weights in {shown!r}, which is no path.",
            hint="Export the model again.",
        ) from error
    if not is_inside:
        raise InvalidInputError(
            f"{model} names weights in {shown!r}, which is outside its folder.",
            hint="Save the model again with its weights in the same folder.",
        )
    if is_missing:
        raise InvalidInputError(
            f"{model} names weights in {shown!r}, which does not exist.",
            hint=f"Copy the file into {model.parent}, or export the model again.",
        )
    return Path(os.path.normpath(model.parent / location))


def _read_locations(model: Path) -> set[str]:
    try:
        with (
            model.open("rb") as opened,
            mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return set(_locations(content))
    # An empty file cannot be mapped.
    except ValueError as error:
        raise UnavailableError(
            f"{model} is damaged, or no ONNX model: {error}.",
            code="embedder_down",
            hint=f"Check the files in {model.parent}; they may be damaged or incomplete.",
        ) from error
    except OSError as error:
        raise InvalidInputError(
            f"{model} cannot be read: {error.strerror}.", hint="Make it readable for this user."
        ) from error


def _locations(content: mmap.mmap) -> Iterator[str]:
    """Yield the locations of external tensors, in graphs at any depth."""
    rest: list[tuple[str, _Span]] = [("model", (0, len(content)))]
    while rest:
        message, span = rest.pop()
        if message == "tensor":
            yield from _tensor_locations(content, span)
            continue
        nested = _NESTED[message]
        for number, value in _fields(content, span):
            if number in nested:
                rest.append((nested[number], _span_of(value)))


def _tensor_locations(content: mmap.mmap, span: _Span) -> Iterator[str]:
    fields = list(_fields(content, span))
    if (_DATA_LOCATION, _EXTERNAL) not in fields:
        return
    for number, value in fields:
        if number == _EXTERNAL_DATA:
            entry = dict(_fields(content, _span_of(value)))
            key, location = (
                content[slice(*_span_of(entry.get(name, (0, 0))))] for name in (_KEY, _VALUE)
            )
            if key == b"location":
                yield os.fsdecode(location)


def _span_of(value: int | _Span) -> _Span:
    if isinstance(value, int):
        raise ValueError("a number in place of a message")  # noqa: TRY004 the file is damaged
    return value


def _fields(content: mmap.mmap, span: _Span) -> Iterator[tuple[int, int | _Span]]:
    """Yield the fields of a message: numbers of variable length, and where bytes are.

    Raises:
        ValueError: the message is damaged.

    """
    at, end = span
    while at < end:
        tag, at = _varint(content, at)
        match tag & 7:
            case 0:  # A number of variable length.
                value, at = _varint(content, at)
                yield tag >> 3, value
            case 1:  # Eight bytes.
                at += 8
            case 2:  # As many bytes as their length says.
                length, at = _varint(content, at)
                yield tag >> 3, (at, at + length)
                at += length
            case 5:  # Four bytes.
                at += 4
            case other:
                raise ValueError(f"a value of type {other}")
        if at > end:
            raise ValueError("a value longer than its message")


def _varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    """Return a number of variable length and where it ends."""
    value = shift = 0
    while shift < _VARINT_BITS_MAX and at < len(content):
        byte = content[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 the highest bit says that more bytes follow
            return value, at
        shift += 7
    raise ValueError("a number without end")
