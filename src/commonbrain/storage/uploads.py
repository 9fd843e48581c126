"""What a job needs of files: what was sent lies among the artifacts until it has been read."""

from __future__ import annotations

import secrets
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.limits import (
    PARCEL_BYTES_MAX,
    PARCEL_FILES_MAX,
    PARCEL_PART_BYTES,
    UNPACKED_BYTES_MAX,
)
from commonbrain.storage.blobs import Blobs


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A file, or a folder packed into one, as artifacts that nobody else has."""

    name: str
    """Its file's or folder's own name, without a path."""
    is_folder: bool
    parts: tuple[str, ...]
    """Digests, in their order."""
    size: int
    """Bytes that were sent."""


_NAME_BYTES_MAX: Final = 200
"""Of a file: systems take 255, and parts of it are added to."""
_HEAD: Final = 16
"""Random bytes before each part of a parcel: as many as a UUID has."""
_FIRST: Final = (1980, 1, 1, 0, 0, 0)
"""The date of everything in a folder that is packed: when it was written tells nothing here."""


@dataclass(frozen=True, slots=True)
class UploadStore:
    """Parcels among the artifacts of a house."""

    blobs: Callable[[], Blobs]

    def put(
        self, source: Path, *, name: str | None = None, tell: Callable[[Upload], None]
    ) -> Upload:
        """Keep a file, or a folder without what is hidden in it; another call gives another parcel.

        Args:
            source: what is kept.
            name: its name, where that is not its own.
            tell: told of the parcel before any of it is kept, so that whoever is to drop it
                knows of it even if this process dies right after.

        Raises:
            InvalidInputError: it is missing, cannot be read, or is larger than may be sent.
            UnavailableError: `blobs_down`; what was kept until then is dropped.

        """
        if source.is_dir():
            with TemporaryDirectory(prefix="commonbrain-") as folder:
                packed = Path(folder) / "packed.zip"
                _pack(source, packed)
                label = _Label(name=name or source.resolve().name, is_folder=True)
                return self._keep(packed, label, tell=tell)
        is_packed = name is not None and name.endswith(".zip")
        label = _Label(name=name or source.name, is_folder=is_packed)
        return self._keep(source, label, tell=tell)

    @contextmanager
    def opened(self, parcel: Upload) -> Generator[Path]:
        """Give the file or folder as it was, which is gone when the block ends.

        Raises:
            NotFoundError: a part is not there any more.
            InvalidInputError: the folder cannot be unpacked.

        """
        with TemporaryDirectory(prefix="commonbrain-") as folder:
            name = _file_name(parcel.name)
            path = Path(folder) / name
            with path.open("wb") as stream:
                for part in self.read(parcel):
                    stream.write(part)
            if not parcel.is_folder:
                yield path
                return
            unpacked = Path(folder) / "unpacked" / name.removesuffix(".zip")
            _unpack(path, unpacked)
            yield unpacked

    def made(
        self, name: str, write: Callable[[Path], object], *, tell: Callable[[Upload], None]
    ) -> Upload:
        """Have a file written that is not there yet, and keep it; `tell` as in `put`."""
        with TemporaryDirectory(prefix="commonbrain-") as folder:
            path = Path(folder) / name
            write(path)
            return self._keep(path, _Label(name=name, is_folder=False), tell=tell)

    def read(self, parcel: Upload) -> Iterator[bytes]:
        """Give the bytes that were kept, part by part.

        Raises:
            NotFoundError: a part is not there any more.

        """
        blobs = self.blobs()
        for digest in parcel.parts:
            yield blobs.get(digest)[_HEAD:]

    def drop(self, parcel: Upload) -> None:
        """Delete it; there may be nothing left of it."""
        blobs = self.blobs()
        for digest in parcel.parts:
            blobs.drop(digest)

    def _keep(self, path: Path, label: _Label, *, tell: Callable[[Upload], None]) -> Upload:
        """Say of what parts it will be, then keep them."""
        blobs, head, kept = self.blobs(), secrets.token_bytes(_HEAD), list[str]()
        size = _size(path, label.name)
        digests = (sha256(part).hexdigest() for part in _parts(path, head))
        parcel = Upload(name=label.name, is_folder=label.is_folder, parts=tuple(digests), size=size)
        tell(parcel)
        try:
            kept.extend(map(blobs.put, _parts(path, head)))
            if tuple(kept) != parcel.parts:
                raise InvalidInputError(
                    f"{label.name} was changed while it was read.",
                    hint="Send it again once nobody writes to it.",
                )
        except CommonbrainError:
            for digest in kept:
                blobs.drop(digest)
            raise
        return parcel


@dataclass(frozen=True, slots=True, kw_only=True)
class _Label:
    """What a parcel is called, and whether a folder is packed into it."""

    name: str
    is_folder: bool


def _file_name(called: str) -> str:
    """Make a name that a file can have of what a caller says, who may say anything."""
    last = "".join(one for one in Path(called).name if one.isprintable())
    # From the end, which tells the format.
    name = last.encode()[-_NAME_BYTES_MAX:].decode(errors="ignore")
    # Dots alone name a folder.
    return name if name.strip(".") else "parcel"


def _size(path: Path, name: str) -> int:
    try:
        size = path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error
    if size > PARCEL_BYTES_MAX:
        raise InvalidInputError(
            f"{name} has {size:,} bytes; {PARCEL_BYTES_MAX:,} are allowed.",
            code="limit_exceeded",
            hint="Send it in parts, or import it where the store is.",
        )
    return size


def _parts(path: Path, head: bytes) -> Iterator[bytes]:
    """Cut a file; the head of a parcel is before each part, which no other parcel has."""
    try:
        with path.open("rb") as stream:
            while content := stream.read(PARCEL_PART_BYTES):
                yield head + content
    except OSError as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: OSError) -> InvalidInputError:
    return InvalidInputError(f"{path} cannot be read: {error.strerror}.")


def _pack(folder: Path, target: Path) -> None:
    """Pack the files of a folder; what is hidden, or a link that leads out of it, is left out."""
    root = folder.resolve()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(folder.rglob("*")):
            place = path.relative_to(folder)
            is_hidden = any(part.startswith(".") for part in place.parts)
            if path.is_file() and not is_hidden and path.resolve().is_relative_to(root):
                packed.writestr(zipfile.ZipInfo(place.as_posix(), _FIRST), path.read_bytes())


def _unpack(packed: Path, target: Path) -> None:
    """Unpack into a new folder, and nowhere else.

    Raises:
        InvalidInputError: it is no zip, or holds more than may be unpacked.

    """
    try:
        with zipfile.ZipFile(packed) as held:
            inside = held.infolist()
            size = sum(one.file_size for one in inside)
            if len(inside) > PARCEL_FILES_MAX or size > UNPACKED_BYTES_MAX:
                raise InvalidInputError(
                    f"The folder holds {len(inside):,} files of {size:,} bytes; "
                    f"{PARCEL_FILES_MAX:,} of {UNPACKED_BYTES_MAX:,} are allowed.",
                    code="limit_exceeded",
                    hint="Send it in parts.",
                )
            # It takes what leads out of the folder for a path within it, and no links.
            target.mkdir(parents=True)
            held.extractall(target)
    except (zipfile.BadZipFile, RuntimeError, OSError) as error:
        raise InvalidInputError(
            f"The folder cannot be unpacked: {error}.", hint="Send a zip."
        ) from error
