"""Artifacts as objects under their digests, wherever obstore reaches."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, ObjectStore, S3Store

from commonbrain.model.errors import (
    InvalidInputError,
    NotFoundError,
    StoreCorruptError,
    UnavailableError,
)
from commonbrain.model.limits import BLOB_BYTES_MAX, BLOBS_S

if TYPE_CHECKING:
    from obstore.store import S3Config

_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


@dataclass(frozen=True, slots=True)
class ObjectBlobs:
    """Objects of one store; safe to use from several threads and processes at once."""

    store: ObjectStore
    location: str

    def put(self, content: bytes) -> str:
        """Keep bytes, and read them back before anybody is told that they are kept."""
        if len(content) > BLOB_BYTES_MAX:
            raise InvalidInputError(
                f"An artifact of {len(content):,} bytes; {BLOB_BYTES_MAX:,} are allowed.",
                code="limit_exceeded",
            )
        digest = _digest(content)
        with self._reached():
            self.store.put(digest, content)
        self.get(digest)
        return digest

    def get(self, digest: str) -> bytes:
        """Give bytes by their digest."""
        if _DIGEST.fullmatch(digest) is None:
            raise NotFoundError(f"There is no artifact {digest[:80]!r}.")
        with self._reached():
            try:
                found = self.store.get(digest)
            except FileNotFoundError:
                raise NotFoundError(
                    f"There is no artifact {digest} in {self.location}.",
                    hint="Bring the folder or the bucket back, or train anew.",
                ) from None
            # Of what was changed by hand not even the size can be relied upon.
            content = bytes(found.bytes()) if found.meta["size"] <= BLOB_BYTES_MAX else b""
        if _digest(content) != digest:
            raise StoreCorruptError(
                f"What lies in {self.location} under {digest} has another digest.",
                code="blob_corrupt",
                hint="Bring it back from a backup, or train anew.",
            )
        return content

    def drop(self, digest: str) -> None:
        """Delete bytes; there may be none."""
        with self._reached(), suppress(FileNotFoundError):
            self.store.delete(digest)

    @contextmanager
    def _reached(self) -> Generator[None]:
        """Tell of whatever goes wrong there in the words of the house."""
        try:
            yield
        except (BaseError, OSError) as error:
            raise UnavailableError(
                f"{self.location} does not take or give artifacts ({type(error).__name__}).",
                code="blobs_down",
                hint="Look whether it is there, and whether the credentials are right.",
            ) from error


def in_folder(folder: Path) -> ObjectBlobs:
    """Keep artifacts as files of a folder, which is made where it is missing.

    Raises:
        OSError: it cannot be made.

    """
    folder.mkdir(parents=True, exist_ok=True)
    return ObjectBlobs(LocalStore(folder), str(folder))


def in_memory() -> ObjectBlobs:
    """Keep artifacts for as long as the process lives."""
    return ObjectBlobs(MemoryStore(), "memory")


def in_bucket(url: str, key: tuple[str, str] | None = None) -> ObjectBlobs:
    """Keep artifacts in a bucket, reached by a key and its id, or by what the environment says."""
    own: S3Config = {} if key is None else {"access_key_id": key[0], "secret_access_key": key[1]}
    store = S3Store.from_url(
        url,
        config=own,
        client_options={
            # Whoever names an endpoint without TLS means it: a server on this machine, mostly.
            "allow_http": any(os.environ.get(one, "").startswith("http:") for one in _ENDPOINTS),
            "connect_timeout": timedelta(seconds=BLOBS_S / 2),
            "timeout": timedelta(seconds=BLOBS_S),
        },
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=BLOBS_S)},
    )
    return ObjectBlobs(store, url)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
