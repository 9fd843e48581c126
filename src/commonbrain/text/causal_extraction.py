"""The atomizer: extract causes and effects from text by patterns of causal English.

A sentence is matched against the table of patterns from left to right and split at the first that
fits. Work is linear: no pattern repeats within a repeat, the number of matches per sentence is
bounded, and text longer than a sentence is skipped. Measured by `brain eval atomizer`.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from typing import Final

from commonbrain.model.atoms import ATOMS_MAX, QUALITY_MIN, Atom
from commonbrain.text.clauses import (
    Cut,
    Cutting,
    Sentence,
    at_the_end,
    by_gerund,
    cause_first,
    cause_first_with_verb,
    effect_first,
    has_verb,
    is_about_people,
    is_factual,
    is_order,
    opening,
    seconds_in,
    sentence_before,
    split_at_verb,
    trimmed,
    words,
)

_FIX_VERBS: Final = (
    r"(?:fixed|resolved|solved|mitigated|worked around|repaired|cured|unblocked|healed)"
)
_FIXED: Final = re.compile(rf"(?:\S{{1,40}} )?(?:\S{{1,40}} )?{_FIX_VERBS} \S", re.IGNORECASE)
_IMPROVED: Final = re.compile(
    rf"\b{_FIX_VERBS}\b|^(?:\S{{1,40}} )?(?:\S{{1,40}} )?(?:cut|halved|reduced|sped up"
    r"|improved|avoided|prevented|removed|eliminated|shortened|saved|lowered)\b",
    re.IGNORECASE,
)
_DENIALS: Final = frozenset("not never no nor none neither nothing nobody hardly cannot".split())
"""Shortly before a sign, these deny it."""
_NEARLY: Final = frozenset("nearly almost rarely seldom barely scarcely".split())
"""These deny what a thing did."""
_NO_THING: Final = frozenset("not never none neither nobody nothing".split())
"""These deny a thing, however far before the sign."""
_RELATIVE: Final = frozenset("that which who".split())
_SOONER: Final = frozenset("before until unless".split())
"""Before the single word that opens a clause, these say that it did not happen."""
_CONJUNCTIONS: Final = frozenset("and or but because".split())
_TURNED: Final = frozenset("without than of".split())
"""Directly before a sign, these reverse it: "without causing", "instead of causing"."""
_DATES: Final = frozenset(
    "monday tuesday wednesday thursday friday saturday sunday january february march april may june"
    " july august september october november december yesterday last then ever christmas easter"
    " version release noon midnight morning today spring summer autumn winter".split()
)
_PERFECT: Final = frozenset("has have hasn't haven't".split())
_TO_HAPPEN: Final = frozenset(
    "be arrive ship start end expire launch land leave begin go release close open retire happen"
    " finish come appear return move run speak meet".split()
)
_PLACES: Final = frozenset("road door path stairs corridor street link bridge tunnel hall".split())
_OF_NOUNS: Final = frozenset(
    "the a an for of and or root common possible known main other all these many its their"
    " to by with from in new good can".split()
)
"""After these, "causes" and "triggers" are nouns."""
_NO_OBJECTS: Final = frozenset("nothing no of and or but as is are was were".split())
"""Before these they are nouns too, or caused nothing."""
_STATES: Final = frozenset("still already".split())
_VAGUE: Final = frozenset("it they this that he she left not possible needed any".split())
"""A condition that begins with one of these says little by itself."""
_JUDGED: Final = re.compile(
    r"(?:[a-z]{2,9},? )?(?:it|that|this)(?:'s| is| was| sucks| helps| feels| can be) ",
    re.IGNORECASE,
)
"""Judgements begin with these ("it is great when"); they name no effect."""
_ASKING: Final = frozenset(
    "questioned unsure remember checking checks asked ask asks know knows knew check see tell sure"
    " even as only not just wondered".split()
)


def is_denied(head: str, *, within: int) -> bool:
    """Return whether the text before a sign denies it."""
    tail = words(head)[-within:]
    return tail[-1:] in (["ever"], ["but"]) or not _TURNED.isdisjoint(tail[-1:]) or _denies(tail)


def is_no_thing(head: str) -> bool:
    """Return whether the thing before a sign is denied, or almost did not happen.

    "The job that never ends caused it" denies nothing, nor does "not having an index caused it".
    """
    tokens = words(head)
    free = next((place for place, word in enumerate(tokens) if word in _RELATIVE), len(tokens))
    denied = any(
        (one in _NO_THING or one.endswith("n't")) and not two.endswith("ing")
        for one, two in pairwise([*tokens[:free], ""])
    )
    return denied or not _NEARLY.isdisjoint(tokens[-2:]) or not _SOONER.isdisjoint(tokens[-2:-1])


def _denies(tokens: Sequence[str]) -> bool:
    return any(word in _DENIALS or word.endswith("n't") for word in tokens)


def has_reason(cut: Cut) -> bool:
    """Require a clause after "because", and no rejected alternative."""
    is_other = words(cut.head)[-1:] in (["just"], ["merely"]) or is_order(cut.effect)
    return has_verb(cut.cause) and not is_other and " because " not in f" {cut.cause} "


def has_ground(cut: Cut) -> bool:
    """Require a thing after "due to", rather than something due to happen or a denial."""
    tokens, effect = words(cut.cause), words(cut.effect)
    is_loose = is_order(cut.effect) or effect[-1] in _RELATIVE | _CONJUNCTIONS
    return bool(tokens) and tokens[0] not in _TO_HAPPEN and not _denies(effect) and not is_loose


def is_no_date(cut: Cut) -> bool:
    """Distinguish "since" as a reason from "since" as a time.

    A time is a date or a thing without a verb; what has been so since then is in a perfect tense.
    """
    cause, effect = words(cut.cause), words(cut.effect)
    is_dated = not _DATES.isdisjoint(cause[:2]) or cause[0][0].isdigit()
    is_perfect = any(
        (one in _PERFECT or one == "is") and two in {"been", "seen", "had", "not"}
        for one, two in pairwise(effect)
    )
    has_perfect = any(word in _PERFECT or word.endswith("'ve") for word in effect)
    is_possession = has_perfect and not is_perfect and "no" in effect
    # "Since we talked" is a time: people's actions are seldom reasons.
    is_dated = is_dated or is_about_people(cut.cause)
    is_said = has_verb(cut.cause) and has_verb(cut.effect) and not is_order(cut.effect)
    return is_said and not is_dated and (is_possession or not has_perfect)


def is_condition(cut: Cut) -> bool:
    """Accept general conditions; reject orders, counterfactuals and coincidences."""
    cause, effect = words(cut.cause), words(cut.effect)
    is_unreal = not {"had", "were"}.isdisjoint(cause[:3]) and "had" in cause
    is_backdrop = not _STATES.isdisjoint(effect) or _is_backdrop(effect)
    is_asked = bool(effect) and (effect[-1] in _ASKING or effect[0] == "you")
    is_said = has_verb(cut.cause) and has_verb(cut.effect)
    is_vague = cause[0] in _VAGUE or cause[0].endswith("ing") or "otherwise" in cause
    is_other = is_unreal or is_backdrop or is_asked or is_vague or is_order(cut.effect)
    return is_said and not is_other


def is_occasion(cut: Cut) -> bool:
    """Require things in both halves: people's comings and goings cause little."""
    is_plain = not is_about_people(cut.cause) and not is_about_people(cut.effect)
    is_judged = _JUDGED.match(cut.effect) is not None or words(cut.effect)[-1:] == ["that's"]
    return is_plain and not is_judged and is_condition(cut)


def _is_backdrop(effect: Sequence[str]) -> bool:
    """Return whether the effect was already going on: "we were using", "it had been"."""
    pairs = pairwise(effect)
    return any(
        (one in {"was", "were"} and two.endswith("ing")) or (one == "had" and two.endswith("ed"))
        for one, two in pairs
    )


def has_object(cut: Cut) -> bool:
    """Require an effect."""
    effect, cause = words(cut.effect), words(cut.cause)
    is_nothing = not _NO_OBJECTS.isdisjoint(effect[:1])
    is_verb = _OF_NOUNS.isdisjoint(cause[-1:])
    is_caused = len(cause) > 1 and cause[0] not in {"what", "nobody"}
    return is_caused and is_verb and not is_nothing


def is_no_way(cut: Cut) -> bool:
    """Reject places: a road leads somewhere without causing anything."""
    return _PLACES.isdisjoint(words(cut.cause)) and has_object(cut)


def has_effect_clause(cut: Cut) -> bool:
    """Require clauses on both sides, neither of them an order."""
    return has_verb(cut.effect) and not is_order(cut.effect) and has_verb(cut.cause)


def is_fixed_by(cut: Cut) -> bool:
    """Require a fix or an improvement before "by doing"."""
    return _is_done(_IMPROVED.search(cut.effect)) and len(words(cut.cause)) > 1


def is_fixed_with(cut: Cut) -> bool:
    """Require a fix before "with"."""
    return _is_done(_FIXED.match(cut.effect)) and len(words(cut.cause)) > 1


def _is_done(match: re.Match[str] | None) -> bool:
    """Return whether the text reports a fix and does not deny it."""
    return match is not None and not _denies(words(match.string[: match.end()]))


def has_two_sides(cut: Cut) -> bool:
    """Require more than one word on both sides."""
    return len(words(cut.cause)) > 1 and len(words(cut.effect)) > 1


_CAUSED: Final = (
    r"(?:caused|causes|triggered|triggers|resulted in|results in|brought about"
    r"|brings about|brought down|brings down|brought on|set off|gave rise to)"
)
_PLURAL_CAUSED: Final = r"(?:cause|trigger|result in|bring down)"
_NOT_BY: Final = r"(?! (?:not |only |either |[a-z]{2,15}ly |in part )?by\b)"
""""caused by X" makes the subject the effect."""
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
"""After these, "so" has another meaning."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One way in which English states a cause."""

    name: str
    sign: re.Pattern[str]
    cut: Cutting
    fits: Callable[[Cut], bool]
    is_thing: bool = False
    """Whether the cause is a noun phrase, as before "led to", rather than a clause."""
    denied_within: int = 1
    """Number of words before the sign in which "not" denies it."""


def _sign(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


# At the same position the first pattern wins; otherwise the leftmost sign.
PATTERNS: Final = (
    Pattern("so", _sign(r",? so that "), cause_first, has_effect_clause),
    Pattern("fixed", _sign(rf"(?<=[a-z0-9)'\"`] ){_BY}"), by_gerund, is_fixed_by),
    Pattern(
        "fixed",
        _sign(r"(?<=[a-z0-9)'\"`] )with (?=an? |the |some )"),
        effect_first,
        is_fixed_with,
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
"""In order of preference at one position of a sentence."""

LESSONS: Final = (
    Pattern("learned", _sign(rf" (?P<verb>{DID}) "), cause_first_with_verb, has_two_sides),
)
"""Extra patterns for sentences that report a lesson."""


TEXT_CHARS_MIN: Final = 30
"""A shorter text cannot state a cause and its effect."""
_SIGNS_MAX: Final = 8
"""Matches to try in one sentence."""
_SENTENCE_CHARS_MAX: Final = 600
"""Longer runs are logs or lists rather than sentences."""


def extract_atoms(text: str) -> tuple[Atom, ...]:
    """Extract at most three atoms, the best first."""
    if not is_causal(text):
        return ()
    candidates = (_atom(sentence) for sentence in _sentences(text))
    atoms = [one for one in candidates if one is not None and one.quality >= QUALITY_MIN]
    return tuple(sorted(atoms, key=lambda one: (-one.quality, one.start))[:ATOMS_MAX])


def is_causal(text: str) -> bool:
    """Return whether a text is long enough and contains a causal word."""
    return len(text) >= TEXT_CHARS_MIN and _CAUSAL_WORD.search(text) is not None


def _atom(sentence: Sentence) -> Atom | None:
    """Split a sentence at the first match that fits."""
    plain = _LEARNED.sub("", sentence.text, count=1)
    stripped = replace(sentence, text=plain)
    if plain == sentence.text and _CAUSAL_WORD.search(plain) is None:
        return None
    if not is_factual(plain) or not is_factual(sentence.text):
        return None
    for pattern, sign in _signs(plain, was_learned=plain != sentence.text):
        cut = pattern.cut(stripped, sign)
        if cut is None or not _is_sound(cut, pattern) or not pattern.fits(cut):
            continue
        made = _made(cut, pattern)
        end = sentence.start + len(sentence.text)
        return replace(made, start=sentence.start, end=end)
    return None


def _signs(text: str, *, was_learned: bool) -> list[tuple[Pattern, "re.Match[str]"]]:
    """Return the matches from left to right; at the same position, in the order of the table."""
    table = (*PATTERNS, *LESSONS) if was_learned else PATTERNS
    matches = [
        (pattern, sign)
        for pattern in table
        for sign in islice(pattern.sign.finditer(text), _SIGNS_MAX)
    ]
    return sorted(matches, key=lambda one: one[1].start())[:_SIGNS_MAX]


def _is_sound(cut: Cut, pattern: Pattern) -> bool:
    """Return whether both sides have content, and the sign is not denied."""
    is_so = not is_denied(cut.head, within=pattern.denied_within)
    is_so = is_so and not (pattern.is_thing and is_no_thing(cut.head))
    return is_so and bool(words(cut.cause)) and bool(words(cut.effect))


def _made(cut: Cut, pattern: Pattern) -> Atom:
    """Build the atom: subject and action, outcome, consequences."""
    effect, following = _chained(cut.effect)
    # In "Y because X, so Z" the consequences follow the cause.
    follows_cause = cut.head == cut.effect
    cause, passed_on = _chained(cut.cause) if follows_cause else (cut.cause, "")
    subject, action = (_bare(cause), "") if pattern.is_thing else split_at_verb(_bare(cause))
    consequences = following or passed_on
    return Atom(
        subject=subject,
        action=action,
        outcome=_bare(effect),
        consequences=_bare(consequences),
        outcome_delay_s=seconds_in(effect),
        consequence_delay_s=seconds_in(consequences),
        pattern=pattern.name,
    )


def _chained(text: str) -> tuple[str, str]:
    """Split off what the text says happened next."""
    match = _FOLLOWING.search(text)
    if match is None or len(words(text[: match.start()])) < 2:  # noqa: PLR2004 one word is no clause
        return text, ""
    return text[: match.start()], text[match.end() :]


def _bare(text: str) -> str:
    return trimmed(_JOINING.sub("", trimmed(text), count=1))


_LEARNED: Final = _sign(
    r"^(?:(?:i|we|today i|today we|the team|just) (?:have |also |just |then )?)?"
    r"(?:(?:learn(?:ed|t)|reali[sz]ed|discovered|found out|figured out|noticed)"
    r"(?: today| yesterday| now| that day)? that |til:? (?:that )?|lesson learned: ?)"
)
_CAUSAL_WORD: Final = _sign(
    r"\b(?:because|since|due to|thanks to|owing to|on account of|caus(?:e|es|ed|ing)"
    r"|result(?:s|ed|ing)?|lead(?:s|ing)? to|led to|trigger(?:s|ed|ing)?|which|this|that|these|it"
    r"|so|therefore|hence|thus|consequently|when|whenever|every time|each time|as soon as|once"
    r"|if|by|with|stems?|stemmed|broke|breaks|brought|brings|set off|gave rise|breaking|forcing"
    r"|leaving|making)\b"
)
_FOLLOWING: Final = _sign(
    rf"[,;] (?:which |and (?:this|that) )(?={DID} )|,? (?:causing|resulting in|leading to) "
    r"|[,;] (?:and )?so (?!that )"
    r"|[,;] (?:and )(?=[a-z0-9]{1,9} (?:second|minute|hour|day|week)s? later)"
)
_JOINING: Final = _sign(r"^(?:and|but|so|then|also|that|however|in the end|by)[, ]+")

_FENCE: Final = re.compile(r"[ \t]{0,3}(?:```|~~~)")
_NO_PROSE: Final = re.compile(r"[ \t]{0,3}(?:>|\||#|    )")
"""Quotes, tables, headings and code: not the author's own account of what happened."""
_BULLET: Final = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,3}[.)])[ \t]+)?(?:\[[ xX]\][ \t]+)?")
_COMMIT: Final = re.compile(r"[a-z]{2,12}(?:\([\w./-]{1,40}\))?!?: (?=\w)")
"""The prefix of a commit message: `fix(api): `."""
_SENTENCE_END: Final = re.compile(r"[.!?](?=[\s\"')]|$)")


def _sentences(text: str) -> Iterator[Sentence]:
    """Return the sentences of prose, each with the previous one of its paragraph."""
    before, is_code, start = "", False, 0
    for line in text.splitlines(keepends=True):
        is_fence = _FENCE.match(line) is not None
        is_code = is_code != is_fence
        if is_code or is_fence or _NO_PROSE.match(line) or not line.strip():
            before = ""
        else:
            for one in _cut_line(line, start=start, before=before):
                yield one
                before = one.text
        start += len(line)


def _cut_line(line: str, *, start: int, before: str) -> Iterator[Sentence]:
    opened = _BULLET.match(line)
    place = opened.end() if opened else 0
    commit = _COMMIT.match(line, place)
    place = commit.end() if commit else place
    ends = [match.end() for match in _SENTENCE_END.finditer(line)]
    for end in (*ends, len(line)):
        span = line[place:end]
        if span.strip(" \t\r\n.") and len(span) <= _SENTENCE_CHARS_MAX:
            lead = len(span) - len(span.lstrip())
            sentence = " ".join(span.split())
            yield Sentence(text=sentence, start=start + place + lead, before=before)
            before = sentence
        place = end
