"""Ways to split a sentence into the clause of a cause and the clause of its effect."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Final

from commonbrain.text.clauses import ends_phrase, has_verb, is_about_people, is_factual
from commonbrain.text.patterns import lazy_pattern

_COMMAS_MAX: Final = 8
"""Commas to try, in a sentence that opens with its cause, until one splits it."""
_COMMA: Final = lazy_pattern(r", ")
_THEN: Final = lazy_pattern(r"^then ", re.IGNORECASE)
_THEN_WITHIN: Final = lazy_pattern(r" then ", re.IGNORECASE)
_CLAUSE_START: Final = lazy_pattern(
    r" (?=(?:the|our|its|their|all|every|we|it|they|no|nobody) )", re.IGNORECASE
)
_ABOUT_CAUSE: Final = lazy_pattern(
    r"(?:not|no|neither|none|nothing|nobody|never)\b"
    r"|(?:(?:\w{2,15}ly|soon|later|then|also|only|still|being) ){0,2}"
    r"(?:found|identified|known|understood|unknown|unclear|fixed|resolved|solved|removed|addressed"
    r"|confirmed|determined|established|investigated|traced|reported|discussed)\b",
    re.IGNORECASE,
)
_SO: Final = lazy_pattern(
    r",? (?:and )?so (?!that )|, and (?:therefore|as a result) ", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sentence:
    """A sentence of prose."""

    text: str
    start: int
    before: str
    """The previous sentence of the same paragraph."""
    after: str = ""
    """The next sentence of the same paragraph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A sentence split into cause and effect."""

    cause: str
    effect: str
    head: str
    """The text before the sign."""

    @property
    def is_effect_first(self) -> bool:
        """Return whether the effect precedes the sign, so that consequences follow the cause."""
        return bool(self.head) and self.effect.startswith(self.head)


Cutting = Callable[[Sentence, "re.Match[str]"], Cut | None]


def cause_first(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Split "X, causing Y"."""
    head = _clause(sentence.text[: sign.start()])
    return Cut(cause=head, effect=sentence.text[sign.end() :], head=head)


def cause_first_with_verb(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Split before the verb, which belongs to the effect."""
    head = _clause(sentence.text[: sign.start()])
    return Cut(cause=head, effect=sentence.text[sign.start("verb") :], head=head)


def effect_first(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Split "Y because X"."""
    head = _clause(sentence.text[: sign.start()])
    return Cut(cause=sentence.text[sign.end() :], effect=head, head=head)


def effect_first_with_verb(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Split "Y was blocked by X" after the verb, which belongs to the effect."""
    head = _clause(sentence.text[: sign.start()])
    return Cut(
        cause=sentence.text[sign.end() :],
        effect=f"{head} {_group(sentence, sign, name='verb')}",
        head=head,
    )


def between_named(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Split "the reason for Y was X", where the sign contains the effect."""
    return Cut(
        cause=sentence.text[sign.end() :], effect=_group(sentence, sign, name="effect"), head=""
    )


def opening(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Split "Because X, Y" at the first comma that is followed by a clause."""
    rest = sentence.text[sign.end() :]
    if cut := _at_comma(rest):
        return cut
    match = _THEN_WITHIN.search(rest)
    if match and has_verb(rest[match.end() :]):
        return Cut(cause=rest[: match.start()], effect=rest[match.end() :], head="")
    return None


def opening_thing(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Split "Due to X, Y", or "Due to X the Y" without a comma before a clause."""
    if cut := opening(sentence, sign):
        return cut
    rest = sentence.text[sign.end() :]
    for place in islice(_CLAUSE_START.finditer(rest), _COMMAS_MAX):
        cause, effect = rest[: place.start()], rest[place.end() :]
        if ends_phrase(cause) and has_verb(effect):
            return Cut(cause=cause, effect=effect, head="")
    return None


def _at_comma(text: str) -> Cut | None:
    for comma in islice(_COMMA.finditer(text), _COMMAS_MAX):
        effect = _THEN.sub("", text[comma.end() :], count=1)
        if has_verb(effect):
            return Cut(cause=text[: comma.start()], effect=effect, head="")
    return None


def sentence_before(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Use the previous sentence as the cause: "The X. This Y"."""
    if not sentence.before or not is_factual(sentence.before):
        return None
    named = "verb" if "verb" in sign.re.groupindex else 0
    start = sign.start(named) if named else sign.end()
    return Cut(cause=sentence.before, effect=sentence.text[start:], head="")


def effect_before(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Use the previous sentence as the effect: "The Y. Caused by X"."""
    if not sentence.before or not is_factual(sentence.before):
        return None
    return Cut(cause=sentence.text[sign.end() :], effect=sentence.before, head="")


def effect_nearby(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Find the effect of "Root cause: X": in the sentence, or in the one before or after."""
    rest = sentence.text[sign.end() :]
    if is_about_cause(rest):
        return None
    if so := _SO.search(rest):
        return Cut(cause=rest[: so.start()], effect=rest[so.end() :], head="")
    if cut := _at_comma(rest):
        return cut
    for effect in (sentence.before, sentence.after):
        if effect and is_factual(effect) and has_verb(effect) and not is_about_people(effect):
            return Cut(cause=rest, effect=effect, head="")
    return None


def is_about_cause(text: str) -> bool:
    """Return whether "the root cause was" is followed by what became of it: "fixed by Ann"."""
    return _ABOUT_CAUSE.match(text) is not None


def at_the_end(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Split "X and Y as a result" at its first "and"."""
    head = sentence.text[: sign.start()]
    cause, _, effect = head.partition(" and ")
    return Cut(cause=cause, effect=effect, head=cause) if has_verb(effect) else None


def by_gerund(sentence: Sentence, sign: re.Match[str]) -> Cut | None:
    """Split "fixed Y by doing X"; "by" is removed later."""
    head = sentence.text[: sign.start()]
    return Cut(cause=sentence.text[sign.start() :], effect=head, head=head)


def _group(sentence: Sentence, sign: re.Match[str], *, name: str) -> str:
    """Return the text of a group; the sign itself was matched in lower case."""
    return sentence.text[sign.start(name) : sign.end(name)]


def _clause(text: str) -> str:
    """Drop everything up to the last semicolon."""
    return text.rpartition("; ")[2]
