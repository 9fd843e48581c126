"""Corrections that only make sense after what they correct: "Make that 70", "Sorry, 55"."""

import re
from collections.abc import Sequence
from typing import Final

from commonbrain.text.frames import PREPOSITIONS, place_of_verb
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import GROUP_OF, Sort, Word, read_words

_CHARS_MAX: Final = 80
"""A longer text names its subject itself."""
_FOLLOW_UP: Final = lazy_pattern(
    r"(?P<opening>(?:(?:no(?=,| wait\b)|wait(?=,)|sorry(?=,)|oops|err?|hmm?|actually|correction"
    r"|scratch that|on second thought|rather)\b[\s,:.!\u2026-]*)+)?"
    r"(?P<order>(?:make|change) (?:it|that|this|them)(?: to)? )?"
    r"(?P<value>[^,;!?\n]+?)(?P<closing>,? (?:i mean|actually|rather|instead)\b)?"
    r"(?:[,;!?\n].*|\.?$)",
    re.IGNORECASE | re.DOTALL,
)
"""Words that take back what was said just before, and the new value."""
_VALUE_WORDS_MAX: Final = 5


def follow_up_value(text: str) -> Sequence[Word]:
    """Return the value of a text that is only another value for what was said just before.

    "Make that 70", "Sorry, 55" and "No wait, to Pilar" name no subject and have no verb. Empty for
    any other text.
    """
    match = _FOLLOW_UP.fullmatch(text.strip()) if len(text) <= _CHARS_MAX else None
    if match is None or not (match["opening"] or match["order"] or match["closing"]):
        return ()
    value = read_words(match["value"])
    is_value = len(value) <= _VALUE_WORDS_MAX and place_of_verb(value) is None
    return value if is_value else ()


def has_such_value(text: str, value: Sequence[Word]) -> bool:
    """Return whether a text has a value of the same sort, or one after the same preposition."""
    words = read_words(text)
    if value[0].plain in PREPOSITIONS:
        return value[0].plain in {word.plain for word in words}
    sorts = {sort for word in value if (sort := _sort_of(word)) is not None}
    return bool(sorts) and sorts <= {_sort_of(word) for word in words}


def numbers_of(text: str) -> frozenset[str]:
    """Return the numbers of a text, as they are compared."""
    return frozenset(word.key for word in read_words(text) if word.sort is Sort.NUMBER)


def _sort_of(word: Word) -> Sort | int | None:
    """Return what kind of value a word is: a number, a weekday or month; None if it is none."""
    return Sort.NUMBER if word.sort is Sort.NUMBER else GROUP_OF.get(word.plain)
