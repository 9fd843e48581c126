"""Which sentences state what may hold for longer than the day on which they were said.

Only what stands on its own is taken: who reads it later has none of what was said around it.
"""

import re
from typing import Final

from commonbrain.domain.capture import is_telling
from commonbrain.domain.classify import classify
from commonbrain.domain.clause import is_factual
from commonbrain.domain.kinds import Kind
from commonbrain.domain.statement import Statement, read

_WORDS_MIN: Final = 4
_WORDS_MAX: Final = 40
"""A longer sentence says several things, and a fact says one."""
_LEANING: Final = re.compile(
    r"\W*(?:it|its|this|that|these|those|they|them|their|he|she|his|her|there|which|who|and|but|or"
    r"|also|then|so|because|yes|yeah|no|ok|okay|well|oh|hey|hi|thanks|sure|sorry|wow)\b",
    re.IGNORECASE,
)
"""How a sentence begins that only makes sense after another one."""
_LASTING: Final = re.compile(
    r"\b(?:prefers?|favou?rite|allergic|vegetarian|vegan|hates?|loves?|owns|maintains|"
    r"is responsible for|is in charge of|works? (?:at|as|for|on)|lives? in|is (?:called|named)|"
    r"uses?|runs? on|depends? on|requires?|supports?|defaults? to|is (?:set|configured) to|"
    r"listens? on|is (?:hosted|deployed|stored|kept) (?:on|in|at))\b",
    re.IGNORECASE,
)
"""How people tell what somebody or something is like: preferences, duties, how it is set up."""


def is_durable(text: str) -> bool:
    """Say whether a sentence of somebody may be proposed as a fact.

    It tells a decision, a lesson, a preference or how something is set up, as so and not as asked,
    planned or ordered, and it leans on no other sentence.
    """
    return bool(is_telling(text) or _LASTING.search(text)) and is_claimable(text)


def is_claimable(text: str) -> bool:
    """Say whether a sentence states something by itself, and binds nobody.

    What binds is never taken from a text: one sentence makes no rule.
    """
    if not _WORDS_MIN <= len(text.split()) <= _WORDS_MAX or _LEANING.match(text):
        return False
    is_fact = classify(text) is Kind.FACT and is_factual(text)
    return is_fact and read(Statement(text=text)).is_claim
