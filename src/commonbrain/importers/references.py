"""Names of places in a source, kept within what a draft may carry."""

import hashlib
from typing import Final

from commonbrain.domain.limits import NAME_CHARS_MAX, SOURCE_REF_CHARS_MAX

_DIGEST_CHARS: Final = 16
"""Enough of a digest that two long names which begin alike stay apart."""


def reference(source: str, place: str) -> str:
    """Join a source and a place in it as `source#place`, shortened alike each time if too long."""
    return _shortened(f"{source}#{place}" if place else source, SOURCE_REF_CHARS_MAX)


def name(text: str) -> str:
    """Shorten what becomes a project, a tag or a speaker to the length that names may have."""
    return _shortened(text, NAME_CHARS_MAX)


def _shortened(text: str, chars_max: int) -> str:
    """Cut a text and end it with a digest of the whole, since a plain cut could be ambiguous."""
    if len(text) <= chars_max:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARS]
    return f"{text[: chars_max - _DIGEST_CHARS - 1]}~{digest}"
