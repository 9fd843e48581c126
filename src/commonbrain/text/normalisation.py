"""One spelling for texts that look the same: what is stored, and what is asked with."""

import re
import unicodedata
from typing import Final

from commonbrain.model.memory import Draft, with_texts
from commonbrain.text.injected_context import without_injected_context

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters that no text needs and a terminal would obey; tab and newline stay."""
_TRAILING: Final = re.compile(r"(?<![ \t])[ \t]+$", re.MULTILINE)
"""Tried once a run of spaces: tried from each space, a long run would take the square of it."""
_LONG: Final = frozenset({"root_cause", "resolution", "outcome", "consequences"})
"""Columns that hold more than one line."""


def normalise(text: str) -> str:
    """Give Unicode NFC, plain line ends, no control characters, no trailing space."""
    # A lone surrogate cannot be written as UTF-8; it becomes a question mark.
    printable = text.encode("utf-8", "replace").decode("utf-8")
    composed = unicodedata.normalize("NFC", printable)
    plain = composed.replace("\r\n", "\n").replace("\r", "\n")
    return _TRAILING.sub("", _CONTROLS.sub("", plain)).strip()


def normalise_line(text: str | None) -> str | None:
    """Normalise what stands on one line, such as a name; what is blank becomes None."""
    return " ".join(normalise(text or "").split()) or None


def normalise_draft(draft: Draft) -> Draft:
    """Normalise what will be stored of a draft; an empty text stays empty, for the gate to see.

    What a recall gave is taken out of the body.
    """
    return with_texts(draft, _spelt)


def _spelt(name: str, text: str) -> str:
    if name == "body":
        return normalise(without_injected_context(normalise(text)))
    return normalise(text) if name in _LONG else normalise_line(text) or ""
