"""Types of settings: what a value of each sort must look like, and how it is parsed."""

from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from commonbrain.hosts import is_url

ASYMMETRIC: Final = frozenset(
    "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 ES256K EdDSA".split()
)
"""Signatures by a key pair, as RFC 7518 and RFC 8037 name them."""


def valid_key(key: SecretStr | None) -> SecretStr | None:
    """Strip the line end of a key that was read from a file."""
    if key is None:
        return None
    stripped = key.get_secret_value().strip()
    if not (stripped.isascii() and stripped.isprintable()):
        raise ValueError(
            "a key must not contain spaces, control characters or non-ASCII characters"
        )
    return SecretStr(stripped)


Key = Annotated[SecretStr | None, AfterValidator(valid_key)]
StoreLocation = Path | SecretStr
"""A file, or the URL of a Postgres store, which may hold a password."""


def parse_store(value: object) -> object:
    """Parse the location of a store as a URL or a file."""
    if isinstance(value, str):
        return SecretStr(value) if is_url(value) else Path(value)
    return value


def parse_urls(value: object) -> object:
    """Split URLs at spaces."""
    if not isinstance(value, str):
        return value
    urls = value.split()
    if not all(is_url(one) for one in urls):
        raise ValueError("each must be postgresql://ROLE:PASSWORD@HOST/DATABASE")
    return tuple(SecretStr(one) for one in urls)


def safe_url(url: str | None) -> str | None:
    """Reject URLs whose answer could be forged on the network, or that contain a password."""
    parts = urlsplit(url or "")
    if "@" in parts.netloc:
        raise ValueError("it must not contain a name or password")
    is_local_host = parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1", "::1"}
    if url is not None and not ((parts.scheme == "https" and parts.hostname) or is_local_host):
        raise ValueError("it must be https, or http on this machine")
    return url


def valid_blobs_location(location: str | None) -> str | None:
    """Accept a folder, or an s3 URL without credentials."""
    parts = urlsplit(location or "")
    is_bucket = parts.scheme == "s3" and parts.netloc and "@" not in parts.netloc
    if location is not None and "://" in location and not is_bucket:
        raise ValueError("it must be a folder, or s3://BUCKET/PREFIX")
    return location


def asymmetric(names: str) -> str:
    """Reject algorithms with a shared secret."""
    wrong = {one.strip() for one in names.split(",")} - ASYMMETRIC
    if wrong:
        raise ValueError(f"it may name {', '.join(sorted(ASYMMETRIC))}")
    return names
