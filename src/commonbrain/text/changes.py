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
from datetime import timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Final

from commonbrain.text.contradictions import find_contradiction
from commonbrain.text.repetition import content_stems
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.statements import CHOICES, Reading, Statement, read_statement

_CUE: Final = re.compile(
    r"\b(?:no longer|not any ?more|any ?more|as of|from now on|got rid of|done away with"
    r"|in favou?r of"
    r"|effective (?:immediately|today|from)|starting (?:today|now|\w+day|next|this|in|from)"
    r"|(?:moved|moves|moving|switched|switches|switching|changed|changes|renamed|rescheduled"
    r"|reassigned|postponed|pushed back|pushed out|delayed|brought forward|extended|shortened"
    r"|raised|lowered|increased|decreased|reduced|bumped|went up|went down|gone up|gone down"
    r"|dropped to|cut to|cut from|doubled|halved|upgraded|downgraded|migrated|migrating|replaced"
    r"|replaces|replacing|transferred|handed over|handed off|took over|takes over|taken over"
    r"|taking over|promoted|succeeded|succeeds|revised|amended|updated|overrid\w+|overrode"
    r"|supersede[sd]|swapped|reversed|reverted|rolled back|reinstated|finali[sz]ed|settled on"
    r"|turned into|became|grew to|shrank to|relocated|merged into|split into)\b"
    r"|instead|actually|in place of|scratch that|make (?:that|it)|change (?:that|it|the)"
    r"|let's (?:go|try|do|use)"
    r"|going with|gone with|go with|proceed with|change of plans?|plans? (?:have )?changed"
    r"|turns out|turned out|on second thought|second thoughts|never ?mind|forget (?:that|what)"
    r"|i was wrong|my mistake|i mean|correction|corrected|to correct|rather than|used to|formerly"
    r"|previously|back to|up from|down from|wait,\s*|updated?\s*:\s*|the new"
    r"|this (?:replaces|overrides)"
    r"|new (?:value|limit|owner|name|date|time|price|plan|address|number|version|home|lead))\b",
    re.IGNORECASE,
)
"""Words that announce a change."""
_WEAK_CUE: Final = re.compile(
    r"\b(?:now|currently|today|these days|nowadays|at present|lately|recently|latest|final|finally"
    r"|official|officially|decided|new|since|meanwhile|by now|already|again|until further notice"
    r"|only|after all|for good|this (?:week|month|year|season)"
    r"|(?:has|have|had|'s|'ve)(?: been| just| since| finally| now| gone| come)?"
    r" \w+(?:ed|en|wn|ne|pt)|got \w+(?:ed|en|nt|wn)"
    r"|(?:stepped|moved|taken?|took|brought|gone|came|come|went|put|set|given?|gave|grown|grew"
    r"|turned) (?:in|out|on|over|up|down|back|away))\b",
    re.IGNORECASE,
)
"""Words that may announce one."""
_REPLACEMENT: Final = re.compile(
    r"\b(?:(?:took|takes|taken|taking) over|hand(?:s|ed|ing)? (?:\w+ ){0,4}over|replac(?:es|ed|ing)"
    r"|succeed(?:s|ed|ing)|stepp?(?:s|ed)? in|instead of|in place of|rather than|no longer"
    r"|(?:moved|switched|migrated|changed|renamed|relocated|transferred|went|upgraded)\b.{1,60}"
    r"\b(?:from|to)|got rid of|dropped|in favou?r of)\b",
    re.IGNORECASE,
)
"""Words that say that one thing has taken the place of another."""
_WRONG: Final = (
    r"wrong(?=\W*\Z|\s*[.,;:!?)\n]|\s+(?:about|all|and|as|at|because|but|by|here|i|in|on|since"
    r"|that|the|there|this|to|too|we|when|with)\b)"
)
"""Not "the wrong numbers", which says something about them rather than about an earlier text."""
_END: Final = re.compile(
    r"\b(?:cancel\w*|called off|abandon\w*|withdrawn?|withdrew|revok\w+|rescind\w*|retired"
    r"|discontinued|decommissioned|shut down|shuts down|switched off|turned off|removed|deleted"
    r"|dropped|scrapped|invalidat\w+|invalid|hold off|on hold|stopped|no longer|any ?more|expired"
    rf"|ended|is over|obsolete|out of date|outdated|not true|{_WRONG}|incorrect|mistaken"
    r"|recalculat\w+"
    r"|void|rejected|denied|quit|left|resigned|closed|disabled|lapsed|sold|gone|died|retires"
    r"|finished|completed|broken|lost|stopped|stops|out of (?:order|service|use)|taken down"
    r"|fell through|is off|are off|over and done|no \w+ (?:at all|left|any longer|any more))\b",
    re.IGNORECASE,
)
"""Words that end a state."""
_CORRECTION: Final = re.compile(
    r"\b(?:correction|corrected|to correct|actual(?:ly)?|in fact|i was wrong|my mistake|misread"
    rf"|misspoke|typo|mistake\w*|mistaken\w*|{_WRONG}|wrongly|incorrect(?:ly)?|erroneous\w*"
    r"|invalidat\w+"
    r"|should (?:be|read|have been)|meant|not true|turns out|turned out|was really|is really"
    r"|recalculat\w+|rather than|instead of|, not|not \w+ as|confused|mixed up|misremember\w*"
    r"|misheard|misspelt|misspelled|miscounted|disagree\w*|in truth|in reality|checked again"
    r"|looked it up|double[- ]checked|i mean|clears?|shows that|as (?:i|we) (?:wrote|said|noted"
    r"|thought|assumed|believed)|on closer)\b",
    re.IGNORECASE,
)
_ADDITION: Final = re.compile(
    r"\b(?:also|too|as well|additionally|another|in addition|besides|likewise|similarly|furthermore"
    r"|moreover|one more|a second|a third|both|added|joined|along with|plus|on top of)\b",
    re.IGNORECASE,
)
"""Words that say that the earlier statement holds too."""
_INTERJECTION: Final = (
    r"(?:no|nope|wait|sorry|actually|ok|okay|hmm|hm|oh|ah|err?|um|uh|oops|hold on|correction"
    r"|scratch that|i mean|or rather|rather|better|well|and|but|so)"
)
_ELLIPSIS: Final = re.compile(
    rf"\W*(?:{_INTERJECTION}\b[\s,:.\u2026-]*)*"
    r"(?:make (?:that|it|them)|change (?:that|it|them)|let's (?:make it|say|go back|keep|stick)"
    r"|(?:let's|\w+ (?:it|that|them))\b.{0,60}\b(?:instead|rather)\b|rather\b|instead\b"
    r"|scratch that|on second thought|cancel (?:that|it|this)|forget (?:that|it)|keep the \w+"
    r"|it(?:'s| is) now|same |better )"
    r"|.{0,60}\bi mean\b",
    re.IGNORECASE,
)
"""Openings that only make sense after what was said before."""
_PRONOUN: Final = re.compile(
    rf"\W*(?:{_INTERJECTION}\b[\s,:.\u2026-]*)*(?:it|that|this|they|he|she)\b", re.IGNORECASE
)
_ELLIPTIC_WORDS_MAX: Final = 16
"""Longer texts name their subject themselves."""
_PRONOUN_WORDS_MAX: Final = 10
"""Longer texts that open with a pronoun continue a story rather than correct a value."""
_FRAGMENT: Final = re.compile(
    rf"\W*(?:{_INTERJECTION}\b[\s,:.\u2026-]+){{0,3}}"
    rf"(?:{_INTERJECTION}\b\s*[,:.\u2026-]\W*|(?:err?|um|uh|oops|sorry)\b\s+)([^,.;!?]*)",
    re.IGNORECASE,
)
"""An interjection, and the words after it up to the next stop: "Sorry, 55."."""
_BARE_VALUE: Final = re.compile(
    r"\W*((?:\d\S*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty\S*)(?: \w+)?)(?:,|[.!]?\s*\Z)"
    r"|\W*((?:in|on|at|to|from|by|until|with|after|before)\b[^,.;!?]{0,40})"
    r"(?:,\s*(?:rather|instead|not|because|please|though)\b|[.!]?\s*\Z)",
    re.IGNORECASE,
)
"""A value without a subject: "Thirty, they carried the piano.", "In July, rather."."""
_FRAGMENT_WORDS_MAX: Final = 4
"""Words of a fragment; a longer clause is a sentence of its own."""
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
_SPEAKER: Final = re.compile(
    r"\s*(?:\[(?P<label>[^\]\n]{1,60})\]|[A-Z][\w'.-]*(?: [A-Z][\w'.-]*)?):\s+"
)
_OPENER: Final = re.compile(
    r"\s*(?:by the way|understood|got it|noted|remember|for the record|fyi|heads[- ]up|reminder"
    r"|just so you know|as you know|okay|ok|sure|right|yes|yeah|thanks)[,:!.]+\s+",
    re.IGNORECASE,
)
"""Words before a statement that are no part of it."""
_RESTORES: Final = re.compile(
    r"\b(?:back to|revert(?:s|ed|ing)? to|stick(?:s|ing)? (?:to|with)|stay(?:s|ing)? with"
    r"|keep(?:s|ing)?)\b([^,.;!?\n]{1,80})",
    re.IGNORECASE,
)
"""Words that say that an earlier value holds, and the value."""
_INVERTED: Final = re.compile(
    r"\W*(?!(?:the|a|an|our|my|your|its|his|her|their|this|that|these|those|it|he|she|we|they|you"
    r"|i|there|here|what|who)\b)[^,.;:!?\n]{1,60}? (?:is|are|was|were) (?:the|our|my)"
    r" ([^,.;:!?\n]{1,60})[.!]?\s*\Z",
    re.IGNORECASE,
)
"""A statement that puts the value before its subject: "Ann is the owner of billing"."""
_SENTENCES_MAX: Final = 2
"""A longer text speaks of several things: only the two sentences nearest to the other count."""
_FURTHER_MAX: Final = 4
"""More sentences than this say no more."""
_REPEATED_MIN: Final = 3
"""Fewer words, numbers and the like may agree by chance."""
_REPEATED_NEWS_MAX: Final = 2
"""More words than this say more than the repeated text does."""
_SWAPPED_MAX: Final = 4
"""More differences than this say no more."""
JUST_SAID: Final = timedelta(minutes=30)
"""After this time "make it 120" no longer refers to what was said last."""
_CACHED: Final = 4096
"""Texts kept as read: a recall compares its best candidates, and the same ones come often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A text, read for comparison with others."""

    text: str
    reading: Reading
    stems: frozenset[str]
    """Stems of its content words."""
    items: frozenset[str]
    """The stems, numbers and words of closed groups."""
    subject: frozenset[str]
    """Stems and words of closed groups in its subject; may be empty."""
    restored: frozenset[str]
    """Stems, numbers and the like of a value that it says to hold again, or still."""
    plain: tuple[str, ...]
    """All words, in lower case and order."""
    cue: float
    """1 surely announces a change, 0.5 perhaps."""
    units: frozenset[tuple[str, str]]
    """Numbers, each with the word after it."""
    replaces: bool
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
    text = _without_opening(text)
    reading, stems = read_statement(Statement(text=text)), content_stems(text)
    cue = 1.0 if _CUE.search(text) else 0.5 if _WEAK_CUE.search(text) else 0.0
    restored = _RESTORES.search(text)
    return Words(
        text=text,
        reading=reading,
        stems=stems,
        items=stems | reading.numbers | reading.choices,
        subject=_subject(text, reading),
        restored=_items(restored[1]) if restored else frozenset(),
        plain=tuple(word.casefold() for word in _WORD.findall(text)),
        cue=cue,
        units=_units(reading.words),
        replaces=_REPLACEMENT.search(text) is not None,
        ends=_END.search(text) is not None,
        corrects=_CORRECTION.search(text) is not None,
        adds=_ADDITION.search(text) is not None,
        is_elliptic=_is_elliptic(text),
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
    """Whether it corrects something, times overlap."""
    end: float
    """Whether it ends a state that the older text does not, times overlap."""
    addition: float
    """Whether it says that the older text holds too."""
    negation: float
    """Whether one of them is denied, times overlap."""
    values: float
    """Whether each has numbers or words of a closed group that the other lacks, times overlap.

    Of several such things that hold at a time, only an announced change counts.
    """
    units: float
    """Whether both count the same unit, and differently, times overlap."""
    names: float
    """Whether each has names that the other lacks, times overlap."""
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
    alike: float
    """Share of all words, numbers and the like that both have."""
    many: float
    """Whether both say something of which there may be several: "speaks", "depends on"."""
    other_subject: float
    """Whether each names a subject that the other lacks, and no change is announced."""
    other_subject_cued: float
    """The same, though a change is announced."""
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
    older_exclaims: float
    """Whether the older has an exclamation mark: talk says less of what holds than a plain note."""
    newer_exclaims: float
    """The same of the newer."""
    further_sentences: float
    """Sentences of the newer text after the first, 0..4: talk is about several things."""
    replacement: float
    """Whether the newer says all that the older does, and what it has replaced."""


def compare(older: str, newer: str, *, cosine: float, follows: bool = False) -> PairFeatures:
    """Compute the features of two texts; `follows`: one session said the newer right after.

    Of a newer text of many sentences, those count that share most with the older one.
    """
    old = read_words(older)
    new = _nearest_passage(old, newer)
    shared = old.stems & new.stems
    overlap = len(shared) / (min(len(old.stems), len(new.stems)) or 1)
    is_other = _have_other_subjects(old, new)
    values = (old.reading.numbers, new.reading.numbers), (old.reading.choices, new.reading.choices)
    many = old.is_many and new.is_many
    swapped = min(len(old.items - new.items), len(new.items - old.items), _SWAPPED_MAX)
    return PairFeatures(
        cosine=cosine,
        cue=new.cue,
        correction=overlap * new.corrects,
        end=overlap * (new.ends and not old.ends),
        addition=float(new.adds),
        negation=overlap * (old.reading.is_denied != new.reading.is_denied),
        values=overlap * (new.cue == 1 or not many) * any(_each_has_own(*pair) for pair in values),
        units=overlap * _counts_differ(old.units, new.units),
        names=overlap * _each_has_own(old.reading.names, new.reading.names),
        conflict=float(_contradict(new.text, older)),
        covered=len(shared) / (len(old.stems) or 1),
        news=1 - len(shared) / (len(new.stems) or 1),
        swapped=swapped,
        swapped_uncued=swapped * (1 - new.cue),
        one_swapped=float(swapped == 1),
        alike=len(old.items & new.items) / (len(old.items | new.items) or 1),
        many=float(many),
        other_subject=(1 - new.cue) * is_other,
        other_subject_cued=new.cue * is_other,
        quotation=_quotation(old.plain, new.plain) if new.corrects or new.ends else 0.0,
        ellipsis=float(follows and read_words(newer).is_elliptic),
        length=math.log((len(new.plain) + 4) / (len(old.plain) + 4)),
        overlap=overlap,
        cued_overlap=overlap * new.cue,
        older_exclaims=float("!" in older),
        newer_exclaims=float("!" in newer),
        further_sentences=min(len(_sentences(newer)) - 1, _FURTHER_MAX),
        replacement=float(new.replaces and old.stems <= new.stems),
    )


def is_no_change(older: str, newer: str) -> bool:
    """Return whether the newer text cannot change the older one, whatever they share.

    One of them is a question, both say the same, or both number their subject differently: "kettle
    3", "kettle 4"; or the newer says that what the older says holds again: "back to 30 seconds".
    """
    old = read_words(older)
    new = _nearest_passage(old, newer)
    here, there = old.reading.numbered, new.reading.numbered
    restores = bool(new.restored) and new.restored <= old.items and not old.replaces
    if old.asks or new.asks or restores or old.plain == new.plain:
        return True
    return bool(here) and bool(there) and here != there


def repeats(text: str, known: str) -> bool:
    """Return whether one of two texts says all that the other says, and at most little more."""
    one, other = read_words(text).items, read_words(known).items
    shorter, longer = sorted((one, other), key=len)
    return (
        len(shorter) >= _REPEATED_MIN
        and shorter <= longer
        and (len(longer) - len(shorter) <= _REPEATED_NEWS_MAX)
    )


def change_confidence(pair: PairFeatures) -> float:
    """Return how probable it is, 0..1, that the newer text changes what the older one says."""
    return logistic(sum(weight * getattr(pair, name) for name, weight in _WEIGHTS.items()) + _BIAS)


def logistic(value: float) -> float:
    """Map a sum of weighted features to a probability."""
    return 1 / (1 + math.exp(-value))


# Fitted by logistic regression on half of the 543 cases of `brain eval truth`, with the nearest
# texts of other cases, and on half of StateBench's training timelines; the nearest turns of two
# LoCoMo conversations served as pairs that both hold. The weights of an ellipsis and of a
# replacement were raised, for such cases are few.
_BIAS: Final = -5.85
_WEIGHTS: Final = {
    "cosine": 1.56,
    "cue": 0.76,
    "correction": 1.00,
    "end": 2.74,
    "addition": -2.24,
    "negation": 1.85,
    "values": 0.45,
    "units": 0.76,
    "names": 0.72,
    "conflict": 1.69,
    "covered": 1.63,
    "news": 0.94,
    "swapped": 1.02,
    "swapped_uncued": -0.47,
    "one_swapped": 1.58,
    "alike": 0.47,
    "many": -1.56,
    "other_subject": -1.86,
    "other_subject_cued": -1.81,
    "quotation": 0.84,
    "ellipsis": 5.50,
    "length": -0.51,
    "overlap": 1.77,
    "cued_overlap": 1.96,
    "older_exclaims": -1.82,
    "newer_exclaims": -3.38,
    "replacement": 1.20,
}


@lru_cache(maxsize=_CACHED)
def _sentences(text: str) -> Sequence[str]:
    return split_sentences(text) or [text]


def _nearest_passage(old: Words, newer: str) -> Words:
    return max(_read_passages(newer), key=lambda one: len(one.items & old.items))


@lru_cache(maxsize=_CACHED)
def _read_passages(text: str) -> tuple[Words, ...]:
    """Read each two neighbouring sentences of a text, or all of a short one."""
    sentences = _sentences(text)
    if len(sentences) <= _SENTENCES_MAX:
        return (read_words(text),)
    return tuple(read_words(" ".join(pair)) for pair in pairwise(sentences))


def _without_opening(text: str) -> str:
    """Remove a name before a sentence, where it is no subject, and words that only open it.

    "Kurt: By the way, the crane is down." is about the crane.
    """
    match = _SPEAKER.match(text)
    if match is not None:
        rest = text[match.end() :]
        is_name = match["label"] or read_statement(Statement(text=rest)).verb is not None
        text = rest if is_name else text
    opener = _OPENER.match(text)
    return text[opener.end() :] if opener and opener.end() < len(text) else text


def _subject(text: str, reading: Reading) -> frozenset[str]:
    """Return stems and words of closed groups of what a text is about."""
    inverted = _INVERTED.match(text)
    if inverted is not None:
        return _items(inverted[1])
    return content_stems(" ".join(reading.subject)) | (reading.subject & CHOICES)


def _items(text: str) -> frozenset[str]:
    reading = read_statement(Statement(text=text))
    return content_stems(text) | reading.numbers | reading.choices


def _is_elliptic(text: str) -> bool:
    """Return whether a text needs what was said just before: "Make that 70.", "Sorry, 55."."""
    count = len(_WORD.findall(text))
    if count > _ELLIPTIC_WORDS_MAX or text.rstrip().endswith("!"):
        return False
    if _ELLIPSIS.match(text) is not None:
        return True
    is_one_sentence = len(_sentences(text)) == 1
    if is_one_sentence and count <= _PRONOUN_WORDS_MAX and _PRONOUN.match(text) is not None:
        return True
    match = _FRAGMENT.match(text) or _BARE_VALUE.match(text)
    if match is None:
        return False
    clause = next(filter(None, match.groups()), "")
    is_short = len(_WORD.findall(clause)) <= _FRAGMENT_WORDS_MAX
    return is_short and read_statement(Statement(text=clause)).verb is None


def _units(words: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return each number with the word after it."""
    return frozenset(
        (unit, number) for number, unit in pairwise((*words, "")) if number[:1].isdigit()
    )


def _counts_differ(old: frozenset[tuple[str, str]], new: frozenset[tuple[str, str]]) -> bool:
    """Return whether both have numbers of one unit, and each some that the other lacks."""
    shared = {unit for unit, _ in old} & {unit for unit, _ in new}
    here = {one for one in old if one[0] in shared}
    there = {one for one in new if one[0] in shared}
    return bool(here - there) and bool(there - here)


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
