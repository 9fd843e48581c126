"""The signs by which English says that something caused something, and where each cuts.

Every pattern is linear on hostile text: none repeats within a repeat.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from commonbrain.domain.causal_fits import (
    has_effect_clause,
    has_ground,
    has_object,
    has_reason,
    is_condition,
    is_mended,
    is_no_date,
    is_no_way,
    is_occasion,
    is_told,
    is_way,
)
from commonbrain.domain.cuts import (
    Cut,
    Cutting,
    at_the_end,
    by_gerund,
    cause_first,
    cause_first_with_verb,
    effect_first,
    opening,
    sentence_before,
)

_CAUSED: Final = (
    r"(?:caused|causes|triggered|triggers|resulted in|results in|brought about"
    r"|brings about|brought down|brings down|brought on|set off|gave rise to)"
)
_PLURAL_CAUSED: Final = r"(?:cause|trigger|result in|bring down)"
_NOT_BY: Final = r"(?! (?:not |only |either |[a-z]{2,15}ly |in part )?by\b)"
"""What is caused by something is its effect, and not its cause."""
_WAS: Final = (
    r"(?:(?:turns out to|turned out to|tends? to|was found to|were found to|is known to"
    r"|are known to|has|have|had) )?(?:have )?"
    r"(?:is|are|was|were|be|been)(?: being)? (?:[a-z]{2,15}ly |all |in part |in the end )?"
)
DID: Final = (
    rf"(?:{_CAUSED}|{_PLURAL_CAUSED}|led to|leads to|lead to|(?:is|are|was|were) causing"
    r"|broke|breaks|made|makes|let|lets|meant|means|forced|forces|filled|fills"
    r"|prevented|prevents|blocked|blocks|took|takes|cut|cuts|crashed|crashes|killed|kills|slowed|slows|delayed|delays|left|leaves|corrupted|corrupts"
    r"|stopped|stops|doubled|doubles|tripled|locked|locks|dropped|drops|exposed|exposes|allowed"
    r"|allows|confused|confuses|saved|saves|fixed|fixes|hid|hides|turned|turns|overloaded|overloads"
    r"|exhausted|exhausts|knocked|pushed|pushes|kept|keeps|wiped|deleted|invalidated)"
    rf"{_NOT_BY}"
)
_BY: Final = r"by (?:always |never |only |first |not )?[a-z]{2,20}ing\b"
_SO_THEN: Final = (
    r"(?:as a result|as a consequence|consequently|therefore|hence|thus|because of (?:this|that)"
    r"|that is why|that's why|this is why|which is why)"
)
_NOT_SO: Final = "(?!far |that |much |many |long |to |called |on )"
"""What makes another word of "so"."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way in which English says that something caused something."""

    name: str
    sign: re.Pattern[str]
    cut: Cutting
    fits: Callable[[Cut], bool]
    is_thing: bool = False
    """Whether the cause is a thing, such as what comes before "led to", and no clause."""
    denied_within: int = 1
    """Words before the sign among which a "not" denies it, and not something else."""


def _sign(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# The first of two signs at the same place wins; else the one further left.
PATTERNS: Final = (
    Pattern("so", _sign(r",? so that "), cause_first, has_effect_clause),
    Pattern("fixed", _sign(rf"(?<=[a-z0-9)'\"`] ){_BY}"), by_gerund, is_way),
    Pattern(
        "fixed",
        _sign(r"(?<=[a-z0-9)'\"`] )with (?=an? |the |some )"),
        effect_first,
        is_mended,
    ),
    Pattern("because of", _sign(r"^because of "), opening, has_ground),
    Pattern(
        "because of", _sign(r"^(?:due to|thanks to|owing to|on account of) "), opening, has_ground
    ),
    Pattern("because", _sign(r"^because "), opening, has_reason),
    Pattern(
        "because of",
        _sign(r",? \b(?:because of|due to|thanks to|owing to|on account of) "),
        effect_first,
        has_ground,
    ),
    Pattern("because", _sign(r",? \bbecause "), effect_first, has_reason),
    Pattern("since", _sign(r"^since "), opening, is_no_date),
    Pattern("since", _sign(r",? \bsince "), effect_first, is_no_date),
    Pattern(
        "caused by",
        _sign(
            rf" (?:{_WAS}(?:caused by|triggered by|due to|down to|the (?:result|consequence) of"
            r"|brought on by|brought down by|set off by)|(?:resulted|results|result|stems|stem"
            r"|stemmed|arose|arises) from) "
        ),
        effect_first,
        has_ground,
        is_thing=True,
        denied_within=3,
    ),
    Pattern(
        "causing",
        _sign(r",? (?:causing|resulting in|leading to|triggering|bringing down) "),
        cause_first,
        has_object,
    ),
    Pattern(
        "causing",
        _sign(
            r", (?P<verb>(?:breaking|forcing|leaving|making|blocking|killing)"
            r" (?:the|a|an|it|them|every|all|our|their|some|its|both|no|us) )"
        ),
        cause_first_with_verb,
        has_object,
    ),
    Pattern(
        "which",
        _sign(rf", (?:which|and (?:this|that)) (?:also |then )?(?P<verb>{DID}) "),
        cause_first_with_verb,
        has_object,
    ),
    Pattern(
        "this",
        _sign(rf"^(?:this|that|these) (?:also |then |in turn )?(?P<verb>{DID}) "),
        sentence_before,
        has_object,
    ),
    Pattern("this", _sign(rf"^{_SO_THEN},? "), sentence_before, has_effect_clause),
    Pattern("so", _sign(rf"[,;] (?:and )?(?:{_SO_THEN}),? "), cause_first, has_effect_clause),
    Pattern(
        "so",
        _sign(r"[,;] (?:and )?so " + _NOT_SO),
        cause_first,
        has_effect_clause,
    ),
    Pattern("so", _sign(r",? as a (?:result|consequence)\.?$"), at_the_end, has_effect_clause),
    Pattern(
        "causes",
        _sign(r" (?:led to|leads to|lead to) "),
        cause_first,
        is_no_way,
        is_thing=True,
        denied_within=3,
    ),
    Pattern(
        "causes",
        _sign(rf" (?:is causing|are causing|was causing|were causing|{_CAUSED}{_NOT_BY}) "),
        cause_first,
        has_object,
        is_thing=True,
        denied_within=3,
    ),
    Pattern(
        "causes",
        _sign(rf"(?<=s) {_PLURAL_CAUSED}{_NOT_BY} "),
        cause_first,
        has_object,
        is_thing=True,
        denied_within=3,
    ),
    Pattern(
        "causes",
        _sign(
            r" (?P<verb>(?:broke|breaks) (?=the (?!moment|minute|instant|second|day)|an? |every "
            r"|all |our |their |its |some ))"
        ),
        cause_first_with_verb,
        has_object,
        is_thing=True,
        denied_within=3,
    ),
    Pattern(
        "when",
        _sign(r"^(?:when|whenever|every time|each time|as soon as|once) "),
        opening,
        is_occasion,
    ),
    Pattern("when", _sign(r" (?:when|whenever|every time|as soon as) "), effect_first, is_occasion),
    Pattern("if", _sign(r"^if "), opening, is_condition),
    Pattern("if", _sign(r" if "), effect_first, is_occasion),
)
"""In the order in which they are preferred at one place of a sentence."""

LESSONS: Final = (Pattern("learned", _sign(rf" (?P<verb>{DID}) "), cause_first_with_verb, is_told),)
"""What counts besides in a sentence that says of itself that it tells of something learnt."""
