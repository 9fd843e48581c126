"""Artifacts: bytes stored under their own digest."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from commonbrain.extras import load_extra
from commonbrain.model.errors import UnavailableError


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
        InvalidInputError: `extra_missing`.
        UnavailableError: `blobs_down`, the folder cannot be created.

    """
    load_extra("obstore", extra="learn")
    from commonbrain.storage.object_store import in_bucket, in_folder  # noqa: PLC0415

    if isinstance(place, str) and place.startswith(S3):
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
