"""A folder keeps the promises of a place of artifacts."""

from pathlib import Path

import pytest

from commonbrain.model.errors import UnavailableError
from commonbrain.storage.blobs import make_blobs
from tests.storage.blobs_contract import BlobsContract, OpenBlobs, Spoil


class TestFolder(BlobsContract):
    @pytest.fixture
    def open_blobs(self, tmp_path: Path) -> OpenBlobs:
        return lambda: make_blobs(tmp_path / "models")

    @pytest.fixture
    def spoil(self, tmp_path: Path) -> Spoil:
        return lambda digest, content: void((tmp_path / "models" / digest).write_bytes(content))


def void(_answer: object) -> None:
    """Pass over what a call gives."""


def test_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnavailableError, match="cannot be created") as caught:
        make_blobs(tmp_path / "file" / "models")
    assert caught.value.code == "blobs_down"
