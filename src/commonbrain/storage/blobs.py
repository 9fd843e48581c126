"""Artifacts: bytes stored under their own digest, in a folder or a bucket."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Final, Protocol, cast

from commonbrain.extras import load_row
from commonbrain.model.errors import (
    InvalidInputError,
    NotFoundError,
    StoreCorruptError,
    UnavailableError,
)
from commonbrain.model.limits import BLOB_BYTES_MAX
from commonbrain.model.values import dataclass

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
S3: Final = "s3://"


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


def make_blobs(place: Path | str, key: tuple[str, str] | None = None) -> Blobs:
    """Open a folder, which is created, or a bucket `s3://BUCKET/PREFIX`; nothing is sent yet.

    The endpoint and region of a bucket come from AWS_ENDPOINT_URL and AWS_REGION, and without a
    `key` (id, secret) the credentials also come from the environment.

    Raises:
        InvalidInputError: `extra_missing`, for a bucket.
        UnavailableError: `blobs_down`, the folder cannot be created.

    """
    if isinstance(place, str) and place.startswith(S3):
        open_bucket = load_row("blobs", "s3", extra="learn")
        return cast("Callable[[str, tuple[str, str] | None], Blobs]", open_bucket)(place, key)
    folder = Path(place)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(
            f"The folder of artifacts {place} cannot be created: {error.strerror or error}.",
            code="blobs_down",
            hint="Repair it, or set another location in COMMONBRAIN_BLOBS.",
        ) from error
    return FolderBlobs(folder)


@dataclass(frozen=True, slots=True)
class FolderBlobs:
    """Artifacts as files named by their digest; several threads and processes may use them."""

    folder: Path

    @property
    def location(self) -> str:
        """The folder."""
        return str(self.folder)

    def put(self, content: bytes) -> str:
        """Store bytes, and read them back before returning."""
        check_size(content)
        digest = digest_of(content)
        path = self.folder / digest
        partial = path.with_name(f".{digest}.{secrets.token_hex(4)}.partial")
        with self._reached():
            try:
                _write(partial, content)
                partial.replace(path)
            finally:
                partial.unlink(missing_ok=True)
        self.get(digest)
        return digest

    def get(self, digest: str) -> bytes:
        """Return bytes by their digest."""
        check_digest(digest)
        with self._reached():
            try:
                with (self.folder / digest).open("rb") as file:
                    # A file that was changed by hand may have any size.
                    content = file.read(BLOB_BYTES_MAX + 1)
            except FileNotFoundError:
                raise missing(digest, self.location) from None
        check_content(content, digest, location=self.location)
        return content

    def drop(self, digest: str) -> None:
        """Delete bytes, if they exist."""
        check_digest(digest)
        with self._reached():
            (self.folder / digest).unlink(missing_ok=True)

    @contextmanager
    def _reached(self) -> Generator[None]:
        try:
            yield
        except OSError as error:
            raise unreachable(self.location, error) from error


def digest_of(content: bytes) -> str:
    """Return the SHA-256 of bytes, in hexadecimal."""
    return sha256(content).hexdigest()


def check_size(content: bytes) -> None:
    """Check that bytes are no larger than an artifact may be.

    Raises:
        InvalidInputError: `limit_exceeded`.

    """
    if len(content) > BLOB_BYTES_MAX:
        raise InvalidInputError(
            f"The artifact has {len(content):,} bytes; {BLOB_BYTES_MAX:,} are allowed.",
            code="limit_exceeded",
        )


def check_digest(digest: str) -> None:
    """Check that a name is a digest, so that it cannot be a path.

    Raises:
        NotFoundError: it is not.

    """
    if _DIGEST.fullmatch(digest) is None:
        raise NotFoundError(f"There is no artifact {digest[:80]!r}.")


def check_content(content: bytes, digest: str, *, location: str) -> None:
    """Check that bytes that were read are those that were stored.

    Raises:
        StoreCorruptError: `blob_corrupt`.

    """
    if digest_of(content) != digest:
        raise StoreCorruptError(
            f"The artifact {digest} in {location} has another digest.",
            code="blob_corrupt",
            hint="Restore it from a backup, or train a new model.",
        )


def missing(digest: str, location: str) -> NotFoundError:
    """Make the error for an artifact that does not exist."""
    return NotFoundError(
        f"There is no artifact {digest} in {location}.",
        hint="Restore the folder or the bucket, or train a new model.",
    )


def unreachable(location: str, error: Exception) -> UnavailableError:
    """Make the error for a location that does not answer."""
    return UnavailableError(
        f"{location} cannot be reached ({type(error).__name__}).",
        code="blobs_down",
        hint="Check that it exists and that the credentials are right.",
    )


def _write(path: Path, content: bytes) -> None:
    """Write a new file, readable by this user alone, and make it durable."""
    path.touch(mode=0o600, exist_ok=False)
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
