"""Rule-based parsing of a statement: words, numbers, names, subject, value and negation.

Every pattern is linear on hostile text: none can match one stretch in two ways.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, filterfalse
from typing import Final

from commonbrain.text.clauses import NEGATIONS, is_negation, verb_at
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import NOT_ABBREVIATED

_SENTENCE_END: Final = lazy_pattern(rf"[.!?;:]{NOT_ABBREVIATED}\s|\n")
_WORD: Final = lazy_pattern(r"\w+(?:[.,:/@'\u2019+-]\w+)*")
_NUMBER: Final = lazy_pattern(r"\d+(?:[.,:/-]\d+)*")
_NAME_SHAPE: Final = lazy_pattern(r"[^_\d/.@]*[_\d/.@]|[^A-Z]+[A-Z]")
"""An identifier, path, version or CamelCase word: a sign, digit or capital inside."""

_COUNTS: Final = (
    "two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen".split()
)
_TENS: Final = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_UNITS: Final = ("one", *_COUNTS[:8])
_ORDINALS: Final = "second third fourth fifth sixth seventh eighth ninth tenth".split()
_NUMBER_WORDS: Final = {
    **{word: str(n) for n, word in enumerate(_COUNTS, 2)},
    **{word: str(10 * n) for n, word in enumerate(_TENS, 2)},
    **{
        f"{ten}{hyphen}{unit}": str(10 * tens + units)
        for tens, ten in enumerate(_TENS, 2)
        for units, unit in enumerate(_UNITS, 1)
        for hyphen in ("-", "")
    },
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

_DENYING: Final = frozenset("stopped rather avoid".split())
"""Verbs and adverbs that deny what follows."""
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
    "delete": "keep",
    "discard": "keep",
    "drop": "keep",
    "remove": "keep",
    "strip": "keep",
}
"""Words that contain a negation, with their positive counterpart."""

# Words of one group exclude each other: a statement with another word says something else.
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
_EMPTY: Final = _FILLERS | _LINKING | _DENYING | NEGATIONS
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
_HOLDS: Final = lazy_pattern(
    r"\b(?:owns|maintains|leads|manages|heads|is responsible for|is in charge of|looks after"
    r"|is the (?:owner|maintainer|lead|manager|head) of)\b",
    re.IGNORECASE,
)
_HELD_BY: Final = lazy_pattern(
    r"\b(?:is|are) (?:owned|maintained|led|managed|headed) by\b", re.IGNORECASE
)
_IDIOMS: Final = lazy_pattern(
    r"\b(?:no matter|not only|no doubt|no problem|no worries|nothing but|not to mention"
    r"|no (?:later|earlier|more|less|fewer) than)\b",
    re.IGNORECASE,
)
"""Phrases that contain "no" without denying anything."""
_NO_CLAIM: Final = lazy_pattern(
    r"\W*(?:if you|here(?:['\u2019]s| is| are)|let(?:['\u2019]s| us| me)|thanks?|thank you|sure"
    r"|please|therefore|thus|hence|so|for example|example|e\.g)\b",
    re.IGNORECASE,
)
"""Openings that address the reader or depend on earlier text."""
_NO_PROSE: Final = lazy_pattern(r"[{}=\\;]")
"""Characters of code and formulas."""
_LABEL: Final = lazy_pattern(r"\W*(\w[^:.!?;\n]{0,58}):\W*\s")
"""A label before a colon that names the subject."""
_LABELS_OF_NOTHING: Final = frozenset(
    "note update fact decision important reminder warning correction fyi todo".split()
)
_LABEL_WORDS_MAX: Final = 5
_SINCE_WHEN: Final = frozenset("after since as today now".split())
"""Openings that give a time before the subject."""
_ARTICLES: Final = frozenset("the a an our my your its his her their".split())
_BEFORE_COUNTS: Final = frozenset(
    "all about least most exactly than over under up to every".split()
)
"""After these, and at the beginning, a number counts; elsewhere before the verb it names."""
_SINGULAR_ENDS: Final = ("ss", "us", "is")
_PLURAL_CHARS_MIN: Final = 4
"""Shorter words in -s are not plurals: was, has, its, gas."""
_CACHED_WORDS: Final = 4096
"""Words kept as folded: most words of a text are among the few thousand that all texts share."""
_CACHED_READINGS: Final = 512
"""Cache size: a new text is compared with some forty neighbours and parsed once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A text that claims something, with its subject if the author gave one."""

    text: str
    subject: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The parsed words of a statement, in lower case, plurals as singulars."""

    words: tuple[str, ...]
    """In order, without articles and fillers."""
    content: frozenset[str]
    """Content words, without numbers and negations."""
    numbers: frozenset[str]
    """Numbers, dates, times and versions; number words as digits."""
    names: frozenset[str]
    """Words written as names: capitals within a sentence, paths, identifiers."""
    choices: frozenset[str]
    """Words of a closed group, such as weekdays."""
    is_denied: bool
    denies: bool
    """Whether the sentence that contains the subject is negated."""
    is_claim: bool
    """Whether it is a complete statement rather than a question, heading or fragment."""
    subject: frozenset[str]
    """The content words before the first verb; may be empty."""
    numbered: frozenset[str]
    """Numbers before the first verb that name something instead of counting: version 2."""
    given_subject: frozenset[str]
    """The subject given by the author; may be empty."""
    verb: str | None
    """The first verb that was recognized."""
    holder: frozenset[str]
    """The holder of something that only one can hold, such as an owner."""
    held: frozenset[str]

    @property
    def predicate(self) -> frozenset[str]:
        """The content words other than the subject."""
        return self.content - self.subject

    def shares_subject(self, other: "Reading") -> bool:
        """Return whether both have the same known subject.

        One given by the author takes precedence.
        """
        if self.given_subject and other.given_subject:
            return self.given_subject == other.given_subject
        is_same = bool(self.subject) and self.subject == other.subject
        return is_same and self.numbered == other.numbered


@lru_cache(maxsize=_CACHED_READINGS)
def read_statement(statement: Statement) -> Reading:
    """Parse a statement, in time linear in its length."""
    text = _IDIOMS.sub(" ", statement.text)
    sentences = [_WORD.findall(part) for part in _SENTENCE_END.split(text)]
    words = tuple(_without_fillers(map(_folded, chain.from_iterable(sentences))))
    opening = next((match for match in map(_opening, sentences) if match), None)
    subject = opening.subject if opening else frozenset[str]()
    named = [name for sentence in sentences for name in _names(sentence)]
    holder, held = _holding(statement.text)
    label_words = _label(text)
    label = _content(label_words)
    return Reading(
        words=words,
        content=_content(words),
        numbers=_numbers(words),
        names=frozenset(map(_folded, named)).intersection(words),
        choices=CHOICES.intersection(words),
        is_denied=_is_denied(words),
        denies=_is_denied(opening.words if opening else words),
        is_claim=_is_claim(text),
        subject=subject | label - _LABELS_OF_NOTHING if subject else subject,
        numbered=_numbers(label_words) | (opening.numbered if opening else frozenset[str]()),
        given_subject=_content_of(statement.subject or ""),
        verb=opening.verb if opening else None,
        holder=holder,
        held=held,
    )


def _without_fillers(words: Iterable[str]) -> Iterable[str]:
    return filterfalse(_FILLERS.__contains__, words)


@lru_cache(maxsize=_CACHED_WORDS)
def _folded(word: str) -> str:
    """Normalize case, apostrophes, possessives and plurals."""
    if word == "US":
        return "usa"  # in lower case it would be the pronoun, which names nothing
    plain = word.casefold().replace("\u2019", "'").removesuffix("'s")
    plain = _NUMBER_WORDS.get(plain, plain)
    is_plural = plain.endswith("s") and not plain.endswith(_SINGULAR_ENDS)
    singular = plain[:-1] if is_plural and len(plain) >= _PLURAL_CHARS_MIN else plain
    return _SPELLED_OUT.get(plain, singular)


def _content_of(text: str) -> frozenset[str]:
    return _content(map(_folded, _WORD.findall(text)))


def _content(words: Iterable[str]) -> frozenset[str]:
    return frozenset(filter(None, map(_content_word, words)))


@lru_cache(maxsize=_CACHED_WORDS)
def _content_word(word: str) -> str:
    """Return a content word, an antonym as its counterpart; empty for other words and numbers."""
    is_empty = word in _EMPTY or is_negation(word) or _has_number(word)
    return "" if is_empty else _POLES.get(word, word)


def _numbers(words: Iterable[str]) -> frozenset[str]:
    return frozenset(
        number for word in words if not word.isalpha() for number in _NUMBER.findall(word)
    )


def _has_number(word: str) -> bool:
    # Most words have letters only, which is faster to see than that no digit is found.
    return not word.isalpha() and _NUMBER.search(word) is not None


def _names(sentence: Sequence[str]) -> Iterable[str]:
    """Return words written like names; the capital that opens a sentence does not count."""
    later = (word for word in sentence[1:] if word[0].isupper())
    shaped = (word for word in sentence if _NAME_SHAPE.match(word) and not word[0].isdigit())
    return (*later, *shaped)


def _is_denied(words: Sequence[str]) -> bool:
    is_odd = sum(map(_POLES.__contains__, words)) % 2 == 1
    return is_odd != any(map(_is_denying, words))


@lru_cache(maxsize=_CACHED_WORDS)
def _is_denying(word: str) -> bool:
    return word in _DENYING or is_negation(word)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opening:
    """The first sentence with a verb, and the words before the verb."""

    subject: frozenset[str]
    numbered: frozenset[str]
    verb: str
    words: tuple[str, ...]


def _opening(sentence: Sequence[str]) -> _Opening | None:
    """Parse a sentence up to its first verb.

    After a pronoun the verb counts as part of the subject: "we deploy" is not "we test".
    """
    place = _place_of_verb(sentence)
    if place is None:
        return None
    plain = [word.casefold() for word in sentence[:place]]
    is_pronoun = all(word in _PRONOUNS for word in plain)
    start = _after_time(plain)
    return _Opening(
        subject=_content(map(_folded, sentence[start : place + is_pronoun])),
        numbered=_numbered(plain[start:]),
        verb=_folded(sentence[place]),
        words=tuple(_without_fillers(map(_folded, sentence))),
    )


def _place_of_verb(sentence: Sequence[str]) -> int | None:
    may_be_bare = False
    for place, (is_verb, is_bare, is_plural) in enumerate(map(_word_class, sentence)):
        if place and (is_verb or (is_bare and may_be_bare)):
            return place
        may_be_bare = may_be_bare or is_plural
    return _place_of_any_verb([word.casefold() for word in sentence])


def _place_of_any_verb(plain: Sequence[str]) -> int | None:
    """Find an unlisted verb where the sentence leaves little else: "the gateway strips cookies"."""
    place = verb_at(plain)
    if place is None or place + 1 == len(plain):
        return None
    if place > 1 and plain[0] not in _ARTICLES:
        return None
    around = {*plain[1:place]}
    return place if around.isdisjoint(_LINKING) else None


def _after_time(plain: Sequence[str]) -> int:
    """Skip an opening time: "since May the backend" is about the backend."""
    if not plain or plain[0] not in _SINCE_WHEN:
        return 0
    articles = [place for place, word in enumerate(plain) if word in _ARTICLES]
    return articles[-1] if articles else 0


def _numbered(plain: Sequence[str]) -> frozenset[str]:
    counts = _BEFORE_COUNTS | _FILLERS
    named = (
        word
        for place, word in enumerate(plain)
        if "-" in word or (place and plain[place - 1] not in counts)
    )
    return _numbers(named)


def _is_claim(text: str) -> bool:
    is_asked_or_announced = text.rstrip().endswith((":", "?"))
    return not (is_asked_or_announced or _NO_CLAIM.match(text) or _NO_PROSE.search(text))


def _label(text: str) -> tuple[str, ...]:
    """Return the few words of a label before a colon."""
    match = _LABEL.match(text)
    words = tuple(map(_folded, _WORD.findall(match[1]))) if match else ()
    return words if len(words) <= _LABEL_WORDS_MAX else ()


@lru_cache(maxsize=_CACHED_WORDS)
def _word_class(word: str) -> tuple[bool, bool, bool]:
    """Return whether a word is a verb, one in its base form, and a plural or pronoun.

    A base form counts only after a plural or pronoun ("we run", not "a run").
    """
    plain = word.casefold()
    ends_in_s = plain.endswith("s")
    is_bare = plain in _VERBS
    is_third_person = ends_in_s and not {plain[:-1], plain.removesuffix("es")}.isdisjoint(_VERBS)
    is_verb = plain in _AUXILIARIES or (is_third_person and not is_bare)
    return is_verb, is_bare, ends_in_s or plain in _PRONOUNS


def _holding(text: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the holder and what is held, if the text states them."""
    holds, held_by = _HOLDS.search(text), _HELD_BY.search(text)
    match = holds or held_by
    if match is None:
        return frozenset(), frozenset()
    left, right = _content_of(text[: match.start()]), _content_of(text[match.end() :])
    return (left, right) if holds else (right, left)
