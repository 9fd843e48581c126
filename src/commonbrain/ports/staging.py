"""What a job needs of files: what was sent lies among the artifacts until it has been read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Parcel:
    """A file, or a folder packed into one, as artifacts that nobody else has."""

    name: str
    """Its file's or folder's own name, without a path."""
    is_folder: bool
    parts: tuple[str, ...]
    """Digests, in their order."""
    size: int
    """Bytes that were sent."""


class Staging(Protocol):
    """Where files wait for a job, or for whoever asked for one."""

    def put(
        self, source: Path, *, name: str | None = None, tell: Callable[[Parcel], None]
    ) -> Parcel:
        """Keep a file, or a folder without what is hidden in it; another call gives another parcel.

        Args:
            source: what is kept.
            name: its name, where that is not its own.
            tell: told of the parcel before any of it is kept, so that whoever is to drop it
                knows of it even if this process dies right after.

        Raises:
            Invalid: it is missing, cannot be read, or is larger than may be sent.
            Unavailable: `blobs_down`; what was kept until then is dropped.

        """
        ...

    def opened(self, parcel: Parcel) -> AbstractContextManager[Path]:
        """Give the file or folder as it was, which is gone when the block ends.

        Raises:
            NotFound: a part is not there any more.
            Invalid: the folder cannot be unpacked.

        """
        ...

    def made(
        self, name: str, write: Callable[[Path], object], *, tell: Callable[[Parcel], None]
    ) -> Parcel:
        """Have a file written that is not there yet, and keep it; `tell` as in `put`."""
        ...

    def read(self, parcel: Parcel) -> Iterator[bytes]:
        """Give the bytes that were kept, part by part.

        Raises:
            NotFound: a part is not there any more.

        """
        ...

    def drop(self, parcel: Parcel) -> None:
        """Delete it; there may be nothing left of it."""
        ...
