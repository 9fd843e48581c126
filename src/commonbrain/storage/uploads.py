"""Uploads: a file, or a folder packed as a zip, as artifacts; how much may come out of one."""

from __future__ import annotations

import secrets
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import FileIO
from pathlib import Path
from typing import Any, Final

from commonbrain.child_process import ChildFailedError, run_in_child
from commonbrain.folders import is_disk_full, reporting_full_disk, temporary_folder
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.limits import (
    LOCAL_IMPORT,
    PACKED_DEPTH_MAX,
    PACKED_ENTRY_BYTES,
    PACKED_RATIO_FROM_BYTES,
    STAGED_BYTES_MAX,
    STAGED_PART_BYTES,
    ChildLimits,
    ImportLimits,
)
from commonbrain.model.values import asdict, dataclass, replace
from commonbrain.storage.blobs import Blobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file, or a folder packed into one, as artifacts shared with no other upload."""

    name: str
    """Name of the file or folder, without a path."""
    is_folder: bool
    parts: tuple[str, ...]
    """Digests, in order."""
    size: int
    """In bytes."""


_NAME_BYTES_MAX: Final = 200
"""Limit of a file name: systems allow 255, and suffixes are added."""
_HEAD: Final = 16
"""Random bytes before each part of an upload, as many as in a UUID."""


@dataclass(frozen=True, slots=True)
class UploadStore:
    """Uploads, stored as artifacts."""

    blobs: Callable[[], Blobs]

    def put(
        self,
        source: Path,
        *,
        name: str | None = None,
        hidden: frozenset[str] = frozenset(),
        on_start: Callable[[Upload], None],
    ) -> Upload:
        """Store a file, or a folder without its hidden files, as a new upload.

        Args:
            source: the file or folder.
            name: its name in the upload, if not its own.
            hidden: names of hidden files of a folder that are stored all the same.
            on_start: called with the upload before any part is stored, so that it can be dropped
                even if this process dies right after.

        Raises:
            InvalidInputError: it is missing, cannot be read, or is too large.
            UnavailableError: `blobs_down`; the parts stored until then are deleted. `io_error`.

        """
        if source.is_dir():
            with temporary_folder() as folder:
                packed = folder / "packed.zip"
                pack(source, packed, hidden=hidden)
                label = name or source.resolve().name
                return self._store(packed, label, is_folder=True, on_start=on_start)
        is_packed = name is not None and name.endswith(".zip")
        return self._store(source, name or source.name, is_folder=is_packed, on_start=on_start)

    @contextmanager
    def opened(
        self,
        upload: Upload,
        *,
        limits: ImportLimits = LOCAL_IMPORT,
        stays_packed: bool = False,
    ) -> Generator[Path]:
        """Restore the file or folder; it is deleted when the block ends.

        Args:
            upload: what `put` returned.
            limits: how much a folder may unpack to.
            stays_packed: yield a folder as the zip that it is, for readers of archives.

        Raises:
            NotFoundError: a part no longer exists.
            InvalidInputError: the folder cannot be unpacked; `limit_exceeded`, it holds too much.
            UnavailableError: `blobs_down`; `io_error`, the disk of temporary files is full.

        """
        with temporary_folder() as folder:
            name = _file_name(upload.name)
            path = folder / name
            with path.open("wb") as stream:
                for part in self.read(upload):
                    stream.write(part)
            if stays_packed or not upload.is_folder:
                check_packed(path, limits)
                yield path
                return
            unpacked = folder / "unpacked" / name.removesuffix(".zip")
            _unpack_in_child(path, unpacked, limits=limits)
            # Of the two copies, one is read.
            path.unlink()
            yield unpacked

    def made(
        self, name: str, write: Callable[[Path], object], *, on_start: Callable[[Upload], None]
    ) -> Upload:
        """Store a file that `write` creates at a path; `on_start` as in `put`."""
        with temporary_folder() as folder:
            path = folder / name
            write(path)
            return self._store(path, name, is_folder=False, on_start=on_start)

    def read(self, upload: Upload) -> Iterator[bytes]:
        """Yield the bytes part by part.

        Raises:
            NotFoundError: a part no longer exists.

        """
        blobs = self.blobs()
        for digest in upload.parts:
            yield blobs.get(digest)[_HEAD:]

    def drop(self, upload: Upload) -> None:
        """Delete the parts that still exist."""
        blobs = self.blobs()
        for digest in upload.parts:
            blobs.drop(digest)

    def _store(
        self, path: Path, name: str, *, is_folder: bool, on_start: Callable[[Upload], None]
    ) -> Upload:
        """Report the parts, then store them."""
        blobs, head, stored = self.blobs(), secrets.token_bytes(_HEAD), list[str]()
        size = _size(path, name)
        digests = (sha256(part).hexdigest() for part in _parts(path, head))
        upload = Upload(name=name, is_folder=is_folder, parts=tuple(digests), size=size)
        on_start(upload)
        try:
            stored.extend(map(blobs.put, _parts(path, head)))
            if tuple(stored) != upload.parts:
                raise InvalidInputError(
                    f"{name} was changed while it was read.",
                    hint="Send it again when no program writes to it.",
                )
        except CommonbrainError:
            for digest in stored:
                blobs.drop(digest)
            raise
        return upload


def _file_name(called: str) -> str:
    """Make a safe file name from the name that a caller sent."""
    last = "".join(one for one in Path(called).name if one.isprintable())
    # The end holds the extension.
    name = last.encode()[-_NAME_BYTES_MAX:].decode(errors="ignore")
    # Dots alone name a folder.
    return name if name.strip(".") else "upload"


def _size(path: Path, name: str) -> int:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    if size > STAGED_BYTES_MAX:
        raise InvalidInputError(
            f"{name} has {size:,} bytes; {STAGED_BYTES_MAX:,} are allowed.",
            code="limit_exceeded",
            hint="Send it in parts, or import it where the store is.",
        )
    return size


def _parts(path: Path, head: bytes) -> Iterator[bytes]:
    """Cut a file into parts, each after the random head of its upload."""
    try:
        with path.open("rb") as stream:
            while content := stream.read(STAGED_PART_BYTES):
                yield head + content
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(f"{path} cannot be read: {error.strerror}.")


_FIRST: Final = (1980, 1, 1, 0, 0, 0)
"""Date of every file in a packed folder, so that equal content packs to equal bytes."""
_DAMAGED: Final = (zipfile.BadZipFile, RuntimeError, UnicodeDecodeError, OSError)
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


def _unpack_in_child(packed: Path, target: Path, *, limits: ImportLimits) -> None:
    """Unpack in a child process, because the decompressors are native code; see `unpack`."""
    arguments = {"packed": str(packed), "target": str(target), "limits": asdict(limits)}
    function = f"{__name__}:{unpack_here.__name__}"
    try:
        with run_in_child(function, arguments, limits=limits.child) as nothing:
            next(nothing, None)
    except ChildFailedError as error:
        raise InvalidInputError(
            f"The folder cannot be unpacked: {error}.", hint="Send a zip."
        ) from error


def unpack_here(packed: str, target: str, *, limits: Mapping[str, Any]) -> Iterator[bytes]:
    """Unpack a folder and yield nothing; runs in the child."""
    bounds = replace(ImportLimits(**limits), child=ChildLimits(**limits["child"]))
    with reporting_full_disk():
        unpack(Path(packed), Path(target), limits=bounds)
    yield from ()


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
