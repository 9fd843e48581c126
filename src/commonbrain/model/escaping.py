"""Making text inert: what a terminal would obey, or an eye would misread, is taken out."""

import json
import re
from typing import Final

# Control characters paint, erase or type for the reader. Direction marks show a text in another
# order than it is read in. Tag characters are read by models and seen by nobody.
_OBEYED: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]"
)


def inert(text: str) -> str:
    """Give a text without characters that are obeyed and not seen; tab and newline stay."""
    # All of them are unprintable; saying that nothing is costs a fraction of looking for them.
    return text if text.isprintable() else _OBEYED.sub("", text)


def inert_line(text: str) -> str:
    """Give a text as one inert line."""
    return inert(" ".join(text.split()))


def escaped(written: str) -> str:
    """Give JSON that reads the same, with those characters as escapes."""
    return _OBEYED.sub(lambda found: json.dumps(found[0])[1:-1], written)
