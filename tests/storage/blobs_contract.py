"""What every place of artifacts promises.

A subclass gives the fixture `open_blobs`, which opens the same place as another process would, and
`spoil`, which puts other bytes under a digest there.
"""

import hashlib
from collections.abc import Callable

import pytest

from commonbrain.model.errors import NotFoundError, StoreCorruptError
from commonbrain.storage.blobs import Blobs

TREE = b'{"format": 1, "booster": "tree"}'
OpenBlobs = Callable[[], Blobs]
Spoil = Callable[[str, bytes], None]


class BlobsContract:
    """The promises of `Blobs`; each test has a place that may hold what others left."""

    def test_artifact_is_read_by_its_digest(self, open_blobs: OpenBlobs) -> None:
        digest = open_blobs().put(TREE)
        assert digest == hashlib.sha256(TREE).hexdigest()
        assert open_blobs().get(digest) == TREE

    def test_content_stored_twice_is_stored_once(self, open_blobs: OpenBlobs) -> None:
        blobs = open_blobs()
        assert blobs.put(TREE) == blobs.put(TREE)
        blobs.drop(blobs.put(TREE))
        with pytest.raises(NotFoundError):
            blobs.get(hashlib.sha256(TREE).hexdigest())

    def test_dropping_an_absent_artifact_is_harmless(self, open_blobs: OpenBlobs) -> None:
        open_blobs().drop("0" * 64)

    @pytest.mark.parametrize("digest", ["0" * 64, "../brain.db", "", "a/b", "A" * 64])
    def test_name_that_is_not_a_digest_has_no_artifact(
        self, open_blobs: OpenBlobs, digest: str
    ) -> None:
        with pytest.raises(NotFoundError):
            open_blobs().get(digest)

    def test_changed_artifact_is_never_returned(self, open_blobs: OpenBlobs, spoil: Spoil) -> None:
        digest = open_blobs().put(b"as it was")
        spoil(digest, b"otherwise")
        with pytest.raises(StoreCorruptError, match="another digest"):
            open_blobs().get(digest)
        assert open_blobs().put(b"as it was") == digest
        assert open_blobs().get(digest) == b"as it was"

    def test_empty_artifact_is_stored(self, open_blobs: OpenBlobs) -> None:
        assert open_blobs().get(open_blobs().put(b"")) == b""

    def test_artifact_store_reports_its_location(self, open_blobs: OpenBlobs) -> None:
        assert open_blobs().location
