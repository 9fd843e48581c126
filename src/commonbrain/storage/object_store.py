"""Artifacts in a folder, a bucket or memory, by obstore."""

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
    """Artifacts as objects; safe to use from several threads and processes at once."""

    store: ObjectStore
    location: str

    def put(self, content: bytes) -> str:
        """Store bytes, and read them back before returning."""
        if len(content) > BLOB_BYTES_MAX:
            raise InvalidInputError(
                f"The artifact has {len(content):,} bytes; {BLOB_BYTES_MAX:,} are allowed.",
                code="limit_exceeded",
            )
        digest = _digest(content)
        with self._reached():
            self.store.put(digest, content)
        self.get(digest)
        return digest

    def get(self, digest: str) -> bytes:
        """Return bytes by their digest."""
        if _DIGEST.fullmatch(digest) is None:
            raise NotFoundError(f"There is no artifact {digest[:80]!r}.")
        with self._reached():
            try:
                result = self.store.get(digest)
            except FileNotFoundError:
                raise NotFoundError(
                    f"There is no artifact {digest} in {self.location}.",
                    hint="Restore the folder or the bucket, or train a new model.",
                ) from None
            # An object that was changed by hand may have any size.
            content = bytes(result.bytes()) if result.meta["size"] <= BLOB_BYTES_MAX else b""
        if _digest(content) != digest:
            raise StoreCorruptError(
                f"The artifact {digest} in {self.location} has another digest.",
                code="blob_corrupt",
                hint="Restore it from a backup, or train a new model.",
            )
        return content

    def drop(self, digest: str) -> None:
        """Delete bytes, if they exist."""
        with self._reached(), suppress(FileNotFoundError):
            self.store.delete(digest)

    @contextmanager
    def _reached(self) -> Generator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise UnavailableError(
                f"{self.location} cannot be reached ({type(error).__name__}).",
                code="blobs_down",
                hint="Check that it exists and that the credentials are right.",
            ) from error


def in_folder(folder: Path) -> ObjectBlobs:
    """Store artifacts as files of a folder, which is created if needed.

    Raises:
        OSError: it cannot be created.

    """
    folder.mkdir(parents=True, exist_ok=True)
    return ObjectBlobs(LocalStore(folder), str(folder))


def in_memory() -> ObjectBlobs:
    """Store artifacts until the process ends."""
    return ObjectBlobs(MemoryStore(), "memory")


def in_bucket(url: str, key: tuple[str, str] | None = None) -> ObjectBlobs:
    """Store artifacts in a bucket; `key` is id and secret, by default from the environment."""
    own: S3Config = {} if key is None else {"access_key_id": key[0], "secret_access_key": key[1]}
    store = S3Store.from_url(
        url,
        config=own,
        client_options={
            # An endpoint without TLS is set on purpose, mostly a server on this machine.
            "allow_http": any(os.environ.get(one, "").startswith("http:") for one in _ENDPOINTS),
            "connect_timeout": timedelta(seconds=BLOBS_S / 2),
            "timeout": timedelta(seconds=BLOBS_S),
        },
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=BLOBS_S)},
    )
    return ObjectBlobs(store, url)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
