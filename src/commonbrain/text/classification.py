"""Which kind a text is, by its words, when nobody said."""

import re
from collections.abc import Collection
from typing import Final

from commonbrain.model.kinds import KINDS, Kind, Severity

# First match wins; the order is from what binds most to what binds least.
_SIGNS: Final = (
    (
        Kind.RULE,
        # "Never push" is a rule, "he never called" is not: what commands opens its sentence.
        # Eight signs are quotes, a bullet and emphasis; unbounded, rows of dots take minutes.
        r"(?:^|[.;:!?]\s)\W{0,8}(?:always|never|do not|don't|only ever)\b"
        r"|\b(?:must|shall|prohibited|forbidden|non-negotiable|not allowed)\b",
    ),
    (
        Kind.INCIDENT,
        r"\b(?:outage|crash(?:ed|es)?|incident|root cause|regression|post-?mortem|broke"
        r"|failed because)\b",
    ),
    (
        Kind.TASK,
        r"\b(?:to-?do|needs? to|follow[- ]up|action item|remember to|still open)\b",
    ),
)
_PATTERNS: Final = tuple(
    (kind, re.compile(words, re.IGNORECASE | re.MULTILINE)) for kind, words in _SIGNS
)
_BLOCKING: Final = re.compile(
    r"\b(?:never|must not|prohibited|forbidden|non-negotiable)\b", re.IGNORECASE
)


def classify(text: str) -> Kind:
    """Choose rule, incident or task by telling words, else fact."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(text)), Kind.FACT)


def kind_with(columns: Collection[str], text: str) -> Kind:
    """Choose the kind that has these columns, by the words where several have them."""
    fitting = [kind for kind, policy in KINDS.items() if set(columns) <= set(policy.columns)]
    by_words = classify(text)
    if by_words in fitting or not fitting:
        return by_words
    return Kind.TASK if Kind.TASK in fitting else fitting[0]


def severity_of(text: str) -> Severity:
    """Say how strictly a text that is a rule binds, by its words."""
    return Severity.BLOCKER if _BLOCKING.search(text) else Severity.PATTERN
