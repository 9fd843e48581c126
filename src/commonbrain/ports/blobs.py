"""Where artifacts lie: bytes under their own digest, so that none is ever another."""

from __future__ import annotations

from typing import Protocol


class Blobs(Protocol):
    """A place for artifacts; what is put twice is kept once, and nothing is ever changed."""

    @property
    def location(self) -> str:
        """Where it is, for people; never a secret."""
        ...

    def put(self, content: bytes) -> str:
        """Keep bytes; give their SHA-256 in hexadecimal.

        Raises:
            Unavailable: `blobs_down`; nothing is kept.

        """
        ...

    def get(self, digest: str) -> bytes:
        """Give bytes by their digest.

        Raises:
            NotFound: there are none.
            Corrupt: `blob_corrupt`, what lies there has another digest.
            Unavailable: `blobs_down`.

        """
        ...

    def drop(self, digest: str) -> None:
        """Delete bytes; there may be none.

        Raises:
            Unavailable: `blobs_down`; they may be there still.

        """
        ...
