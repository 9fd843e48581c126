"""Instructions and preferences that people state in passing, recognised by rule.

"Always show times in UTC", "from now on, answer in one paragraph", "I prefer short answers": they
hold for every later question of their topic, although they seldom share its words. Only what is to
hold for longer counts, not a request for this once ("please use the other file") and not advice.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from commonbrain.text.languages import is_english
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.segmentation import split_sentences


class Guidance(StrEnum):
    """A wish that holds for later requests too."""

    INSTRUCTION = "instruction"
    PREFERENCE = "preference"


_SCANNED_CHARS: Final = 4000
"""Characters of a text that are read; what follows is pasted material rather than a wish."""
_SENTENCE_CHARS: Final = 600
"""Longer stretches without an end are lists and logs."""
_FENCE: Final = lazy_pattern(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_DASH: Final = lazy_pattern(r"(?<!\s)\s+[-\u2013\u2014]\s+")
_ASKED: Final = lazy_pattern(
    r"^\W*(?:what|which|who|why|how|do|does|did|should|have|has|is|are|was|were|can i|when do)\b"
    r"[^.!]*\?\W*$",
    re.IGNORECASE,
)
"""A question asks for a wish, and states none."""
_LASTING: Final = (
    r"(?:from (?:now|here|today) on(?:wards?)?|going forward|in (?:the )?future|by default|(?:every"
    r"|each) time|whenever|when asked|at all times|(?:when|if) (?:i|we|you|someone) (?:ask|mention"
    r"|request|write|cite|say|talk|send|need|use)\b)"
)
_NOT: Final = r"(?:do not|don't)"
_OPENING: Final = (
    r"^\W*(?:(?:and|also|so|but|ok(?:ay)?|oh|btw|by the way|just|note|one more thing|again"
    r"|remember|reminder|rule|important|preference)\b[\s,:]*)*(?:please\b[\s,]*)?"
)
VERBS: Final = (
    r"(?:add|address|answer|apply|ask|avoid|begin|book|bring|build|call|check|choose|cite|commit"
    r"|confirm|convert|copy|create|default|delete|deploy|describe|display|do|document"
    r"|double-check|draft|edit|end|ensure|explain|express|file|follow|force|format|give(?! up)|go"
    r"|group|highlight|include|indent|keep|label|leave|limit|link|list|lock|log|make|mark|mention|merge"
    r"|name|note|notify|offer|open|order|pin|ping|plan|prefer|present|prioriti[sz]e|propose"
    r"|provide|push|put|quote|recommend|release|remember|remind|remove|reply|report|respond"
    r"|restart|review|round|run|schedule|send|share|show|sign|skip|sort|specify|spell|squash"
    r"|start|stick|stop|store|structure|suggest|summari[sz]e|tag|take|talk|tell|test|translate"
    r"|treat|update|use|validate|verify|wait|warn|work|wrap|write)"
)
"""What assistants and teams are asked to do; other imperatives are said of life.

With any verb in its place, one turn in sixty of small talk is an instruction.
"""


def _any(*patterns: str) -> re.Pattern[str]:
    return lazy_pattern("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)


_INSTRUCTION: Final = _any(
    rf"{_OPENING}(?:always|never)(?:, ever,?)?\s+(?:\w+ly\s+)?{VERBS}\b",
    r"\b(?:please|to|must|should|shall|will|you|we|team|everyone|agents?)\s+(?:always|never)\s+"
    rf"{VERBS}\b",
    rf"{_OPENING}(?:{_LASTING}\b|until i say\b)(?:[^,]{{0,80}},)?[\s,:]*(?:please\s+|let's\s+)?"
    rf"(?:you (?:should|must|can|will)\s+)?(?:only |just |always |never |{_NOT} )?{VERBS}\b",
    rf"{_OPENING}(?:only\s+|{_NOT}\s+)?{VERBS}\b.*(?:\b{_LASTING}\b|\balways\W*$)",
    rf"{_OPENING}{_NOT}\s+(?:ever\s+{VERBS}\b"
    rf"|{VERBS}\b.*\b(?:unless|without|again|any ?more|(?:on|after|before|until) \w+days?)\b)",
    rf"{_OPENING}(?:stop|avoid|refrain from)\s+\w+ing\b(?!.*\?)",
    r"\bi(?:'d| would)? (?:want|need|expect|like) (?:you|all|every|everything|each|your)\b"
    rf".*\b(?:always|never|{_LASTING})",
    r"\b(?:no one|nobody) (?:may|should|must|is to)\b",
)
_OFTEN: Final = r"(?:\w+ly |still |also |always |much |just )?"
_NAMED: Final = (
    r"(?!(?:it|that|this|them|those|these|him|her|you|your|how|what|up|to (?:say|think))\b)"
)
"""Likes and dislikes of what was just said are replies; a preference names its object."""
_PREFERENCE: Final = _any(
    rf"\b(?:i|users?|team|clients?|customers?|he|she|they|we|(?-i:[A-Z][a-z]+))(?:'d| would| do)?"
    rf" {_OFTEN}(?:prefers?|dislikes?|hates?|detests?|would rather) {_NAMED}",
    r"\b(?:my|our|his|her|\w+'s) (?:\w+ )?(?:all.time )?(?:favou?rites?|preferences?)\b(?!.*\?$)",
    r"\bi(?:'d| would) (?:much |always )?rather\b",
    rf"\b(?:i|he|she|we|they) {_OFTEN}(?:can't|cannot|{_NOT}|doesn't)"
    rf" (?:stand|like|enjoy|eat|drink) {_NAMED}",
    r"\bi (?:never|only|always|mostly|usually) (?:eat|drink|use|wear|avoid|prefer) " + _NAMED,
    r"\bi(?:'m| am) (?:not a (?:big )?fan of\b|(?:an? )?(?:vegan|vegetarian|allergic)"
    r"|\w+[- ]intolerant)\b",
    rf"\bi {_OFTEN}like (?:to (?:see|get|have|keep|use|start|work|read)\b|it when|when|my \w+"
    r"|short|\w+ing\b)",
    r"\buser (?:\w+ly |also )?likes\b",
    r"\b(?:works?|suits?) (?:me |for me )?(?:best|better)(?: for me)?\b(?!.*\?$)",
)
_OF_USER: Final = lazy_pattern(
    r"\b(?:i|i'[dm]|my)\b|^\W*(?:the )?user\b(?!.*\b(?:in|of|on|for) (?:the|our)\b)",
    re.IGNORECASE,
)
"""Who speaks, or the user as such: not "the user prefers the blue button in the shop"."""


def mark_of(guidance: Guidance) -> str:
    """Return the topic that marks a memory; no topic found in a text begins with this sign."""
    return f"@{guidance}"


def guidance_in(text: str) -> frozenset[Guidance]:
    """Return whether a text states an instruction, a preference, both or neither."""
    rules = {Guidance.INSTRUCTION: _INSTRUCTION, Guidance.PREFERENCE: _PREFERENCE}
    sentences = list(_sentences(text))
    return frozenset(sort for sort, rule in rules.items() if any(map(rule.search, sentences)))


def is_of_user(text: str) -> bool:
    """Return whether a text states a preference of the user: "I prefer short answers"."""
    return any(_OF_USER.search(one) and _PREFERENCE.search(one) for one in _sentences(text))


def _sentences(text: str) -> Iterator[str]:
    """Yield the English sentences of the beginning that may state either, without code."""
    if not is_english(text):
        return
    prose = _FENCE.sub(" ", text[:_SCANNED_CHARS]).replace("\u2019", "'")
    for statement in split_sentences(prose, at_semicolons=True):
        for part in _DASH.split(statement):
            if len(part) <= _SENTENCE_CHARS and not _ASKED.search(part):
                yield part
