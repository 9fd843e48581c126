"""Instructions and preferences that people state in passing, recognised by rule.

"Always show times in UTC", "from now on, answer in one paragraph", "I prefer short answers": they
hold for every later question of their topic, although they seldom share its words. Only what is to
hold for longer counts, not a request for this once ("please use the other file") and not advice.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final


class Guidance(StrEnum):
    """A wish that holds for later requests too."""

    INSTRUCTION = "instruction"
    PREFERENCE = "preference"


_SCANNED_CHARS: Final = 4000
"""Characters of a text that are read; what follows is pasted material rather than a wish."""
_SENTENCE_CHARS: Final = 600
"""Longer stretches without an end are lists and logs."""
_FENCE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`", re.DOTALL)
_END: Final = re.compile(r"(?<=[.!?;])\s+|\n+|\s+[-–—]\s+")  # noqa: RUF001 dashes as typed
_CUE: Final = re.compile(
    r"\b(?:always|never|ever|please|from (?:now|here) on(?:wards?)?|going forward|in (?:the )?future"
    r"|henceforth|by default|when(?:ever)?|every time|each time|remember|do(?:n['’]t| not)|avoid"  # noqa: RUF001
    r"|prefer\w*|favou?rites?|rather|hates?|dislikes?|stand|likes?|allergic|intolerant|vegan"
    r"|vegetarian|only|keep|stick|unless|without)\b",
    re.IGNORECASE,
)
"""A sentence without any of these words states neither."""

_VERBS: Final = (
    r"(?:add|address|answer|apply|ask|avoid|begin|book|bring|build|call|check|choose|cite|commit"
    r"|confirm|convert|copy|create|default|deploy|describe|display|do|document|draft|end|ensure"
    r"|explain|express|file|follow|force|format|give|go|group|highlight|include|indent|keep|label"
    r"|leave|limit|link|list|log|make|mark|mention|merge|name|note|offer|open|order|pin|plan|prefer"
    r"|present|prioriti[sz]e|propose|provide|push|put|quote|recommend|release|remember|remind"
    r"|reply|report|respond|review|round|run|schedule|send|share|show|sign|skip|sort|specify|spell"
    r"|squash|start|stick|store|structure|suggest|summari[sz]e|take|talk|tell|test|translate|treat"
    r"|update|use|validate|verify|wait|warn|work|wrap|write)"
)
"""What assistants and teams are asked to do; other imperatives are said of life."""
_LASTING: Final = (
    r"(?:from (?:now|here) on(?:wards?)?|going forward|in (?:the )?future|henceforth|by default"
    r"|every time|each time|when(?:ever)? (?:i|we|you|someone|asked)\b|for all|until i say"
    r"|at all times|in all|in every)"
)
_OPENING: Final = (
    r"^\W*(?:(?:and|also|so|but|ok(?:ay)?|oh|btw|by the way|just|note|one more thing|again"
    r"|remember|reminder|rule|important|preference)\b[\s,:]*)*(?:please\b[\s,]*)?"
)


def mark_of(guidance: Guidance) -> str:
    """Return the topic that marks a memory; no topic found in a text begins with this sign."""
    return f"@{guidance}"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{one})" for one in patterns), re.IGNORECASE)


_INSTRUCTION: Final = _any(
    rf"{_OPENING}(?:always|never)\s+(?:\w+ly\s+)?(?:again\s+)?{_VERBS}\b",
    rf"\b(?:please|to|must|should|shall|you|will|can you|could you)\s+(?:always|never)\s+{_VERBS}\b",
    rf"\b(?:we|our team|everyone|agents?)\s+(?:always|never)\s+{_VERBS}\b",
    rf"{_OPENING}(?:make sure|be sure|remember|ensure|try)\b.{{0,40}}\b(?:always|never)\b",
    rf"{_OPENING}{_LASTING}\b[\s,:]*(?:\w+\s+){{0,8}}?(?:please\s+)?"
    rf"(?:you (?:should|must|can|will)\s+)?(?:only |always |never |do not |don['’]t )?{_VERBS}\b",  # noqa: RUF001
    rf"{_OPENING}(?:only\s+|do not\s+|don['’]t\s+)?{_VERBS}\b.*\b{_LASTING}",  # noqa: RUF001
    rf"{_OPENING}(?:do not|don['’]t)\s+(?:ever\s+|you ever\s+)?{_VERBS}\b"  # noqa: RUF001
    r".*\b(?:unless|without|again|any ?more|(?:on|after|before|until) \w+days?|longer than|more than)\b",
    rf"{_OPENING}(?:stop|avoid|refrain from)\s+(?:ever\s+)?\w+ing\b(?!.*\?)",
    r"\bi(?:['’]d| would)? (?:want|need|expect|like|ask) (?:you|all|every|everything|each|your)\b"  # noqa: RUF001
    rf".*\b(?:always|never|{_LASTING})",
    rf"\b(?:when|if)(?:ever)? i ask\b.*\b(?:always|never|please|{_VERBS})\b",
    r"\b(?:nothing|no one|nobody) (?:may|should|must|is to)\b",
)
_NOT_PREFERRED: Final = r"(?:it|that|this|them|those|these|him|her|you|your|how|the idea|what)\b"
_PREFERENCE: Final = _any(
    r"\bi(?:['’]d| would| do)? (?:\w+ly |still |also |always |much |'d )?prefer\b",  # noqa: RUF001
    r"\b(?:my|our|a|as stated in my|given my) (?:\w+ )?preferences? (?:is|are|for|to|of|was)\b",
    r"\b(?:user|team|client|customer|he|she|they|we|[a-z]+) (?:\w+ly |also |still )?prefers\b",
    r"\b(?:users?|we|they|people here|the team) (?:\w+ly |also |still )?prefer\b",
    r"\b(?:my|our|\w+['’]s) (?:\w+ )?(?:all.time )?favou?rites?\b(?!.*\?$)",  # noqa: RUF001
    r"\bi(?:['’]d| would) (?:much |always )?rather\b",  # noqa: RUF001
    rf"\bi (?:\w+ly |just )?(?:hate|dislike|detest|can['’]?t stand|cannot stand)\s+(?!{_NOT_PREFERRED})",  # noqa: RUF001
    rf"\bi (?:\w+ly )?(?:don['’]t|do not) (?:\w+ly )?(?:like|enjoy|want|care for)\s+(?!{_NOT_PREFERRED}|to (?:be|have))",  # noqa: RUF001
    r"\bi (?:don['’]t|do not|never|can['’]?t|cannot|only|always|mostly|usually) (?:eat|drink|use|wear|fly|work|take calls|do meetings)\b",  # noqa: RUF001
    r"\bi(?:['’]m| am) (?:\w+ )?(?:vegan|vegetarian|allergic|\w+[- ]intolerant|a vegan|a vegetarian)\b",  # noqa: RUF001
    r"\bi (?:\w+ly )?like (?:to (?:see|get|have|keep|use|start|work|read|be)\b|it when|when|my \w+|things|answers|short|\w+ing\b|\w+(?: \w+)? (?:better|more|best))",
    r"\bi try to avoid\b|\bi (?:always|usually|generally|normally) avoid\b|\bi(?:['’]m| am) not a (?:big )?fan of\b",  # noqa: RUF001
    r"\bworks? (?:best|better) for me\b|\b(?:suits?|fits?) me (?:best|better)\b",
    r"\b(?:user|he|she|client|customer) (?:\w+ly |also )?(?:likes|dislikes|hates|avoids|wants)\b",
)


def guidance_in(text: str) -> frozenset[Guidance]:
    """Return whether a text states an instruction, a preference, both or neither."""
    found: set[Guidance] = set()
    for sentence in _sentences(text):
        if Guidance.INSTRUCTION not in found and _INSTRUCTION.search(sentence):
            found.add(Guidance.INSTRUCTION)
        if Guidance.PREFERENCE not in found and _PREFERENCE.search(sentence):
            found.add(Guidance.PREFERENCE)
    return frozenset(found)


def _sentences(text: str) -> Iterator[str]:
    """Yield the sentences of the beginning that may state either, without code."""
    if not _CUE.search(text, 0, _SCANNED_CHARS):
        return
    prose = _FENCE.sub(" ", text[:_SCANNED_CHARS])
    for sentence in _END.split(prose):
        if len(sentence) <= _SENTENCE_CHARS and _CUE.search(sentence):
            yield sentence
