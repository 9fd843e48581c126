"""Makes the place of artifacts, and says so where what it takes is not installed."""

from pathlib import Path
from typing import Final

from commonbrain.adapters.extra import needed
from commonbrain.domain.errors import Unavailable
from commonbrain.ports.blobs import Blobs

S3: Final = "s3://"


def make_blobs(place: Path | str, key: tuple[str, str] | None = None) -> Blobs:
    """Make a folder, or reach a bucket named `s3://BUCKET/PREFIX`; nothing is sent yet.

    Endpoint and region of a bucket come from the variables that every client of S3 reads,
    AWS_ENDPOINT_URL and AWS_REGION, and where no key is given (its id first) that as well.

    Raises:
        Invalid: `extra_missing`.
        Unavailable: `blobs_down`, the folder cannot be made.

    """
    needed("obstore", extra="learn")
    from commonbrain.adapters.blobs.objects import in_bucket, in_folder  # noqa: PLC0415

    if isinstance(place, str) and place.startswith(S3):
        return in_bucket(place, key)
    try:
        return in_folder(Path(place))
    except OSError as error:
        raise Unavailable(
            f"The folder of artifacts {place} cannot be made: {error.strerror or error}.",
            code="blobs_down",
            hint="Mend it, or name another place in COMMONBRAIN_BLOBS.",
        ) from error


def in_memory() -> Blobs:
    """Make a place that ends with the process.

    Raises:
        Invalid: `extra_missing`.

    """
    needed("obstore", extra="learn")
    from commonbrain.adapters.blobs.objects import in_memory as kept  # noqa: PLC0415

    return kept()
