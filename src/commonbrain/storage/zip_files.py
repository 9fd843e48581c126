"""Folders packed as zips: what is packed, and how much may come out of one."""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Iterable
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from commonbrain.folders import is_disk_full
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.limits import (
    PACKED_DEPTH_MAX,
    PACKED_ENTRY_BYTES,
    PACKED_RATIO_FROM_BYTES,
    ImportLimits,
)

_FIRST: Final = (1980, 1, 1, 0, 0, 0)
"""Date of every file in a packed folder, so that equal content packs to equal bytes."""
_DAMAGED: Final = (zipfile.BadZipFile, RuntimeError, OSError)
"""What a damaged or encrypted zip raises."""
_LISTED_BYTES_MIN: Final = 1024 * 1024
"""Bytes of any list of files that is read; the library itself reads 64 KiB at once."""


def pack(folder: Path, target: Path, *, hidden: frozenset[str]) -> None:
    """Pack a folder without links that lead out of it and without other hidden files."""
    root = folder.resolve()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            place = path.relative_to(folder)
            is_hidden = any(part.startswith(".") and part not in hidden for part in place.parts)
            if path.is_file() and not is_hidden and path.resolve().is_relative_to(root):
                packed.writestr(zipfile.ZipInfo(place.as_posix(), _FIRST), path.read_bytes())


def unpack(packed: Path, target: Path, *, limits: ImportLimits) -> None:
    """Unpack into a new folder.

    Raises:
        InvalidInputError: it is no zip file, or holds too much.
        OSError: the disk is full.

    """
    try:
        with _open_zip(packed, limits) as held:
            _check_contents(held, packed, limits=limits)
            # `extractall` keeps every path inside the folder and makes no links.
            target.mkdir(parents=True)
            held.extractall(target)
    except _DAMAGED as error:
        if is_disk_full(error):
            raise
        raise InvalidInputError(
            f"The folder cannot be unpacked: {error}.", hint="Send a zip."
        ) from error


def check_packed(packed: Path, limits: ImportLimits) -> None:
    """Check what a zip would unpack to, by its list of files; another file is no concern.

    Raises:
        InvalidInputError: `limit_exceeded`.

    """
    if zipfile.is_zipfile(packed):
        # What is damaged is reported when it is read.
        with suppress(*_DAMAGED), _open_zip(packed, limits) as held:
            _check_contents(held, packed, limits=limits)


class _BoundedReads(FileIO):
    """A file of which the library reads the list of files at once, if that is not too long."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        super().__init__(path)
        self._bytes_max = bytes_max

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self._bytes_max:
            raise _too_large(f"its list of files {size:,} bytes", f"{self._bytes_max:,}")
        return super().read(size)


@contextmanager
def _open_zip(packed: Path, limits: ImportLimits) -> Generator[zipfile.ZipFile]:
    listed_max = max(limits.files_max * PACKED_ENTRY_BYTES, _LISTED_BYTES_MIN)
    with _BoundedReads(packed, listed_max) as stream, zipfile.ZipFile(stream) as held:
        yield held


def _check_contents(held: zipfile.ZipFile, packed: Path, *, limits: ImportLimits) -> None:
    names = held.namelist()
    depth = max((name.count("/") for name in names), default=0)
    if depth > PACKED_DEPTH_MAX:
        raise _too_large(f"a file below {depth:,} folders", f"{PACKED_DEPTH_MAX}")
    count = len(names) + len(_folders(names).difference(name.rstrip("/") for name in names))
    if count > limits.files_max:
        raise _too_large(f"{count:,} files and folders", f"{limits.files_max:,}")
    size = sum(one.file_size for one in held.infolist())
    if size > limits.unpacked_bytes_max:
        raise _too_large(f"{size:,} bytes unpacked", f"{limits.unpacked_bytes_max:,}")
    ratio = size // max(packed.stat().st_size, 1)
    ratio_max = limits.packed_ratio_max
    if ratio_max is not None and size > PACKED_RATIO_FROM_BYTES and ratio > ratio_max:
        raise _too_large(f"{ratio:,} times its size unpacked", f"{ratio_max:,} times")


def _folders(names: Iterable[str]) -> set[str]:
    """Return the folders that files need."""
    folders: set[str] = set()
    for name in names:
        above = name.rpartition("/")[0]
        while above and above not in folders:
            folders.add(above)
            above = above.rpartition("/")[0]
    return folders


def _too_large(given: str, allowed: str) -> InvalidInputError:
    # A job keeps the message alone, so that it contains the next step.
    return InvalidInputError(
        f"The zip has {given}; {allowed} are allowed. "
        "Send it in parts, or run brain import on the machine of the store.",
        code="limit_exceeded",
    )
