"""Instructions and preferences that people state in passing, recognised by rule.

"Always show times in UTC", "from now on, answer in one paragraph", "I prefer short answers": they
hold for every later question of their topic, although they seldom share its words. Only what is to
hold for longer counts, not a request for this once ("please use the other file") and not advice.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from commonbrain.text.patterns import lazy_pattern, lower_case


class Guidance(StrEnum):
    """A wish that holds for later requests too."""

    INSTRUCTION = "instruction"
    PREFERENCE = "preference"


_SCANNED_CHARS: Final = 4000
"""Characters of a text that are read; what follows is pasted material rather than a wish."""
_SENTENCE_CHARS: Final = 600
"""Longer stretches without an end are lists and logs."""
_FENCE: Final = lazy_pattern(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_END: Final = lazy_pattern(r"(?<=[.!?;])\s+|\n+|(?<!\s)\s+[-\u2013\u2014]\s+")
_CUE: Final = lazy_pattern(
    r"\b(?:always|never|ever|please|from (?:now|here) on(?:wards?)?|going forward"
    r"|in (?:the )?future|henceforth|by default|when(?:ever)?|(?:every|each) time"
    r"|in all|until|remember|do(?:n't| not)"
    r"|stop|avoid|no one|nobody|prefer\w*|favou?rites?|rather|hates?|dislikes?|stand|likes?|fan"
    r"|wants|allergic|intolerant|vegan|vegetarian|cannot|can't|only|mostly|usually|best|better"
    r"|if i ask)\b"
)
"""A sentence without any of these words, in lower case, states neither."""
_ASKS: Final = lazy_pattern(
    r"^\W*(?:what|which|who|why|how|do|does|did|should|have|has|is|are|was|were|can i|when do)\b"
    r"[^.!]*\?\W*$",
    re.IGNORECASE,
)
"""A question asks for a wish, and states none."""

_VERBS: Final = (
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
"""What assistants and teams are asked to do; other imperatives are said of life."""
_LASTING: Final = (
    r"(?:from (?:now|here) on(?:wards?)?|going forward|in (?:the )?future|henceforth|by default"
    r"|(?:every|each) time|whenever|when asked"
    r"|when (?:i|we|you|someone) (?:ask|mention|request|write|cite|say|talk|send|need|use)\b"
    r"|until i say|at all times|in all(?=\s)|in every)"
)
_NOT: Final = r"(?:do not|don't)"
_OPENING: Final = (
    r"^\W*(?:(?:and|also|so|but|ok(?:ay)?|oh|btw|by the way|just|note|one more thing|again"
    r"|remember|reminder|rule|important|preference)\b[\s,:]*)*(?:please\b[\s,]*)?"
)
_WEEKDAY: Final = r"(?:on|after|before|until) \w+days?"


def _any(*patterns: str) -> re.Pattern[str]:
    return lazy_pattern("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)


_INSTRUCTION: Final = _any(
    rf"{_OPENING}(?:always|never)\s+(?:\w+ly\s+)?{_VERBS}\b",
    rf"\b(?:please|to|must|should|shall|you|will)\s+(?:always|never)\s+{_VERBS}\b",
    rf"\b(?:we|our team|everyone|agents?)\s+(?:always|never)\s+{_VERBS}\b",
    rf"{_OPENING}(?:make sure|be sure|remember|ensure|try)\b.{{0,40}}"
    rf"\b(?:always|never)\s+{_VERBS}\b",
    rf"{_OPENING}{_LASTING}\b[\s,:]*(?:\w+[\s,]+){{0,8}}?(?:please\s+)?"
    rf"(?:you (?:should|must|can|will)\s+|let's\s+)?(?:only |always |never |{_NOT} )?{_VERBS}\b",
    rf"{_OPENING}(?:only\s+|{_NOT}\s+)?{_VERBS}\b.*\b(?:{_LASTING}|always\W*$)",
    rf"{_OPENING}{_NOT}\s+ever\s+{_VERBS}\b",
    rf"{_OPENING}{_NOT}\s+{_VERBS}\b.*\b(?:unless|without|again|any ?more|{_WEEKDAY})\b",
    rf"{_OPENING}(?:stop|avoid|refrain from)\s+\w+ing\b(?!.*\?)",
    r"\bi(?:'d| would)? (?:want|need|expect|like|ask) (?:you|all|every|everything|each|your)\b"
    rf".*\b(?:always|never|{_LASTING})",
    rf"\b(?:when|if)(?:ever)? (?:i ask|asked)\b.*\b(?:always|never|please|{_VERBS})\b",
    r"\b(?:no one|nobody) (?:may|should|must|is to)\b",
)
_OFTEN: Final = r"(?:\w+ly |still |also |always |much |just )?"
_NOT_NAMED: Final = r"(?!(?:it|that|this|them|those|these|him|her|you|your|how|the idea|what)\b)"
"""Likes and dislikes of what was just said are replies; a preference names its object."""
_PREFERENCE: Final = _any(
    rf"\bi(?:'d| would| do)? {_OFTEN}prefer\b",
    r"\b(?:my|our) (?:\w+ )?preferences? (?:is|are|for|to|of|was)\b",
    rf"\b(?:users?|team|clients?|customers?|he|she|they|we|people here) {_OFTEN}prefers?\b",
    rf"\b(?-i:[A-Z][a-z]+) {_OFTEN}prefers\b",
    r"\b(?:my|our|his|her|\w+'s) (?:\w+ )?(?:all.time )?favou?rites?\b(?!.*\?$)",
    r"\bi(?:'d| would) (?:much |always )?rather\b",
    rf"\bi {_OFTEN}(?:hate|dislike|detest|can't stand|cannot stand)\s+"
    rf"(?!(?:up|still|on|there|here)\b){_NOT_NAMED}",
    rf"\bi {_OFTEN}{_NOT} {_OFTEN}(?:like|enjoy|care for)\s+(?!to (?:be|have)\b){_NOT_NAMED}",
    rf"\bi (?:{_NOT}|never|can't|cannot|only|always|mostly|usually)"
    r" (?:eat|drink|use|wear|fly|work|take calls|do meetings)\b",
    r"\bi(?:'m| am) (?:an? )?(?:vegan|vegetarian|allergic|\w+[- ]intolerant)\b",
    rf"\bi {_OFTEN}like (?:to (?:see|get|have|keep|use|start|work|read|be)\b|it when|when|my \w+"
    r"|short|\w+ing\b|\w+(?: \w+)? (?:better|more|best))",
    r"\bi try to avoid\b|\bi (?:always|usually|generally|normally) avoid\b",
    r"\bi(?:'m| am) not a (?:big )?fan of\b|\bi(?:'m| am) no fan of\b",
    r"\b(?:works?|suits?|fits?) (?:me |for me )?(?:best|better)(?: for me)?\b(?!.*\?$)",
    r"\b(?:user|he|she|client|customer) (?:\w+ly |also )?(?:likes|dislikes|hates|avoids)\b",
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
    sorts: set[Guidance] = set()
    for sentence in _sentences(text):
        if Guidance.INSTRUCTION not in sorts and _INSTRUCTION.search(sentence):
            sorts.add(Guidance.INSTRUCTION)
        if Guidance.PREFERENCE not in sorts and _PREFERENCE.search(sentence):
            sorts.add(Guidance.PREFERENCE)
    return frozenset(sorts)


def is_of_user(text: str) -> bool:
    """Return whether a text states a preference of the user: "I prefer short answers"."""
    return any(_OF_USER.search(one) and _PREFERENCE.search(one) for one in _sentences(text))


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the beginning that may state either, without code."""
    prose = _FENCE.sub(" ", text[:_SCANNED_CHARS]).replace("\u2019", "'")
    for sentence in _END.split(prose):
        is_short = len(sentence) <= _SENTENCE_CHARS
        if is_short and _CUE.search(lower_case(sentence)) and not _ASKS.search(sentence):
            yield sentence
