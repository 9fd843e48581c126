"""The parts of a clause: what a value is of, the verb, the value and what qualifies it.

"The upload limit for guests is 20 MB" has the value 20 MB after "is"; "Port: 8080" has it after the
colon, "Raised the limit from 10 to 25 MB" after "to", and "Ann owns the billing service" before the
verb, for a service has one owner.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final

from commonbrain.model.values import dataclass
from commonbrain.text.clauses import AUXILIARIES, verb_at
from commonbrain.text.words import (
    ARTICLES,
    CONTENT,
    GROUP_OF,
    IRREGULAR_FORMS,
    UNCHANGED,
    UNITS,
    Sort,
    Word,
    stem,
)

DATES: Final = 2
"""The first groups of words are days and months."""


def stems_of(words: str) -> frozenset[str]:
    """Return the stems of a list of words."""
    return frozenset(map(stem, words.split()))


CUES: Final = frozenset("now nowadays meanwhile anymore longer effective henceforth".split())
"""Words that say that something is new."""
_PRESENT: Final = frozenset({("these", "days"), ("at", "present"), ("by", "now")})
_ONWARDS: Final = frozenset("on onwards onward".split())
_SINCE: Final = frozenset("since starting".split())
"""Words before the time from which something is new."""
CORRECTIONS: Final = frozenset(
    "correction corrected actually wrong typo misread mistake mistaken mistakenly miscounted"
    " incorrect incorrectly erroneously wrongly swapped confused misheard".split()
)
_OF_CHANGE: Final = CUES | CORRECTIONS
"""Words that say that something was wrong before."""
REPORTING: Final = stems_of(
    "move switch migrate change raise lower increase decrease reduce cut bump upgrade downgrade"
    " update extend shorten rename relocate reschedule postpone transfer convert port double halve"
    " scale shift swap go grow drop rise fall set push correct bring put hand pass"
)
"""Verbs that report a new value of what they name."""
PAST_FORMS: Final = frozenset(
    form for form in IRREGULAR_FORMS | UNCHANGED if stem(form) in REPORTING | {"shrink"}
)
"""The forms of such verbs, and of "shrink", that do not end like a past."""
HOLDING: Final = stems_of(
    "own lead maintain manage head captain chair moderate coordinate handle run edit supervise"
)
"""Verbs with one subject at a time: who owns, leads or maintains something."""
_CHARGES: Final = stems_of("charge responsible call duty")
"""What one person is in, on or for: "in charge of", "on call for"."""
ROLES: Final = stems_of(
    "owner lead leader maintainer manager head contact deputy captain chair chairwoman chairman"
    " understudy goalkeeper lifeguard teacher coach director editor treasurer coordinator agent"
    " counsel secretary doctor dentist tutor supervisor landlord mentor sponsor president mayor"
)
ONE_VALUE: Final = stems_of(
    "run live cost expire last start begin end finish close take weigh measure belong report listen"
    " sit stand point default meet set limit cap locate host deploy store keep call name schedule"
    " price fix write build pin base place charge configure hold park open arrive leave depart come"
    " pay amount total allow serve occur go become be remain need hang wait lodge rate due bill"
    " book plan retain render provision stay land top push show insure collect pick release sail"
    " draw play"
)
"""Verbs that say one value of their subject at a time."""
_OF_ONE_VALUE: Final = ONE_VALUE | HOLDING
SINGLE: Final = stems_of(
    "run live cost expire last weigh measure belong report listen point default set limit cap"
    " locate store keep name price fix due base amount total host pin sit stand need hold charge"
    " hang"
)
"""Those that exclude another value by themselves."""
TIMED: Final = stems_of("start begin end finish close due expire schedule fix set plan")
"""Verbs with one time, where others may recur."""
PREPOSITIONS: Final = frozenset(
    "in on at of for to with from by per during when if while until unless except under over within"
    " before after via through between as because since about against into onto across along around"
    " among toward towards behind beside above below so but than where which who that without"
    " instead rather".split()
)
_OF_VALUE: Final = frozenset("in on at to with by under until behind within after from for".split())
"""Prepositions between a verb and its value: "runs on", "is stored in", "due after"."""
CONDITIONS: Final = frozenset("if when unless while whenever once".split())
_JOINING: Final = frozenset("and but so because as while however therefore".split())
_SAYING: Final = frozenset(
    "say says said show shows showed prove proves proved confirm confirms confirmed report reports"
    " reported tell tells told insist insists us me found find learned learnt saw see noticed"
    " noted discovered verified checked".split()
)
_PRONOUNS: Final = frozenset("i we you they it he she this that there everyone one".split())
BE: Final = frozenset("is are was were be been being am isn't aren't wasn't weren't".split())
_HAVE: Final = frozenset("has have had hasn't haven't".split())
_AUXILIARIES: Final = (
    BE | _HAVE | AUXILIARIES | frozenset("will may might must should shall".split())
) - {"it's", "that's", "there's"}
_PLURAL_FORMS: Final = frozenset(
    "go live belong sit come stay remain become begin expire arrive depart meet occur".split()
)
"""Verbs of one value whose plain form is no noun."""
_LABELS: Final = frozenset(
    "note update fact decision important reminder warning correction fyi todo convention bug info"
    " done status changed heads".split()
)
"""Labels before a colon that name no subject."""
ARROWS: Final = frozenset({"->", "\u2192", "=>"})
NO_VERB: Final = "none"
_CLAUSE_WORDS_MAX: Final = 80
"""Words of a sentence that are read; a longer one is a list or a log."""
_LABEL_WORDS_MAX: Final = 9
_REPORT_WITHIN: Final = 14


def sentences_of(words: Sequence[Word], *, marks: str = "?") -> Iterator[Sequence[Word]]:
    """Yield the sentences, those that end with one of `marks` with it, others without theirs."""
    sentence: list[Word] = []
    for word in words:
        is_end = word.sort is Sort.STOP and word.written in ".!?;\n"
        if not is_end or word.written in marks:
            sentence.append(word)
        if is_end and sentence:
            yield sentence
            sentence = []
    if sentence:
        yield sentence


def split_sentences(words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield the sentences that state something: none that asks, no mere call such as "Wow!"."""
    for one in sentences_of(words, marks="?!"):
        if one[-1].written == "!" and _has_verb(one):
            yield one[:-1]
        elif one[-1].written not in "?!":
            yield one


def split_clauses(sentence: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Split a sentence where another clause with a subject and a verb begins."""
    start, sentence = 0, sentence[:_CLAUSE_WORDS_MAX]
    # A condition belongs to what follows: "If it rains, we meet in the hall".
    is_conditional = bool(sentence) and sentence[0].plain in CONDITIONS
    for at, word in enumerate(sentence):
        if at <= start or at + 1 >= len(sentence) or is_conditional:
            continue
        rest = sentence[at + 1 :]
        is_comma = word.written == "," and _opens_clause(rest) and _has_verb(sentence[start:at])
        is_colon = word.written == ":" and _has_verb(rest)
        is_that = word.plain == "that" and sentence[at - 1].plain in _SAYING
        if is_that and any(one.sort is Sort.NEGATION for one in sentence[start:at]):
            # "We did not find that ..." asserts nothing.
            return
        if is_comma or (is_colon and _has_verb(sentence[start:at])):
            yield sentence[start:at]
        if is_comma or is_that or (is_colon and _has_verb(sentence[start:at])):
            start = at + 1
            while start < len(sentence) and sentence[start].plain in _JOINING:
                start += 1
    yield sentence[start:]


def _has_verb(words: Sequence[Word]) -> bool:
    return place_of_verb(words) is not None


def _opens_clause(words: Sequence[Word]) -> bool:
    """Return whether a subject and a verb follow a comma."""
    while words and words[0].plain in _JOINING:
        words = words[1:]
    if not words:
        return False
    first = words[0]
    is_subject = (
        first.plain in ARTICLES | _PRONOUNS
        or first.sort in {Sort.NAME, Sort.CODE}
        or "'" in first.plain
    )
    end = next((n for n, word in enumerate(words) if word.written == ","), len(words))
    is_verb = len(words) > 1 and words[1].plain in BE | _HAVE | UNCHANGED | IRREGULAR_FORMS
    return (is_subject and _has_verb(words[:end])) or (first.sort is Sort.WORD and is_verb)


@dataclass(frozen=True, slots=True)
class Frame:
    """The parts of a clause."""

    before: Sequence[Word]
    """What the value is of."""
    value: Sequence[Word]
    after: Sequence[Word]
    verb: str
    preposition: str = ""
    explained: int = 0
    """Words at the end that only explain the value."""
    is_report: bool = False
    is_turned: bool = False


def is_meaningful(word: Word) -> bool:
    """Return whether a word says something of its own, other than that something has changed."""
    return word.sort in CONTENT and word.plain not in _OF_CHANGE


def keys_of(words: Iterable[Word]) -> frozenset[str]:
    """Return the words that say something, as they are compared."""
    return frozenset([word.key for word in words if is_meaningful(word)])


def split_label(clause: Sequence[Word]) -> tuple[frozenset[str], Sequence[Word]]:
    """Separate a label from the clause after it; one such as "Decision" names nothing."""
    at = next((n for n, word in enumerate(clause[:_LABEL_WORDS_MAX]) if word.written == ":"), None)
    if at is None:
        return frozenset(), clause
    names = [word for word in clause[:at] if is_meaningful(word) and word.plain not in _LABELS]
    remarks = CORRECTIONS | _PRONOUNS - ARTICLES
    is_remark = any(word.plain in remarks for word in clause[:at])
    if not names or is_remark:
        return frozenset(), clause[at + 1 :]
    if _has_verb(clause[:at]) or not _has_verb(_first_part(clause[at + 1 :])):
        return frozenset(), clause
    return keys_of(clause[:at]), clause[at + 1 :]


def _first_part(words: Sequence[Word]) -> Sequence[Word]:
    end = next((n for n, word in enumerate(words) if word.written == ","), len(words))
    return words[:end]


def split_time(words: Sequence[Word]) -> tuple[Sequence[Word], bool]:
    """Cut out since when something holds, and return whether it says so."""
    remaining: list[Word] = []
    is_new, at = False, 0
    while at < len(words):
        plain = words[at].plain
        after = words[at + 1].plain if at + 1 < len(words) else ""
        end = None
        if (plain, after) in _PRESENT:
            end = at + 2
        elif plain in _SINCE or (plain, after) == ("as", "of"):
            end = _end_of_phrase(words, at + (1 if plain in _SINCE else 2))
        elif plain == "from":
            near = range(at + 2, min(at + 6, len(words)))
            on = next((n for n in near if words[n].plain in _ONWARDS), None)
            follows = any(word.is_content for word in words[on + 1 : on + 2]) if on else False
            if on is not None and (after == "now" or not follows):
                end = on + 1
            elif after in {"next", "today", "tomorrow", "now"}:
                end = at + (3 if after == "next" else 2)
        if end is None:
            remaining.append(words[at])
            at += 1
        else:
            is_new, at = True, end
    start = 1 if remaining and remaining[0].written == "," else 0
    return remaining[start:], is_new


def _end_of_phrase(words: Sequence[Word], start: int) -> int:
    """Return the end of the noun phrase that begins at a place."""
    at = start
    while at < len(words):
        word = words[at]
        is_next = word.plain in ARTICLES | _PRONOUNS | _AUXILIARIES and at > start
        if word.sort is Sort.STOP or is_next or (word.plain in PREPOSITIONS and word.plain != "of"):
            break
        at += 1
    return at


def is_of_time(word: Word) -> bool:
    """Return whether a word is a number, a unit, a day or a month."""
    is_month = word.plain == "may" or GROUP_OF.get(word.plain, DATES) < DATES
    return word.sort is Sort.NUMBER or is_month or word.plain in UNITS


def place_of_verb(words: Sequence[Word]) -> int | None:
    """Return the place of the first verb after the subject."""
    auxiliary = None
    for place, word in enumerate(words):
        is_unit = place > 0 and words[place - 1].sort is Sort.NUMBER
        if word.plain in _AUXILIARIES or word.sort is Sort.MODAL:
            if place and not is_unit:
                auxiliary = place
                break
        elif "'" in word.plain and word.plain.partition("'")[0] in _PRONOUNS:
            return place
    place = verb_at(list(_for_verbs(words))) if auxiliary is None else auxiliary
    # A verb of one value is one, wherever another reading would leave none.
    known = next(
        (
            n
            for n, (before, word) in enumerate(pairwise(words), 1)
            if before.sort is not Sort.FUNCTION
            and (
                word.plain in _PLURAL_FORMS
                or (word.plain.endswith("s") and word.stem in _OF_ONE_VALUE)
            )
        ),
        None,
    )
    return known if place is None or (known is not None and known < place) else place


def _for_verbs(words: Sequence[Word]) -> Iterator[str]:
    """Yield the words with those masked that can be no verb: names, numbers and their units."""
    before = None
    for word in words:
        is_measured = before is not None and before.sort is Sort.NUMBER
        if word.sort is Sort.NUMBER or (is_measured and word.sort is Sort.WORD):
            yield "()"
        elif word.sort in {Sort.NAME, Sort.CODE}:
            yield word.plain.upper()
        else:
            yield word.plain
        before = word


def read_quantity(words: Sequence[Word]) -> Frame:
    """Read "Oil change every 500 hours" as a quantity of the words before it."""
    at = next((n for n, word in enumerate(words) if word.sort is Sort.NUMBER), None)
    after = words[at + 1].plain.removesuffix("s") if at and at + 1 < len(words) else ""
    is_month = after == "may" or GROUP_OF.get(after, DATES) < DATES
    is_measured = UNITS.get(after, "clock") != "clock"
    if not at or not (is_measured or is_month):
        return Frame(words, (), (), NO_VERB)
    value, rest = split_value(words[at:])
    return Frame(words[:at], value, rest, "")


def read_statement(words: Sequence[Word], place: int) -> Frame:
    """Read subject, verb and value of a clause such as "The backend runs on Node 20"."""
    at, verb = place, ""
    while at < len(words) and _is_light(words[at]):
        word = words[at]
        if word.plain in BE or (word.sort is Sort.FUNCTION and "'" in word.plain):
            verb = "be"
        elif word.plain in _HAVE:
            verb = "have"
        at += 1
    if at < len(words) and (not verb or _is_participle(words, at)):
        verb, at = words[at].stem, at + 1
        while at < len(words) and words[at].plain in CUES:
            at += 1
    preposition = ""
    if at < len(words) and words[at].plain in _OF_VALUE:
        preposition, at = words[at].plain, at + 1
    before, rest = words[:place], words[at:]
    value, after = split_value(rest)
    if preposition == "to" and verb == "be":
        verb = "visit"
    is_active = preposition != "by"
    if is_active and _is_turned(verb, before=before, value=value, after=after):
        return Frame(rest, before, (), verb, is_turned=True)
    explained = len(rest) - len(value) - len(after)
    return Frame(before, value, after, verb, preposition, explained)


def _is_light(word: Word) -> bool:
    return (
        word.plain in _AUXILIARIES | CUES
        or word.sort in {Sort.MODAL, Sort.NEGATION}
        or ("'" in word.plain and word.plain.partition("'")[0] in _PRONOUNS)
    )


def _is_participle(words: Sequence[Word], at: int) -> bool:
    """Return whether a word after "is" is a verb: "is stored in", "is called", "is due"."""
    word = words[at]
    if word.sort is not Sort.WORD:
        return False
    follows = words[at + 1].plain if at + 1 < len(words) else ""
    is_form = word.plain.endswith(("ed", "en", "ing")) or word.plain in IRREGULAR_FORMS
    is_verb = is_form or word.stem in ONE_VALUE
    is_followed = follows in _OF_VALUE or follows in CUES or not follows
    return is_verb and (is_followed or word.stem in ONE_VALUE)


def split_value(words: Sequence[Word]) -> tuple[Sequence[Word], Sequence[Word]]:
    """Split what follows the predicate into the value and what qualifies it."""
    at = 0
    while at < len(words):
        word = words[at]
        is_end = word.plain in PREPOSITIONS or word.sort in {Sort.STOP, Sort.NEGATION}
        if at and is_end:
            break
        at += 1
    # What follows a comma explains the value, unless it begins with a preposition.
    end = next(
        (
            n
            for n in range(at, len(words))
            if words[n].written in ",("
            and not (n + 1 < len(words) and words[n + 1].plain in PREPOSITIONS)
        ),
        len(words),
    )
    return words[:at], words[at:end]


def _is_turned(
    verb: str, *, before: Sequence[Word], value: Sequence[Word], after: Sequence[Word]
) -> bool:
    """Return whether the value comes first: "Ann owns the billing service"."""
    named = [word for word in before if word.sort is not Sort.STOP]
    is_named = bool(named) and all(
        word.written[:1].isupper() or word.written in {"and", "of"} for word in named
    )
    if not is_named or not value:
        return False
    first = value[0]
    is_definite = first.plain in ARTICLES - {"a", "an"} or first.sort in {Sort.NAME, Sort.CODE}
    is_title = first.plain not in ARTICLES and not value[-1].plain.endswith("s")
    if verb in HOLDING:
        return is_definite or is_title
    has_role = any(word.stem in ROLES for word in value) and first.plain not in {"a", "an"}
    has_charge = any(word.stem in _CHARGES for word in value) and bool(after)
    is_identity = first.plain in {"our", "my", "the"}
    return verb == "be" and (has_role or has_charge or is_identity)


def read_label(words: Sequence[Word]) -> Frame | None:
    """Read "Port: 8080" and "max_retries = 5" as values of the words before the sign."""
    signs = {":", "=", *ARROWS}
    at = next((n for n, word in enumerate(words[:_LABEL_WORDS_MAX]) if word.written in signs), None)
    if not at or at + 1 >= len(words):
        return None
    before, rest = words[:at], words[at + 1 :]
    if any(word.plain in _AUXILIARIES for word in before) or _has_verb(_first_part(rest)):
        return None
    value, after = split_value(rest)
    return Frame(before, value, after, "", is_report=words[at].written in ARROWS)


def read_report(words: Sequence[Word], place: int | None) -> Frame | None:
    """Read a report of a change: "Raised the timeout from 30 to 90 s", "The call moved to ten"."""
    plain = [word.plain for word in words]

    def is_report(n: int) -> bool:
        word = words[n]
        if word.stem not in REPORTING or word.sort not in {Sort.WORD, Sort.NAME}:
            return False
        is_done = word.plain.endswith(("ed", "en")) or word.plain in PAST_FORMS
        is_state = word.plain == "set" and n > 0 and plain[n - 1] in BE
        is_verb = n == 0 or (place is not None and n >= place) or plain[n - 1] in _PRONOUNS
        return is_done and is_verb and not is_state

    at = next((n for n in range(min(len(words), _REPORT_WITHIN)) if is_report(n)), None)
    if at is None:
        return None
    targets = {"to", "into", *ARROWS}
    to = next((n for n in range(at + 1, len(words)) if plain[n] in targets), None)
    if to is None:
        return None
    source = next((n for n in range(at + 1, len(words)) if plain[n] == "from"), None)
    first = min(to, to if source is None else source)
    value, after = split_value(words[to + 1 :])
    is_active = place is None or place > at or plain[0] in _PRONOUNS
    subject, named = words[: at if is_active or place is None else place], words[at + 1 : first]
    # Who did it is not what changed: "The board raised the fee to 20 euros".
    opens = named[0].plain if named else ""
    has_object = bool(keys_of(named)) and opens not in PREPOSITIONS | {"up", "down"}
    is_done = at > 0 and plain[at - 1] in BE
    before = list(named) if has_object and not is_done else [*subject, *named]
    if source is not None and source > to:
        after = ()
    explained = len(words) - to - 1 - len(value) - len(after)
    return Frame(before, value, after, "become", "to", explained, is_report=True)
