"""What sort of question it is, by rule, and which kinds answer such a question best."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from commonbrain.domain.kinds import Kind


class Intent(StrEnum):
    """What a question wants to know."""

    CONSTRAINT = "constraint"
    CAUSAL = "causal"
    TEMPORAL = "temporal"
    PLAIN = "plain"


# The first that matches wins: a question for permission is one, whatever else it says.
_SIGNS: Final[Mapping[Intent, re.Pattern[str]]] = {
    intent: re.compile(rf"\b(?:{words})\b", re.IGNORECASE)
    for intent, words in {
        Intent.CONSTRAINT: r"may (?:i|we)|can (?:i|we)|should|must|mustn't|allowed|permitted"
        r"|forbidden|prohibited|polic(?:y|ies)|rules?|required|have to|supposed to",
        Intent.CAUSAL: r"why|because|caus(?:e|es|ed|ing)|reasons?|led to|due to|how come",
        Intent.TEMPORAL: r"when|since when|how long|what time|which (?:day|date|month|year)",
    }.items()
}
# It speaks to who answered before: "what did you suggest", "your list", "the assistant".
_OF_ANSWERS: Final = re.compile(
    r"\b(?:you (?:\w+ly )?(?:said|say|told|tell|suggest|recommend|mention|g[ai]ve|provide|list"
    r"|wr[io]te|explain|propose|advise|show|describe|create|ma[dk]e|came? up)\w*|your|assistant)\b",
    re.IGNORECASE,
)
_ANSWERS: Final[Mapping[Intent, Mapping[Kind, float]]] = {
    Intent.CONSTRAINT: {Kind.RULE: 1.0, Kind.FACT: 0.4, Kind.TASK: 0.2},
    Intent.CAUSAL: {Kind.ATOM: 1.0, Kind.INCIDENT: 1.0, Kind.FACT: 0.4, Kind.EPISODE: 0.4},
    Intent.TEMPORAL: {Kind.EVENT: 1.0, Kind.EPISODE: 0.6, Kind.MESSAGE: 0.6, Kind.INCIDENT: 0.6},
    Intent.PLAIN: {},
}


def intent_of(query: str, *, names_time: bool) -> Intent:
    """Tell what sort of question it is; a phrase of time makes a plain one temporal."""
    for intent, signs in _SIGNS.items():
        if signs.search(query):
            return intent
    return Intent.TEMPORAL if names_time else Intent.PLAIN


def asks_of_answers(query: str) -> bool:
    """Say whether a question is for what was answered before, not for what the asker said."""
    return _OF_ANSWERS.search(query) is not None


def prior(kind: Kind, intent: Intent) -> float:
    """Say how well a kind answers such a question, 0..1."""
    return _ANSWERS[intent].get(kind, 0.0)
