"""A statement read by rule: its words, numbers, names, what it is about, whether it denies.

Every pattern is linear on hostile text: none can match one stretch in two ways.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

_SENTENCE_END: Final = re.compile(r"[.!?;:]\s|\n")
_WORD: Final = re.compile(r"\w+(?:[.,:/@'\u2019+-]\w+)*")
_NUMBER: Final = re.compile(r"\d+(?:[.,:/-]\d+)*")
_NAME_SHAPE: Final = re.compile(r"[^_\d/.@]*[_\d/.@]|[^A-Z]+[A-Z]")
"""An identifier, path, version or CamelCase word: a sign, a digit or a capital inside."""

_COUNTS: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
)
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_ORDINALS: Final = "second third fourth fifth sixth seventh eighth ninth tenth".split()
_NUMBER_WORDS: Final = {
    **{word: str(n) for n, word in enumerate(_COUNTS, 2)},
    **{word: str(10 * n) for n, word in enumerate(_TENS, 2)},
    **{word: str(n) for n, word in enumerate(_ORDINALS, 2)},
    "hundred": "100",
    "thousand": "1000",
}
_SPELLED_OUT: Final = {
    "ms": "millisecond",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "ram": "memory",
    "db": "database",
    "gray": "grey",
}

_DENIALS: Final = frozenset(
    "not never no nothing none nobody without cannot neither nor stopped rather avoid"
    " isn't aren't wasn't weren't don't doesn't didn't won't can't couldn't shouldn't mustn't"
    " hasn't haven't hadn't wouldn't".split()
)
_POLES: Final = {
    "forbid": "allow",
    "prohibit": "allow",
    "refuse": "accept",
    "reject": "accept",
    "refused": "accepted",
    "disabled": "enabled",
    "disable": "enable",
    "inactive": "active",
    "forbidden": "allowed",
    "prohibited": "allowed",
    "disallowed": "allowed",
    "banned": "allowed",
    "rejected": "accepted",
    "optional": "mandatory",
    "asynchronous": "synchronous",
    "async": "sync",
    "unavailable": "available",
    "unsupported": "supported",
    "unencrypted": "encrypted",
    "unsafe": "safe",
    "invalid": "valid",
    "broken": "work",
    "off": "on",
    "private": "public",
    "closed": "open",
    "false": "true",
}
"""What says no in one word, and the word that it takes back."""

# Words of a group stand for one another: who says another of them says something else.
_GROUPS: Final = (
    "monday tuesday wednesday thursday friday saturday sunday",
    "january february march april may june july august september october november december",
    "millisecond second minute hour day week month quarter year",
    "hourly daily nightly weekly monthly quarterly yearly",
    "morning noon afternoon evening night",
    "red green blue yellow grey black white orange purple brown pink",
    "left right",
    "north south east west",
    "kb mb gb tb kib mib gib tib",
    "staging production development",
    "enabled disabled",
    "before after",
    "always never sometimes",
    "english german french italian spanish portuguese dutch polish japanese chinese",
    "euro dollar pound franc",
)
CHOICES: Final = frozenset(word for group in _GROUPS for word in group.split())

_FILLERS: Final = frozenset(
    "the a an this that these those our my your its their his her now currently roughly also"
    " already still just only any longer anymore".split()
)
_LINKING: Final = frozenset(
    "about is are was were be been being has have had do does did will would can could may might"
    " must should shall of in on at by with to from for and or as it there so such"
    " we i you they he she us them each every all".split()
)
_EMPTY: Final = _FILLERS | _LINKING | _DENIALS
_PRONOUNS: Final = frozenset("we i you they he she it".split())

_AUXILIARIES: Final = frozenset(
    "is are was were has have had must should shall will can cannot may does do isn't aren't wasn't"
    " can't doesn't don't won't".split()
)
_VERBS: Final = frozenset(
    "use run live take need require cost start end expire listen return support belong point write"
    " read deploy go work prefer like want get mean hold contain keep store sit leave close open"
    " depend default accept reject allow send receive serve handle pay last own maintain lead"
    " manage know show produce build host rotate move switch refuse reach add drop live eat play"
    " teach study drive weigh speak wear begin finish arrive produce share copy call".split()
)
_HOLDS: Final = re.compile(
    r"\b(?:owns|maintains|leads|manages|heads|is responsible for|is in charge of|looks after"
    r"|is the (?:owner|maintainer|lead|manager|head) of)\b",
    re.IGNORECASE,
)
_HELD_BY: Final = re.compile(
    r"\b(?:is|are) (?:owned|maintained|led|managed|headed) by\b", re.IGNORECASE
)
_SINGULAR_ENDS: Final = ("ss", "us", "is")
_PLURAL_CHARS_MIN: Final = 4
"""Shorter words in -s are none: was, has, its, gas."""
_READINGS_KEPT: Final = 512
"""A new text is held against some forty neighbours, and read once for all of them."""
_NO_OPENING: Final[tuple[frozenset[str], str | None]] = (frozenset(), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A text that claims something, and what it is about when its author said so."""

    text: str
    subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the words of a statement show; all in lower case, plurals as singulars."""

    words: tuple[str, ...]
    """In order, without articles and fillers."""
    content: frozenset[str]
    """Words that carry the meaning, without numbers and denials."""
    numbers: frozenset[str]
    """Numbers, dates, times and versions; number words as digits."""
    names: frozenset[str]
    """Words written as names: capitals in mid-sentence, paths, identifiers."""
    choices: frozenset[str]
    """Words of a closed group, such as weekdays."""
    is_denied: bool
    subject: frozenset[str]
    """The content words before the first verb; may be empty."""
    given_subject: frozenset[str]
    """What its author says it is about; may be empty."""
    verb: str | None
    """The first one that was understood."""
    holder: frozenset[str]
    """Who holds what only one can hold, if it says so."""
    held: frozenset[str]

    @property
    def said(self) -> frozenset[str]:
        """What is said of the subject: the words that carry meaning beside it."""
        return self.content - self.subject

    def shares_subject(self, other: "Reading") -> bool:
        """Say whether both are known to be about the same thing; their authors know best."""
        if self.given_subject and other.given_subject:
            return self.given_subject == other.given_subject
        return bool(self.subject) and self.subject == other.subject


@lru_cache(maxsize=_READINGS_KEPT)
def read(statement: Statement) -> Reading:
    """Read a statement; in time linear in its length."""
    sentences = [_WORD.findall(part) for part in _SENTENCE_END.split(statement.text)]
    words = tuple(_kept(_folded(word) for sentence in sentences for word in sentence))
    subject, verb = next((found for found in map(_opening, sentences) if found), _NO_OPENING)
    named = [name for sentence in sentences for name in _names(sentence)]
    holder, held = _holding(statement.text)
    return Reading(
        words=words,
        content=_content(words),
        numbers=_numbers(words),
        names=frozenset(map(_folded, named)).intersection(words),
        choices=CHOICES.intersection(words),
        is_denied=_is_denied(words),
        subject=subject,
        given_subject=_content_of(statement.subject or ""),
        verb=verb,
        holder=holder,
        held=held,
    )


def _kept(words: Iterable[str]) -> Iterable[str]:
    return (word for word in words if word not in _FILLERS)


def _folded(word: str) -> str:
    """Fold case, the two apostrophes, the possessive and the plural."""
    plain = word.casefold().replace("\u2019", "'").removesuffix("'s")
    plain = _NUMBER_WORDS.get(plain, plain)
    is_plural = plain.endswith("s") and not plain.endswith(_SINGULAR_ENDS)
    singular = plain[:-1] if is_plural and len(plain) >= _PLURAL_CHARS_MIN else plain
    return _SPELLED_OUT.get(plain, singular)


def _content_of(text: str) -> frozenset[str]:
    return _content(map(_folded, _WORD.findall(text)))


def _content(words: Iterable[str]) -> frozenset[str]:
    return frozenset(
        _POLES.get(word, word) for word in words if word not in _EMPTY and not _NUMBER.search(word)
    )


def _numbers(words: Iterable[str]) -> frozenset[str]:
    return frozenset(number for word in words for number in _NUMBER.findall(word))


def _names(sentence: Sequence[str]) -> Iterable[str]:
    """Give what is written like a name; the capital that opens a sentence says nothing."""
    later = (word for word in sentence[1:] if word[0].isupper())
    shaped = (word for word in sentence if _NAME_SHAPE.match(word) and not word[0].isdigit())
    return (*later, *shaped)


def _is_denied(words: Sequence[str]) -> bool:
    is_odd = sum(word in _POLES for word in words) % 2 == 1
    return is_odd != any(word in _DENIALS for word in words)


def _opening(sentence: Sequence[str]) -> tuple[frozenset[str], str] | None:
    """Give the content words before the first verb, and the verb.

    After a pronoun the verb counts as a part of the subject: "we deploy" is not "we test".
    """
    may_be_bare = False
    for place, word in enumerate(sentence):
        plain = word.casefold()
        if place and (plain in _AUXILIARIES or _is_verb(plain, after_plural=may_be_bare)):
            is_pronoun = all(before.casefold() in _PRONOUNS for before in sentence[:place])
            return _content(map(_folded, sentence[: place + is_pronoun])), _folded(word)
        may_be_bare = may_be_bare or plain.endswith("s") or plain in _PRONOUNS
    return None


def _is_verb(word: str, *, after_plural: bool) -> bool:
    """Tell "it runs" and "we run" from "a run": a bare form follows a plural or a pronoun."""
    if word in _VERBS:
        return after_plural
    return word.endswith("s") and (word[:-1] in _VERBS or word.removesuffix("es") in _VERBS)


def _holding(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Give who holds and what is held, where a text says so."""
    holds, held_by = _HOLDS.search(text), _HELD_BY.search(text)
    found = holds or held_by
    if found is None:
        return frozenset(), frozenset()
    left, right = _content_of(text[: found.start()]), _content_of(text[found.end() :])
    return (left, right) if holds else (right, left)
