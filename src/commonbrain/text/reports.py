"""The clauses of a report: what each says, and whether a later one settles an open point.

A clause says a decision, a result, an open point, or only that work goes on. Whatever an open point
and a later clause differ in keeps the point open: one that is dropped by mistake is lost to the
reader of a summary, one that stays although it is settled costs a line.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import pairwise
from typing import Final

from commonbrain.model.values import dataclass
from commonbrain.text.clauses import is_question
from commonbrain.text.frames import BE, DATES, place_of_verb, stems_of
from commonbrain.text.languages import is_english
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.salience import COURTEOUS_WORDS
from commonbrain.text.segmentation import pieces, split_sentences
from commonbrain.text.words import (
    ARTICLES,
    GROUPS,
    UNCHANGED,
    Phrases,
    Sort,
    Word,
    is_past,
    read_words,
)


class ClauseType(StrEnum):
    """What a clause says; the order is the order in a summary."""

    DECIDED = "Decided"
    DONE = "Done"
    NOTED = "Noted"
    OPEN = "Open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """The words of a text that say something, as they are compared."""

    words: frozenset[str]
    """Without numbers and negations."""
    numbers: frozenset[str]
    names: frozenset[str]
    """Names and code among the words."""
    is_denied: bool

    @property
    def all(self) -> frozenset[str]:
        """Words and numbers."""
        return self.words | self.numbers


@lru_cache(maxsize=512)
def read_content(text: str) -> Content:
    """Return what a text says by itself, in time linear in its length."""
    return _content(read_words(text))


def _content(words: Sequence[Word]) -> Content:
    return Content(
        words=frozenset(w.key for w in words if w.is_content and w.sort is not Sort.NUMBER),
        numbers=frozenset(word.key for word in words if word.sort is Sort.NUMBER),
        names=frozenset(word.key for word in words if word.sort in {Sort.NAME, Sort.CODE}),
        is_denied=_is_denied(words),
    )


_CLAUSE_WORDS_MIN: Final = 5
_SENTENCE_CHARS_MAX: Final = 400
_NEXT_CLAUSE: Final = lazy_pattern(r"; |, (?:and |but |while )| [\u2013\u2014] ")
_LABEL: Final = lazy_pattern(
    r"\W*(?:(?P<decided>decision|decided|agreed)|(?P<open>action(?: item)?|(?:still )?open"
    r"|(?:open )?question(?: for \w+)?|not done|to-?do)|result|update|fyi|note|postmortem)\s*:\s*",
    re.IGNORECASE,
)
_LEAD: Final = lazy_pattern(
    r"\W*(?:we|i)(?: have|'ve)?(?: also| now)? (?:decided|agreed) (?:that|to) ", re.IGNORECASE
)
"""Openings that the heading of a section says already."""


def clauses_of(text: str) -> Iterator[str]:
    """Split a text into its clauses: sentences, and their parts that have a subject and a verb."""
    for sentence in split_sentences(text):
        # A text without sentence ends is cut between words.
        is_long = len(sentence) > _SENTENCE_CHARS_MAX
        for start, end in pieces(sentence) if is_long else [(0, len(sentence))]:
            yield from _split(sentence[start:end].strip())


def _split(sentence: str) -> Iterator[str]:
    start = 0
    for match in _NEXT_CLAUSE.finditer(sentence):
        head, tail = sentence[start : match.start()], sentence[match.end() :]
        if _is_whole(head) and _is_whole(tail):
            yield head
            start = match.end()
    yield sentence[start:]


def _is_whole(text: str) -> bool:
    is_long = len(text.split()) >= _CLAUSE_WORDS_MIN
    return is_long and place_of_verb(read_words(text)) is not None


def without_label(text: str) -> str:
    """Drop an opening such as "Decision:"."""
    match = _LABEL.match(text)
    return text[match.end() :] if match and match.end() < len(text) else text


def without_lead(text: str) -> str:
    """Drop an opening such as "We decided that", which the section says, and the final mark."""
    plain = without_label(text)
    match = _LEAD.match(plain)
    rest = plain[match.end() :] if match else plain
    return (rest if len(rest.split()) > 1 else plain).rstrip(" .;,")


_GREETINGS: Final = COURTEOUS_WORDS | frozenset("hm ok okay see lunch agreed done waited".split())
_GREETING_WORDS_MAX: Final = 9
_ADVERBS: Final = frozenset(
    "now also still just then again already all both once soon only next currently".split()
)
_PROGRESS: Final = stems_of("start begin look continue investigate")
"""Verbs that say in all forms that work goes on, not what came of it."""
_UPCOMING: Final = _PROGRESS | stems_of("check try see review work")
"""Verbs that do so when they say what comes next."""
_DECIDING: Final = stems_of("decide decision agree choose settle")
_DECIDED: Final = Phrases("decided,decision,decisions,agreed,chose,chosen,settled on")
_DECIDED_WITHIN: Final = 5
_GUESSING: Final = stems_of("think hope guess believe suspect assume expect wonder doubt fear need")
_RULE: Final = Phrases(
    "from now on,going forward,no longer,instead of,rather than,decided,agreed that,agreed to"
    ",agreed on,agreed with,settled on,chose,chosen,policy,policies,convention,must,shall,never"
    ",always,on call,owns,maintains,responsible for,take* over,i take,i will take,the goal"
    ",the target,the deadline,the rule,is dropped,are dropped,is switched off,are switched off"
    ",is required,are required,is allowed,are allowed,is limited,are limited,is replaced"
    ",are replaced"
)
_PERFECT: Final = frozenset("has have was were had".split())
_CAUSE: Final = Phrases(
    "because,root cause,caused,cause is,cause was,cause :,due to,turn* out,reason is,culprit"
    ",problem was,learned,learnt,lesson*"
)
_OPEN: Final = Phrases(
    "yet,has not,have not,hasn't,haven't,no one has,no answer,follow up,waits for,wait for"
    ",waiting for,waits until,do not know,don't know,remain,remains,has to be,have to be,needs to"
    ",need to,due to be,asks whether,asked whether,asks if"
)
"""Phrases of what is not finished or answered."""
_STATES: Final = frozenset("blocked pending unclear unknown unresolved missing".split())
"""Adjectives of what is open, unless they only describe a noun: "the missing index was added"."""
_FAILING: Final = Phrases("fail*,crash*,break*,abort*,time* out")
_STILL: Final = Phrases("still,fail* again,crash* again,break* again")
_REPAIRED: Final = Phrases("fix*,solve*,resolve*,no longer,did not,didn't")
_RESULTS: Final = frozenset(
    "live done merged deployed ready implemented approved closed moved back up".split()
)
"""What something is when work on it has ended."""
_DEPENDENT: Final = frozenset(
    "after although though when while because before until once unless which what since".split()
)
_NOTICED: Final = stems_of(
    "say tell hear see find feel think know mean come stand understand let read cost use split"
)
"""Verbs whose pasts say what somebody noticed or how something was, not what was done."""
_SUFFERED: Final = stems_of("delay postpone block affect cause damage expect plan schedule require")
"""Verbs whose participles say what was the case or was suffered, not what was done."""


def role_of(text: str) -> ClauseType | None:
    """Return what a clause says; None if it only greets, or says that work goes on."""
    words = read_words(without_label(text))
    if is_question(text):
        return ClauseType.OPEN if len(text.split()) >= _CLAUSE_WORDS_MIN else None
    if not words:
        return None
    label = _LABEL.match(text)
    if label and label.lastgroup and not _is_undecided(words):
        return ClauseType.DECIDED if label.lastgroup == "decided" else ClauseType.OPEN
    roles = _ROLES if is_english(text) else ()
    return next((role for role, applies in roles if applies(words)), ClauseType.NOTED)


def reports_decision(text: str) -> bool:
    """Return whether a clause opens with what was decided: "We agreed that ..."."""
    words = read_words(text)
    return _DECIDED.are_in(words[:_DECIDED_WITHIN]) and not _is_undecided(words)


def states_decision(text: str) -> bool:
    """Return whether a clause of a text states what was decided."""
    return any(role_of(clause) is ClauseType.DECIDED for clause in clauses_of(text))


def states_cause(text: str) -> bool:
    """Return whether a clause names a cause or a lesson."""
    return _CAUSE.are_in(read_words(text)) and is_english(text)


def states_failure(text: str) -> bool:
    """Return whether a clause says that something failed, and not that this is over."""
    words = read_words(text)
    is_failure = _FAILING.are_in(words) and is_english(text)
    return is_failure and not _REPAIRED.are_in(_main_clause(words))


def _main_clause(words: Sequence[Word]) -> Sequence[Word]:
    """Return a clause without the first clause that depends on it."""
    dependents = (
        n
        for n, (word, after) in enumerate(zip(words, (*words[1:], None), strict=False))
        # With a number it says a time: "since 2024".
        if word.plain in _DEPENDENT and (after is None or after.sort is not Sort.NUMBER)
    )
    at = next(dependents, len(words))
    if at:
        return words[:at]
    comma = next((n + 1 for n, word in enumerate(words) if word.written == ","), 0)
    return words[comma:]


def _is_denied(words: Sequence[Word]) -> bool:
    """Return whether words deny what they say; "not only" denies nothing."""
    denials = sum(
        word.sort is Sort.NEGATION and after.plain != "only"
        for word, after in pairwise((*words, *words[-1:]))
    )
    return denials % 2 == 1


def _is_denied_at(words: Sequence[Word], place: int) -> bool:
    """Return whether a word is denied, from the last comma on."""
    start = next((n for n in range(place, 0, -1) if words[n - 1].written == ","), 0)
    return _is_denied(words[start : place + 1])


def _is_undecided(words: Sequence[Word]) -> bool:
    place = next((n for n, word in enumerate(words) if word.stem in _DECIDING), None)
    if place is None:
        return False
    is_denied = any(word.sort is Sort.NEGATION for word in words[max(0, place - 4) : place])
    is_deferred = words[place].plain.startswith("decision") and any(
        after.plain in _STATES | {"deferred", "postponed", "open"} for after in words[place:]
    )
    return is_denied or is_deferred


def _is_decision(words: Sequence[Word]) -> bool:
    opening = words[:_DECIDED_WITHIN]
    plain, stems = ([word.plain for word in opening], [word.stem for word in opening])
    if opening[0].written.casefold() == "let's" or plain[:2] == ["let", "us"]:
        return _UPCOMING.isdisjoint(stems)
    is_accepted = not {"accepted", "adopted", "approved", "rejected"}.isdisjoint(plain)
    is_proposal = any(one.startswith(("adr", "rfc", "proposal")) for one in plain[:2])
    is_chosen = ("go", "with") in pairwise(stems) or _DECIDED.are_in(opening)
    return is_chosen or (is_proposal and is_accepted)


def _is_open(words: Sequence[Word]) -> bool:
    still = _STILL.place_in(words)
    if still and not _is_denied_at(words, still + 1):
        return True
    if any(one.sort is Sort.NEGATION and word.plain == "has" for one, word in pairwise(words)):
        return True
    is_due = _deadline(words) is not None
    return is_due or _OPEN.are_in(words) or any(_is_state(words, n) for n in range(len(words)))


def _is_state(words: Sequence[Word], place: int) -> bool:
    """Return whether an adjective says that something is open, rather than which or that it was."""
    if words[place].plain not in _STATES or _is_denied_at(words, place):
        return False
    following = words[place + 1 : place + 2]
    describes = any(word.is_content and word.plain not in _ASKING for word in following)
    verb = next((w.plain for w in reversed(words[:place]) if w.plain not in _ADVERBS), "")
    is_listed = words[0].plain == "there" and words[1].plain in {"is", "are"}
    return (is_listed or not describes) and verb not in {"was", "were"}


def _is_progress(words: Sequence[Word]) -> bool:
    """Return whether a clause only greets, or says that work goes on."""
    if len(words) <= _GREETING_WORDS_MAX and words[0].plain in _GREETINGS:
        return True
    rest = [
        w for w in words if w.plain not in _ADVERBS and w.plain.split("'")[0] not in {"i", "we"}
    ]
    if not rest:
        return True
    first = rest[0]
    if first.plain in {"let", "will"}:
        # "Will reviewed the patch" is about a person.
        is_upcoming = any(word.stem in _UPCOMING for word in rest[1:3])
        return is_upcoming and not any(word.plain.endswith("ed") for word in rest[1:2])
    is_gerund = first.plain.endswith("ing")
    goes_on = first.stem in _PROGRESS or (is_gerund and first.stem in _UPCOMING)
    return goes_on or (is_gerund and place_of_verb(rest) is None)


def _is_rule(words: Sequence[Word]) -> bool:
    """Return whether a clause says what holds from now on, or what "we" do."""
    place = _RULE.place_in(words)
    if place is not None:
        # "It has never been restored" reports, and rules nothing.
        is_report = words[place].plain in {"never", "always"} and place > 0
        return not (is_report and words[place - 1].plain in _PERFECT)
    light = _ADVERBS | {"do", "not", "don't"}
    verb = next((word for word in words[1:] if word.plain not in light), None)
    if verb is None or words[0].plain != "we":
        return False
    is_present = verb.sort is Sort.WORD and not _is_past(verb) and verb.stem not in _GUESSING
    return is_present or verb.plain == "will"


def _is_result(words: Sequence[Word]) -> bool:
    main = _main_clause(words)
    comma = next((n for n, word in enumerate(main) if word.written == ","), len(main))
    if place_of_verb(main[:comma]) is not None:
        main = main[:comma]
    if any(w.plain in {"is", "are"} and then.plain in _RESULTS for w, then in pairwise(main)):
        return True
    place = next((n for n in range(len(main)) if _is_act(main, n)), None)
    return place is not None and not _is_denied_at(main, place)


def _is_act(words: Sequence[Word], place: int) -> bool:
    """Return whether a word says what was done: neither an adjective nor after "is"."""
    if not _is_past(words[place]):
        return False
    # "Tokens are stored hashed" says what the first of both says.
    while place and _is_past(words[place - 1]):
        place -= 1
    if place == 0:
        # "Suspended users cannot pay" describes the users.
        return not any(w.plain in BE or w.sort in {Sort.MODAL, Sort.NEGATION} for w in words[2:4])
    # These may stand between "was" and its participle.
    verbs = (
        word.plain
        for word in reversed(words[:place])
        if word.sort is not Sort.NEGATION
        and word.plain not in _ADVERBS
        and not word.plain.endswith("ly")
    )
    verb = next(verbs, "")
    if verb in BE | {"got"}:
        return verb in {"was", "were", "got", "been"} and words[place].stem not in _SUFFERED
    is_in_phrase = words[place - 1].sort in {Sort.NUMBER, Sort.FUNCTION, Sort.QUANTIFIER}
    precedes_noun = any(word.is_content for word in words[place + 1 : place + 2])
    return verb in _PERFECT or not (is_in_phrase and precedes_noun)


def _is_past(word: Word) -> bool:
    is_form = is_past(word.plain) or word.plain in UNCHANGED
    return is_form and word.sort is Sort.WORD and word.stem not in _NOTICED


_ROLES: Final[Sequence[tuple[ClauseType | None, Callable[[Sequence[Word]], bool]]]] = (
    (ClauseType.OPEN, _is_undecided),
    (ClauseType.DECIDED, _is_decision),
    (ClauseType.OPEN, _is_open),
    (None, _is_progress),
    (ClauseType.DECIDED, _is_rule),
    (ClauseType.NOTED, _CAUSE.are_in),
    (ClauseType.DONE, _is_result),
)
"""The first that applies is the role; a clause to which none applies is noted."""


_OPEN_DENIALS: Final = Phrases(
    "has not,have not,is not,are not,hasn't,haven't,isn't,aren't,not yet"
)
"""Negations that say only that something is open: "The job is not merged"."""
_OPEN_WORDS: Final = stems_of(
    "fail crash break ask whether open need wait blocked pending unclear unknown unresolved missing"
)
"""Words of an open point that need not be in what settles it."""
_SHARED_MIN: Final = 2
_ASKING: Final = frozenset("whether how why who what when where which".split())
_UPCOMING_WORDS: Final = frozenset("must will shall should".split())
"""Words of what is decided, but not done yet."""
_BEFORE_DATE: Final = frozenset("on the this next end of".split())
_DAYS: Final = frozenset(day for group in GROUPS[:DATES] for day in group.split())
_PERIODS: Final = _DAYS | frozenset("tomorrow tonight week month quarter".split())


def settles(clause: str, *, point: str) -> bool:
    """Return whether a clause that decides or reports something settles an open point.

    It has every word of the point, and names no place that the point does not. Of a question it
    need not have all names, and a denial settles only a question: "We do not use Redis".
    """
    answer, need = read_words(clause), read_words(without_label(point))
    asks = is_question(point) or any(word.plain == "whether" for word in need)
    deadline = _deadline(need)
    if deadline and _deadline(answer) is None:
        need = (*need[: deadline[0]], *need[deadline[1] :])
    sought, given = _content(need), _content(answer)
    missing = sought.all - given.all - _OPEN_WORDS
    if asks and not given.names - sought.words:
        missing -= sought.names
    is_denied = sought.is_denied != _OPEN_DENIALS.are_in(need)
    is_opposite = is_denied != given.is_denied and not asks
    is_yet_to_come = not (asks or _UPCOMING_WORDS.isdisjoint(word.plain for word in answer))
    is_alike = not (missing or is_yet_to_come) and len(sought.words & given.words) >= _SHARED_MIN
    return (
        is_alike
        and not (is_opposite or states_failure(clause))
        and not (_places(answer) - given.numbers - sought.words)
    )


def _places(words: Sequence[Word]) -> frozenset[str]:
    """Return where or for what something is: one place is not every place."""
    bare = [word for word in words if word.plain not in ARTICLES and word.plain not in _PERIODS]
    return frozenset(
        word.key
        for before, word in pairwise(bare)
        if before.plain in {"to", "on", "in", "for"} and word.is_content
    )


def _deadline(words: Sequence[Word]) -> tuple[int, int] | None:
    """Return from where to where a date stands by which something is due."""
    for start, word in enumerate(words):
        is_state = start > 0 and words[start - 1].plain in {"valid", "leave"}
        if is_state or word.plain not in {"by", "before", "until", "due"}:
            continue
        first = start + 1
        while first < len(words) and words[first].plain in _BEFORE_DATE:
            first += 1
        end = first
        while end < len(words) and _is_date(words, end):
            end += 1
        if end > first:
            return start, end
    return None


def _is_date(words: Sequence[Word], place: int) -> bool:
    """Return whether a word belongs to a date: "Friday", "3 June", "2026-03-02"."""
    word, around = words[place], (*words[max(0, place - 1) : place], *words[place + 1 : place + 2])
    if word.sort is Sort.NUMBER:
        return word.plain.count("-") > 1 or any(one.plain in _DAYS for one in around)
    return word.plain in _PERIODS
