"""Judge from two texts whether the newer one changes what the older one says.

Neither similarity nor words alone tell a change from a statement about something else: both share
most words with the older text. So a few features of the pair are weighed together: what the texts
share, where they differ (in a value or in the subject), and words that announce a change. The
weights were fitted on labelled pairs; `brain eval truth` measures the result.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from operator import attrgetter, mul
from typing import Final

from commonbrain.text.change_words import (
    Style,
    Words,
    read_passages,
    read_style,
    read_words,
    sentences_of,
)
from commonbrain.text.contradictions import find_contradiction
from commonbrain.text.repetition import choice_of
from commonbrain.text.statements import Statement

_RUN_MIN: Final = 4
"""Words in a row that count as a quotation."""
_QUOTED_WORDS_MAX: Final = 200
"""Words of each text that are searched for one, for the search takes their product."""
_FURTHER_MAX: Final = 4
"""More sentences than this say no more."""
_REPEATED_MIN: Final = 3
"""Fewer words, numbers and the like may agree by chance."""
_REPEATED_NEWS_MAX: Final = 2
"""More words than this say more than the repeated text does."""
_SHARED_MAX: Final = 5
"""More shared words than this say no more."""
_LENGTH: Final = 60
"""Characters of a short statement."""
_SWAPPED_MAX: Final = 4
"""More differences than this say no more."""
JUST_SAID: Final = timedelta(minutes=30)
"""After this time "make it 120" no longer refers to what was said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFeatures:
    """What two texts share and where they differ; without a unit, each 0..1 unless it says more."""

    cosine: float
    cue: float
    """Whether the newer text announces a change: 1 surely, 0.5 perhaps."""
    correction: float
    """Whether it corrects something, times overlap."""
    end: float
    """Whether it ends a state that the older text does not, times overlap."""
    addition: float
    """Whether it says that the older text holds too."""
    negation: float
    """Whether one of them is denied, times overlap."""
    values: float
    """Whether each has words of a closed group that the other lacks, or such numbers next to the
    same word, times overlap.

    Of several such things that hold at a time, only an announced change counts.
    """
    conflict: float
    """Whether the rules for contradictions find one."""
    covered: float
    """Share of the older text's words that the newer has, by stem."""
    news: float
    """Share of the newer text's words that the older lacks, by stem."""
    swapped: float
    """Words, numbers and the like that each has and the other lacks: the fewer of the two, 0..4."""
    swapped_uncued: float
    """The same, if no change is announced."""
    one_swapped: float
    """Whether there is exactly one."""
    many: float
    """Whether both say something of which there may be several: "speaks", "depends on"."""
    other_subject: float
    """Whether each names a subject that the other lacks, and no change is announced."""
    other_subject_cued: float
    """The same, though a change is announced."""
    quotation: float
    """Share of the older text that a correction repeats word for word."""
    ellipsis: float
    """1 if the newer text needs the older, said just before in the same session; -1 if it needs
    another one."""
    length: float
    """Logarithm of the ratio of their lengths in words."""
    overlap: float
    """Share of the shorter text's words that the other has, by stem."""
    older_exclaims: float
    """Whether the older has an exclamation mark: talk says less of what holds than a plain note."""
    newer_exclaims: float
    """The same of the newer."""
    further_sentences: float
    """Sentences of the newer text after the first, 0..4: talk is about several things."""
    replacement: float
    """Whether the newer says all that the older does, and what it has replaced."""
    negation_covered: float
    """Whether one of them is denied, times covered."""
    end_covered: float
    """Whether the newer ends a state, times covered."""
    correction_covered: float
    """Whether it corrects something, times covered."""
    shared: float
    """Words, numbers and the like that both have, as a share of five."""
    same_subject: float
    """Whether both name the same one."""
    older_length: float
    """Logarithm of the length of the older text, 0 if it is empty."""
    newer_requests: float
    """Whether the newer text asks for something, or says what someone is about to do."""
    older_feels: float
    """Whether the older text speaks of feelings or opinions."""
    newer_feels: float
    older_code: float
    """Whether the older text is code, a formula or a row of a table, at least in part."""
    older_markup: float
    """Whether the older text is marked as a list item or heading, or has emphasis."""
    newer_markup: float
    older_pronoun: float
    """Whether the older text opens with a pronoun."""
    newer_pronoun: float
    older_personal: float
    """Whether the older text is in the first person singular."""
    newer_personal: float
    older_addresses: float
    """Whether the older text speaks to someone."""
    newer_addresses: float


def compare(older: str, newer: str, *, cosine: float, follows: bool = False) -> PairFeatures:
    """Compute the features of two texts; `follows`: one session said the newer right after.

    Of a newer text of many sentences, those count that share most with the older one.
    """
    old = read_words(older)
    new = _nearest_passage(old, newer)
    shared = old.stems & new.stems
    overlap = len(shared) / (min(len(old.stems), len(new.stems)) or 1)
    is_other = _have_other_subjects(old, new)
    differ = _measures_differ(old, new) or _each_has_own(old.reading.choices, new.reading.choices)
    many = old.is_many and new.is_many
    swapped = min(len(old.items - new.items), len(new.items - old.items), _SWAPPED_MAX)
    both = old.items & new.items
    covered = len(shared) / (len(old.stems) or 1)
    is_negated = old.reading.is_denied != new.reading.is_denied
    ends = new.ends and not old.ends
    return PairFeatures(
        cosine=cosine,
        cue=new.cue,
        correction=overlap * new.corrects,
        end=overlap * ends,
        addition=float(new.adds),
        negation=overlap * is_negated,
        values=overlap * differ * (new.cue == 1 or not many),
        conflict=float(_contradict(new.text, older)),
        covered=covered,
        news=1 - len(shared) / (len(new.stems) or 1),
        swapped=swapped,
        swapped_uncued=swapped * (1 - new.cue),
        one_swapped=float(swapped == 1),
        many=float(many),
        other_subject=(1 - new.cue) * is_other,
        other_subject_cued=new.cue * is_other,
        quotation=_quotation(old.plain, new.plain) if new.corrects or new.ends else 0.0,
        ellipsis=read_words(newer).is_elliptic * (1.0 if follows else -1.0),
        length=math.log((len(new.plain) + 4) / (len(old.plain) + 4)),
        overlap=overlap,
        older_exclaims=float("!" in older),
        newer_exclaims=float("!" in newer),
        further_sentences=min(len(sentences_of(newer)) - 1, _FURTHER_MAX),
        replacement=float(new.replaces and old.stems <= new.stems),
        negation_covered=covered * is_negated,
        end_covered=covered * ends,
        correction_covered=covered * new.corrects,
        shared=min(len(both), _SHARED_MAX) / _SHARED_MAX,
        same_subject=float(bool(old.subject) and old.subject == new.subject),
        older_length=math.log1p(len(older) / _LENGTH),
        **_talk(read_style(older), read_style(newer)),
    )


def _talk(older: Style, newer: Style) -> Mapping[str, float]:
    """Return the features that tell talk from statements of what holds."""
    return {
        "newer_requests": float(newer.requests),
        "older_feels": float(older.feels),
        "newer_feels": float(newer.feels),
        "older_code": float(older.has_code),
        "older_markup": float(older.has_markup),
        "newer_markup": float(newer.has_markup),
        "older_pronoun": float(older.opens_with_pronoun),
        "newer_pronoun": float(newer.opens_with_pronoun),
        "older_personal": float(older.is_personal),
        "newer_personal": float(newer.is_personal),
        "older_addresses": float(older.addresses),
        "newer_addresses": float(newer.addresses),
    }


def is_no_change(older: str, newer: str) -> bool:
    """Return whether the newer text cannot change the older one, whatever they share.

    One of them is a question, both say the same or make the same choice, or both number their
    subject differently: "kettle 3", "kettle 4"; or the newer says that what the older says holds
    again: "back to 30 seconds".
    """
    old = read_words(older)
    new = _nearest_passage(old, newer)
    here, there = old.reading.numbered, new.reading.numbered
    is_stated = not (new.ends or old.replaces) and old.reading.is_denied == new.reading.is_denied
    restores = is_stated and bool(new.restored) and new.restored <= old.items
    if old.asks or new.asks or restores or old.plain == new.plain:
        return True
    choice = choice_of(older)
    if choice is not None and choice == choice_of(newer):
        return True
    return bool(here) and bool(there) and here != there


def repeats(text: str, known: str) -> bool:
    """Return whether one of two texts says all that the other says, and at most little more.

    The rest names no other subject, denies nothing and asks nothing.
    """
    shorter, longer = sorted((read_words(text), read_words(known)), key=lambda one: len(one.items))
    rest = longer.items - shorter.items
    return (
        len(shorter.items) >= _REPEATED_MIN
        and shorter.items <= longer.items
        and len(rest) <= _REPEATED_NEWS_MAX
        and rest.isdisjoint(longer.subject | longer.reading.names)
        and shorter.reading.is_denied == longer.reading.is_denied
        and shorter.asks == longer.asks
    )


def change_confidence(pair: PairFeatures) -> float:
    """Return how probable it is, 0..1, that the newer text changes what the older one says."""
    return logistic(sum(map(mul, _WEIGHTS.values(), _features(pair))) + _BIAS)


def logistic(value: float) -> float:
    """Map a sum of weighted features to a probability."""
    return 1 / (1 + math.exp(-value))


# Fitted by logistic regression, with the sign of most features given, on the half calibrate of the
# 543 cases of `brain eval truth`, of the pairs of `brain eval conflicts` and of StateBench's
# training timelines. Negative pairs: texts of different cases, and what change detection compares
# in half of LoCoMo's and BEAM's conversations, whole turns and single sentences, which nearly all
# hold. The bias maps the confidence that about 1 in 300 of those texts reaches to `SURE_FROM`. The
# weights of `ellipsis`, `many` and `replacement` were raised, for such cases are few, and those of
# markup halved, for agents write notes in Markdown.
_BIAS: Final = -3.22
_WEIGHTS: Final = {
    "cue": 2.24,
    "correction": 0.94,
    "end": 1.96,
    "addition": -1.46,
    "negation": 0.84,
    "values": 1.65,
    "conflict": 2.71,
    "covered": 1.38,
    "news": 1.32,
    "swapped": 0.44,
    "one_swapped": 0.86,
    "many": -1.60,
    "other_subject": -1.72,
    "other_subject_cued": -1.25,
    "ellipsis": 3.60,
    "overlap": 0.96,
    "older_exclaims": -0.75,
    "newer_exclaims": -1.47,
    "replacement": 0.80,
    "negation_covered": 0.96,
    "end_covered": 1.77,
    "correction_covered": 0.99,
    "shared": 0.69,
    "same_subject": 0.45,
    "older_length": -1.25,
    "newer_requests": -1.29,
    "older_feels": -0.38,
    "newer_feels": -1.00,
    "older_code": -2.67,
    "older_markup": -1.20,
    "newer_markup": -1.20,
    "older_pronoun": -1.28,
    "newer_pronoun": -1.14,
    "older_personal": -1.27,
    "newer_personal": -0.97,
    "older_addresses": -1.84,
    "newer_addresses": -1.96,
}
_features: Final = attrgetter(*_WEIGHTS)


def _nearest_passage(old: Words, newer: str) -> Words:
    return max(read_passages(newer), key=lambda one: len(one.items & old.items))


def _measures_differ(old: Words, new: Words) -> bool:
    """Return whether both have numbers next to a shared word, each some that the other lacks."""
    shared = {word for _, word in old.measures} & {word for _, word in new.measures}
    here = {number for number, word in old.measures if word in shared}
    there = {number for number, word in new.measures if word in shared}
    own = old.reading.numbers, new.reading.numbers
    return bool(here - own[1]) and bool(there - own[0])


def _contradict(newer: str, older: str) -> bool:
    return find_contradiction(Statement(text=newer), Statement(text=older)) is not None


def _have_other_subjects(old: Words, new: Words) -> bool:
    """Return whether each names a subject that the other does not mention."""
    if old.subject <= new.subject or new.subject <= old.subject:
        return False
    return bool(old.subject - new.items) and bool(new.subject - old.items)


def _each_has_own(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one - other) and bool(other - one)


def _quotation(old: Sequence[str], new: Sequence[str]) -> float:
    """Return the share of the longest run of words that both have."""
    old, new = old[:_QUOTED_WORDS_MAX], new[:_QUOTED_WORDS_MAX]
    best = 0
    runs: dict[int, int] = {}
    places: dict[str, list[int]] = {}
    for at, word in enumerate(new):
        places.setdefault(word, []).append(at)
    for word in old:
        current = {at: runs.get(at - 1, 0) + 1 for at in places.get(word, ())}
        best = max(best, *current.values()) if current else best
        runs = current
    return best / len(old) if old and best >= min(_RUN_MIN, len(old)) else 0.0
