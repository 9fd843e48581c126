"""Artifacts in a bucket of S3, by obstore."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from obstore.exceptions import BaseError
from obstore.store import S3Store

from commonbrain.model.limits import BLOB_BYTES_MAX, BLOBS_S
from commonbrain.storage.blobs import (
    check_content,
    check_digest,
    check_size,
    digest_of,
    missing,
    unreachable,
)

if TYPE_CHECKING:
    from obstore.store import S3Config

_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


@dataclass(frozen=True, slots=True)
class BucketBlobs:
    """Artifacts as objects; safe to use from several threads and processes at once."""

    store: S3Store
    location: str

    def put(self, content: bytes) -> str:
        """Store bytes, and read them back before returning."""
        check_size(content)
        digest = digest_of(content)
        with self._reached():
            self.store.put(digest, content)
        self.get(digest)
        return digest

    def get(self, digest: str) -> bytes:
        """Return bytes by their digest."""
        check_digest(digest)
        with self._reached():
            try:
                result = self.store.get(digest)
            except FileNotFoundError:
                raise missing(digest, self.location) from None
            # An object that was changed by hand may have any size.
            content = bytes(result.bytes()) if result.meta["size"] <= BLOB_BYTES_MAX else b""
        check_content(content, digest, location=self.location)
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
            raise unreachable(self.location, error) from error


def open_bucket(url: str, key: tuple[str, str] | None = None) -> BucketBlobs:
    """Store artifacts in a bucket; `key` is id and secret, by default from the environment."""
    config: S3Config = {} if key is None else {"access_key_id": key[0], "secret_access_key": key[1]}
    store = S3Store.from_url(
        url,
        config=config,
        client_options={
            # An endpoint without TLS is set on purpose, mostly a server on this machine.
            "allow_http": any(os.environ.get(name, "").startswith("http:") for name in _ENDPOINTS),
            "connect_timeout": timedelta(seconds=BLOBS_S / 2),
            "timeout": timedelta(seconds=BLOBS_S),
        },
        retry_config={"max_retries": 2, "retry_timeout": timedelta(seconds=BLOBS_S)},
    )
    return BucketBlobs(store, url)
