"""The table of patterns by which English states a cause.

Each pattern has a sign (the words that state the relation), a way to cut the sentence at the sign
into cause and effect, and a condition on the two. The clauses are those of `clauses`.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from commonbrain.text import causal_verbs as verbs
from commonbrain.text.causal_conditions import (
    has_effect,
    has_effect_clause,
    has_effect_or_thing,
    has_ground,
    has_object,
    has_reason,
    has_root_effect,
    has_two_sides,
    is_aftermath,
    is_caused,
    is_condition,
    is_fixed_by,
    is_fixed_with,
    is_general,
    is_impersonal,
    is_lasting_reason,
    is_named_cause,
    is_no_date,
    is_no_way,
    is_occasion,
    is_traced,
    is_trouble,
)
from commonbrain.text.causal_cuts import (
    Cut,
    Cutting,
    at_the_end,
    between_named,
    by_gerund,
    cause_first,
    cause_first_with_verb,
    effect_before,
    effect_first,
    effect_first_with_verb,
    effect_nearby,
    opening,
    opening_thing,
    sentence_before,
)
from commonbrain.text.causal_verbs import (
    ACTING,
    CAUSED,
    DETERMINER,
    DID,
    EFFECT_PHRASE,
    EFFECT_VERB,
    NOT_BY,
    PASSIVE,
    PLURAL_CAUSED,
)
from commonbrain.text.patterns import lazy_pattern

_WAS: Final = (
    r"(?:(?:turns out to|turned out to|tends? to|was found to|were found to|is known to"
    r"|are known to|has|have|had) )?(?:have )?"
    r"(?:is|are|was|were|be|been)(?: being)? (?:[a-z]{2,15}ly |all |in part |in the end )?"
)
_BY: Final = r"by (?:always |never |only |first |not )?[a-z]{2,20}ing\b"
_SO_THEN: Final = (
    r"(?:as a result|as a consequence|consequently|therefore|hence|thus|because of (?:this|that)"
    r"|that is why|that's why|this is why|which is why)"
)
_NOT_SO: Final = "(?!far |that |much |many |long (?:as|that|ago) |to |called |on )"
"""After these, "so" has another meaning."""
_CLAUSE_BEGINS: Final = (
    r"(?=(?:it|they|we|the|our|all|every|no|nobody|nothing|its|their|each|half|both|users|customers"
    r"|requests|clients|an?|my|only|now|then)\b)"
)
_BECAUSE: Final = r"(?:because|bc|b/c|cuz|coz|'cause)"
_DUE_TO: Final = (
    r"(?:because of|bc of|due to|thanks to|owing to|on account of|as a result of"
    r"|as a consequence of|courtesy of)"
)
_ROOT: Final = r"(?:(?:root|underlying|actual|real|main|primary|ultimate)[ -])?"
_WHEN: Final = r"(?:when|whenever|every time|each time|as soon as)"


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way in which English states a cause."""

    name: str
    cues: frozenset[str]
    """Words of which a sentence has at least one; the others are not searched for the sign."""
    sign: re.Pattern[str]
    """Matches text in lower case."""
    cut: Cutting
    fits: Callable[[Cut], bool]
    is_thing: bool = False
    """Whether the cause is a noun phrase, as before "led to", rather than a clause."""
    denied_within: int = 1
    """Number of words before the sign in which "not" denies it."""

    @property
    def is_label(self) -> bool:
        """Return whether the sign only announces a cause: "Root cause: "."""
        return self.name == "root cause" and self.cut in {effect_nearby, between_named}


def _of_clause(
    cues: str, name: str, *, sign: str, cut: Cutting, fits: Callable[[Cut], bool]
) -> Pattern:
    """Return a pattern whose cause is a clause."""
    return Pattern(name, frozenset(cues.split()), lazy_pattern(sign), cut, fits)


def _of_thing(
    cues: str, name: str, *, sign: str, cut: Cutting, fits: Callable[[Cut], bool]
) -> Pattern:
    """Return a pattern whose cause is a noun phrase, which "not" may deny from further away."""
    row = _of_clause(cues, name, sign=sign, cut=cut, fits=fits)
    return replace(row, is_thing=True, denied_within=3)


# At the same position the first pattern wins; otherwise the leftmost sign.
PATTERNS: Final = (
    # A reason: "because", "due to", "since", "as".
    _of_clause("so", "so", sign=r",? so that ", cut=cause_first, fits=has_effect_clause),
    _of_clause(
        "because due thanks owing account result consequence courtesy bc",
        "because of",
        sign=rf"^{_DUE_TO} ",
        cut=opening_thing,
        fits=has_ground,
    ),
    _of_clause("because bc", "because", sign=r"^(?:because|bc) ", cut=opening, fits=has_reason),
    _of_clause(
        "because due thanks owing account result consequence courtesy bc",
        "because of",
        sign=rf",? \b{_DUE_TO} ",
        cut=effect_first,
        fits=has_ground,
    ),
    _of_clause(
        "because bc b/c cuz coz 'cause",
        "because",
        sign=rf",? {_BECAUSE} ",
        cut=effect_first,
        fits=has_reason,
    ),
    _of_clause("since", "since", sign=r"^since ", cut=opening, fits=is_no_date),
    _of_clause("since", "since", sign=r",? \bsince ", cut=effect_first, fits=is_no_date),
    _of_clause(
        "as",
        "as",
        sign=r",? as (?=(?:the|our|its|their|every|all|no|some|nobody) (?!same\b))",
        cut=effect_first,
        fits=is_lasting_reason,
    ),
    # A fix: "fixed by", "fixed with".
    _of_clause("by", "fixed", sign=rf"(?<=[a-z0-9)'\"`] ){_BY}", cut=by_gerund, fits=is_fixed_by),
    _of_clause(
        "with",
        "fixed",
        sign=r"(?<=[a-z0-9)'\"`] )with (?=an? |the |some )",
        cut=effect_first,
        fits=is_fixed_with,
    ),
    _of_clause(
        "by",
        "fixed",
        sign=r" (?P<verb>(?:was|were|got) (?:fixed|resolved|solved|cured|mitigated)) by "
        r"(?=an? |another )",
        cut=effect_first_with_verb,
        fits=is_named_cause,
    ),
    _of_clause(
        "by",
        "fixed",
        sign=r"^(?:fixed|resolved|solved|cured|mitigated) by ",
        cut=effect_before,
        fits=is_named_cause,
    ),
    # The passive: "was caused by", "was blocked by".
    _of_thing(
        "to",
        "traced",
        sign=rf" {_WAS}traced (?:back |down )?to ",
        cut=effect_first,
        fits=is_traced,
    ),
    _of_thing(
        "by",
        "caused by",
        sign=rf" {_WAS}(?:caused|triggered|brought on|brought down|set off) by ",
        cut=effect_first,
        fits=is_caused,
    ),
    _of_thing(
        "to of from",
        "caused by",
        sign=rf" (?:{_WAS}(?:due to|down to (?=an?|the|our|its|their|some)"
        r"|the (?:result|consequence) of|attributed to)"
        r"|(?:resulted|results|result|stems|stem|stemmed|arose|arises) from"
        r"|(?:comes|came|boils|boiled) down to) ",
        cut=effect_first,
        fits=has_ground,
    ),
    _of_clause(
        "when after because",
        "caused by",
        sign=r" (?:was|were|got) (?:triggered|caused|set off) (?:when|after|because) ",
        cut=effect_first,
        fits=has_reason,
    ),
    _of_thing(
        "by",
        "caused by",
        sign=r", (?:apparently |all )?(?:caused|triggered) by (?=[^,;]{4,200}$)",
        cut=effect_first,
        fits=is_named_cause,
    ),
    _of_clause(
        "by", "caused by", sign=r"^(?:caused|triggered) by ", cut=effect_before, fits=is_named_cause
    ),
    _of_thing(
        "by",
        "passive",
        sign=rf" (?P<verb>(?:is|are|was|were|been|got|gets|being) (?:[a-z]{{2,15}}ly )?{PASSIVE})"
        r"(?: for [a-z0-9 ]{1,30})? by (?![a-z]{2,15}ing )",
        cut=effect_first_with_verb,
        fits=is_named_cause,
    ),
    # A named cause: "root cause:", "the reason for X was", "X turned out to be".
    _of_clause(
        "reason cause culprit explanation causes reasons",
        "root cause",
        sign=rf"^(?:the |one |our )?{_ROOT}(?:reason|cause|culprit|explanation)s? "
        r"(?:for|of|behind|why|that) (?P<effect>[^:]{3,100}?)"
        r"(?: (?:was|is|were|are|turned out to be)(?: that)?|:) ",
        cut=between_named,
        fits=is_named_cause,
    ),
    _of_clause(
        "cause culprit reason",
        "root cause",
        sign=rf"^(?:the |our )?{_ROOT}(?:cause|culprit|reason)"
        r"(?::| (?:was|is|were|turned out to be)(?: that)?) ",
        cut=effect_nearby,
        fits=has_root_effect,
    ),
    _of_clause(
        "cause reason culprit",
        "root cause",
        sign=rf" (?:was|is|were|are) (?:the|one|another) {_ROOT}(?:cause|reason|culprit) "
        r"(?:of|for|behind) ",
        cut=cause_first,
        fits=has_object,
    ),
    _of_thing(
        "out",
        "turned out",
        sign=r" (?:turned|turns) out to be (?!caused|due)",
        cut=effect_first,
        fits=is_trouble,
    ),
    _of_clause(
        "traced tracked",
        "traced",
        sign=r"^(?:(?:we|i|they|the team|engineers) )?(?:have |had )?"
        r"(?:traced|tracked) (?P<effect>.{3,80}?)(?: back| down)? to ",
        cut=between_named,
        fits=is_traced,
    ),
    # What a cause did: "causing", "which broke", "This broke", "X broke Y".
    _of_clause(
        "causing resulting leading triggering bringing",
        "causing",
        sign=r",? (?:causing|resulting in|leading to|triggering|bringing down) ",
        cut=cause_first,
        fits=has_object,
    ),
    _of_clause(
        verbs.ACTING_CUES,
        "causing",
        sign=rf", (?:and )?(?:thus |thereby )?(?P<verb>{ACTING} (?!up\b|out\b|to\b|for\b|and\b))",
        cut=cause_first_with_verb,
        fits=has_object,
    ),
    _of_clause(
        "which this that",
        "which",
        sign=rf", (?:which|and (?:this|that)) (?:also |then )?(?P<verb>{DID}) ",
        cut=cause_first_with_verb,
        fits=has_object,
    ),
    _of_clause(
        "and that this",
        "which",
        sign=rf" and (?:this|that) (?:also |then )?(?P<verb>{DID}) ",
        cut=cause_first_with_verb,
        fits=has_effect,
    ),
    _of_clause(
        "this that these",
        "this",
        sign=rf"^(?:this|that|these) (?:also |then |in turn )?(?!makes? sense)(?P<verb>{DID}) ",
        cut=sentence_before,
        fits=has_object,
    ),
    _of_clause(
        "as consequently therefore hence thus because that that's this which",
        "this",
        sign=rf"^{_SO_THEN},? ",
        cut=sentence_before,
        fits=has_effect,
    ),
    _of_clause(
        "as consequently therefore hence thus because that that's this which",
        "so",
        sign=rf"(?:[,;] (?:and )?| and )(?:{_SO_THEN}),? ",
        cut=cause_first,
        fits=has_effect_or_thing,
    ),
    _of_clause(
        "so", "so", sign=r"[,;] (?:and )?so " + _NOT_SO, cut=cause_first, fits=has_effect_clause
    ),
    _of_clause(
        "so",
        "so",
        sign=r"(?<=[a-z0-9)]) (?:and )?so " + _NOT_SO + _CLAUSE_BEGINS,
        cut=cause_first,
        fits=has_effect_clause,
    ),
    _of_clause(
        "result consequence",
        "so",
        sign=r",? as a (?:result|consequence)\.?$",
        cut=at_the_end,
        fits=has_effect_clause,
    ),
    _of_thing(
        "led leads lead",
        "causes",
        sign=r" (?:led to|leads to|lead to) ",
        cut=cause_first,
        fits=is_no_way,
    ),
    _of_thing(
        verbs.CUES,
        "causes",
        sign=rf" (?:is causing|are causing|was causing|were causing|{CAUSED}{NOT_BY}) ",
        cut=cause_first,
        fits=has_object,
    ),
    _of_thing(
        verbs.CUES,
        "causes",
        sign=rf"(?<=s) {PLURAL_CAUSED}{NOT_BY} ",
        cut=cause_first,
        fits=has_object,
    ),
    # A condition or a time: "when", "if", "after".
    _of_clause(
        "when whenever every each soon once",
        "when",
        sign=rf"^(?:{_WHEN}|once) ",
        cut=opening,
        fits=is_occasion,
    ),
    _of_clause(
        "when whenever every each soon",
        "when",
        sign=rf" {_WHEN} ",
        cut=effect_first,
        fits=is_occasion,
    ),
    _of_clause(
        "once",
        "when",
        sign=r" once (?=(?:the|an?|its|their|our|all|every|it|they) )",
        cut=effect_first,
        fits=is_occasion,
    ),
    _of_clause("if", "if", sign=r"^if ", cut=opening, fits=is_condition),
    _of_clause("if", "if", sign=r",? if ", cut=effect_first, fits=is_general),
    _of_clause("after", "after", sign=r"^after ", cut=opening, fits=is_aftermath),
    _of_clause(
        "after",
        "after",
        sign=r",? (?:right |shortly |soon )?after ",
        cut=effect_first,
        fits=is_aftermath,
    ),
)
"""In order of preference at one position of a sentence."""

VERBS: Final = (
    _of_clause(
        verbs.CUES,
        "doing",
        sign=r"^(?:[a-z]{2,12}ly )?[a-z-]{2,20}ing [^,;:.?]{2,120}? "
        rf"(?P<verb>{EFFECT_VERB} (?={DETERMINER}|\S{{4,30}} )|{EFFECT_PHRASE})",
        cut=cause_first_with_verb,
        fits=is_impersonal,
    ),
    _of_thing(
        verbs.CUES,
        "causes",
        sign=rf" (?P<verb>{EFFECT_VERB} (?={DETERMINER})|{EFFECT_PHRASE})",
        cut=cause_first_with_verb,
        fits=is_impersonal,
    ),
)
"""Verbs that state an effect by themselves, for sentences that no other pattern fits."""

LESSONS: Final = (
    _of_clause(
        verbs.CUES,
        "learned",
        sign=rf" (?P<verb>{DID}) ",
        cut=cause_first_with_verb,
        fits=has_two_sides,
    ),
)
"""Extra patterns for sentences that report a lesson, tried after the others."""

CUES: Final = frozenset[str]().union(*(one.cues for one in (*PATTERNS, *VERBS, *LESSONS)))
"""A text without any of these words states no cause."""
