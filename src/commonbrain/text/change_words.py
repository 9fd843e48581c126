"""Read a text to see whether it changes another one, or is changed by it.

What counts are its words and subject, words that announce a change, the end of a state or a
correction, and whether it states something or only talks: requests, feelings and code change
nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from commonbrain.text.clauses import is_question
from commonbrain.text.patterns import lazy_pattern, lower_case
from commonbrain.text.repetition import content_stems
from commonbrain.text.segmentation import split_sentences
from commonbrain.text.statements import CHOICES, Reading, Statement, read_statement

# The patterns without IGNORECASE are searched in text in lower case: comparing both cases of each
# letter takes `re` five times as long.
_CUE: Final = lazy_pattern(
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
    r"|new (?:value|limit|owner|name|date|time|price|plan|address|number|version|home|lead))\b"
)
"""Words that announce a change."""
_WEAK_CUE: Final = lazy_pattern(
    r"\b(?:now|currently|today|these days|nowadays|at present|lately|recently|latest|final|finally"
    r"|official|officially|decided|new|since|meanwhile|by now|already|again|until further notice"
    r"|only|after all|for good|this (?:week|month|year|season)"
    r"|(?:has|have|had|'s|'ve)(?: been| just| since| finally| now| gone| come)?"
    r" \w+(?:ed|en|wn|ne|pt)|got \w+(?:ed|en|nt|wn)"
    r"|(?:stepped|moved|taken?|took|brought|gone|came|come|went|put|set|given?|gave|grown|grew"
    r"|turned) (?:in|out|on|over|up|down|back|away))\b"
)
"""Words that may announce one."""
_REPLACEMENT: Final = lazy_pattern(
    r"\b(?:(?:took|takes|taken|taking) over|hand(?:s|ed|ing)? (?:\w+ ){0,4}over|replac(?:es|ed|ing)"
    r"|succeed(?:s|ed|ing)|stepp?(?:s|ed)? in|instead of|in place of|rather than|no longer"
    r"|(?:moved|switched|migrated|changed|renamed|relocated|transferred|went|upgraded)\b.{1,60}"
    r"\b(?:from|to)|got rid of|dropped|in favou?r of)\b"
)
"""Words that say that one thing has taken the place of another."""
_WRONG: Final = (
    r"wrong(?=\W*\Z|\s*[.,;:!?)\n]|\s+(?:about|all|and|as|at|because|but|by|here|i|in|on|since"
    r"|that|the|there|this|to|too|we|when|with)\b)"
)
"""Not "the wrong numbers", which says something about them rather than about an earlier text."""
_END: Final = lazy_pattern(
    r"\b(?:cancel\w*|called off|abandon\w*|withdrawn?|withdrew|revok\w+|rescind\w*|retired"
    r"|discontinued|decommissioned|shut down|shuts down|switched off|turned off|removed|deleted"
    r"|dropped|scrapped|invalidat\w+|invalid|hold off|on hold|stopped|no longer|any ?more|expired"
    rf"|ended|is over|obsolete|out of date|outdated|not true|{_WRONG}|incorrect|mistaken"
    r"|recalculat\w+"
    r"|void|rejected|denied|quit|left|resigned|closed|disabled|lapsed|sold|gone|died|retires"
    r"|finished|completed|broken|lost|stop|stopping|stops|out of (?:order|service|use)|taken down"
    r"|fell through|is off|are off|over and done|no \w+ (?:at all|left|any longer|any more))\b"
)
"""Words that end a state."""
_CORRECTION: Final = lazy_pattern(
    r"\b(?:correction|corrected|to correct|actual(?:ly)?|in fact|i was wrong|my mistake|misread"
    rf"|misspoke|typo|mistake\w*|mistaken\w*|{_WRONG}|wrongly|incorrect(?:ly)?|erroneous\w*"
    r"|invalidat\w+"
    r"|should (?:be|read|have been)|meant|not true|turns out|turned out|was really|is really"
    r"|recalculat\w+|rather than|instead of|, not|not \w+ as|confused|mixed up|misremember\w*"
    r"|misheard|misspelt|misspelled|miscounted|disagree\w*|in truth|in reality|checked again"
    r"|looked it up|double[- ]checked|i mean|clears?|shows that|as (?:i|we) (?:wrote|said|noted"
    r"|thought|assumed|believed)|on closer)\b"
)
_ADDITION: Final = lazy_pattern(
    r"\b(?:also|too|as well|additionally|another|in addition|besides|likewise|similarly|furthermore"
    r"|moreover|one more|a second|a third|both|added|joined|along with|plus|on top of)\b"
)
"""Words that say that the earlier statement holds too."""
_INTERJECTION: Final = (
    r"(?:no|nope|wait|sorry|actually|ok|okay|hmm|hm|oh|ah|err?|um|uh|oops|hold on|correction"
    r"|scratch that|i mean|or rather|rather|better|well|and|but|so)"
)
_ELLIPSIS: Final = lazy_pattern(
    rf"\W*(?:{_INTERJECTION}\b[\s,:.\u2026-]*)*"
    r"(?:make (?:that|it|them)|change (?:that|it|them)|let's (?:make it|say|go back)"
    r"|(?:let's|\w+ (?:it|that|them))\b.{0,60}\b(?:instead(?! of)|rather(?! than))\b"
    r"|rather\b(?! than)|instead\b(?! of)|scratch that|on second thought|keep the \w+"
    r"|cancel (?:that|it|this)|forget (?:that|it)"
    r"|it(?:'s| is) now|same |better )"
    r"|.{0,60}\bi mean\b",
    re.IGNORECASE,
)
"""Openings that only make sense after what was said before."""
_PRONOUN: Final = lazy_pattern(
    rf"\W*(?:{_INTERJECTION}\b[\s,:.\u2026-]*)*(?:it|that|this|they|he|she)\b", re.IGNORECASE
)
_ELLIPTIC_WORDS_MAX: Final = 16
"""Longer texts name their subject themselves."""
_PRONOUN_WORDS_MAX: Final = 10
"""Longer texts that open with a pronoun continue a story rather than correct a value."""
_FRAGMENT: Final = lazy_pattern(
    rf"\W*(?:{_INTERJECTION}\b[\s,:.\u2026-]+){{0,3}}"
    rf"(?:{_INTERJECTION}\b\s*[,:.\u2026-]\W*|(?:err?|um|uh|oops|sorry)\b\s+)([^,.;!?]*)",
    re.IGNORECASE,
)
"""An interjection, and the words after it up to the next stop: "Sorry, 55."."""
_BARE_VALUE: Final = lazy_pattern(
    r"\W*((?:\d\S*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|\w+teen"
    r"|(?:twen|thir|for|fif|six|seven|eigh|nine)ty\S*)(?: \w+)?)(?:,|[.!]?\s*\Z)"
    r"|\W*((?:in|on|at|to|from|by|until|with|after|before)\b[^,.;!?]{0,40})"
    r"(?:,\s*(?:rather|instead|not|because|please|though)\b|[.!]?\s*\Z)",
    re.IGNORECASE,
)
"""A value without a subject: "Thirty, they carried the piano.", "In July, rather."."""
_FRAGMENT_WORDS_MAX: Final = 4
"""Words of a fragment; a longer clause is a sentence of its own."""
_MANY: Final = lazy_pattern(
    r"\b(?:speaks?|knows?|likes?|loves?|enjoys?|hates?|depends? on|relies on|requires?|needs?|has"
    r"|have|includes?|contains?|supports?|sponsors?|worked|works with|visited|been to|exists? for"
    r"|available in|uses|complain\w*|grows|writes to|reads from|member of|competitor|plays|studied"
    r"|bought|wants|asked for|integrates with|exports? to|reports?|allergic to|interested in"
    r"|responsible for|sells|offers|covers|tested|met|read|watched|attended|won|fixed|added)\b"
)
"""Predicates that hold of several things at a time."""
_SPEAKER: Final = lazy_pattern(
    r"\s*(?:\[(?P<label>[^\]\n]{1,60})\]|[A-Z][\w'.-]*(?: [A-Z][\w'.-]*)?):\s+"
)
_OPENER: Final = lazy_pattern(
    r"\s*(?:by the way|understood|got it|noted|remember|for the record|fyi|heads[- ]up|reminder"
    r"|just so you know|as you know|okay|ok|sure|right|yes|yeah|thanks)[,:!.]+\s+",
    re.IGNORECASE,
)
"""Words before a statement that are no part of it."""
_RESTORES: Final = lazy_pattern(
    r"\b(?:back to|revert(?:s|ed|ing)? to|stick(?:s|ing)? (?:to|with)|stay(?:s|ing)? with"
    r"|keep(?:s|ing)?)\b([^,.;!?\n]{1,80})",
    re.IGNORECASE,
)
"""Words that say that an earlier value holds, and the value."""
_INVERTED: Final = lazy_pattern(
    r"\W*\b(?!(?:the|a|an|our|my|your|its|his|her|their|this|that|these|those|it|he|she|we|they|you"
    r"|i|there|here|what|who)\b)[^,.;:!?\n]{1,60}? (?:is|are|was|were) (?:the|our|my)"
    r" ([^,.;:!?\n]{1,60})[.!]?\s*\Z",
    re.IGNORECASE,
)
"""A statement that puts the value before its subject: "Ann is the owner of billing"."""
_REQUEST: Final = lazy_pattern(
    r"\b(?:(?:i'm|i am|we're|we are|i've been|i was) (?:\w+ )?(?:trying|looking|hoping|planning"
    r"|having|working|struggling|concerned|wondering|thinking|considering|currently|new to"
    r"|not sure|unsure|curious|interested)|i (?:want|need|would like|would love|wanted|hope|plan"
    r"|wonder)|i'd (?:like|love)|can you|could you|please|help me"
    r"|how (?:do|can|should|would)|any (?:advice|tips|suggestions|ideas))\b"
)
"""Words that ask for something or say what someone is about to do."""
_FEELING: Final = lazy_pattern(
    r"\b(?:great|love|loved|proud|amazing|happy|fun|cool|awesome|special|glad|thank\w*|hope|wish"
    r"|feel\w*|felt|beautiful|wonderful|inspir\w+|grateful|important|excited|exciting|incredible"
    r"|fantastic|lovely|sounds|looks?|nice|so much|can't wait|appreciate\w*|enjoy\w*|best|tough"
    r"|good|thinking|reminds?|memory|memories|memorable)\b"
)
"""Words of opinion, courtesy and feeling."""
_CODE: Final = lazy_pattern(
    r"[{}|\\]|</?\w|;\s*$|\bimport \w|\bdef \w|\w\([^)\n]{0,80}\)\s*\Z|\A\s*(?:return|//|#)",
    re.MULTILINE,
)
"""Code, formulas and rows of tables."""
_MARKUP: Final = lazy_pattern(r"[ \t]*(?:[-*+\u2022]|#+|\d{1,3}[.)])[ \t]|.{0,60}\*\*", re.DOTALL)
"""The item of a list, a heading, or emphasis: a part of a longer text."""
_PERSONAL: Final = lazy_pattern(r"\b(?:i|i'm|i've|i'd|i'll|my|me)\b")
_ADDRESS: Final = lazy_pattern(r"\b(?:you|your|you're|you've)\b")
_PASSAGE_SENTENCES: Final = 2
"""A longer text speaks of several things: only the two sentences nearest to the other count."""
_CACHED: Final = 4096
"""Texts kept as read: a recall compares its best candidates, and the same ones come often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How a text talks, if it does more than state what holds."""

    requests: bool
    feels: bool
    has_code: bool
    has_markup: bool
    opens_with_pronoun: bool
    is_personal: bool
    addresses: bool
    """Whether it speaks to someone."""


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
    measures: frozenset[tuple[str, str]]
    """Numbers, each with a word next to it."""
    replaces: bool
    ends: bool
    corrects: bool
    adds: bool
    is_elliptic: bool
    is_many: bool
    asks: bool


_WORD: Final = lazy_pattern(r"\w+(?:[.,:/'\u2019-]\w+)*")


@lru_cache(maxsize=_CACHED)
def read_words(text: str) -> Words:
    """Read a text for comparison, in time linear in its length."""
    text = _without_opening(text)
    reading, stems = read_statement(Statement(text=text)), content_stems(text)
    lower = lower_case(text)
    cue = 1.0 if _CUE.search(lower) else 0.5 if _WEAK_CUE.search(lower) else 0.0
    restored = _RESTORES.search(text)
    return Words(
        text=text,
        reading=reading,
        stems=stems,
        items=stems | reading.numbers | reading.choices,
        subject=_subject(text, reading),
        restored=_items(restored[1]) if restored else frozenset(),
        plain=tuple(map(str.casefold, _WORD.findall(text))),
        cue=cue,
        measures=_measures(reading.words),
        replaces=_REPLACEMENT.search(lower) is not None,
        ends=_END.search(lower) is not None,
        corrects=_CORRECTION.search(lower) is not None,
        adds=_ADDITION.search(lower) is not None,
        is_elliptic=_is_elliptic(text),
        is_many=_MANY.search(lower) is not None,
        asks=is_question(text),
    )


@lru_cache(maxsize=_CACHED)
def read_style(text: str) -> Style:
    """Return how a text talks, in time linear in its length."""
    text = text.replace("\u2019", "'")
    lower = lower_case(text)
    return Style(
        requests=_REQUEST.search(lower) is not None,
        feels=_FEELING.search(lower) is not None,
        has_code=_CODE.search(text) is not None,
        has_markup=_MARKUP.match(text) is not None,
        opens_with_pronoun=_PRONOUN.match(text) is not None,
        is_personal=_PERSONAL.search(lower) is not None,
        addresses=_ADDRESS.search(lower) is not None,
    )


@lru_cache(maxsize=_CACHED)
def sentences_of(text: str) -> Sequence[str]:
    """Split a text into sentences; an empty one is one sentence."""
    return split_sentences(text) or [text]


def read_passages(text: str) -> tuple[Words, ...]:
    """Read each two neighbouring sentences of a text, or all of a short one."""
    sentences = sentences_of(text)
    if len(sentences) <= _PASSAGE_SENTENCES:
        return (read_words(text),)
    return tuple(read_words(" ".join(pair)) for pair in pairwise(sentences))


def _without_opening(text: str) -> str:
    """Remove a name before a sentence, where it is no subject, and words that only open it.

    "Kurt: By the way, the crane is down." is about the crane.
    """
    match = _SPEAKER.match(text)
    if match is not None:
        rest = text[match.end() :]
        has_verb = read_statement(Statement(text=rest)).verb is not None
        text = rest if match["label"] is not None or has_verb else text
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
    if count > _ELLIPTIC_WORDS_MAX or text.rstrip().endswith("!") or _CODE.search(text):
        return False
    if _ELLIPSIS.match(text) is not None:
        return True
    is_one_sentence = len(sentences_of(text)) == 1
    is_short = is_one_sentence and count <= _PRONOUN_WORDS_MAX
    if is_short and _PRONOUN.match(text) is not None and _CUE.search(lower_case(text)) is not None:
        return True
    match = _FRAGMENT.match(text) or _BARE_VALUE.match(text)
    if match is None:
        return False
    clause = next(filter(None, match.groups()), "")
    is_fragment = len(_WORD.findall(clause)) <= _FRAGMENT_WORDS_MAX
    return is_fragment and read_statement(Statement(text=clause)).verb is None


def _measures(words: Sequence[str]) -> frozenset[tuple[str, str]]:
    """Return each number with the word after it, and with the word before it."""
    return frozenset(
        (number, words[near])
        for place, number in enumerate(words)
        if number[:1].isdigit()
        for near in (place - 1, place + 1)
        if 0 <= near < len(words)
    )
