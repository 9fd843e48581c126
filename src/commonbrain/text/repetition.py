"""Decide from their words whether a text only repeats another.

A rejected text is lost and a stored repetition costs one row, so whatever may be news is news: a
word, name, number, time, negation or modality that the other text does not say. Greetings and
thanks say nothing; forms of a word and close synonyms say the same.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final, cast

import Stemmer

from commonbrain.text.contradictions import is_one_value_replaced
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.statements import Statement, read_statement

_WORD: Final = lazy_pattern(r"\w+(?:[.,:/@'\u2019+-]\w+)*")
_ADDRESSED: Final = lazy_pattern(
    r"\b(?:hi|hey|hello|thanks|thank you|congrats|congratulations|wow|great|good|well)\W{1,2}"
    r"[A-Z]\w+"
    r"|,\s*[A-Z]\w+(?=\s*[!?.])"
)
"""A name that the text only addresses: "Hey Melanie", "That is great, Caroline!"."""

_LABEL: Final = lazy_pattern(r"\s*([^:\s][^:\n]{0,40}):\s")
_COMPOUND: Final = lazy_pattern(r"(?<=[A-Za-z])-(?=[A-Za-z])")
"""The hyphen of a compound, which some leave out: "e-mail", "wi-fi"."""
_ORDER: Final = lazy_pattern(
    r"(?:never|always|do not|don't|please|only|use|keep|avoid)\b", re.IGNORECASE
)
"""The opening of an order, which says that something must be so."""
_SAYS_NOTHING: Final = frozenset(
    form
    for word in (
        "hi hey hello dear thank thanks please wow yes yeah yep no nope ok okay sure great nice"
        " cool awesome amazing wonderful fantastic lovely congrats congratulations lol bye cheers"
        " welcome really very so too quite pretty just also well oh ah hmm indeed actually"
        " basically simply note remember reminder fyi info remark here there what which who"
        " whom whose where how that this these those thing something anything happen get got make"
        " made let go goes going do does doing done use currently roughly about around"
        " approximately all each every any some own self ourselves itself themselves always"
        " because since if when whenever while as through against come becomes"
    ).split()
    for form in (word, word.removesuffix("s"))
)
"""Words without meaning of their own, also without a final s, as words are read."""
_SYNONYMS: Final = (
    "keep kept retain store save hold held preserve",
    "need require take want",
    "like prefer favour favor",
    "choose pick select opt decide",
    "begin start launch kick",
    "end finish complete stop conclude",
    "leave depart",
    "own owner maintain maintainer responsible responsibility charge",
    "lead head manage run",
    "call name",
    "refuse reject deny decline",
    "accept allow permit",
    "empty drain clear",
    "fast quick rapid",
    "big large huge",
    "small little tiny",
    "old legacy former",
    "deprecated obsolete outdated",
    "buy purchase acquire",
    "fix repair resolve solve",
    "fail break crash",
    "error failure fault bug",
    "send deliver ship dispatch",
    "show display present",
    "find locate discover",
    "change modify alter",
    "delete remove erase drop",
    "build create make produce generate",
    "write author",
    "folder directory",
    "server host machine",
    "repository repo",
    "config configuration setting",
    "certificate cert",
    "documentation doc docs",
    "authentication auth",
    "application app",
    "environment env",
    "temporary temp",
    "maximum max",
    "minimum min",
    "picture photo image",
    "kid child children",
    "mother mom mum",
    "father dad",
    "company firm business",
    "colleague coworker teammate",
    "client customer",
    "staff employee personnel",
    "salary pay wage",
    "price cost",
    "meeting call session",
    "illness disease",
    "doctor physician",
    "holiday vacation",
    "flat apartment",
    "car vehicle automobile",
    "automatic automatically",
    "manual manually hand",
    "once single time",
    "more above over exceed larger greater bigger",
    "less below under smaller fewer lower",
    "live reside stay",
    "place put",
    "speak talk",
    "job task",
    "team group",
    "much many lot",
    "member people person",
    "every each per",
)
"""Groups of words that say the same in most statements."""
_MODALITIES: Final = {
    "must": "must have-to has-to need-to needs-to shall required mandatory should ought supposed"
    " recommended",
    "may": "may might could perhaps maybe possibly probably likely",
    "will": "will 'll going-to gonna plan plans planned planning intend intends",
    "would": "would 'd",
}
_MODAL_WORDS: Final = {
    word: modality for modality, words in _MODALITIES.items() for word in words.split()
}
_LIGHT_WORDS: Final = (
    "find found have term better than locate located lie sit occur place serve apply exist follow"
    " mean call provide offer give given come show shown sort kind way part case fact point matter"
    " exactly precisely strictly rather clearly directly usually normally generally valid"
    " perform contain include belong use used using let tell say said state stated see seen look"
)
"""Words of which a rewording may add a few, for they carry no news of their own."""
_NEGATION: Final = lazy_pattern(r"\b(?:no|never|not|nothing|nobody|don't|do not)\b", re.IGNORECASE)
_LACK: Final = lazy_pattern(r"\bwithout\b", re.IGNORECASE)
_LESSER: Final = lazy_pattern(r"\b(?:without|rather than|instead of)\b", re.IGNORECASE)
"""Words before the lesser of two choices, or the second of two negations."""
_INSTEAD: Final = lazy_pattern(r"\b(?:over|rather than|instead of)\b", re.IGNORECASE)
"""Words between a choice and the rejected alternative."""
_EXCEPTION: Final = lazy_pattern(
    r"\b(?:except|unless|excluding|other than|apart from|but not|only if|as long as)\b",
    re.IGNORECASE,
)
_FORBIDDEN: Final = lazy_pattern(r"\b(?:no|never|not|don't)\b", re.IGNORECASE)
_CONDITION: Final = lazy_pattern(r"\b(?:without|before|until)\b", re.IGNORECASE)
_STOP: Final = lazy_pattern("[.!?]")
_LISTING: Final = "and or nor as well also plus"
"""Words between parts that may stand in any order."""
_EXCHANGED_WORDS_MAX: Final = 60
"""Longer texts say too much for two parts to matter, and would take long to compare."""
_WORDS_MIN: Final = 3
"""Fewer words than this are in many texts, by chance."""
_CACHED: Final = 512
_CACHED_RULES: Final = 2048
_CACHED_PAIRS: Final = 16_384
"""The rules and pairs of them that a review queue compares whenever it is listed, and some more."""
_CACHED_WORDS: Final = 4096
_stem_of = cast("Callable[[str], str]", Stemmer.Stemmer("english").stemWord)  # pyright: ignore[reportUnknownMemberType]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What a text says, each as a set to compare."""

    stems: frozenset[str]
    """Stems of content words; synonyms have the same one."""
    fixed: frozenset[str]
    """Numbers, units and words of closed groups, for which there are no synonyms.

    Numbers that name the subject, as in "gate 6", have a mark, so that none counts as a quantity.
    """
    names: tuple[str, ...]
    """In order."""
    modalities: frozenset[str]
    is_denied: bool
    label: str
    """The name of a speaker or subject before a colon."""
    by_sentence: tuple[frozenset[str], ...]
    """The stems of each sentence."""
    asks: bool

    @property
    def sentences(self) -> int:
        return len(self.by_sentence)


def adds_nothing(text: str, *, known: str, is_near_copy: bool) -> bool:
    """Return whether all that a text says is said by a known one.

    A near copy of one sentence, which the caller recognizes by its meaning, may add words that say
    little, such as "you will find".
    """
    here = _read(text)
    there = _read(known)
    if here.label != there.label or here.asks > there.asks or not _has_all_fixed(here, there):
        return False
    if exchanges_parts(text, known) or _leaves_out_condition(text, known):
        return False
    unsaid = here.stems - there.stems
    if not unsaid:
        is_specific = len(here.stems | here.fixed | {*here.names}) >= _WORDS_MIN
        if not (is_near_copy or is_specific):
            return False
        return _are_together(here.stems, there, sentences=here.sentences)
    is_reworded = here.sentences == 1 and unsaid <= _LIGHT_STEMS
    return is_near_copy and is_reworded and not is_one_value_replaced(text, known)


@lru_cache(maxsize=_CACHED_PAIRS)
def may_repeat(text: str, *, known: str) -> bool:
    """Return whether a similar text may say the same as a known one in other words.

    Texts with different numbers, names or conditions do not, nor do those of which one denies the
    other, replaces one value, or exchanges two parts.
    """
    one, other = (
        read_statement(Statement(text=_without_double_negation(each))) for each in (text, known)
    )
    here, there = content_stems(text), content_stems(known)
    is_denial = one.is_denied != other.is_denied and (here <= there or there <= here)
    names, known_names = one.names - there, other.names - here
    return not (
        fixed_parts(text) != fixed_parts(known)
        or is_denial
        or (names - known_names and known_names - names)
        or is_one_value_replaced(text, known)
        or exchanges_parts(text, known)
    )


@lru_cache(maxsize=_CACHED_RULES)
def fixed_parts(text: str) -> tuple[frozenset[str], bool]:
    """Return what texts that say the same share: their numbers, and whether there is an exception.

    It groups texts before they are compared in pairs.
    """
    reading = read_statement(Statement(text=_without_double_negation(text)))
    return reading.numbers, bool(_EXCEPTION.search(text))


def choice_of(text: str) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the stems of what a text chooses and of what it rejects; None if it does not."""
    chosen, *rest = _INSTEAD.split(text, maxsplit=1)
    return (content_stems(chosen), content_stems(rest[0])) if rest else None


def _leaves_out_condition(text: str, known: str) -> bool:
    """Return whether the known text has an exception or condition, and the other holds always."""
    return any(
        states(known) and not states(text) for states in (_EXCEPTION.search, _forbids_conditionally)
    )


def _forbids_conditionally(text: str) -> bool:
    """Return whether a sentence forbids something under a condition only: "never without"."""
    return any(
        (forbidden := _FORBIDDEN.search(sentence)) is not None
        and _CONDITION.search(sentence, forbidden.end()) is not None
        for sentence in _STOP.split(text)
    )


def _without_double_negation(text: str) -> str:
    """Drop words that deny nothing: two negations in a row, and the lesser of two choices."""
    lines: list[str] = []
    for line in text.split("\n"):
        last = max((match.start() for match in _LACK.finditer(line)), default=0)
        lines.append(_LESSER.sub(" ", _NEGATION.sub(" ", line[:last]) + line[last:]))
    return "\n".join(lines)


def exchanges_parts(text: str, known: str) -> bool:
    """Return whether two texts differ only in that two parts have each other's place.

    "Prefer composition over inheritance" is the contrary of what its words say in another order,
    unless the words between the parts only list them.
    """
    one, other = ([_same(word) for word in _words_of(each)] for each in (text, known))
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
        one[size - last :] + one[first : size - last] + one[:first] == other
        and not _LISTING_STEMS.issuperset(one[first : size - last])
        for first in range(1, size - 1)
        for last in range(1, size - first)
    )


def _words_of(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(_COMPOUND.sub("", text))]


def repeated_part(text: str, *, known: str) -> str:
    """Return the sentences of a known text that say most of what a text says, all if it is short.

    There are as many neighbouring ones as the text has.
    """
    sentences = split_sentences(known)
    here = _read(text)
    size = max(1, here.sentences)
    if len(sentences) <= size:
        return known
    places = range(len(sentences) - size + 1)
    parts = [content_stems(one) for one in sentences]
    best = max(
        places,
        key=lambda at: (len(here.stems & frozenset[str]().union(*parts[at : at + size])), -at),
    )
    return " ".join(sentences[best : best + size])


def _are_together(stems: frozenset[str], there: _Said, *, sentences: int) -> bool:
    """Return whether as many neighbouring sentences say all of it: others are on other things."""
    parts = there.by_sentence
    return any(
        stems <= frozenset[str]().union(*parts[at : at + sentences])
        for at in range(max(1, len(parts) - sentences + 1))
    )


def _has_all_fixed(here: _Said, there: _Said) -> bool:
    """Return whether names, numbers, negation and modality are said, in an order that agrees."""
    if here.is_denied != there.is_denied or not here.modalities <= there.modalities:
        return False
    if not (here.fixed <= there.fixed and set(here.names) <= {*there.names, *there.stems}):
        return False
    shared = set(here.names) & set(there.names)
    return _order(here.names, shared) == _order(there.names, shared)


def _order(names: Sequence[str], shared: Iterable[str]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name in shared]


@lru_cache(maxsize=_CACHED)
def _read(text: str) -> _Said:
    message = _COMPOUND.sub("", _ADDRESSED.sub(" ", text))
    reading = read_statement(Statement(text=message))
    words = [word for word in reading.words if word not in _SAYS_NOTHING]
    lower = [word.casefold() for word in _WORD.findall(message)]
    pairs = {f"{one}-{other}" for one, other in pairwise(lower)}
    numbered = {f"#{number}" for number in reading.numbered}
    modal = frozenset(_MODAL_WORDS[word] for word in {*lower, *pairs} if word in _MODAL_WORDS)
    ordered = frozenset({"must"} if _ORDER.match(message) else ())
    return _Said(
        stems=content_stems(message),
        fixed=reading.numbers | numbered | reading.choices - _SAYS_NOTHING,
        names=tuple(_same(word) for word in words if word in reading.names),
        modalities=modal | ordered,
        is_denied=reading.is_denied,
        label=match[1].casefold() if (match := _LABEL.match(text)) else "",
        by_sentence=tuple(map(content_stems, split_sentences(message))),
        asks="?" in message,
    )


@lru_cache(maxsize=_CACHED)
def content_stems(text: str) -> frozenset[str]:
    """Return the stems of the words that say something, synonyms as one, without numbers."""
    reading = read_statement(Statement(text=text))
    content = reading.content - reading.choices
    return frozenset(_same(word) for word in content if word not in _SAYS_NOTHING)


def stem_sequence(text: str) -> tuple[str, ...]:
    """Return the stems of the words that say something, in their order, without numbers."""
    reading = read_statement(Statement(text=text))
    return tuple(
        _same(word)
        for word in reading.words
        if word in reading.content and word not in _SAYS_NOTHING
    )


_IRREGULAR: Final = (
    "become became,begin began begun,break broke broken,bring brought,build built,buy bought,catch"
    " caught,choose chose chosen,cost,do did done,draw drew drawn,drive drove driven,eat ate eaten,"
    "fall fell fallen,feed fed,freeze froze frozen,get got gotten,give gave given,go went gone,grow"
    " grew grown,hide hid hidden,hold held,keep kept,know knew known,lead led,leave left,lend lent,"
    "lose lost,make made,mean meant,meet met,pay paid,ride rode ridden,rise rose risen,run ran,sell"
    " sold,send sent,shake shook shaken,sit sat,speak spoke spoken,spend spent,steal stole stolen,"
    "swim swam swum,take took taken,teach taught,throw threw thrown,wear wore worn,win won,write"
    " wrote written"
)
"""Verbs with their irregular forms, which stemming does not bring together."""
_BASE: Final = {
    form: verb.split()[0] for verb in _IRREGULAR.split(",") for form in verb.split()[1:]
}


def stem(word: str) -> str:
    """Return the stem of a word in lower case, the same for irregular forms."""
    return _stem_of(_BASE.get(word, word))


@lru_cache(maxsize=_CACHED_WORDS)
def _same(word: str) -> str:
    """Return the stem of a word, or the first of its synonyms."""
    own = stem(word)
    return _FIRST.get(own, own)


_FIRST: Final = {
    _stem_of(word): _stem_of(group.split()[0]) for group in _SYNONYMS for word in group.split()
}
_LIGHT_STEMS: Final = frozenset(map(_same, _LIGHT_WORDS.split()))
_LISTING_STEMS: Final = frozenset(map(_same, _LISTING.split()))
