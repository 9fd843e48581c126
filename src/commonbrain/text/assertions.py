"""What a clause asserts: of what, and which values.

"The upload limit for guests is 20 MB" asserts the size 20 MB of the upload limit for guests. A
clause that reports a change asserts the new value: "Raised the upload limit from 10 to 25 MB" says
25 MB, and quotes 10 as replaced.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from commonbrain.text.frames import (
    ARROWS,
    BE,
    CONDITIONS,
    CORRECTIONS,
    CUES,
    DATES,
    HOLDING,
    NO_VERB,
    ONE_VALUE,
    PREPOSITIONS,
    REPORTING,
    ROLES,
    SINGLE,
    TIMED,
    Frame,
    is_meaningful,
    keys_of,
    place_of_verb,
    read_label,
    read_quantity,
    read_report,
    read_statement,
    split_clauses,
    split_label,
    split_sentences,
    split_time,
    split_value,
    stems_of,
)
from commonbrain.text.words import (
    ARTICLES,
    GROUP_OF,
    IRREGULAR_FORMS,
    UNITS,
    Sort,
    Word,
    read_words,
)

ATTRIBUTES: Final = ROLES | stems_of(
    "name title colour color size price cost fee limit cap quota deadline date time day address"
    " number code pin password port branch shell browser language currency unit format provider"
    " supplier vendor host region zone location venue owner default status state stage level mode"
    " type version capacity temperature speed frequency interval timeout budget rent salary rate"
    " discount account bank insurer licence license database linter bundler"
)
"""Nouns for what has one value at a time."""
_MANY: Final = stems_of(
    "sell offer support speak know like return accept include contain provide buy fix add order use"
    " see visit read watch attend win export catch find"
)
"""Verbs that hold of several things at a time."""
GENERAL: Final = frozenset({"", "be", "become", "move", "go"})
"""Verbs that say no more than a label does."""
_PLACES: Final = frozenset("in on at behind under to with".split())
"""Prepositions before a place or a means, of which there is one."""
_PAST_BE: Final = frozenset("was were wasn't weren't had did didn't".split())
_NAMING: Final = frozenset({Sort.NAME, Sort.CODE, Sort.NUMBER})
_QUANTITIES: Final = frozenset(UNITS.values()) - {"clock"}
"""What is measured has one value at a time, whatever the verb."""
_MEASURES: Final = frozenset({*UNITS.values(), "clock", "date"})
_RECURRING: Final = frozenset({"clock", "date", "group 3"})
"""Times of which there may be several: a bus leaves at 7:15 and at 8:15."""
_REASONS: Final = frozenset("because since as so after due".split())
_TIMES: Final = frozenset(
    "today yesterday tomorrow week month year day night morning evening season quarter time start"
    " o'clock euro cent % degree hour minute second instead rather place use".split()
)
_REPLACING: Final = (
    frozenset("from instead not over replaced replace rather was up down".split()) | ARROWS
)
_POSSIBLE: Final = frozenset("can could may might".split())
_FORMER_WORDS_MAX: Final = 6
_DAYTIME: Final = 3
"""The group of the times of a day."""
_WIDE: Final = frozenset("all every everywhere any".split())
_CACHED: Final = 512
_FORMER_FOLLOWS: Final = tuple(
    tuple(marker.split())
    for marker in (
        "instead of,rather than,in place of,and not,but not,over from,used to be,up from,down from"
        ",formerly,previously,replaces,succeeds,succeeded,dropped,stopped using,got rid of"
        ",migrated off,moved off,moved out of,is no longer,are no longer,cancelled,abandoned"
        ",gave up,retired,passed from,taken over from"
    ).split(",")
)
"""Words in a row after which a value is quoted as replaced."""
_FORMER_PRECEDES: Final = frozenset("gone archived retired discontinued wrong dead".split())
"""Words before which a value is quoted as replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assertion:
    """What one clause says; words are compared by stem, code as it is written."""

    subject: frozenset[str]
    """Content words before the value that say of what; empty if it is not named."""
    verb: str
    """The stem of its main verb; empty for a label."""
    values: Mapping[str, frozenset[str]]
    """The words of its values, by what they measure or choose from."""
    qualifiers: frozenset[str]
    """Content words after the first value, other than values."""
    content: frozenset[str]
    """Content words of its parts, without what only explains the value."""
    things: frozenset[str]
    """Content words that can name what it speaks of: no verb forms, adverbs, times or reasons."""
    whole: frozenset[str]
    """All content words of the clause."""
    modifiers: frozenset[str]
    """Words of the subject before its noun: "request" in "the request timeout of the gateway"."""
    names: frozenset[str]
    """Names, code and numbers among the content words."""
    former: tuple[tuple[str, ...], ...]
    """The content words of each value that it quotes as replaced, in order from the marker."""
    has_one_value: bool
    """Whether its predicate has one value at a time."""
    is_single: bool
    """Whether there is one value even if nothing says that it is new."""
    has_many_values: bool
    """Whether its verb holds of several things at a time."""
    is_denied: bool
    has_cue: bool
    """Whether it says that this is new: "now", "no longer", "since May"."""
    is_past: bool
    is_modal: bool
    is_wide: bool
    """Whether it speaks of all of a kind."""
    is_report: bool
    """Whether it reports a change rather than a state."""


def read_assertions(text: str) -> tuple[Assertion, ...]:
    """Return the assertions of a text, at most one a clause; questions assert nothing."""
    return _read(text)


@lru_cache(maxsize=_CACHED)
def _read(text: str) -> tuple[Assertion, ...]:
    return tuple(
        _assertion(clause)
        for sentence in split_sentences(read_words(text))
        for clause in split_clauses(sentence)
        if clause
    )


@lru_cache(maxsize=_CACHED)
def corrects(text: str) -> bool:
    """Return whether a text says that something was wrong."""
    return any(word.plain in CORRECTIONS for word in read_words(text))


def _assertion(clause: Sequence[Word]) -> Assertion:
    label, rest = split_label(clause)
    words, is_new = split_time(rest)
    place = place_of_verb(words)
    is_condition = bool(words) and words[0].plain in CONDITIONS
    frame = (
        (Frame(words, (), (), NO_VERB) if is_condition else None)
        or read_report(words, place)
        or read_label(words)
        or (read_quantity(words) if place is None else read_statement(words, place))
    )
    values = _values(frame)
    verbs = frozenset({frame.verb}) - GENERAL
    # The number of a shelf is not the number of the crate that is on it.
    numbers = {word.key for word in frame.before if word.sort is Sort.NUMBER}
    about = keys_of(frame.before) - numbers | {f"#{number}" for number in numbers}
    measured = frozenset[str]().union(*values.values())
    plain = [word.plain for word in clause]
    stated = words[: len(words) - frame.explained]
    denials = sum(word.sort is Sort.NEGATION for word in stated)
    return Assertion(
        subject=label | about - measured,
        verb=frame.verb,
        values=values,
        qualifiers=keys_of((*frame.value, *frame.after)) - measured,
        content=label | about | keys_of((*frame.value, *frame.after)) | verbs,
        things=frozenset(_things(words)),
        whole=keys_of(clause),
        modifiers=keys_of(_keys_before_noun(frame.before)),
        names=frozenset(word.key for word in words if word.sort in _NAMING),
        former=tuple(_former(clause)),
        has_one_value=_has_one_value(frame, values),
        is_single=_is_single(frame, values=values, words=words),
        has_many_values=frame.verb in _MANY,
        is_denied=denials % 2 == 1,
        has_cue=frame.is_report or is_new or not CUES.isdisjoint(plain),
        is_past=not frame.is_report and _is_past(words, place),
        is_modal=any(word.sort is Sort.MODAL for word in stated),
        is_wide=any(word.plain in _WIDE for word in stated),
        is_report=frame.is_report,
    )


def _is_single(
    frame: Frame, *, values: Mapping[str, frozenset[str]], words: Sequence[Word]
) -> bool:
    """Return whether a statement excludes another value by itself."""
    if not _has_one_value(frame, values):
        return False
    if any(word.plain in _POSSIBLE for word in words):
        return False
    is_held = frame.verb in HOLDING and frame.preposition == "by"
    if frame.is_turned or is_held or frame.verb in {"", "be"}:
        return True
    if frame.verb == "run" and frame.preposition != "on":
        return False
    is_time = bool(values.keys() & _RECURRING)
    is_counted = any(name.startswith("number ") for name in values) and frame.verb == "have"
    is_quantity = is_counted or bool(values.keys() & _QUANTITIES)
    return is_quantity or frame.verb in (TIMED if is_time else SINGLE)


def _things(words: Sequence[Word]) -> Iterator[str]:
    """Yield the words that can name a thing, up to what explains the replaced value."""
    plain = [word.plain for word in words]
    start = next((n + 1 for n in range(len(words)) if _has_object(words, n)), 0)
    for place, word in enumerate(words[start:], start):
        is_after = not _REPLACING.isdisjoint(plain[:place])
        if place and (word.plain in _REASONS or (word.written in ",(" and is_after)):
            return
        is_noun = place > 0 and plain[place - 1] in ARTICLES
        is_form = word.plain.endswith(("ed", "ing", "ly")) or word.plain in IRREGULAR_FORMS
        is_verbal = is_form and not is_noun
        is_title = place == 0 and word.written[:1].isupper()
        is_time = word.plain in _TIMES or word.plain.removesuffix("s") in _TIMES
        if word.sort is Sort.WORD and not (is_verbal or is_title or is_time):
            yield word.key


def _has_object(words: Sequence[Word], at: int) -> bool:
    """Return whether a report names its object after the verb: "the board raised the fee"."""
    word = words[at]
    is_report = word.stem in REPORTING and word.plain.endswith("ed")
    follows = words[at + 1].plain if at + 1 < len(words) else "to"
    return is_report and follows not in PREPOSITIONS | ARROWS | {"up", "down"}


def _is_dated(word: Word) -> bool:
    group = _group(word)
    return word.sort is Sort.NUMBER or (group is not None and group < DATES)


def _keys_before_noun(words: Sequence[Word]) -> Sequence[Word]:
    return [word for word in _head(words) if is_meaningful(word)][:-1]


def _is_past(words: Sequence[Word], place: int | None) -> bool:
    if place is None:
        return False
    verb = words[place]
    is_report = verb.plain.endswith("ed") or verb.plain in IRREGULAR_FORMS
    return verb.plain in _PAST_BE or (verb.sort is Sort.WORD and is_report)


def _has_one_value(frame: Frame, values: Mapping[str, frozenset[str]]) -> bool:
    if not frame.verb and any(_is_dated(word) for word in frame.before):
        # "Stand-up Monday: ..." is one entry of many.
        return False
    if frame.is_turned or frame.is_report or frame.verb in ONE_VALUE | {""}:
        return True
    if frame.verb in HOLDING and frame.preposition == "by":
        return True
    first = next((word for word in frame.value if word.is_content), None)
    is_quantity = first is not None and first.sort is Sort.NUMBER
    return (is_quantity or bool(values.keys() & _MEASURES)) and frame.verb not in _MANY


def _former(words: Sequence[Word]) -> Iterator[tuple[str, ...]]:
    """Yield the values that a clause quotes as replaced, nearest to the marker first."""
    plain = [word.plain for word in words]
    for n in range(len(words)):
        if plain[n] in ARROWS or (plain[n] in _FORMER_PRECEDES and n):
            yield tuple(
                word.key for word in reversed(words[max(0, n - 5) : n]) if is_meaningful(word)
            )
        has_target = not ARROWS.union({"to", "into"}).isdisjoint(plain[n:])
        is_range = plain[n] == "from" and has_target and any(w.stem in REPORTING for w in words[:n])
        is_taken = plain[n] == "from" and {"over", "took", "passed"} & {*plain[max(0, n - 8) : n]}
        if is_range or is_taken:
            yield _phrase(words[n + 1 :])
        is_replacing = plain[n] in {"replace", "replaced", "swapped", "swap"}
        if is_replacing and {"by", "with", "for"} & {*plain[n + 1 :]}:
            before, after = words[max(0, n - 5) : n], words[n + 1 :]
            is_passive = n > 0 and plain[n - 1] in BE
            yield (
                _phrase(after)
                if not is_passive
                else tuple(word.key for word in reversed(before) if is_meaningful(word))
            )
        if plain[n] in {"handed", "passed"} and "over" in plain[n + 1 :]:
            yield tuple(word.key for word in words[:n] if is_meaningful(word))
        is_first = n == 0 or words[n - 1].sort is Sort.STOP
        if (plain[n] == "not" and (is_first or "but" in plain[n : n + 7])) or (
            plain[n] == "was" and is_first
        ):
            yield _phrase(words[n + 1 :])
        for marker in _FORMER_FOLLOWS:
            if tuple(plain[n : n + len(marker)]) == marker:
                yield _phrase(words[n + len(marker) :])
                break


def _phrase(words: Sequence[Word]) -> tuple[str, ...]:
    value, _ = split_value(words)
    return tuple(word.key for word in value if is_meaningful(word))[:_FORMER_WORDS_MAX]


def _values(frame: Frame) -> Mapping[str, frozenset[str]]:
    """Return the values outside of the subject, by dimension.

    Only values of one dimension exclude each other: two times, two sizes, two weekdays, two names.
    """
    measured: dict[str, set[str]] = {}
    words = (*frame.value, *frame.after)
    for at, word in enumerate(words):
        dimension, span = _measure(words, at, preposition=frame.preposition)
        if dimension is not None:
            measured.setdefault(dimension, set()).update(w.key for w in span)
        elif (group := _group(word)) is not None and (group <= _DAYTIME or len(frame.value) == 1):
            measured.setdefault("date" if group < DATES else f"group {group}", set()).add(word.key)
    if not measured.keys() - {f"group {_DAYTIME}"}:
        named = _named(frame)
        is_place = frame.preposition in _PLACES
        if named and (frame.is_report or is_place):
            measured["place"] = named
        if named and (frame.is_report or not is_place or frame.verb != "be"):
            measured["name"] = named
    elif frame.preposition in {"in", "on", "at"} and any(n.endswith(" number") for n in measured):
        measured["place"] = {word.key for word in frame.value if is_meaningful(word)}
    return {dimension: frozenset(keys) for dimension, keys in measured.items()}


def _named(frame: Frame) -> set[str]:
    """Return the names in a value, or all of it where any words may be one."""
    meaningful = [word for word in frame.value if is_meaningful(word)]
    named = {word.key for word in meaningful if word.sort in {Sort.NAME, Sort.CODE}}
    if named and (frame.verb or len(named) == len(meaningful)):
        return named
    is_title = bool(meaningful) and all(word.written[:1].isupper() for word in meaningful)
    return {word.key for word in meaningful} if is_title or _has_free_value(frame) else set()


def _group(word: Word) -> int | None:
    """Return the closed group of a word, of a weekday also in the plural."""
    return GROUP_OF.get(word.plain, GROUP_OF.get(word.plain.removesuffix("s")))


def _has_free_value(frame: Frame) -> bool:
    """Return whether any words are a value: of an attribute, or a definite place."""
    if frame.verb in {"", "be", "become"} and not frame.preposition:
        head = [word for word in _head(frame.before) if word.is_content]
        # "Prices" are several.
        is_one = bool(head) and not head[-1].plain.removesuffix("ss").endswith("s")
        return is_one and head[-1].stem in ATTRIBUTES
    is_definite = bool(frame.value) and frame.value[0].plain in {"the", "our", "my"}
    return is_definite and frame.preposition in _PLACES


def _head(words: Sequence[Word]) -> Sequence[Word]:
    """Return a noun phrase without what follows a preposition."""
    end = next((n for n, word in enumerate(words) if n and word.plain in PREPOSITIONS), len(words))
    return words[:end]


def _measure(
    words: Sequence[Word], at: int, *, preposition: str
) -> tuple[str | None, Sequence[Word]]:
    """Return what the number at a place measures, and its words."""
    word = words[at]
    if word.sort is not Sort.NUMBER:
        return None, ()
    before = words[at - 1] if at else None
    after = words[at + 1] if at + 1 < len(words) else None
    unit = after.plain.removesuffix("s") if after else ""
    pair = (word,) if after is None else (word, after)
    is_date = unit == "may" or GROUP_OF.get(unit, DATES) < DATES or word.plain.count("-") > 1
    follows = before.plain if before is not None else preposition
    is_alone = after is None or not after.is_content
    is_named = before is not None and before.is_content and before.sort is not Sort.NUMBER
    dimension, span = "number", (word,)
    if is_date:
        dimension, span = "date", pair
    elif before is not None and before.plain in {"past", "half", "quarter"}:
        dimension, span = "clock", (before, word)
    elif unit in UNITS:
        dimension, span = UNITS[unit], pair
    elif before is not None and before.plain in {"\u20ac", "$", "\u00a3"}:
        dimension, span = "money", (before, word)
    elif before is not None and is_named:
        dimension, span = f"{before.key} number", (before, word)
    elif ":" in word.plain or (follows == "at" and is_alone):
        dimension = "clock"
    elif after is not None and not is_alone:
        dimension = f"number {after.key}"
    return dimension, span
