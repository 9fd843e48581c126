"""Exports of chat services: JSON files in a ZIP archive, in a folder, or by themselves."""

import re
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from lzma import LZMAError
from pathlib import Path
from typing import BinaryIO, Final, cast
from zipfile import BadZipFile, ZipFile, is_zipfile

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import Content, ImportItem, Meter, Unreadable
from commonbrain.transfer.importers.chats import Tally
from commonbrain.transfer.importers.json_lines import as_object
from commonbrain.transfer.importers.markdown import is_inside
from commonbrain_import.json_files import NotJson, Oversized, elements
from commonbrain_import.rows import Row

_CHATS: Final = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
"""A large export has its chats in several numbered files."""


_DAMAGED: Final = (BadZipFile, RuntimeError, zlib.error, LZMAError, EOFError)
"""What reading a damaged archive raises; `RuntimeError` for encryption and unknown compression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportFile:
    """A file of an export."""

    name: str
    """Its path in the export."""
    size_bytes: int
    open: Callable[[], BinaryIO]

    @property
    def has_chats(self) -> bool:
        """Whether it holds the chats, by its name."""
        return _CHATS.fullmatch(self.name) is not None


@contextmanager
def members(source: Path) -> Generator[Sequence[ExportFile]]:
    """Open an export and list its JSON files by name; a file by itself holds the chats.

    Raises:
        InvalidInputError: it is missing or damaged.

    """
    try:
        if source.is_dir():
            paths = sorted(one for one in source.rglob("*.json") if one.is_file())
            yield [_file(one, source) for one in paths if is_inside(one, source)]
        elif is_zipfile(source) or source.suffix == ".zip":
            with ZipFile(source) as archive:
                yield [_packed(archive, one) for one in sorted(archive.namelist()) if _is_json(one)]
        else:
            yield [replace(_file(source, source.parent), name="conversations.json")]
    # The second is for an unknown version, the third for a name.
    except (BadZipFile, RuntimeError, UnicodeDecodeError) as error:
        raise InvalidInputError(
            f"{source} is not a whole ZIP archive: {error}.", hint="Download the export again."
        ) from error
    except OSError as error:
        raise InvalidInputError(
            f"{source} cannot be read: {error.strerror or error}.",
            hint="Name the ZIP archive of the export, its folder, or conversations.json.",
        ) from error


def _is_json(path: str) -> bool:
    return path.endswith(".json") and not path.startswith("__MACOSX/")


def _file(path: Path, folder: Path) -> ExportFile:
    return ExportFile(
        name=path.relative_to(folder).as_posix(),
        size_bytes=path.stat().st_size,
        open=lambda: path.open("rb"),
    )


def _packed(archive: ZipFile, path: str) -> ExportFile:
    return ExportFile(
        name=path,
        size_bytes=archive.getinfo(path).file_size,
        open=lambda: cast("BinaryIO", archive.open(path)),
    )


Chat = Row | Unreadable


def chats_in(member: ExportFile) -> Iterator[tuple[Chat, int]]:
    """Yield the objects of a list, or the object of a file, each with the bytes read at its end."""
    number = 0
    try:
        with member.open() as stream:
            for number, element in enumerate(elements(stream, lists=()), 1):
                where = f"{member.name}, chat {number}"
                yield _chat(element.value, where=where), stream.tell()
    except (NotJson, *_DAMAGED) as error:
        reason = f"From here on it cannot be read ({error}); nothing after it was read."
        yield Unreadable(where=f"{member.name}, after {number}", reason=reason), member.size_bytes


def _chat(value: object, *, where: str) -> Chat:
    if isinstance(value, Oversized):
        return Unreadable(where=where, reason=f"It has {value.values:,} values, too many to hold.")
    fields = as_object(value)
    return Unreadable(where=where, reason="It is not an object.") if fields is None else fields


def chats_of(
    files: Sequence[ExportFile], source: Path, *, has: str, service: str
) -> Sequence[ExportFile]:
    """Return the files with chats, after a look at the first chat of each.

    Raises:
        InvalidInputError: there is none, or the first chat has no such member.

    """
    chats = [one for one in files if one.has_chats]
    for one in chats:
        first, _ = next(chats_in(one), (None, 0))
        if first is not None and (isinstance(first, Unreadable) or has not in first):
            detail = f" ({first.reason})" if isinstance(first, Unreadable) else ""
            raise InvalidInputError(
                f"{one.name} in {source} is not from an export of {service}{detail}.",
                hint=f"Its chats have the member {has!r}; other services have other importers.",
            )
    if not chats:
        raise InvalidInputError(
            f"{source} has no conversations.json.",
            hint=f"Name the ZIP archive that {service} exported, its folder, or that file.",
        )
    return chats


Reader = Callable[[Row], Iterator[Content]]


def pieces(files: Sequence[tuple[ExportFile, Reader]], *, tally: Tally) -> Iterator[ImportItem]:
    """Yield what the reader of each file makes of its objects, and at the end what is left out."""
    before, meter = 0, Meter(total=sum(one.size_bytes for one, _ in files))
    for member, read in files:
        for chat, end in chats_in(member):
            contents = [chat] if isinstance(chat, Unreadable) else read(chat)
            meter.done = before + end
            yield from map(meter.piece, contents)
        before += member.size_bytes
    yield from tally.pieces()
