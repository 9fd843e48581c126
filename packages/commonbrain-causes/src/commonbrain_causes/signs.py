"""The signs of a cause ("because", "led to"), and what the words on both sides have to be.

The lists of words were collected from incident reports, tickets and chat; `brain eval atomizer`
measures them on sentences that they were not chosen on.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import lru_cache, partial
from itertools import islice, pairwise
from typing import Final

from commonbrain.causality.actions import names_change
from commonbrain.text import clauses
from commonbrain.text.frames import BE, stems_of
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import ARTICLES, IRREGULAR_FORMS, UNITS, Sort, Word, read_words, stem

PLACES_MAX: Final = 8
"""Places of one sign, and commas, to try in one sentence."""
_CACHED_SIDES: Final = 64
"""A side is read for each condition; those of the next sentence are others."""


class CausalSide(Enum):
    """What the cause or the effect has to be."""

    CLAUSE = auto()
    """Words with a subject and a verb."""
    THING = auto()
    """A noun phrase that denies nothing, and names no person and no amount."""
    ANY = auto()
    """What can follow a verb."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A sentence split into cause and effect; `head` is the one before the sign, if any."""

    cause: str
    effect: str
    head: str = ""

    @property
    def words(self) -> tuple[Sequence[Word], Sequence[Word]]:
        """Return the words of the cause and those of the effect, none of them empty."""
        # After a sign a capital marks a name; at the start of a sentence it says nothing.
        return side_words(self.cause, is_start=self.head == self.cause), side_words(self.effect)


@dataclass(frozen=True, slots=True)
class Sign:
    """Words that say what is the cause and what the effect, and what else has to hold."""

    name: str
    pattern: re.Pattern[str]
    """Matches text in lower case; `verb` belongs to the effect, `effect` is the effect."""
    sides: tuple[CausalSide, CausalSide]
    """What the cause has to be, and the effect."""
    cues: frozenset[str]
    """Stems of which the verb has one, or the sentence if the pattern has no verb."""
    fits: Callable[[Cut], bool] = lambda _: True
    is_cause_first: bool = False
    """Whether the cause comes before it; else the effect does, or follows after a comma."""

    def matches(self, text: str) -> Iterator["re.Match[str]"]:
        """Yield the places of a text in lower case that have the sign."""
        for match in islice(self.pattern.finditer(text), PLACES_MAX):
            has_verb = "verb" in match.re.groupindex
            if not has_verb or not self.cues.isdisjoint(map(stem, match["verb"].split())):
                yield match

    def accepts(self, cut: Cut) -> bool:
        """Return whether nothing denies the sign, and both sides are what it needs."""
        is_thing = self.sides[not self.is_cause_first] is CausalSide.THING
        if _is_reported(side_words(cut.head), is_thing=is_thing):
            return False
        cause, effect = cut.words
        is_sound = _is(cause, self.sides[0], is_after=not self.is_cause_first)
        is_sound = is_sound and _is(effect, self.sides[1], is_after=self.is_cause_first)
        return is_sound and self.fits(cut)


@lru_cache(maxsize=_CACHED_SIDES)
def side_words(text: str, *, is_start: bool = True) -> Sequence[Word]:
    """Return the words of a side, without what is in brackets."""
    words = read_words(plain_text(text))
    if is_start or not words or words[0].sort is not Sort.WORD or not words[0].written[0].isupper():
        return words
    return (replace(words[0], sort=Sort.NAME), *words[1:])


def plain_text(text: str) -> str:
    """Blank out brackets and join compounds, which hold no verb; every place stays the same."""
    plain = BRACKETED.sub(lambda one: " " * len(one[0]), text) if "(" in text else text
    return _HYPHEN.sub("_", plain.lower() if plain.isupper() else plain)


def verb_at(words: Sequence[Word]) -> int | None:
    """Return the place of the first finite verb after the subject; names and numbers are none."""
    names, signs = {Sort.NAME, Sort.CODE}, {Sort.NUMBER, Sort.STOP}
    plain = (word.plain.upper() if word.sort in names else word.plain for word in words)
    masked = ["()" if word.sort in signs else one for word, one in zip(words, plain, strict=True)]
    place = clauses.verb_at(masked)
    return None if place is None or words[place].plain.endswith("ing") else place


def is_person(words: Sequence[Word]) -> bool:
    """Return whether a noun phrase names people: "Ann Lee", "the platform team"."""
    noun, is_definite = noun_phrase(words)[-1], words[0].plain in ARTICLES
    is_name = noun.sort is Sort.NAME and not noun.written.isupper() and not is_definite
    return is_name or noun.stem in _PEOPLE or words[0].plain.partition("'")[0] in PERSONS


def noun_phrase(words: Sequence[Word]) -> Sequence[Word]:
    """Return the words up to a preposition, a quantifier or punctuation, at least the first."""
    ends = (
        n
        for n, word in enumerate(words)
        if n and (word.sort in {Sort.STOP, Sort.QUANTIFIER} or word.plain in PREPOSITIONS)
    )
    return words[: next(ends, len(words))]


def pronoun_of(words: Sequence[Word]) -> str:
    """Return the pronoun that is the subject, else an empty text: in "this release" it is none."""
    first = words[0].plain.partition("'")[0] if words else ""
    is_alone = len(words) == 1 or words[1].plain in BE | _HAVE or _is_past(words[1])
    is_pronoun = first in PERSONS | {"it", "there"} or (is_alone and first in _POINTING)
    return first if is_pronoun else ""


def _is_reported(head: Sequence[Word], *, is_thing: bool) -> bool:
    """Return whether what precedes a sign denies it, or belongs to a report of what others say."""
    plain = [word.plain for word in head]
    is_denied = any(word in _DENYING or word.endswith("n't") for word in plain[-1:])
    is_asked = any(word.stem in _REPORTS or word.plain in _ASKING for word in head)
    is_claimed = (is_thing or plain[:1] == ["it"]) and not _INSERTED.isdisjoint(plain[1:])
    is_planned = any(one.plain in BE and after.plain == "to" for one, after in pairwise(head))
    return is_denied or is_asked or is_claimed or is_planned


def _is(words: Sequence[Word], side: CausalSide, *, is_after: bool) -> bool:
    """Return whether words before or after the sign are what a side has to be."""
    if not words or words[0].plain in _ASKING:
        return False
    if side is CausalSide.CLAUSE:
        place = verb_at(words)
        # After a sign, what follows a comma is another clause: "since Monday, the lift is stuck".
        is_other = is_after and any(word.sort is Sort.STOP for word in words[:place])
        # Notes leave out the subject: "Renamed the branch, so every webhook broke".
        return not is_other and (place is not None or (not is_after and _is_past(words[0])))
    if side is CausalSide.THING:
        return _is_thing(words, is_after=is_after)
    is_none = words[0].plain in _NO_SIDE or (words[0].plain == "no" and verb_at(words) is None)
    return any(word.is_content for word in words) and not (is_after and is_none)


def _is_thing(words: Sequence[Word], *, is_after: bool) -> bool:
    """Return whether words are a noun phrase that denies nothing and names no person or amount."""
    if is_person(words) or _is_amount(words):
        return False
    if is_after:
        is_end = words[-1].sort is Sort.FUNCTION or words[0].plain in _NO_SIDE
        return words[0].sort is not Sort.NEGATION and not is_end
    # Before a verb, a clause or a denial belongs to it: "None of the drivers caused the crash".
    # "It looks like a slow query exhausted the pool" is no thing either.
    is_phrase = words[0].plain in PREPOSITIONS - {"that"} or words[0].plain == "it"
    is_whole = len(words) > 1 and words[-1].is_content and not is_phrase
    is_denied = any(
        word.sort is Sort.NEGATION and word.plain != "without" and not after.plain.endswith("ing")
        for word, after in zip(words, (*words[1:], words[0]), strict=True)
    )
    return is_whole and not is_denied and all(word.sort is not Sort.STOP for word in words)


def _is_amount(words: Sequence[Word]) -> bool:
    """Return whether words are only an amount: "about two weeks", "30 ms"."""
    phrase = noun_phrase(words)
    measures = [
        word for word in phrase if word.sort is Sort.NUMBER or word.plain.removesuffix("s") in UNITS
    ]
    others = {word.plain for word in phrase if word.is_content and word not in measures}
    is_of = [word.plain for word in words[len(phrase) :][:1]] == ["of"]
    return bool(measures) and others <= _HEDGES and not is_of


def _is_past(word: Word) -> bool:
    return word.plain.endswith("ed") or word.plain in IRREGULAR_FORMS or word.plain == "been"


def _is_reason(cut: Cut) -> bool:
    """Reject moods, talk about oneself, "nothing failed", and a reason that another follows."""
    cause, effect = cut.words
    subject = effect[0].plain.partition("'")[0]
    is_mine = {effect[0].plain, cause[0].plain} <= {"i", "my", "i'm"}
    is_mood = subject in PERSONS and any(word.stem in _MOODS for word in effect[1:5])
    is_other = any(word.plain == "because" for word in cause)
    return not (is_mine or is_mood or is_other or subject in {"nothing", "none"})


def _is_ground(cut: Cut) -> bool:
    """Reject "no data was lost because of it" and "is due to arrive" as well."""
    cause, effect = cut.words
    is_nothing = bool(cut.head) and effect[0].plain in {"no", "there"}
    is_other = effect[-1].plain in BE or any(word.plain == "but" for word in cause)
    return not (is_nothing or is_other) and _is_reason(cut)


def _is_no_time(cut: Cut) -> bool:
    """Distinguish "since" as a reason from a time: a date, or an event before what is so now."""
    cause, effect = cut.words
    units = [word.plain.removesuffix("s") in UNITS for word in (*cause[1:2], effect[-1])]
    is_date = cause[0].written[0].isdigit() or any(units)
    is_now = not _is_event(effect) and not any(word.plain in {"was", "were"} for word in effect)
    return not (is_date or cause[0].plain in _SPEAKERS or (is_now and _is_event(cause)))


def _is_event(words: Sequence[Word]) -> bool:
    """Return whether a clause says that something happened: "was put in", not "is booked"."""
    verbs = [word for word in words[verb_at(words) or 0 :] if word.plain not in {"was", "were"}]
    return any(_is_past(verb) and verb.plain not in _HAVE for verb in verbs[:1])


def _is_condition(cut: Cut) -> bool:
    """Accept what follows whenever a condition holds; reject the unreal and what was so before."""
    cause, effect = cut.words
    is_unreal = any(word.plain in {"were", "had"} for word in cause[:4])
    vague = PERSONS | _POINTING if cut.head else PERSONS
    is_vague = pronoun_of(cause) in _POINTING or pronoun_of(effect) in vague
    is_asked = effect[-1].stem in _ASKING_VERBS or any(word.plain in _ASKING for word in effect)
    is_phrase = _is_past(cause[0]) or cause[0].plain.endswith("ing") or cause[0].plain == "not"
    is_phrase = is_phrase or verb_at(effect) is None
    # "We were using", "Dana was away", "the contract was still open".
    is_backdrop = any(
        (one.plain in {"was", "were"} and not _is_past(after)) or one.plain in {"had", "still"}
        for one, after in pairwise(effect)
    )
    return not (is_unreal or is_vague or is_asked or is_phrase or is_backdrop)


def _is_known(cut: Cut) -> bool:
    """Reject a cause that is denied or not known: "is still unknown", "was never found"."""
    words = cut.words[0]
    is_denied = words[0].sort is Sort.NEGATION or _is_past(words[0])
    return not is_denied and all(word.plain not in _OPEN for word in words[:2])


def _is_trouble(cut: Cut) -> bool:
    """Require a fault, not predicted: parcels are traced, and "it broke as the guide says"."""
    cause, effect = cut.words
    is_other = any(word.stem in _REPORTS for word in cause) or "as" in {one.plain for one in effect}
    is_fault = any(word.stem in _EVENTS or word.sort is Sort.NEGATION for word in effect)
    return is_fault and not is_other


def _is_aftermath(cut: Cut) -> bool:
    """Require that a fault happened after a change: other things only follow each other."""
    cause, effect = cut.words
    place = verb_at(effect) or 0
    # "After the fan failed, the belt failed": two faults.
    is_second = any(word.stem in _TROUBLE for word in cause)
    has_event = (effect[place].stem in _TROUBLE and not is_second) or any(
        (_is_past(word) and word.stem in (_HARMS if one.plain in BE else _EVENTS))
        or (one.plain in {"went", "came", "ran"} and word.plain in _STATES)
        for one, word in pairwise(effect)
    )
    return has_event and not is_person(effect[: place or 1]) and names_change(cut.cause)


def _is_repair(cut: Cut) -> bool:
    """Accept what was repaired, not what can, shall or could not be."""
    effect = cut.words[1]
    is_done = any(word.stem in _REPAIRS and _is_past(word) for word in effect)
    return is_done and all(word.sort not in {Sort.MODAL, Sort.NEGATION} for word in effect)


def _is_result(cut: Cut) -> bool:
    """Reject what may be done then: "we need the numbers, so that the board can decide"."""
    return all(word.sort is not Sort.MODAL or word.plain == "could" for word in cut.words[1])


def _is_change(cut: Cut) -> bool:
    """Reject what is done to people: "which made me happy"."""
    return all(word.plain not in PERSONS for word in cut.words[1][1:2])


def _is_accident(cut: Cut) -> bool:
    """Reject what somebody does: "the coach left the room without", "we went, leaving the car"."""
    cause, _ = cut.words
    is_actor = len(cause) == 2 and cause[0].plain in ARTICLES  # noqa: PLR2004
    return not is_actor and not is_person(cause[: verb_at(cause) or 1]) and _is_change(cut)


BRACKETED: Final = lazy_pattern(r"\([^()]*\)")
_HYPHEN: Final = lazy_pattern(r"(?<=[a-z])-(?=[a-z])", re.IGNORECASE)
_DENYING: Final = frozenset(
    "not never no without than of ever but only just merely even hardly nearly almost rarely seldom"
    " barely before until unless as what and or".split()
)
"""Directly before a sign, these deny it."""
_ASKING: Final = frozenset("what how why whether".split())
_INSERTED: Final = frozenset("that which who by".split())
"""After these, the verb is that of another clause: "the theory that the heat caused it"."""
_REPORTS: Final = stems_of(
    "say said claim argue think believe suspect hope fear doubt describe discuss mention ask wonder"
    " theory novel film exercise dream predict recommend"
)
"""What they introduce is somebody's view, a plan or a topic."""
_ASKING_VERBS: Final = stems_of("ask check see know tell remember wonder test show record report")
"""After these, "if" and "when" ask."""
_NO_SIDE: Final = frozenset(
    "of from to with and or but as be is are was were when if after because".split()
)
PERSONS: Final = frozenset(
    "i we you he she they me us him her them everybody everyone people someone somebody nobody"
    " anyone anybody".split()
)
_SPEAKERS: Final = frozenset("i we you he she".split())
_POINTING: Final = frozenset("it this that these those there".split())
_PEOPLE: Final = stems_of(
    "man woman child customer user engineer operator developer colleague vendor manager admin"
    " administrator staff people company boss intern team author reviewer friend supplier landlord"
    " doctor"
)
PREPOSITIONS: Final = frozenset(
    "of in on at from for with that which between behind after to by who under per without across"
    " into through over during since".split()
)
_HEDGES: Final = frozenset("half one further additional business working another again".split())
_OPEN: Final = frozenset("being still unknown unclear not yet nothing none found under".split())
_HAVE: Final = frozenset("has have had hasn't haven't".split())
_MOODS: Final = stems_of(
    "happy glad sad tired sorry excited proud curious afraid hungry grateful like love hate enjoy"
    " feel"
)
_TROUBLE: Final = stems_of(
    "fail wrong miss lose break stuck corrupt duplicate drop unavailable reject delay grow outage"
    " incident crash failure error leak latency slow spike timeout bug problem issue hang downtime"
    " regression alert gap loss lag stall freeze glitch drift noise stop double die climb degrade"
    " decline refuse cancel vanish disappear worse short rise fall jump pile bloat overheat"
)
_REPAIRS: Final = stems_of(
    "fix resolve solve mitigate cure repair recover heal reduce halve prevent improve lower shorten"
    " avoid eliminate remove speed sped save cut"
)
_EFFECTS: Final = stems_of(
    "break crash kill corrupt overload overwhelm exhaust starve saturate stall freeze flood swamp"
    " slow delay disrupt degrade jam clog choke confuse destroy ruin drain double triple quadruple"
    " worsen skew inflate derail brick duplicate loosen shift distort fix resolve solve cure"
    " restore halve prevent eliminate block lock interrupt wipe erase overwrite mask hide stop"
    " invalidate expose trip throttle evict truncate unblock pause peg"
    " clobber scramble mangle garble hammer fry melt warp crack damage wreck cripple poison swallow"
)
"""Verbs for what a thing does to another."""
_EVENTS: Final = _TROUBLE | _EFFECTS
_HARMS: Final = _TROUBLE - stems_of("stop drop cancel")
"""What, in "was lost", nobody does on purpose."""
_STATES: Final = frozenset("down offline away dark dead blank missing back out".split())
"""Where things "went", "came" or "ran"."""
_CONSEQUENCES: Final = _EFFECTS | stems_of(
    "cause trigger make mean let force fill leave lead result explain cut drop save drive push"
    " keep allow raise lower increase decrease shrink send bring take"
)
"""Verbs that state an effect after "which" and "this"."""

_BE: Final = (
    r"(?:(?:turn(?:s|ed) out to|tends? to|was found to) )?(?:has |have |had )?"
    r"(?:is|are|was|were|be|been|got)(?: being)?"
    r"(?: (?!rarely|hardly|barely|unlikely)\w{2,15}ly| all| in part| in the end)?"
)
_ROOTS: Final = "cause reason culprit explanation"
_ROOT: Final = (
    rf"(?:(?:root|underlying|actual|real|main|primary)[ -])?(?:{_ROOTS.replace(' ', '|')})"
)
_IS: Final = r"(?: (?:was|is|were|are|turned out to be)(?: that)?|:) "
_DUE_TO: Final = (
    r"(?:(?:because|bc) of(?! course)|(?:due|owing) to|on account of"
    r"|as a (?:result|consequence|side effect) of|for lack of)"
)
_SO: Final = (
    r"(?:as a (?:result|consequence)|consequently|therefore|hence|thus"
    r"|for (?:that|this) reason|because of (?:that|this)|(?:that|this|which)(?: is|'s) why),?"
)
_DETERMINERS: Final = (
    r"the(?! (?:moment|minute|second|day))|an?|our|its|their|my|all|every|each|both|half|one|two"
    r"|three|most|many|some|several"
)


_C, _T, _A = CausalSide.CLAUSE, CausalSide.THING, CausalSide.ANY
_after = partial(Sign, is_cause_first=True)
SIGNS: Final[Sequence[Sign]] = (
    Sign(
        "because of",
        lazy_pattern(rf"(?:,? |^){_DUE_TO} |(?:^|(?<=[a-z0-9]) )thanks to (?!(?:all|every\w*) )"),
        (_T, _A), stems_of("because bc due owing account result consequence effect lack thanks"),
        _is_ground),
    Sign(
        "because",
        lazy_pattern(
            r"(?:,? |^)(?:because|bc|b/c) (?!of )|[,;] (?:it )?turn(?:s|ed) out (?:that )?(?!to )"),
        (_C, _A), stems_of("because bc b/c turn"), _is_reason),
    Sign("since", lazy_pattern(r"(?:,? |^)since "), (_C, _C), stems_of("since"), _is_no_time),
    Sign(
        "as", lazy_pattern(r",? as (?=(?:the|its|their|our|no|nobody|every) )"), (_C, _C),
        stems_of("as"), _is_trouble),
    Sign(
        "because of",
        lazy_pattern(
            r"^(?:with (?=[^,;]{1,40} (?:off|disabled|missing|full|down|set to)\b)"
            rf"|(?=without (?:{_DETERMINERS}) ))"),
        (_A, _C), stems_of("with without"), _is_result),
    Sign(
        "fixed", lazy_pattern(r" by (?=(?:always |never )?[a-z]{2,20}ing\b)"), (_A, _A),
        _REPAIRS, _is_repair),
    Sign(
        "caused by",
        lazy_pattern(
            rf" {_BE} (?:(?:caused|triggered|brought (?:on|down)|set off) by|(?:(?:due|attributed)"
            rf" to|the result of)(?= (?:{_DETERMINERS}) )) | (?:resulted|stems?|stemmed) from "),
        (_T, _T), stems_of("cause trigger bring set due attribute result stem"), _is_ground),
    Sign(
        "caused by", lazy_pattern(r"(?:, |^)(?:caused|triggered) by (?=[^,;]{4,200}$)"), (_T, _A),
        stems_of("cause trigger")),
    Sign(
        "passive",
        lazy_pattern(
            r" (?P<verb>(?:is|are|was|were|been|got|being) (?:[a-z]{2,15}ly )?[a-z]{3,12}"
            rf"(?: up| down| out| off)?) by (?=(?:{_DETERMINERS}|\w{{2,20}}'s) )"),
        (_T, _C), _EFFECTS),
    Sign(
        "traced",
        lazy_pattern(
            r"^(?:[a-z]{1,12} )?(?:traced|tracked) (?P<effect>.{3,80}?)(?: back| down)? to "
            rf"| {_BE} (?:(?:traced|put)(?: back| down)? to|down to|blamed on|explained by"
            r"|attributable to|a (?:consequence|side effect) of) "),
        (_T, _T), stems_of("trace track put down blame explain attributable consequence side"),
        _is_trouble),
    Sign(
        "root cause",
        lazy_pattern(
            rf"^(?:the |one |our )?(?:{_ROOT}|(?:{_ROOT}s? (?:for|of|behind|why)"
            rf"|what (?:broke|caused)) (?P<effect>[^:]{{3,100}}?)){_IS}"),
        (_T, _A), stems_of(f"{_ROOTS} what"), _is_known),
    _after(
        "causing", lazy_pattern(r",? (?:causing|resulting in|leading to|triggering) "), (_C, _A),
        stems_of("cause result lead trigger")),
    _after(
        "causing",
        lazy_pattern(
            r", (?:thus |thereby )?(?!meaning)(?P<verb>[a-z]{3,14}ing) (?!(?:up|out|to|for|and) )"),
        (_C, _A), _CONSEQUENCES, _is_accident),
    _after(
        "which",
        lazy_pattern(
            r"(?:, which|(?:,? and |; |^)(?:this|that)"
            r"| and(?= (?:took|brought) [^,;]{1,60} (?:down|offline)\b)) (?:also |then )?"
            r"(?!makes? sense)(?P<verb>[a-z]{3,14}) (?!by )"), (_C, _A), _CONSEQUENCES, _is_change),
    _after(
        "so", lazy_pattern(rf"(?:[,;] (?:and )?| and |^){_SO} "), (_C, _A),
        stems_of("result consequence consequently therefore hence thus reason because why")),
    _after(
        "so",
        lazy_pattern(
            r"[,;] (?:and )?so (?!(?:far|that|much|many|says|has|is|long (?:as|ago)) )"),
        (_C, _C), stems_of("so")),
    # Without a comma, it can be what somebody wants.
    _after(
        "so",
        lazy_pattern(
            r",? so that "
            rf"| (?:and )?so (?=(?:it|they|we|no|nobody|nothing|everyone|{_DETERMINERS}) "
            r"|(?!\w+ly |well |much |many |few )\w{3,20} (?:\w{2,12}ed|was|were|went|got) )"),
        (_C, _C), stems_of("so"), _is_result),
    _after(
        "causes",
        lazy_pattern(
            r" (?:(?:is|are|was|were) causing|caused|causes|triggered|led to|resulted in|results in"
            r"|brought (?:down|about|on)|set off|gave rise to"
            rf"|(?:is|was|are|were) (?:the|one|another) {_ROOT} (?:of|for|behind)) (?!by )"
            r"|(?<=s) (?:cause|lead to(?! the)) "),
        (_T, _A), stems_of(f"trigger lead result bring set give {_ROOTS}")),
    Sign(
        "when",
        lazy_pattern(
            r"(?: |^)(?:when|whenever|(?:every|each) time(?: that)?|as soon as"
            # People come and go without effect.
            rf"|once(?= (?:the|its|their|our|all)\b)) (?!(?:{'|'.join(sorted(PERSONS))})\b)"),
        (_C, _C), stems_of("when whenever time soon once"), _is_condition),
    Sign(
        "after", lazy_pattern(r"(?:,? |^)(?:right |soon )?(?:after|following|once) "), (_A, _C),
        stems_of("after following once"), _is_aftermath),
    Sign("if", lazy_pattern(r"(?:,? |^)if "), (_C, _C), stems_of("if"), _is_condition),
)  # fmt: skip
"""In order of preference at one place of a sentence."""
VERBS: Final[Sequence[Sign]] = (
    _after(
        "verb",
        lazy_pattern(
            rf"(?: (?=[a-z]+(?: out| down)? (?:{_DETERMINERS}|[0-9]+) )"
            r"|(?<![sd]) (?=[a-z]+(?:ed|oke) (?!(?:by|in|on|at|for|from|to|of|with|after|as|or) )"
            r"(?:[a-z-]+ )?[a-z]{2,20}[^su\W]s\b))"
            r"(?P<verb>[a-z]{3,14}(?: out| down)?)\b"), (_T, _A), _EFFECTS, _is_accident),
    _after(
        "verb",
        lazy_pattern(
            r" (?:has |have |had )?(?P<verb>(?:meant|means)(?= (?:that|no) )"
            r"|(?:led|allowed|forced)(?= [^,;]{1,60} to )"
            r"|(?:cut|pushed|drove)(?= (?!(?:to|from|by) )[^,;]{1,60} (?:to|from|by) )"
            r"|(?:took|brought|kicked|threw|shut|locked|logged)"
            r"(?= [^,;]{1,60} (?:down|offline|out|off|back)\b)"
            r"|(?:kept|keeps)(?= [^,;:]{1,60} (?:from|at|busy)\b)"
            r"|(?:turned|turns)(?= [^,;]{1,60} into )"
            r"|(?:made|makes|left|leaves)(?= [^,;]{1,60} (?:un(?!der|til|less)\w{3,12}|impossible"
            r"|useless|slow|slower|faster|fail|crash|hang|wait|run|miss|offline|empty|stuck"
            r"|give|lose|drop|loop|restart|retry|reject|return|report|late|flaky|too|without)\b))"),
        (_T, _A),
        stems_of(
            "mean lead allow force cut push drive take bring kick throw shut lock log keep turn"
            " make leave"),
        _is_accident),
)  # fmt: skip
"""Verbs that state an effect by themselves, where no other sign fits."""
