"""The first stage: one spelling for texts that look the same."""

import re
import unicodedata
from dataclasses import replace
from typing import Final

from commonbrain.domain.memory import Draft

_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Control characters that no text needs and a terminal would obey; tab and newline stay."""
_TRAILING: Final = re.compile(r"[ \t]+$", re.MULTILINE)


def normalise(text: str) -> str:
    """Give Unicode NFC, plain line ends, no control characters, no trailing space."""
    # A lone surrogate cannot be written as UTF-8; it becomes a question mark.
    printable = text.encode("utf-8", "replace").decode("utf-8")
    composed = unicodedata.normalize("NFC", printable)
    plain = composed.replace("\r\n", "\n").replace("\r", "\n")
    return _TRAILING.sub("", _CONTROLS.sub("", plain)).strip()


def normalise_draft(draft: Draft) -> Draft:
    """Normalise what will be stored of a draft; an empty text stays empty, for the gate to see."""
    return replace(
        draft,
        body=normalise(draft.body),
        headline=normalise_name(draft.headline),
        label=normalise_name(draft.label),
        project=normalise_name(draft.project),
        source_ref=normalise_name(draft.source_ref),
        tags=tuple(filter(None, map(normalise_name, draft.tags))),
        distinct_because=normalise_name(draft.distinct_because),
    )


def normalise_name(text: str | None) -> str | None:
    """Put what names something on one line; None when nothing is left of it."""
    return " ".join(normalise(text or "").splitlines()) or None
