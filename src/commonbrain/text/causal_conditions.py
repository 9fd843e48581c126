"""Conditions on a cause and its effect, which reject what only looks like a causal sentence."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from commonbrain.text.actions import names_change
from commonbrain.text.causal_cuts import Cut
from commonbrain.text.clauses import (
    NEGATIONS,
    begins_with_verb,
    certain_verb_at,
    clause_words,
    ends_phrase,
    has_verb,
    is_about_people,
    is_order,
    split_at_verb,
    verb_at,
    words,
)
from commonbrain.text.patterns import lazy_pattern

_FIX_VERBS: Final = (
    r"(?:fixed|resolved|solved|mitigated|worked around|repaired|cured|unblocked|healed)"
)
_FIXED: Final = lazy_pattern(rf"(?:\S{{1,40}} )?(?:\S{{1,40}} )?{_FIX_VERBS} \S", re.IGNORECASE)
_IMPROVED: Final = lazy_pattern(
    rf"\b{_FIX_VERBS}\b|^(?:\S{{1,40}} )?(?:\S{{1,40}} )?(?:cut|halved|reduced|sped up"
    r"|improved|avoided|prevented|removed|eliminated|shortened|saved|lowered)\b",
    re.IGNORECASE,
)
_DENIALS: Final = NEGATIONS - {"without"} | {"hardly"}
"""Shortly before a sign, these deny it."""
_NEARLY: Final = frozenset("nearly almost rarely seldom barely scarcely".split())
"""These deny what a thing did."""
_NO_THING: Final = frozenset("not never none neither nobody nothing".split())
"""These deny a thing, however far before the sign."""
_NO_CAUSES: Final = frozenset("nothing none neither nor nobody never".split())
"""A cause that begins with one of these is denied: "caused by nothing we changed"."""
_RELATIVE: Final = frozenset("that which who".split())
_ASKING_FIRST: Final = frozenset("what how why who which".split())
"""A side that begins with one of these is a question, if not marked as one."""
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
_NO_OBJECTS: Final = frozenset(
    "nothing no of and or but as is are was were when if after because whenever".split()
)
"""Before these they are nouns too, or caused nothing."""
_NO_SUBJECT_ENDS: Final = frozenset("what who how whatever is are was were been be".split())
"""A clause that ends with one of these asks, or is passive."""
_STATES: Final = frozenset("still already".split())
_VAGUE: Final = frozenset("it they this that he she left not possible needed any".split())
"""A condition that begins with one of these says little by itself."""
_JUDGED: Final = lazy_pattern(
    r"(?:[a-z]{2,9},? )?(?:it|that|this)(?:'s| is| was| sucks| helps| feels| can be) ",
    re.IGNORECASE,
)
"""Judgements begin with these ("it is great when"); they name no effect."""
_ASKING: Final = frozenset(
    "questioned unsure remember checking checks asked ask asks know knows knew check see tell sure"
    " say says said record records show shows"
    " even as only not just wondered".split()
)


_FEELING: Final = lazy_pattern(
    r"(?:but |and |so |well,? )?(?:i|we|he|she|they|you)(?:'m|'re| am| are| is| was| were)?"
    r" (?:really |so |very |just |always )?(?:happy|glad|sad|tired|sorry|excited|proud|curious"
    r"|afraid|hungry|late|likes?|liked|loves?|loved|hates?|hated|enjoy(?:s|ed)?|miss|feel|felt)\b",
    re.IGNORECASE,
)
_NO_REASON: Final = lazy_pattern(
    r"(?:of course|why|reasons|honestly|obviously|yes|duh|i said|you know|who|what) ?",
    re.IGNORECASE,
)
_NO_GROUND: Final = lazy_pattern(
    r"(?:every(?:one|body)|all|you|him|her|them|me|us|course|reasons|whom?)\b", re.IGNORECASE
)
_FAILED: Final = lazy_pattern(
    r"\b(?:did not|didn't|could not|couldn't|was not|wasn't|were not|weren't|cannot|can't"
    r"|is not|isn't|no longer|wouldn't|never)\b",
    re.IGNORECASE,
)
_COINCIDENCE: Final = lazy_pattern(
    r"\b(?:happened|occurred|began|ended|took place|rang|arrived)$", re.IGNORECASE
)
_IS_AT: Final = lazy_pattern(
    r"^\S{1,30} (?:was|were|is|are) (?:on|in|at|with|away|asleep)\b", re.IGNORECASE
)
_UNKNOWN: Final = frozenset(
    "still unknown unclear not yet being under nothing none design default hand mistake accident"
    " definition law me us you him them it far what who how why where anybody someone".split()
)
_PREPOSITION: Final = lazy_pattern(
    r" (?:of|in|on|at|from|for|with|that|which|between|behind|after|to|by|who|under|per) "
)
_PEOPLE: Final = frozenset(
    "man woman men women kid kids child children king dog cat team customer customers user users"
    " engineer engineers operator operators developer developers"
    " colleague colleagues vendor vendors manager managers admin admins contractor people bot"
    " staff company boss intern student teacher author reviewer reviewers friend guy folks group"
    " agent agents assistant landlord competitor plumber department police doctor"
    " client clients supplier auditor auditors support legal".split()
)
_ARTICLES: Final = frozenset("a an the our one two some".split())
_OBJECTS: Final = frozenset("the a an our its his her their it them".split())
_BEING: Final = frozenset("is are was were has have had".split())
_PRONOUNS: Final = frozenset("me us you him her them myself".split())
_NOT_SUBJECTS: Final = frozenset(
    "what which who nobody nothing this that these those it and but or so then there here if when"
    " because as after before how why where also only not never".split()
)
_GENITIVE: Final = lazy_pattern(r"(?:['\u2019]s|s['\u2019])$")
_TROUBLE: Final = lazy_pattern(
    r"\b(?:fail(?:ed|ing)?|wrong|missing|lost|broken|stuck|corrupt\w{0,4}|duplicate\w{0,2}|duplicating"
    r"|dropp?\w{0,3}|unavailable|rejected|delayed|high|growing|outages?|incidents?|crash(?:es)?|failures?|errors?|leaks?|latency|slow\w{0,4}|spikes?"
    r"|timeouts?|delays?|bugs?|problems?|issues?|hangs?|downtime|regressions?|flak\w{1,4}|alerts?"
    r"|gaps?|loss|[45]\d\d ?s|lag|stalls?|freezes?|glitch(?:es)?|drift|noise|cause|culprit)\b",
    re.IGNORECASE,
)
_PRESENT_TENSE: Final = frozenset("is are has have need needs does do can cannot can't".split())
_EVENT: Final = lazy_pattern(r"\b(?:left|trip|tripped|announced|turned|cut)\b", re.IGNORECASE)
"""Events other than changes after which something may fail."""
_CHANGED: Final = lazy_pattern(
    r"\b(?:stopped|broke|breaks|fails?|failed|crash(?:es|ed)?|doubled|tripled|dropped|rose|lost"
    r"|fell|spiked|jumped|slowed|recovered|vanished|disappeared|hung|froze|timed out|died|climbed"
    r"|degraded|went (?:down|up|red|blank|away|back|read-only|offline)"
    r"|(?:was|were) (?:gone|down|up)|could(?: not|n't)?|returned|halved|grew|shrank|ran out)\b",
    re.IGNORECASE,
)


_HEDGES: Final = frozenset(
    "about around roughly nearly almost at least most up to over only just more less than the"
    " better part further additional another some".split()
)
_AMOUNTS: Final = frozenset(
    "a an one two three four five six seven eight nine ten eleven twelve fifteen twenty thirty"
    " forty fifty sixty ninety hundred thousand half third quarter several few many couple dozens"
    " tens hundreds factor order of another some full whole further business"
    " working calendar".split()
)
_UNITS: Final = frozenset(
    "% percent point second millisecond sec minute min hour day night week month quarter year"
    " sprint ms kb mb gb tb kib mib gib time euro dollar pound magnitude fold half third".split()
)
_AMOUNT: Final = lazy_pattern(r"[$\u20ac\u00a3]?\d[\d.,]*(?P<unit>%|x|[a-z]{1,3})?")
_FURTHER: Final = frozenset("of that which without with".split())
"""After a measure, these say what there was so much of: "two weeks of rain"."""
_REPAIRS: Final = lazy_pattern(
    rf"\b(?:{_FIX_VERBS}|renewed|restored|rolled back|reverted|recovered|re-?enabled|patched"
    r"|corrected)\b",
    re.IGNORECASE,
)
_ACTS: Final = lazy_pattern(
    r"\b(?:was|were|got) (?:then |finally )?"
    r"(?:replaced|restarted|rebooted|cleaned|redeployed|extended|rebuilt)\b",
    re.IGNORECASE,
)
"""Repairs, unless they had to be repeated: "the pods were restarted every hour"."""
_REPEATED: Final = lazy_pattern(
    r"\b(?:(?:every|each) (?:\w+ )?(?:time|second|minute|hour|night|day|week|month)s?"
    r"|again and again|repeatedly|constantly|continually|twice|\w+ times|hourly|daily|in a loop)\b",
    re.IGNORECASE,
)


def is_measure(text: str) -> bool:
    """Return whether a text is an amount by which something changes: "two weeks", "30%"."""
    tokens = words(text)
    start = next((at for at, word in enumerate(tokens) if word not in _HEDGES), len(tokens))
    start -= bool(start and tokens[start - 1] in _AMOUNTS)
    end, has_unit = start, False
    while end < len(tokens) and not has_unit:
        amount = _AMOUNT.fullmatch(tokens[end])
        is_unit = tokens[end].rstrip("s") in _UNITS or tokens[end] == "ms"
        if not amount and not is_unit and tokens[end] not in _AMOUNTS:
            break
        has_unit = (is_unit and end > start) or bool(amount and amount["unit"])
        end += 1
    has_amount = has_unit or (end == len(tokens) and end > start) or tokens[start:end] == ["half"]
    return has_amount and _FURTHER.isdisjoint(tokens[end : end + 1])


def is_denied(head: str, *, within: int) -> bool:
    """Return whether the text before a sign denies it."""
    tail = words(head)[-within:]
    return tail[-1:] in (["ever"], ["but"]) or not _TURNED.isdisjoint(tail[-1:]) or _denies(tail)


def begins_as_question(cut: Cut) -> bool:
    """Return whether one side asks."""
    return any(
        not _ASKING_FIRST.isdisjoint(words(side[:40])[:1]) for side in (cut.cause, cut.effect)
    )


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
    is_other = is_other or is_feeling(cut) or _NO_REASON.match(cut.cause) is not None
    return has_verb(cut.cause) and not is_other and " because " not in f" {cut.cause} "


def is_feeling(cut: Cut) -> bool:
    """Return whether it is about the mood or the affairs of the speaker, not about the work."""
    effect, cause = words(cut.effect)[:1], words(cut.cause)[:1]
    is_own = bool(effect and cause) and effect[0] in {"i", "my"} and cause[0] in {"i", "i'm", "my"}
    return is_own or _FEELING.match(cut.effect) is not None


def has_ground(cut: Cut) -> bool:
    """Require a thing after "due to", rather than something due to happen or a denial."""
    tokens, effect = words(cut.cause), words(cut.effect)
    is_loose = is_order(cut.effect) or effect[-1] in _RELATIVE | _CONJUNCTIONS
    is_loose = is_loose or is_feeling(cut) or _NO_GROUND.match(cut.cause) is not None
    is_loose = is_loose or is_measure(cut.cause) or not _NO_CAUSES.isdisjoint(tokens[:1])
    is_denial = not _DENIALS.isdisjoint(effect) and not _FAILED.search(cut.effect)
    return bool(tokens) and tokens[0] not in _TO_HAPPEN and not is_denial and not is_loose


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
    is_said = is_said and not begins_with_verb(cut.cause)
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


def is_general(cut: Cut) -> bool:
    """Accept "Y if X" where Y is about a thing."""
    is_judged = _JUDGED.match(cut.effect) is not None or cut.effect.rstrip()[-1:] in {";", ":"}
    return is_condition(cut) and not is_about_people(cut.effect) and not is_judged


def is_occasion(cut: Cut) -> bool:
    """Require things in both halves: people's comings and goings cause little."""
    is_plain = not is_about_people(cut.cause) and not is_about_people(cut.effect)
    is_judged = _JUDGED.match(cut.effect) is not None or words(cut.effect)[-1:] == ["that's"]
    is_coincidence = _COINCIDENCE.search(cut.cause) is not None or _IS_AT.search(cut.effect)
    return is_plain and not is_judged and not is_coincidence and is_condition(cut)


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
    is_caused = is_caused and cause[-1] not in _NO_SUBJECT_ENDS
    return is_caused and is_verb and not is_nothing


def has_effect(cut: Cut) -> bool:
    """Require a clause before "as a result", and a verb after it, perhaps without a subject."""
    is_said = has_verb(cut.effect) or begins_with_verb(cut.effect)
    return is_said and has_verb(cut.cause) and not is_order(cut.effect)


def has_effect_or_thing(cut: Cut) -> bool:
    """Accept "hence the errors" as well as a clause."""
    return has_effect(cut) or (
        has_verb(cut.cause) and words(cut.effect)[:1] in (["the"], ["a"], ["an"], ["our"])
    )


def is_named_cause(cut: Cut) -> bool:
    """Require a thing of two words or more, neither a person nor unknown."""
    tokens = words(cut.cause)
    is_known = len(tokens) > 1 and tokens[0] not in _UNKNOWN | _NO_CAUSES | {"no"}
    is_thing = not is_person(cut.cause) and not is_measure(cut.cause)
    return is_known and is_thing and bool(words(cut.effect))


def is_caused(cut: Cut) -> bool:
    """Require a thing that there was: "caused by no change of ours" denies it."""
    return has_ground(cut) and words(cut.cause)[0] not in {"no", "not"}


def is_traced(cut: Cut) -> bool:
    """Require trouble that was traced to a thing: requests and people are traced to a place."""
    return has_ground(cut) and is_named_cause(cut) and _TROUBLE.search(cut.effect) is not None


def has_root_effect(cut: Cut) -> bool:
    """Require what a root cause led to, in the same sentence or one next to it.

    The next one may say as well who did it, "Bob dropped the table", or how it was repaired. What
    restarts or fails by itself is an effect.
    """
    tokens = words(cut.effect)
    is_by_person = is_person(cut.effect) and verb_at(clause_words(cut.effect)) == 1
    is_by_person = is_by_person and tokens[1] not in _BEING and not _OBJECTS.isdisjoint(tokens[2:3])
    is_act = _ACTS.search(cut.effect) is not None and _REPEATED.search(cut.effect) is None
    is_repair = is_act or _REPAIRS.search(cut.effect) is not None
    return has_two_sides(cut) and not is_by_person and not is_repair


def is_person(text: str) -> bool:
    """Return whether a noun phrase names people: "Ann Lee", "the platform team"."""
    noun_phrase = words(_PREPOSITION.split(text, maxsplit=1)[0])
    first = text.split(maxsplit=1)[0]
    # In "Ann's change", a thing follows.
    is_name = first[:1].isupper() and first[1:].islower() and not _GENITIVE.search(first)
    is_people = is_about_people(text) or not _PEOPLE.isdisjoint(noun_phrase[-1:])
    return is_name or is_people or not _PRONOUNS.isdisjoint(noun_phrase[:1])


def is_trouble(cut: Cut) -> bool:
    """Accept "X turned out to be Y" only of trouble."""
    tokens = words(cut.cause)
    is_known = not is_about_people(cut.cause) and tokens[0] not in _UNKNOWN
    # "Harmless in the end" is a judgement, not a thing.
    is_thing = tokens[0] in _ARTICLES or (len(tokens) > 1 and ends_phrase(tokens[1]))
    return is_known and is_thing and _TROUBLE.search(cut.effect) is not None


def is_impersonal(cut: Cut) -> bool:
    """Require a noun phrase before the verb, which does not name people, and an object."""
    tokens = words(cut.cause)
    is_long = len(tokens) > 1 and _NOT_SUBJECTS.isdisjoint((tokens[0], tokens[-1]))
    noun_phrase = words(_PREPOSITION.split(cut.cause, maxsplit=1)[0])
    is_people = is_about_people(cut.cause) or not _PEOPLE.isdisjoint(noun_phrase[-1:])
    is_clause = (
        certain_verb_at(clause_words(cut.cause)) is not None
        or "," in cut.cause
        or not _RELATIVE.isdisjoint(tokens)
    )
    return is_long and not is_people and not is_clause and has_object(cut)


def is_lasting_reason(cut: Cut) -> bool:
    """Distinguish "as" as a reason: what holds still, for what happened then."""
    cause = words(cut.cause)
    place = verb_at(clause_words(cut.cause))
    is_present = place is not None and not _PRESENT_TENSE.isdisjoint(cause[place : place + 1])
    is_third = place is not None and cause[place].endswith("s") and cause[place] != "was"
    is_past = certain_verb_at(clause_words(cut.effect)) is not None
    return (is_present or is_third) and is_past and not is_feeling(cut) and not is_order(cut.effect)


def is_aftermath(cut: Cut) -> bool:
    """Distinguish "after" as a cause: a change, and a failure or recovery."""
    is_change = names_change(cut.cause) or _EVENT.search(cut.cause) is not None
    return is_change and not is_about_people(cut.effect) and _CHANGED.search(cut.effect) is not None


_LESSON_WORDS_MIN: Final = 4
"""A shorter lesson says little."""


def is_lesson(text: str) -> bool:
    """Return whether a lesson without an effect is about a thing, in a clause of four words."""
    subject, action = split_at_verb(text)
    has_words = len(words(text)) >= _LESSON_WORDS_MIN
    return has_words and bool(action) and not is_person(subject)


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
