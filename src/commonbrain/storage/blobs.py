"""Artifacts: bytes stored under their own digest."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol

from commonbrain.extras import load_extra
from commonbrain.folders import temporary_folder
from commonbrain.model.errors import CommonbrainError, InvalidInputError, UnavailableError
from commonbrain.model.limits import LOCAL_IMPORT, STAGED_BYTES_MAX, STAGED_PART_BYTES, ImportLimits
from commonbrain.model.values import dataclass
from commonbrain.storage.folder_blobs import in_folder
from commonbrain.storage.zip_files import check_packed, pack, unpack


class Blobs(Protocol):
    """A store of artifacts; equal bytes are stored once and never change."""

    @property
    def location(self) -> str:
        """Path or URL for display, without secrets."""
        ...

    def put(self, content: bytes) -> str:
        """Store bytes; return their SHA-256 in hexadecimal.

        Raises:
            UnavailableError: `blobs_down`; nothing was stored.

        """
        ...

    def get(self, digest: str) -> bytes:
        """Return bytes by their digest.

        Raises:
            NotFoundError: there is no such artifact.
            StoreCorruptError: `blob_corrupt`, the stored bytes have another digest.
            UnavailableError: `blobs_down`.

        """
        ...

    def drop(self, digest: str) -> None:
        """Delete bytes, if they exist.

        Raises:
            UnavailableError: `blobs_down`; they may still exist.

        """
        ...


S3: Final = "s3://"


def make_blobs(place: Path | str, key: tuple[str, str] | None = None) -> Blobs:
    """Open a folder, which is created, or a bucket `s3://BUCKET/PREFIX`; nothing is sent yet.

    The endpoint and region of a bucket come from AWS_ENDPOINT_URL and AWS_REGION, and without a
    `key` (id, secret) the credentials also come from the environment.

    Raises:
        InvalidInputError: `extra_missing`, for a bucket.
        UnavailableError: `blobs_down`, the folder cannot be created.

    """
    if isinstance(place, str) and place.startswith(S3):
        load_extra("obstore", extra="learn")
        from commonbrain.storage.object_store import in_bucket  # noqa: PLC0415

        return in_bucket(place, key)
    try:
        return in_folder(Path(place))
    except OSError as error:
        raise UnavailableError(
            f"The folder of artifacts {place} cannot be created: {error.strerror or error}.",
            code="blobs_down",
            hint="Repair it, or set another location in COMMONBRAIN_BLOBS.",
        ) from error


def in_memory() -> Blobs:
    """Store artifacts until the process ends.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    load_extra("obstore", extra="learn")
    from commonbrain.storage.object_store import in_memory as make  # noqa: PLC0415

    return make()


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
                label = _Label(name=name or source.resolve().name, is_folder=True)
                return self._store(packed, label, on_start=on_start)
        is_packed = name is not None and name.endswith(".zip")
        label = _Label(name=name or source.name, is_folder=is_packed)
        return self._store(source, label, on_start=on_start)

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
            unpack(path, unpacked, limits=limits)
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
            return self._store(path, _Label(name=name, is_folder=False), on_start=on_start)

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

    def _store(self, path: Path, label: _Label, *, on_start: Callable[[Upload], None]) -> Upload:
        """Report the parts, then store them."""
        blobs, head, stored = self.blobs(), secrets.token_bytes(_HEAD), list[str]()
        size = _size(path, label.name)
        digests = (sha256(part).hexdigest() for part in _parts(path, head))
        upload = Upload(name=label.name, is_folder=label.is_folder, parts=tuple(digests), size=size)
        on_start(upload)
        try:
            stored.extend(map(blobs.put, _parts(path, head)))
            if tuple(stored) != upload.parts:
                raise InvalidInputError(
                    f"{label.name} was changed while it was read.",
                    hint="Send it again when no program writes to it.",
                )
        except CommonbrainError:
            for digest in stored:
                blobs.drop(digest)
            raise
        return upload


@dataclass(frozen=True, slots=True, kw_only=True)
class _Label:
    """The name of an upload, and whether it is a packed folder."""

    name: str
    is_folder: bool


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
