"""Lines of text: without characters that a terminal would obey or a reader would misread."""

import json
import re
from typing import Final

# Control characters affect the terminal. Direction marks display text in another order than it is
# read. Tag characters are read by models and invisible to people.
_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def inert(text: str) -> str:
    """Remove characters that are invisible and have effects; tab and newline stay."""
    # All of them are unprintable, and checking that first is much faster.
    return text if text.isprintable() else _OBEYED.sub("", text)


def inert_line(text: str) -> str:
    """Return a text as one safe line."""
    return inert(" ".join(text.split()))


def inert_part(text: str) -> str:
    """Return a text as one safe part of a line whose parts are divided by bars."""
    return inert_line(text).replace("|", "/")


def escaped(written: str) -> str:
    """Return equivalent JSON with those characters as escapes."""
    return _OBEYED.sub(lambda match: json.dumps(match[0])[1:-1], written)


def pluralize(count: int, one: str, *, many: str) -> str:
    """Return a count with its noun."""
    return f"{count:,} {one if count == 1 else many}"
