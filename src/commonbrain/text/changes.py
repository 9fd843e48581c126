"""Judge from two texts whether the newer one changes what the older one says.

Neither similarity nor words alone tell a change from a statement about something else: both share
most words with the older text. So a few features of the pair are weighed together: what the texts
share, where they differ (in a value or in the subject), and words that announce a change. The
weights were fitted on labelled pairs; `brain eval truth` measures the result.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from commonbrain.text.repetition import content_stems
from commonbrain.text.statements import Reading, Statement, read_statement

_CUE: Final = re.compile(
    r"\b(?:no longer|not any ?more|any ?more|as of (?:today|now|\w+day|next|this|\d)|from now on"
    r"|effective (?:immediately|today|from)|starting (?:today|now|\w+day|next|this|in|from)"
    r"|(?:moved|moves|moving|switched|switches|switching|changed|changes|renamed|rescheduled"
    r"|reassigned|postponed|pushed back|pushed out|delayed|brought forward|extended|shortened"
    r"|raised|lowered|increased|decreased|reduced|bumped|went up|went down|gone up|gone down"
    r"|dropped to|cut to|cut from|doubled|halved|upgraded|downgraded|migrated|migrating|replaced"
    r"|replaces|replacing|transferred|handed over|handed off|took over|takes over|taken over"
    r"|taking over|promoted|succeeded|succeeds|revised|amended|updated|overrid\w+|overrode"
    r"|supersede[sd]|swapped|reversed|reverted|rolled back|reinstated|finali[sz]ed|settled on"
    r"|turned into|became|grew to|shrank to|relocated|merged into|split into)\b"
    r"|instead|actually|scratch that|make (?:that|it)|change (?:that|it|the)"
    r"|let's (?:go|try|do|use)"
    r"|going with|gone with|go with|proceed with|change of plans?|plans? (?:have )?changed"
    r"|turns out|turned out|on second thought|second thoughts|never ?mind|forget (?:that|what)"
    r"|i was wrong|my mistake|correction|corrected|to correct|rather than|used to|formerly"
    r"|previously|back to|up from|down from|wait,|update\s*:|updated\s*:|the new"
    r"|this (?:replaces|overrides)"
    r"|new (?:value|limit|owner|name|date|time|price|plan|address|number|version|home|lead))\b",
    re.IGNORECASE,
)
"""Words that announce a change."""
_WEAK_CUE: Final = re.compile(
    r"\b(?:now|currently|today|these days|nowadays|at present|lately|recently|latest|final|finally"
    r"|official|officially|decided|new|since|meanwhile|by now|already)\b",
    re.IGNORECASE,
)
"""Words that may announce one."""
_END: Final = re.compile(
    r"\b(?:cancel\w*|called off|abandon\w*|withdrawn?|withdrew|revok\w+|rescind\w*|retired"
    r"|discontinued|decommissioned|shut down|shuts down|switched off|turned off|removed|deleted"
    r"|dropped|scrapped|invalidat\w+|invalid|hold off|on hold|stopped|no longer|any ?more|expired"
    r"|ended|is over|obsolete|out of date|outdated|not true|wrong|incorrect|mistaken|recalculat\w+"
    r"|void|rejected|denied|quit|left (?:the|us)|resigned|closed|disabled|lapsed|sold)\b",
    re.IGNORECASE,
)
"""Words that end a state."""
_CORRECTION: Final = re.compile(
    r"\b(?:correction|corrected|to correct|actual(?:ly)?|in fact|i was wrong|my mistake|misread"
    r"|misspoke|typo|mistake\w*|mistaken\w*|wrong(?:ly)?|incorrect(?:ly)?|erroneous\w*|invalidat\w+"
    r"|should (?:be|read|have been)|meant|not true|turns out|turned out|was really|is really"
    r"|recalculat\w+|rather than|instead of|, not)\b",
    re.IGNORECASE,
)
_ADDITION: Final = re.compile(
    r"\b(?:also|too|as well|additionally|another|in addition|besides|likewise|similarly|furthermore"
    r"|moreover|one more|a second|a third|both|added|joined|along with|plus|on top of)\b",
    re.IGNORECASE,
)
"""Words that say that the earlier statement holds too."""
_ELLIPSIS: Final = re.compile(
    r"\W*(?:no,? |wait,? |sorry,? |actually,? |ok,? |okay,? |hmm,? |oh,? |and |but |so )*"
    r"(?:make (?:that|it)|change (?:that|it)|let's (?:make it|say)|rather\b|instead\b|scratch that"
    r"|on second thought|cancel (?:that|it|this)|forget (?:that|it)|keep the \w+|it(?:'s| is) now"
    r"|(?:it|that|this|they|he|she) |same |better )",
    re.IGNORECASE,
)
"""Openings that only make sense after what was said before."""
_MANY: Final = re.compile(
    r"\b(?:speaks?|knows?|likes?|loves?|enjoys?|hates?|depends? on|relies on|requires?|needs?|has"
    r"|have|includes?|contains?|supports?|sponsors?|worked|works with|visited|been to|exists? for"
    r"|available in|uses|complain\w*|grows|writes to|reads from|member of|competitor|plays|studied"
    r"|bought|wants|asked for|integrates with|exports? to|reports?|allergic to|interested in"
    r"|responsible for|sells|offers|covers|tested|met|read|watched|attended|won|fixed|added)\b",
    re.IGNORECASE,
)
"""Predicates that hold of several things at a time."""
_RUN_MIN: Final = 4
"""Words in a row that count as a quotation."""
_REPLACED_WORDS_MAX: Final = 3
"""A value is a name or a short phrase; a longer difference makes another statement."""
_CACHED: Final = 4096
"""Texts kept as read: a recall compares its best candidates, and the same ones come often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A text, read for comparison with others."""

    reading: Reading
    stems: frozenset[str]
    """Stems of its content words."""
    subject: frozenset[str]
    """Stems of its subject; may be empty."""
    plain: tuple[str, ...]
    """All words, in lower case and order."""
    cue: float
    ends: bool
    corrects: bool
    adds: bool
    is_elliptic: bool
    is_many: bool
    asks: bool


_WORD: Final = re.compile(r"\w+(?:[.,:/'\u2019-]\w+)*")


@lru_cache(maxsize=_CACHED)
def read_words(text: str) -> Words:
    """Read a text for comparison, in time linear in its length."""
    reading = read_statement(Statement(text=text))
    cue = 1.0 if _CUE.search(text) else 0.5 if _WEAK_CUE.search(text) else 0.0
    return Words(
        reading=reading,
        stems=content_stems(text),
        subject=content_stems(" ".join(reading.subject)),
        plain=tuple(word.casefold() for word in _WORD.findall(text)),
        cue=cue,
        ends=_END.search(text) is not None,
        corrects=_CORRECTION.search(text) is not None,
        adds=_ADDITION.search(text) is not None,
        is_elliptic=_ELLIPSIS.match(text) is not None,
        is_many=_MANY.search(text) is not None,
        asks=text.rstrip().endswith("?"),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFeatures:
    """What two texts share and where they differ; without a unit, each 0..1 unless it says more."""

    cosine: float
    cue: float
    """Whether the newer text announces a change: 1 surely, 0.5 perhaps."""
    correction: float
    """Whether it corrects something."""
    end: float
    """Whether it ends a state that the older text does not."""
    addition: float
    """Whether it says that the older text holds too."""
    negation: float
    """Whether one of them is denied."""
    values: float
    """Whether each has numbers or words of a closed group that the other lacks, times overlap.

    Of several such things that hold at a time, only an announced change counts.
    """
    many: float
    """Whether both say something of which there may be several: "speaks", "depends on"."""
    same_place: float
    """Whether they differ in few words in one place, and agree on the subject."""
    other_subject: float
    """Whether each names a subject that the other lacks, and no change is announced."""
    quotation: float
    """Share of the older text that a correction repeats word for word."""
    ellipsis: float
    """Whether the newer text needs the older, said just before in the same session."""
    length: float
    """Logarithm of the ratio of their lengths in words."""
    overlap: float
    """Share of the shorter text's words that the other has, by stem."""
    cued_overlap: float
    """The same, if a change is announced."""


def compare(older: str, newer: str, *, cosine: float, follows: bool = False) -> PairFeatures:
    """Compute the features of two texts; `follows`: one session said the newer right after."""
    old, new = read_words(older), read_words(newer)
    shared = old.stems & new.stems
    overlap = len(shared) / (min(len(old.stems), len(new.stems)) or 1)
    subject = _subjects(old, new)
    values = (old.reading.numbers, new.reading.numbers), (old.reading.choices, new.reading.choices)
    many = old.is_many and new.is_many
    in_one_place = _differ_in_one_place(old.reading.words, new.reading.words)
    return PairFeatures(
        cosine=cosine,
        cue=new.cue,
        correction=float(new.corrects),
        end=float(new.ends and not old.ends),
        addition=float(new.adds),
        negation=float(old.reading.is_denied != new.reading.is_denied),
        values=overlap * (new.cue == 1 or not many) * any(_each_has_own(*pair) for pair in values),
        many=float(many),
        same_place=max(subject, 0.0) * in_one_place,
        other_subject=(1 - new.cue) * (subject < 0),
        quotation=_quotation(old.plain, new.plain) if new.corrects or new.ends else 0.0,
        ellipsis=float(follows and new.is_elliptic),
        length=math.log((len(new.plain) + 4) / (len(old.plain) + 4)),
        overlap=overlap,
        cued_overlap=overlap * new.cue,
    )


def is_no_change(older: str, newer: str) -> bool:
    """Return whether the newer text cannot change the older one, whatever they share.

    One of them is a question, or both number their subject differently: "kettle 3", "kettle 4".
    """
    old, new = read_words(older), read_words(newer)
    here, there = old.reading.numbered, new.reading.numbered
    return old.asks or new.asks or (bool(here) and bool(there) and here != there)


def change_confidence(pair: PairFeatures) -> float:
    """Return how probable it is, 0..1, that the newer text changes what the older one says."""
    return logistic(sum(weight * getattr(pair, name) for name, weight in _WEIGHTS.items()) + _BIAS)


def logistic(value: float) -> float:
    """Map a sum of weighted features to a probability."""
    return 1 / (1 + math.exp(-value))


# Fitted by logistic regression on half of the labelled pairs of `brain eval conflicts` and
# `duplicates`, of 185 cases of changes written for it, and of StateBench's training timelines; the
# nearest turns of LoCoMo served as pairs that both hold. The weight of an ellipsis was raised, for
# the cases are few.
_BIAS: Final = -3.14
_WEIGHTS: Final = {
    "cosine": 0.29,
    "cue": 1.25,
    "correction": 1.04,
    "end": 2.18,
    "addition": -1.43,
    "negation": 0.32,
    "values": 2.51,
    "many": -0.81,
    "same_place": 2.44,
    "other_subject": -1.27,
    "quotation": 3.17,
    "ellipsis": 5.0,
    "length": 0.44,
    "overlap": 0.94,
    "cued_overlap": 2.68,
}


def _subjects(old: Words, new: Words) -> float:
    one, other = old.subject, new.subject
    if not (one and other):
        return 0.0
    if one == other:
        return 1.0
    if one <= other or other <= one:
        return 0.6
    mine, theirs = one - new.stems, other - old.stems
    if mine and theirs:
        return -1.0 if not one & other else -0.6
    return 0.2


def _each_has_own(one: frozenset[str], other: frozenset[str]) -> bool:
    return bool(one - other) and bool(other - one)


def _quotation(old: Sequence[str], new: Sequence[str]) -> float:
    """Return the share of the longest run of words that both have."""
    best = 0
    runs: dict[int, int] = {}
    places: dict[str, list[int]] = {}
    for at, word in enumerate(new):
        places.setdefault(word, []).append(at)
    for word in old:
        current = {at: runs.get(at - 1, 0) + 1 for at in places.get(word, ())}
        best = max(best, *current.values()) if current else best
        runs = current
    return best / len(old) if best >= min(_RUN_MIN, len(old)) else 0.0


def _differ_in_one_place(old: Sequence[str], new: Sequence[str]) -> bool:
    start = 0
    shorter = min(len(old), len(new))
    while start < shorter and old[start] == new[start]:
        start += 1
    end = 0
    while end < shorter - start and old[-1 - end] == new[-1 - end]:
        end += 1
    middle = max(len(old), len(new)) - start - end
    return 0 < middle <= _REPLACED_WORDS_MAX and start + end >= middle
