"""A sentence cut in two at a sign: what caused, and what was caused."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from commonbrain.domain.clause import has_verb, is_factual

_COMMAS_MAX: Final = 8
"""Commas that a sentence which opens with its cause is cut at in turn, until one fits."""
_COMMA: Final = re.compile(r", ")
_THEN: Final = re.compile(r"^then ", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of a text's prose."""

    text: str
    start: int
    before: str
    """The sentence before it, of the same paragraph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A sentence cut in two, with the words that joined it."""

    cause: str
    effect: str
    head: str
    """What stands before the sign."""


Cutting = Callable[[Sentence, "re.Match[str]"], Cut | None]


def cause_first(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Cut "X, causing Y"."""
    head = _clause(sentence.text[: sign.start()])
    return Cut(cause=head, effect=sentence.text[sign.end() :], head=head)


def cause_first_with_verb(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Keep the verb, which says what came of it, with the effect."""
    head = _clause(sentence.text[: sign.start()])
    return Cut(cause=head, effect=sentence.text[sign.start("verb") :], head=head)


def effect_first(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Cut "Y because X"."""
    head = _clause(sentence.text[: sign.start()])
    return Cut(cause=sentence.text[sign.end() :], effect=head, head=head)


def opening(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Cut "Because X, Y" at the first comma that leaves a clause on its right."""
    rest = sentence.text[sign.end() :]
    for comma in islice(_COMMA.finditer(rest), _COMMAS_MAX):
        effect = _THEN.sub("", rest[comma.end() :], count=1)
        if has_verb(effect):
            return Cut(cause=rest[: comma.start()], effect=effect, head="")
    return None


def sentence_before(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Take the sentence before as the cause: "The X. This Y"."""
    if not sentence.before or not is_factual(sentence.before):
        return None
    named = "verb" if "verb" in sign.re.groupindex else 0
    start = sign.start(named) if named else sign.end()
    return Cut(cause=sentence.before, effect=sentence.text[start:], head="")


def at_the_end(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Cut "X and Y as a result" at its first "and"."""
    told = sentence.text[: sign.start()]
    cause, _, effect = told.partition(" and ")
    return Cut(cause=cause, effect=effect, head=cause) if has_verb(effect) else None


def by_gerund(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Cut "fixed Y by doing X"; the "by" is taken off later."""
    head = sentence.text[: sign.start()]
    return Cut(cause=sentence.text[sign.start() :], effect=head, head=head)


def _clause(text: str) -> str:
    """Leave out what stands before a semicolon: it is a sentence of its own."""
    return text.rpartition("; ")[2]
