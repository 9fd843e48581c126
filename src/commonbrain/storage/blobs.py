"""Where artifacts lie: bytes under their own digest, so that none is ever another."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from commonbrain.extras import load_extra
from commonbrain.model.errors import UnavailableError


class Blobs(Protocol):
    """A place for artifacts; what is put twice is kept once, and nothing is ever changed."""

    @property
    def location(self) -> str:
        """Where it is, for people; never a secret."""
        ...

    def put(self, content: bytes) -> str:
        """Keep bytes; give their SHA-256 in hexadecimal.

        Raises:
            UnavailableError: `blobs_down`; nothing is kept.

        """
        ...

    def get(self, digest: str) -> bytes:
        """Give bytes by their digest.

        Raises:
            NotFoundError: there are none.
            StoreCorruptError: `blob_corrupt`, what lies there has another digest.
            UnavailableError: `blobs_down`.

        """
        ...

    def drop(self, digest: str) -> None:
        """Delete bytes; there may be none.

        Raises:
            UnavailableError: `blobs_down`; they may be there still.

        """
        ...


S3: Final = "s3://"


def make_blobs(place: Path | str, key: tuple[str, str] | None = None) -> Blobs:
    """Make a folder, or reach a bucket named `s3://BUCKET/PREFIX`; nothing is sent yet.

    Endpoint and region of a bucket come from the variables that every client of S3 reads,
    AWS_ENDPOINT_URL and AWS_REGION, and where no key is given (its id first) that as well.

    Raises:
        InvalidInputError: `extra_missing`.
        UnavailableError: `blobs_down`, the folder cannot be made.

    """
    load_extra("obstore", extra="learn")
    from commonbrain.storage.object_store import in_bucket, in_folder  # noqa: PLC0415

    if isinstance(place, str) and place.startswith(S3):
        return in_bucket(place, key)
    try:
        return in_folder(Path(place))
    except OSError as error:
        raise UnavailableError(
            f"The folder of artifacts {place} cannot be made: {error.strerror or error}.",
            code="blobs_down",
            hint="Mend it, or name another place in COMMONBRAIN_BLOBS.",
        ) from error


def in_memory() -> Blobs:
    """Make a place that ends with the process.

    Raises:
        InvalidInputError: `extra_missing`.

    """
    load_extra("obstore", extra="learn")
    from commonbrain.storage.object_store import in_memory as kept  # noqa: PLC0415

    return kept()
