"""JSON Lines that coding agents write of their sessions: files, lines and their bounds."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import Content, ImportItem, Meter, Unreadable
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.markdown import is_inside

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
