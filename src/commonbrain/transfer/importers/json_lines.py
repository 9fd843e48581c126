"""JSON Lines, one at a time and of any length, and the sessions that coding agents write so."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import Content, ImportItem, Meter, Unreadable
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.markdown import is_inside

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


RECORDS: Final = "records of the program, such as settings and costs"
SUBAGENTS: Final = "messages and transcripts of subagents"
REPEATED: Final = "messages that a fork or a resumed session repeats"
HEAD_BYTES: Final = 64 * 1024
"""What names a session is within this distance of its beginning or end.

Claude Code writes the title again so near to the end, and reads it from there.
"""
_MARK_BYTES: Final = 1024 * 1024
"""The mark of a format is within this distance of the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The first and the last bytes of a file, which name its session."""

    head: bytes
    tail: bytes

    @property
    def both(self) -> bytes:
        """Both, in their order."""
        return self.head + b"\n" + self.tail

    def values(self, member: str) -> Iterator[str]:
        """Yield the values of a member that is a string, in order."""
        for written in re.findall(rb'"%s":\s?("(?:[^"\\]|\\.)*")' % member.encode(), self.both):
            try:
                yield str(json.loads(written))
            except ValueError:
                continue


def window(file: Path, size: int) -> Window:
    """Read so many bytes at each end of a file; nothing of one that cannot be read."""
    try:
        with file.open("rb") as stream:
            head = stream.read(size)
            left = os.fstat(stream.fileno()).st_size - len(head)
            stream.seek(max(len(head), left + len(head) - size))
            return Window(head=head, tail=stream.read(size))
    except OSError:
        return Window(head=b"", tail=b"")


def session_files(source: Path, pattern: str, *, program: str) -> Sequence[Path]:
    """Return a file itself, or those in a folder that match a pattern, by path.

    A link that leaves the folder is not followed.

    Raises:
        InvalidInputError: there is none.

    """
    if source.is_file():
        return [source]
    matches = source.glob(pattern) if source.is_dir() else ()
    files = sorted(one for one in matches if one.is_file() and is_inside(one, source))
    if not files:
        raise InvalidInputError(
            f"{source} is neither a file nor a folder with a session of {program} in it.",
            hint=f"Name a file, or the folder above files like {pattern.rpartition('/')[2]}.",
        )
    return files


def session_folders(files: Iterable[Path]) -> Iterator[str]:
    """Yield the folder that each session names first."""
    for file in files:
        yield from islice(window(file, HEAD_BYTES).values("cwd"), 1)


def check_format(
    files: Iterable[Path], source: Path, *, mark: re.Pattern[bytes], program: str
) -> None:
    """Check that a file begins as the program writes it.

    Raises:
        InvalidInputError: none does.

    """
    if not any(mark.search(window(one, _MARK_BYTES).head) for one in files):
        raise InvalidInputError(
            f"{source} holds no session of {program}.",
            hint=f"Name the JSON Lines that {program} writes; other formats have importers of "
            "their own.",
        )


Reader = Callable[[Path, BinaryIO], Iterator[tuple[Content, int]]]
"""Yields the pieces of a file, each with the bytes read at its end."""


def pieces(
    files: Sequence[Path], source: Path, *, read: Reader, tally: Tally
) -> Iterator[ImportItem]:
    """Yield the pieces of all files in order, and at the end what was left out."""
    sizes = [_size(one) for one in files]
    before, meter = 0, Meter(total=sum(sizes))
    for file, size in zip(files, sizes, strict=True):
        try:
            with file.open("rb") as stream:
                for content, end in read(file, stream):
                    meter.done = before + end
                    yield meter.piece(content)
        except OSError as error:
            reason = f"It cannot be read: {error.strerror}."
            yield meter.piece(Unreadable(where=place_of(file, source), reason=reason))
        before += size
    yield from tally.pieces()


def place_of(file: Path, source: Path) -> str:
    """Return the path of a file below the source."""
    return file.name if file == source else file.relative_to(source).as_posix()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
