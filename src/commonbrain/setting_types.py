"""Types of settings: what a value of each sort must look like, and how it is parsed."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, SecretStr

from commonbrain.hosts import is_url


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


def valid_blobs_location(location: str | None) -> str | None:
    """Accept a folder, or an s3 URL without credentials."""
    parts = urlsplit(location or "")
    is_bucket = parts.scheme == "s3" and parts.netloc and "@" not in parts.netloc
    if location is not None and "://" in location and not is_bucket:
        raise ValueError("it must be a folder, or s3://BUCKET/PREFIX")
    return location
