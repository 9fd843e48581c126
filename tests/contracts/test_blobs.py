"""Every place of artifacts keeps the port's promises: a folder, memory, a bucket of S3."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from commonbrain.model.errors import UnavailableError
from commonbrain.storage.blobs import in_memory, make_blobs
from commonbrain.storage.object_store import ObjectBlobs
from tests.contracts.blobs_contract import BlobsContract, OpenBlobs, Spoil
from tests.s3 import put, s3_server

BUCKET = "artifacts"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        put(f"{url}/{BUCKET}")
        yield url


class TestFolder(BlobsContract):
    @pytest.fixture
    def open_blobs(self, tmp_path: Path) -> OpenBlobs:
        return lambda: make_blobs(tmp_path / "models")

    @pytest.fixture
    def spoil(self, tmp_path: Path) -> Spoil:
        return lambda digest, content: void((tmp_path / "models" / digest).write_bytes(content))


class TestMemory(BlobsContract):
    @pytest.fixture
    def open_blobs(self) -> OpenBlobs:
        opened = in_memory()
        return lambda: opened

    @pytest.fixture
    def spoil(self, open_blobs: OpenBlobs) -> Spoil:
        opened = open_blobs()
        assert isinstance(opened, ObjectBlobs)
        return lambda digest, content: void(opened.store.put(digest, content))


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


def void(_answer: object) -> None:
    """Pass over what a call gives."""


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


def test_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnavailableError, match="cannot be created") as caught:
        make_blobs(tmp_path / "file" / "models")
    assert caught.value.code == "blobs_down"
