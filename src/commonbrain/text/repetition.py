"""Whether a text only repeats another.

A refused text is lost and a stored repetition costs one row. So a text repeats another only if that
has every content word of it, in any order, and nothing else differs: no number, sign, operator,
quantifier, negation, condition, tense, or capital of a name.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Final

from commonbrain.model.values import dataclass
from commonbrain.text.frames import BE
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.words import (
    ARTICLES,
    GROUP_OF,
    PAST_AUXILIARIES,
    Sort,
    Word,
    is_past,
    read_words,
    stem,
)

_NAMING: Final = frozenset({Sort.NAME, Sort.CODE, Sort.NUMBER})
_UNTOLD: Final = frozenset(
    "a an the that this which is are was were be been being am has have had do does did having"
    " doing done it its there and of for because as so then also already just very really too now"
    " get got gets".split()
)
"""Function words that say nothing by themselves; every other one counts."""
_CONDITIONS: Final = frozenset("from to until before after than or".split())
"""Those that decide with the word after them."""
_NEGATIVE_PRONOUNS: Final = frozenset("nobody nothing nowhere none neither".split())
_AUTHORS: Final = frozenset("we i you they".split())
"""Subjects that a passive leaves out: "we chose X", "X was chosen"."""
_FUTURE: Final = frozenset("will shall plan planned plans going todo".split())
_PLANNING: Final = frozenset("plan need want".split())
"""Words of a plan that the report of it leaves out."""
_RECURRING: Final = frozenset(
    map(stem, "hourly daily nightly weekly monthly quarterly yearly annually fortnightly".split())
)
_ASKING: Final = lazy_pattern(r"(?:is|are|was|were|has|have|had|did|do|does)\b", re.IGNORECASE)
_SAME_MODAL: Final = {"ought": "should", "shall": "must", "required": "must", "might": "may"}
_ALL: Final = frozenset("every each everything everyone everybody entire always any".split())
"""Quantifiers that say the same as "all"."""
_EMPTY: Final = frozenset(
    "please currently basically really very so quite hey dear um uh yeah btw lol cheers greetings"
    " regards simply actually kindly".split()
)
"""Words without meaning of their own."""
_BEFORE_PARTICIPLES: Final = frozenset(
    "is are be been being was were has have had get gets got a an the".split()
)
_WONT: Final = lazy_pattern(r"\bwo(?=n't\b)", re.IGNORECASE)
_SHORTENED: Final = lazy_pattern(r"n't\b|(?<=\bcan)not\b", re.IGNORECASE)
_LISTING: Final = frozenset("and or nor as well plus".split())
"""Words between parts that may stand in any order."""
_REPLACED_MAX: Final = 3
_WORDS_MIN: Final = 2
"""Fewer content words than this are in many texts, by chance."""
_EXCHANGED_WORDS_MAX: Final = 60
"""Longer sentences say too much for two parts to matter, and would take long to compare."""
_CACHED: Final = 2048
_CACHED_PAIRS: Final = 16_384
"""The pairs of rules that a review queue compares whenever it is listed, and some more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What one sentence says, each as it is compared."""

    content: frozenset[str]
    order: tuple[str, ...]
    """All words in their order, without articles."""
    marks: frozenset[str]
    """Operators, quantifiers, modals and conditions."""
    is_denied: bool
    tense: str
    denied: frozenset[str]
    """The content words after a negation, up to the next stop."""
    is_passive: bool
    has_agent: bool
    """Whether it says by whom: "was paid by Ann"."""
    asks: bool


@lru_cache(maxsize=_CACHED)
def _read(sentence: str) -> _Said:
    full = _SHORTENED.sub(" not", _WONT.sub("will", sentence.replace("\u2019", "'")))
    words = [word for word in read_words(full) if word.plain not in _EMPTY]
    plain = [word.plain for word in words]
    meaningful = [word for word in words if word.is_content and word.plain not in _SAME_MODAL]
    is_passive = any(one.plain in BE and is_past(other.plain) for one, other in pairwise(words))
    denials = sum(word.sort is Sort.NEGATION for word in words)
    return _Said(
        content=frozenset(map(_key, meaningful)),
        order=tuple(_key(w) for w in words if w.sort is not Sort.STOP and w.plain not in ARTICLES),
        marks=frozenset(filter(None, _marks(words, is_passive=is_passive, has_denial=denials > 0))),
        is_denied=denials % 2 == 1,
        tense=_tense(words),
        denied=frozenset(_denied(words)),
        is_passive=is_passive,
        has_agent="by" in plain,
        asks="?" in plain,
    )


def _key(word: Word) -> str:
    """Return the form of a word that is compared: of a name with its capitals."""
    has_caps = len(word.written) > 1 and not word.written[1:].islower()
    is_spelled = has_caps and word.sort in {Sort.NAME, Sort.WORD}
    return f"{word.stem}{word.written[1:]}" if is_spelled else word.key


def _marks(words: Sequence[Word], *, is_passive: bool, has_denial: bool) -> Iterator[str]:
    """Yield all that counts but content words; a preposition with the word that follows it."""
    following = ""
    for word in reversed(words):
        if word.is_content:
            following = _key(word)
        if word.sort is Sort.OPERATOR or word.plain in _NEGATIVE_PRONOUNS:
            yield word.written
        elif word.plain == "only" or word.plain in _CONDITIONS:
            yield f"{word.plain} {following}"
        elif word.sort is Sort.QUANTIFIER:
            is_any = has_denial and word.plain == "any"
            yield "" if is_any else "all" if word.plain in _ALL else word.plain
        elif word.sort is Sort.MODAL or word.plain in _SAME_MODAL:
            yield _SAME_MODAL.get(word.plain, word.plain)
        elif word.sort is Sort.FUNCTION and word.plain not in _UNTOLD:
            yield "" if word.plain == "by" and is_passive else word.plain


def _tense(words: Sequence[Word]) -> str:
    plain = [word.plain for word in words]
    if not _FUTURE.isdisjoint(plain):
        return "future"
    has_past = any(
        word.sort is Sort.WORD
        and is_past(word.plain)
        and (n == 0 or plain[n - 1] not in _BEFORE_PARTICIPLES)
        for n, word in enumerate(words)
    )
    return "past" if has_past or not PAST_AUXILIARIES.isdisjoint(plain) else "present"


def _denied(words: Sequence[Word]) -> Iterator[str]:
    is_denied = False
    for word in words:
        is_denied = word.sort is not Sort.STOP and (is_denied or word.sort is Sort.NEGATION)
        if is_denied and word.is_content:
            yield _key(word)


def adds_nothing(text: str, *, known: str) -> bool:
    """Return whether each sentence of a text is one of a known text in other words, in order."""
    own = [one for one in map(_read, split_sentences(text)) if one.content]
    if sum(len(one.content) for one in own) < _WORDS_MIN:
        return False
    sentences = split_sentences(known)
    if len(sentences) != len(own) and _are_same(_read(text), _read(known)):
        return True
    rest = iter(map(_read, sentences))
    return all(any(_are_same(one, other) for other in rest) for one in own)


def carries_out(text: str, *, plan: str) -> bool:
    """Return whether a sentence reports as done what a plan says, in the same words.

    "Added retries to the mailer" and "Retries were added to the mailer on Monday" do what "Add
    retries to the mailer" says. A sentence that names anything else, or a condition, does not.
    """
    sentences = [split_sentences(one) for one in (text, plan)]
    if any(len(one) != 1 for one in sentences) or _ASKING.match(text):
        return False
    done, planned = (_read(one) for [one] in sentences)
    aim = [key for key in _names(planned) if key not in _PLANNING]
    names = _names(done)
    while len(names) > len(aim) and (names[-1][0].isdigit() or names[-1] in GROUP_OF):
        names = names[:-1]
    if done.is_passive:
        # The verb comes after what it is done to.
        names = [
            *(key for key in names[1:] if key in aim[:1]),
            *(k for k in names if k not in aim[:1]),
        ]
    is_done = done.is_passive or (done.tense == "past" and planned.tense != "past")
    is_once = not _RECURRING.intersection(aim) and "all" not in planned.marks
    is_limited = done.is_denied or done.asks or planned.is_denied or "be" in done.order
    is_limited |= bool(done.marks - planned.marks - _AUTHORS - {"on", "in"})
    return len(aim) >= _WORDS_MIN and names == aim and is_done and is_once and not is_limited


def _are_same(one: _Said, other: _Said) -> bool:
    # "Ann paid Bob" is "Bob was paid by Ann", not "Ann was paid by Bob".
    has_other_voice = one.is_passive != other.is_passive
    unnamed = _AUTHORS if has_other_voice else frozenset[str]()
    is_alike = (
        one.content == other.content
        and one.marks - unnamed == other.marks - unnamed
        and one.is_denied == other.is_denied
        and one.tense == other.tense
        and one.asks == other.asks
        and one.denied == other.denied
    )
    if not is_alike or (has_other_voice and _is_order(one, other)):
        return False
    return has_other_voice == (has_other_voice and _names(one) != _names(other)) and (
        has_other_voice or not _are_exchanged(one.order, other.order)
    )


def _is_order(one: _Said, other: _Said) -> bool:
    """Return whether the active one has no subject: "Write docs" is not "docs are written"."""
    active, passive = (other, one) if one.is_passive else (one, other)
    has_subject = passive.has_agent or not _AUTHORS.isdisjoint(active.marks)
    return not has_subject and one.tense != "past"


def _names(one: _Said) -> Sequence[str]:
    return [key for key in one.order if key in one.content]


def _are_exchanged(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two sentences differ only in that two parts have each other's place.

    "Prefer composition over inheritance" is the contrary of what its words say in another order.
    """
    if len(one) != len(other) or one == other or len(one) > _EXCHANGED_WORDS_MAX:
        return False
    while one and one[0] == other[0]:
        one, other = one[1:], other[1:]
    while one and one[-1] == other[-1]:
        one, other = one[:-1], other[:-1]
    if sorted(one) != sorted(other):
        return False
    size = len(one)
    return any(
        not _LISTING.issuperset(one[first : size - last])
        and (*one[size - last :], *one[first : size - last], *one[:first]) == tuple(other)
        for first in range(1, size)
        for last in range(1, size - first)
    )


def _is_one_replaced(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether a few words in a row replace others in otherwise equal sentences."""
    start = end = 0
    shorter = min(len(one), len(other))
    while start < shorter and one[start] == other[start]:
        start += 1
    while end < shorter - start and one[-1 - end] == other[-1 - end]:
        end += 1
    longest, least = max(len(one), len(other)) - start - end, shorter - start - end
    return least > 0 and longest <= _REPLACED_MAX and start + end >= 2 * longest


def shares_half(text: str, *, known: str) -> bool:
    """Return whether two texts share half of the content words that the shorter one has."""
    one, other = _read(text).content, _read(known).content
    return bool(one & other) and len(one & other) * 2 >= min(len(one), len(other))


@lru_cache(maxsize=_CACHED_PAIRS)
def may_repeat(text: str, *, known: str) -> bool:
    """Return whether a similar text may say the same as a known one in other words.

    Texts with different numbers, conditions or negation do not, nor do those of which each names
    something that the other does not, nor those that exchange two parts.
    """
    one, other = _read(text), _read(known)
    here, there = names_in(text), names_in(known)
    is_part = one.content <= other.content or other.content <= one.content
    return not (
        fixed_parts(text) != fixed_parts(known)
        or (is_part and one.is_denied != other.is_denied)
        or (here - there and there - here)
        or _are_exchanged(one.order, other.order)
        or _is_one_replaced(one.order, other.order)
    )


@lru_cache(maxsize=_CACHED)
def fixed_parts(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return what texts that say the same share: their numbers, and conditions that exclude.

    It groups texts before they are compared in pairs.
    """
    words = read_words(text)
    numbers = frozenset(word.plain for word in words if word.sort is Sort.NUMBER)
    return numbers, frozenset({"except", "unless", "only"}).intersection(
        word.plain for word in words
    )


@lru_cache(maxsize=_CACHED)
def names_in(text: str) -> frozenset[str]:
    """Return the names, code, numbers and words of closed groups in a text."""
    return frozenset(
        word.key for word in read_words(text) if word.sort in _NAMING or word.plain in GROUP_OF
    )


@lru_cache(maxsize=_CACHED)
def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words that say something, without numbers."""
    return frozenset(
        word.stem
        for word in read_words(text)
        if word.is_content and word.sort is not Sort.NUMBER and word.plain not in _EMPTY
    )


def repeated_part(text: str, *, known: str) -> str:
    """Return the sentences of a known text that say most of what a text says, all if it is short.

    There are as many neighbouring ones as the text has.
    """
    sentences = split_sentences(known)
    size = max(1, len(split_sentences(text)))
    if len(sentences) <= size:
        return known
    here = content_stems(text)
    shared = [len(here & content_stems(sentence)) for sentence in sentences]
    places = range(len(sentences) - size + 1)
    best = max(places, key=lambda at: (sum(shared[at : at + size]), -at))
    return " ".join(sentences[best : best + size])


def repeats_old_value(text: str, *, old: str, new: str) -> bool:
    """Return whether a text has a value that `new` dropped, and none that `new` introduced.

    Values are numbers, names, code and words of a closed group.
    """
    stated, before, after = names_in(text), names_in(old), names_in(new)
    return bool(stated & (before - after)) and stated.isdisjoint(after - before)
