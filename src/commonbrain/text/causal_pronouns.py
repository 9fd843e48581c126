"""Pronouns as subjects of causes and effects: what they stand for, or that it is unknown.

"It failed because it was full" names nothing that a search could find. A pronoun may refer to the
other side of the same sentence; one that comes first refers to an earlier sentence.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from commonbrain.text.causal_cuts import Cut, Sentence
from commonbrain.text.clauses import (
    begins_with_verb,
    is_about_people,
    is_factual,
    is_plural,
    split_at_verb,
    words,
)
from commonbrain.text.patterns import lazy_pattern

_SINGULAR: Final = frozenset(["it"])
_PLURAL: Final = frozenset(["they"])
_PERSONS: Final = frozenset("he she".split())
_POINTING: Final = frozenset("this that these those".split())
"""Pronouns if a verb follows, as in "this broke"; in "this release" they are none."""
_DETERMINERS: Final = frozenset("the a an our its their my your his her this that".split())
_PREPOSITIONS: Final = frozenset("of in on at from for with to by under per between".split())
_SUBJECT_WORDS_MAX: Final = 8
_OPENING: Final = lazy_pattern(r"(?:and|but|so|then|also|however)[, ]+", re.IGNORECASE)


def resolve_pronouns(cut: Cut, sentence: Sentence) -> Cut | None:
    """Replace a pronoun that comes first by the thing it means; None if nothing is named."""
    first, second = (cut.effect, cut.cause) if cut.is_effect_first else (cut.cause, cut.effect)
    first = _OPENING.sub("", first, count=1)
    pronoun = _pronoun_of(first)
    # What "When it charges, the battery swells" means by "it" is in the same sentence, or nothing.
    if pronoun is None or (not cut.head and not _pronoun_of(second)):
        return cut
    subject = _antecedent(pronoun, _before(first, sentence))
    if subject is None:
        return None if _pronoun_of(second) else cut
    first = _with_subject(first, subject)
    if _pronoun_of(second) == pronoun:
        second = _with_subject(second, subject)
    cause, effect = (second, first) if cut.is_effect_first else (first, second)
    return replace(cut, cause=cause, effect=effect, head=effect if cut.is_effect_first else cause)


def _pronoun_of(clause: str) -> str | None:
    """Return the pronoun that is the subject of a clause."""
    tokens = words(clause)[:2]
    if not tokens:
        return None
    first = tokens[0].partition("'")[0]
    if first in _POINTING:
        return first if begins_with_verb(" ".join(tokens[1:])) else None
    return first if first in _SINGULAR | _PLURAL | _PERSONS else None


def _before(clause: str, sentence: Sentence) -> str:
    """Return the text before a clause: of its own sentence, or the previous sentence."""
    own = sentence.text.partition(clause)[0].rpartition("; ")[0]
    return own or (sentence.before if clause in sentence.text else "")


def _antecedent(pronoun: str, before: str) -> str | None:
    """Return the subject of an earlier sentence, if it is the only thing that it names."""
    if pronoun not in _SINGULAR | _PLURAL or not before or not is_factual(before):
        return None
    subject, action = split_at_verb(before)
    tokens = words(subject)
    is_thing = bool(action) and 0 < len(tokens) <= _SUBJECT_WORDS_MAX
    if not is_thing or is_about_people(subject) or _pronoun_of(subject):
        return None
    is_only = _DETERMINERS.isdisjoint(words(action))
    agrees = is_plural(_head_of(tokens)) == (pronoun in _PLURAL)
    return subject if is_only and agrees else None


def _head_of(tokens: Sequence[str]) -> str:
    """Return the noun of a noun phrase."""
    end = next((at for at, word in enumerate(tokens) if word in _PREPOSITIONS), len(tokens))
    return tokens[max(end - 1, 0)]


def _with_subject(clause: str, subject: str) -> str:
    """Replace the first word, keeping a verb that is joined to it: "it's", "they've"."""
    first, _, rest = clause.strip().partition(" ")
    joined = first.replace("\u2019", "'").partition("'")[2]
    verb = {"s": "is", "re": "are", "ve": "have", "d": "had"}.get(joined.lower(), "")
    return " ".join(filter(None, (subject, verb, rest)))
