"""JSON as a source: the elements of its lists, and the lines of JSON Lines, one at a time."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import Unreadable
from commonbrain.transfer.importers.conversations import (
    Events,
    NotJson,
    as_object,
    build_value,
    parser_message,
)
from commonbrain.transfer.importers.databases import Row

_LINE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of one line; a longer one is skipped, not parsed."""
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element of a list, or a value of the object around the lists."""

    key: str
    """The key of the list or value in the outer object; empty if the list is the file."""
    value: object
    is_in_list: bool
    number: int = 0
    """The place in the list, from 1."""


@contextmanager
def open_json(source: Path, *, hint: str) -> Generator[BinaryIO]:
    """Open a file of JSON behind its byte order mark.

    Raises:
        InvalidInputError: it cannot be opened.

    """
    try:
        stream = source.open("rb")
    except OSError as error:
        raise InvalidInputError(f"{source} cannot be read: {error.strerror}.", hint=hint) from error
    with stream:
        if stream.read(len(_BOM)) != _BOM:
            stream.seek(0)
        yield stream


def elements(stream: BinaryIO) -> Iterator[Element]:
    """Yield the elements of a list, or of every list in an object, and the object's other values.

    Raises:
        NotJson: the rest of the bytes is not JSON; everything before was yielded.

    """
    parser: Any = import_module("ijson")  # It brings no types, and is not needed to start.
    events: Events = parser.basic_parse(stream)
    try:
        for event, value in events:
            if event == "start_array":
                yield from _listed(events, key="")
            elif event == "start_map":
                yield from _members(events)
            else:
                yield Element(key="", value=value, is_in_list=False)
    except (parser.JSONError, ValueError) as error:
        raise NotJson(parser_message(error)) from error


def _members(events: Events) -> Iterator[Element]:
    for event, key in events:
        if event == "end_map":
            return
        event_of_value, value = next(events)
        if event_of_value == "start_array":
            yield from _listed(events, key=key)
        else:
            built = build_value(event_of_value, value, events=events)
            yield Element(key=key, value=built, is_in_list=False)


def _listed(events: Events, *, key: str) -> Iterator[Element]:
    for number, (event, value) in enumerate(events, 1):
        if event == "end_array":
            return
        built = build_value(event, value, events=events)
        yield Element(key=key, value=built, is_in_list=True, number=number)


def json_lines(stream: BinaryIO, *, name: str) -> Iterator[tuple[int, Row | Unreadable]]:
    """Yield the object of every line that is not blank, with the number of the line."""
    number = 0
    while line := stream.readline(_LINE_BYTES_MAX + 1):
        number += 1
        where = f"{name}, line {number}"
        if len(line) > _LINE_BYTES_MAX:
            while line and not line.endswith(b"\n"):
                line = stream.readline(_LINE_BYTES_MAX)
            reason = f"The line is longer than {_LINE_BYTES_MAX:,} bytes."
            yield number, Unreadable(where=where, reason=reason)
        elif line.strip():
            yield number, _parsed(line, where=where)


def _parsed(line: bytes, *, where: str) -> Row | Unreadable:
    try:
        fields = as_object(json.loads(line))
    except (ValueError, RecursionError) as error:
        return Unreadable(where=where, reason=f"The line is not JSON: {error}.")
    if fields is None:
        return Unreadable(where=where, reason="The line is not a JSON object.")
    return fields
