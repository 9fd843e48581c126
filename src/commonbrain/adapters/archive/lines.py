"""The file: a head, a record a line, and an end that tells whether anything is missing."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from commonbrain.adapters.archive.codec import NotARecord, from_json, to_json
from commonbrain.domain.errors import Invalid, Unavailable
from commonbrain.ports.archive import Line, Record
from commonbrain.ports.importing import Unreadable

VERSION: Final = 1
_LINE_BYTES_MAX: Final = 4 * 1024 * 1024
"""Far above the longest record; a longer line is none of ours."""
_HEAD: Final = "commonbrain"
_END: Final = "end"


@dataclass(frozen=True, slots=True)
class JsonLines:
    """The house's own format in a file."""

    def write(self, target: Path, records: Iterable[Record]) -> int:
        """Write records to a new file, whole or not at all, for its owner alone; count them."""
        if target.exists():
            raise Invalid(f"{target} exists already.", hint="Name a new file, or remove it.")
        try:
            count = _write_beside(target, records)
        except OSError as error:
            raise Unavailable(
                f"{target} cannot be written: {error.strerror}.",
                hint="Nothing was left behind. Name a file in a folder with room.",
            ) from error
        return count

    def read(self, source: Path) -> Iterator[Line]:
        """Give the records in their order, one in memory at a time."""
        try:
            stream = source.open("rb")
        except OSError as error:
            raise Invalid(f"{source} cannot be read: {error.strerror}.") from error
        with ExitStack() as unless_read:
            unless_read.enter_context(stream)
            _check_head(stream, source)
            unless_read.pop_all()
        return _lines(stream, source)


def _write_beside(target: Path, records: Iterable[Record]) -> int:
    """Write into a file of another name, so that the target is there whole or not at all."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as stream:
            count = _write_all(stream, records)
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return count


def _write_all(stream: BinaryIO, records: Iterable[Record]) -> int:
    count = 0
    stream.write(_json({_HEAD: {"version": VERSION}}))
    for record in records:
        stream.write(_json(to_json(record)))
        count += 1
    stream.write(_json({_END: {"records": count}}))
    stream.flush()
    os.fsync(stream.fileno())
    return count


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _check_head(stream: BinaryIO, source: Path) -> None:
    match _value(stream.readline(_LINE_BYTES_MAX)):
        case {"commonbrain": {"version": int(version)}} if version > VERSION:
            raise Invalid(
                f"{source} has version {version} of the format; up to {VERSION} is known.",
                hint="Upgrade Commonbrain.",
            )
        case {"commonbrain": {"version": int()}}:
            pass
        case _:
            raise Invalid(
                f"{source} was not written by brain export.",
                hint="See brain import --help for the formats of others.",
            )


def _lines(stream: BinaryIO, source: Path) -> Iterator[Line]:
    with stream:
        size = os.fstat(stream.fileno()).st_size
        count = 0
        while raw := stream.readline(_LINE_BYTES_MAX):
            match _value(raw):
                case {"end": {"records": int(expected)}} if expected == count:
                    return
                case value:
                    count += 1
                    content = _content(value, number=count)
                    yield Line(content=content, progress=min(1.0, stream.tell() / size))
    raise Invalid(
        f"{source} ends before its time: it was cut short, or changed by hand.",
        hint="What came before was taken in. Export again and import that.",
    )


def _content(value: object, *, number: int) -> Record | Unreadable:
    try:
        return from_json(value)
    except NotARecord as error:
        # The head is the first line of the file.
        return Unreadable(where=f"line {number + 1}", reason=str(error))


def _value(raw: bytes) -> Any:  # noqa: ANN401 whatever a file holds
    try:
        return json.loads(raw)
    except ValueError:
        return None
