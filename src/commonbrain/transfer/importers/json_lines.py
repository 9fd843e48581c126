"""JSON Lines, one at a time and of any length, and JSON values of the type that is expected."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final, cast

from commonbrain.transfer.importer import Unreadable

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
"""A longer line is skipped; the longest seen hold pictures or files of some megabytes."""
_SKIPPED_AT_ONCE: Final = 1024 * 1024
_BLOB: Final = re.compile(rb'"data":\s?"[A-Za-z0-9+/=]{4096,}"')
"""A picture in base64. It is never kept, and would be copied three times to be parsed."""
_COMPACT: Final = re.compile(rb'\{"\w+":\S')
"""How these programs write JSON; a line that another tool rewrote is always parsed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JsonLine:
    """A line, and how many bytes of its file are read at its end; None if it is too long."""

    number: int
    data: bytes | None
    end: int

    @property
    def is_compact(self) -> bool:
        """Whether its members can be found without parsing it, as `"name":value`."""
        return self.data is not None and _COMPACT.match(self.data) is not None


def lines(stream: BinaryIO) -> Iterator[JsonLine]:
    """Yield the lines that are not empty; one is in memory at a time."""
    number = end = 0
    while data := stream.readline(LINE_BYTES_MAX):
        number += 1
        end += len(data)
        if len(data) == LINE_BYTES_MAX and not data.endswith(b"\n"):
            while rest := stream.readline(_SKIPPED_AT_ONCE):
                end += len(rest)
                if rest.endswith(b"\n"):
                    break
            yield JsonLine(number=number, data=None, end=end)
        elif not data.isspace():
            yield JsonLine(number=number, data=data, end=end)


def parse(line: JsonLine, *, where: str) -> Mapping[str, object] | Unreadable:
    """Parse a line that holds an object."""
    if line.data is None:
        return Unreadable(where=where, reason=f"It has more than {LINE_BYTES_MAX:,} bytes.")
    data = _BLOB.sub(b'"data":""', line.data) if b'"data":' in line.data else line.data
    try:
        record = as_object(json.loads(data))
    except (ValueError, RecursionError) as error:
        return Unreadable(where=where, reason=f"It is not JSON: {error}.")
    return Unreadable(where=where, reason="It is not a JSON object.") if record is None else record


def as_object(value: object) -> Mapping[str, object] | None:
    """Return a JSON value if it is an object, else None."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else None


def as_list(value: object) -> Sequence[object] | None:
    """Return a JSON value if it is a list, else None."""
    return cast("Sequence[object]", value) if isinstance(value, list) else None
