"""A bucket of S3 keeps the promises of a place of artifacts."""

from collections.abc import Iterator

import pytest

from commonbrain.model.errors import UnavailableError
from commonbrain.storage.blobs import make_blobs
from tests.s3 import put, s3_server
from tests.storage.blobs_contract import BlobsContract, OpenBlobs, Spoil

BUCKET = "artifacts"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        put(f"{url}/{BUCKET}")
        yield url


class TestBucket(BlobsContract):
    @pytest.fixture
    def open_blobs(self, server: str, monkeypatch: pytest.MonkeyPatch) -> OpenBlobs:
        reach(server, monkeypatch)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.delenv(name)
        return lambda: make_blobs(f"s3://{BUCKET}/brain/models", ("key", "secret"))

    @pytest.fixture
    def spoil(self, server: str) -> Spoil:
        return lambda digest, content: put(f"{server}/{BUCKET}/brain/models/{digest}", content)


def reach(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set what every client of S3 reads."""
    for name, value in {
        "AWS_ENDPOINT_URL": url,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
    }.items():
        monkeypatch.setenv(name, value)


def test_missing_bucket_is_reported_as_unavailable(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    reach(server, monkeypatch)
    blobs = make_blobs("s3://nobodys/brain")
    with pytest.raises(UnavailableError, match="s3://nobodys/brain") as caught:
        blobs.put(b"tree")
    assert caught.value.code == "blobs_down"
