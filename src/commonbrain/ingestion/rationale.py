"""Stated reasons: the clauses after "because" and its like, and the memory ids in a text.

Every pattern is linear on hostile text (none repeats within a repeat), and only the beginning of a
long text is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.text.languages import is_english
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import split_sentences

PREMISES_MAX: Final = 2
"""Clauses of one text to look up: each costs an embedding and a search."""
_NAMED_MAX: Final = 3
_TEXT_CHARS_MAX: Final = 4000
_WORDS_MIN: Final = 3
_WORDS_MAX: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryMention:
    """A memory id in a text; `is_premise` if the text says that it depends on that memory."""

    id: int
    is_rationale: bool


def rationales(text: str) -> tuple[str, ...]:
    """Return the clauses that a text gives as its reasons, verbatim."""
    if _REASON.search(text, 0, _TEXT_CHARS_MAX) is None or not is_english(text):
        return ()
    clauses = (
        clause
        for sentence in split_sentences(text[:_TEXT_CHARS_MAX], at_semicolons=True)
        for clause in _reasons(sentence)
    )
    stripped = (clause.strip(_EDGE) for clause in clauses)
    fit = (one for one in stripped if _WORDS_MIN <= len(one.split()) <= _WORDS_MAX)
    return tuple(dict.fromkeys(fit))[:PREMISES_MAX]


def mentions(text: str) -> tuple[MemoryMention, ...]:
    """Return the memory ids in a text, in order."""
    is_rationale_by_id: dict[int, bool] = {}
    for one in _MENTION.finditer(text, 0, _TEXT_CHARS_MAX):
        try:
            id_ = ids.parse(ids.MEMORY, one["id"])
        except InvalidInputError:
            continue
        is_rationale_by_id[id_] = is_rationale_by_id.get(id_, False) or one["sign"] is not None
    return tuple(
        MemoryMention(id=id_, is_rationale=is_so) for id_, is_so in is_rationale_by_id.items()
    )[:_NAMED_MAX]


def _reasons(sentence: str) -> Iterator[str]:
    """Extract the reasons from a sentence: after "because", or before "therefore"."""
    sign = _REASON.search(sentence)
    if sign is None:
        return
    head, rest = sentence[: sign.start()], sentence[sign.end() :]
    if sign["so"] is not None:
        yield head
    elif not head.strip(_EDGE):
        clause, comma, _ = rest.partition(", ")
        if comma:
            yield clause
    else:
        yield _NEXT.split(rest, maxsplit=1)[0]


_EDGE: Final = " \t\"'`*_,;:.!?()[]{}-"
_REASON: Final = lazy_pattern(
    r"(?P<so>,? (?:so we|and so|so it|so they|therefore|hence|thus|which is why) )"
    r"|\b(?:because of the fact that|because(?! of)|given(?: that)?(?= )|seeing that|now that"
    r"|since(?! (?:\d|v\d|version|last|then|yesterday|today|monday|january|february|march|april"
    r"|may|june|july|august|september|october|november|december|spring|summer|autumn|winter))"
    r"|due to(?: the fact that)?|because of|owing to|on account of|on the grounds that"
    r"|as long as|(?:^|(?<=, ))as(?! (?:well|soon|a|an|of|if|far|for|usual|such)\b))\s",
    re.IGNORECASE,
)
"""Words that introduce a reason; in the group `so`, the reason comes before them."""
_NEXT: Final = lazy_pattern(r", (?:so|but|which|and we|while|whereas|although)\b|; | -- | \u2014 ")
"""Words at which the reason ends."""
_MENTION: Final = lazy_pattern(
    r"(?:\b(?P<sign>because of|per|due to|depends on|rests on|relies on|based on|as decided in"
    r"|given|since|because) )?\b(?P<id>mem_[0-9a-hjkmnp-tv-z]{13})\b",
    re.IGNORECASE,
)
