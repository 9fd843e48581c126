"""What a clause asserts: of what, and which values.

"The upload limit for guests is 20 MB" asserts the size 20 MB of the upload limit for guests. A
clause that reports a change asserts the new value: "Raised the upload limit from 10 to 25 MB" says
25 MB, and quotes 10 as replaced.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, takewhile
from typing import Final, NamedTuple

from commonbrain.model.values import dataclass
from commonbrain.text.frames import (
    ARROWS,
    CONDITIONS,
    CORRECTIONS,
    CUES,
    DATES,
    HOLDING,
    NO_VERB,
    ONE_VALUE,
    PAST_FORMS,
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
    stems_of,
)
from commonbrain.text.quotes import is_unreal, opposes, quoted_values
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
    " minimum maximum supplier vendor host region zone location venue owner default status state"
    " stage level mode type version capacity temperature speed frequency interval timeout budget"
    " rent salary rate"
    " discount account bank insurer licence license database framework timezone editor engine"
    " platform repository linter bundler"
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
_PRESENT: Final = frozenset("goes does has".split())
_PAST_BE: Final = frozenset("was were wasn't weren't had did didn't".split())
_NAMING: Final = frozenset({Sort.NAME, Sort.CODE, Sort.NUMBER})
_QUANTITIES: Final = frozenset(UNITS.values()) - {"clock"}
"""What is measured has one value at a time, whatever the verb."""
_MEASURES: Final = frozenset({*UNITS.values(), "clock", "date"})
_RECURRING: Final = frozenset({"clock", "date", "group 3"})
"""Times of which there may be several: a bus leaves at 7:15 and at 8:15."""
_NEW_VALUE: Final = frozenset("to into by with from as than".split()) | ARROWS
"""Words before a value rather than before what it is of."""
_QUALIFYING: Final = frozenset("of for in on at under within during when if while".split())
"""Words before what tells one thing from another."""
_BEFORE_NOUNS: Final = ARTICLES | _QUALIFYING
_NO_OBJECT: Final = PREPOSITIONS | ARROWS | {"up", "down", "out", "off"}
_WITHIN_PHRASE: Final = (PREPOSITIONS | ARTICLES) - {"of"}
_REASONS: Final = frozenset("because since as so after due".split())
_TIMES: Final = frozenset(
    form
    for word in (
        "once today yesterday tomorrow week month year day night morning evening season quarter"
        " time start o'clock euro cent % degree hour minute second instead rather place use"
    ).split()
    for form in (word, f"{word}s")
)
_REPLACING: Final = (
    frozenset("from instead not over replaced replace swap swapped rather was up down".split())
    | ARROWS
)
_OWNERS: Final = {
    **dict.fromkeys(("my", "our"), "we"),
    **dict.fromkeys(("this", "these"), "this"),
    **dict.fromkeys(("that", "those"), "that"),
    **{word: word for word in ("his", "her", "their", "your")},
}
_POSSIBLE: Final = frozenset("can could may might".split())
_GROUPS: Final = {f"{word}s": group for word, group in GROUP_OF.items()} | GROUP_OF
"""The closed groups of words, of a weekday also in the plural."""
_DAYTIME: Final = 3
"""The group of the times of a day."""
_ADDING: Final = frozenset("also too another additionally additional well".split())
_TEMPORARY: Final = frozenset("tomorrow tomorrow's tonight temporarily just".split())
_CONDITIONAL: Final = frozenset("during with without behind under while when if".split())
_LEADING: Final = _CONDITIONAL | frozenset("in on at for to".split())
"""Words before a place, time or condition that a clause begins with."""
_WIDE: Final = frozenset("all every everywhere any".split())
ASSERTIONS_MAX: Final = 8
"""Clauses of a text that are read; a longer text says many things."""
_CACHED: Final = 512


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
    phrases: tuple[tuple[bool, frozenset[str]], ...]
    """Its noun phrases without times and reasons; True where one qualifies: "in staging"."""
    stated: frozenset[str]
    """All content words of the value."""
    whole: frozenset[str]
    """All content words of the clause."""
    modifiers: frozenset[str]
    """Words of the subject before its noun: "request" in "the request timeout of the gateway"."""
    names: frozenset[str]
    """Names, code and numbers among the content words."""
    numbers: frozenset[str]
    owners: frozenset[str]
    """Whose it is, or which: "my" and "our" are one, "his" another."""
    parts: frozenset[str]
    """Words of the subject that name a part of a kind: "some", "one"."""
    preposition: str
    former: tuple[tuple[str, ...], ...]
    """The content words of each value that it quotes as replaced, in order from the marker."""
    has_one_value: bool
    """Whether its predicate has one value at a time."""
    is_single: bool
    """Whether there is one value even if nothing says that it is new."""
    has_many_values: bool
    """Whether its verb holds of several things at a time."""
    is_denied: bool
    is_opposed: bool
    """Whether it denies a value for another: "not X but Y"."""
    is_possible: bool
    lead: frozenset[str]
    """Words of a place, time or condition that it begins with."""
    is_temporary: bool
    is_indefinite: bool
    """Whether it speaks of one of a kind: "a patient"."""
    is_ended: bool
    """Whether it denies what was: "no longer"."""
    has_cue: bool
    """Whether it says that this is new: "now", "no longer", "since May"."""
    is_added: bool
    """Whether it says that this comes on top: "too", "another"."""
    is_past: bool
    is_modal: bool
    is_wide: bool
    """Whether it speaks of all of a kind."""
    is_report: bool
    """Whether it reports a change rather than a state."""

    @property
    def has_named_value(self) -> bool:
        """Whether its value is a name or a place rather than a measure."""
        return self.values.keys() <= {"name", "place"}


def read_assertions(text: str) -> tuple[Assertion, ...]:
    """Return the assertions of the first `ASSERTIONS_MAX` clauses; questions assert nothing."""
    return _read(text)


@lru_cache(maxsize=_CACHED)
def _read(text: str) -> tuple[Assertion, ...]:
    return tuple(map(_assertion, islice(_clauses(text), ASSERTIONS_MAX)))


def _clauses(text: str) -> Iterator[Sequence[Word]]:
    return (
        clause
        for sentence in split_sentences(read_words(text))
        for clause in split_clauses(sentence)
        if clause
    )


def subject_of(text: str) -> frozenset[str]:
    """Return the subject of the first assertion; empty without one."""
    first = next(_clauses(text), None)
    if first is None:
        return frozenset()
    clause = _framed(first)
    return clause.label | _about(clause.frame) - _measured(_values(clause.frame))


def corrects(text: str) -> bool:
    """Return whether a text says that something was wrong."""
    return any(word.plain in CORRECTIONS for word in read_words(text))


class _Framed(NamedTuple):
    """A clause without its label and time, and the frame of the rest."""

    label: frozenset[str]
    words: Sequence[Word]
    is_new: bool
    """Whether the time says that this is new."""
    place: int | None
    """The place of the verb."""
    frame: Frame


def _framed(clause: Sequence[Word]) -> _Framed:
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
    return _Framed(label, words, is_new, place, frame)


def _about(frame: Frame) -> frozenset[str]:
    # The number of a shelf is not the number of the crate that is on it.
    numbers = {word.key for word in frame.before if word.sort is Sort.NUMBER}
    return keys_of(frame.before) - numbers | {f"#{number}" for number in numbers}


def _measured(values: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*values.values())


def _assertion(clause: Sequence[Word]) -> Assertion:
    label, words, is_new, place, frame = _framed(clause)
    values = _values(frame)
    verbs = frozenset({frame.verb}) - GENERAL
    about, measured = _about(frame), _measured(values)
    plain = [word.plain for word in clause]
    stated = words[: len(words) - frame.explained]
    denials = sum(word.sort is Sort.NEGATION for word in stated)
    is_ended = "longer" in plain or "anymore" in plain or "more" in plain[-1:]
    reported = next((n for n, word in enumerate(words) if word.stem in REPORTING), 0)
    is_real = not is_unreal(words[:reported]) or is_ended
    # Of a change that was made, a time says when: "on Monday we moved ...".
    is_done = _is_done(words, place)
    return Assertion(
        subject=label | about - measured,
        verb=frame.verb,
        values=values,
        qualifiers=keys_of((*frame.value, *frame.after)) - measured,
        content=label | about | keys_of((*frame.value, *frame.after)) | verbs,
        phrases=tuple(_phrases(words)),
        stated=keys_of(frame.value),
        whole=keys_of(clause),
        modifiers=keys_of([word for word in _head(frame.before) if is_meaningful(word)][:-1]),
        names=frozenset(word.key for word in words if word.sort in _NAMING or _is_dated(word)),
        numbers=frozenset(word.key for word in words if word.sort is Sort.NUMBER),
        former=tuple(quoted_values(clause)),
        owners=frozenset(_owners(words)),
        parts=frozenset(word.plain for word in frame.before if _is_part(word)),
        preposition=frame.preposition,
        has_one_value=_has_one_value(frame, values),
        is_single=_is_single(frame, values=values, words=words),
        has_many_values=frame.verb in _MANY,
        is_denied=denials % 2 == 1,
        is_opposed=any(opposes(clause, n) for n in range(len(clause))),
        is_ended=is_ended,
        is_possible=any(map(_is_possible, stated)),
        lead=frozenset[str]() if is_done and plain[0] not in _CONDITIONAL else _lead(words),
        is_temporary=not is_done and _is_temporary(words),
        is_indefinite=_is_indefinite(frame),
        has_cue=(frame.is_report and is_real) or is_new or not CUES.isdisjoint(plain),
        is_added=not _ADDING.isdisjoint(plain),
        is_past=not frame.is_report and _is_past(words, place),
        is_modal=any(w.sort is Sort.MODAL and not _is_possible(w) for w in stated),
        is_wide=any(word.plain in _WIDE for word in stated),
        is_report=frame.is_report,
    )


def _is_single(
    frame: Frame, *, values: Mapping[str, frozenset[str]], words: Sequence[Word]
) -> bool:
    """Return whether a statement excludes another value by itself."""
    if not _has_one_value(frame, values):
        return False
    if _is_indefinite(frame) or any(map(_is_possible, words)) or any(map(_is_part, frame.before)):
        return False
    is_held = frame.verb in HOLDING and frame.preposition == "by"
    if frame.is_turned or is_held or frame.verb in {"", "be"}:
        return True
    if frame.verb == "run" and not any("number" in name for name in values):
        # An app runs on several systems, a service on one version of each.
        return False
    is_time = bool(values.keys() & _RECURRING)
    counts = any(name.startswith("number ") for name in values)
    is_counted = counts and frame.verb in ONE_VALUE | {"have"}
    is_quantity = is_counted or bool(values.keys() & _QUANTITIES)
    return is_quantity or frame.verb in (TIMED if is_time else SINGLE)


def _phrases(words: Sequence[Word]) -> Iterator[tuple[bool, frozenset[str]]]:
    """Yield the noun phrases up to what explains the replaced value."""
    plain = [word.plain for word in words]
    start = next((n + 1 for n in range(len(words)) if _has_object(words, n)), 0)
    keys = set[str]()
    # What was changed is another thing, unless the older speaks of it too.
    qualifies, is_new_value = start > 0, False
    replacing = next((n for n, one in enumerate(plain) if one in _REPLACING), len(plain))
    for place, word in enumerate(words[start:], start):
        is_after = place > replacing
        if place and (plain[place] in _REASONS or (word.written in ",(" and is_after)):
            break
        is_noun = place > 0 and plain[place - 1] in _BEFORE_NOUNS
        is_form = word.plain.endswith(("ed", "ing", "ly")) or word.plain in IRREGULAR_FORMS
        if word.is_content and not (is_form and not is_noun):
            if (
                not _is_time(word)
                and word.sort is not Sort.NUMBER
                and plain[place] not in _REPLACING
            ):
                keys.add(word.key)
        elif word.plain not in ARTICLES:
            # What "of" follows belongs to it: "to 2 degrees by order of the manager".
            if keys and not is_new_value:
                yield qualifies or plain[place] == "of", frozenset(keys)
            if plain[place] == "but":
                return
            is_value = is_after and plain[place] in _NEW_VALUE
            is_new_value = is_value or (is_new_value and plain[place] == "of")
            keys, qualifies = set[str](), plain[place] in _QUALIFYING
    if keys and not is_new_value:
        yield qualifies, frozenset(keys)


def _has_object(words: Sequence[Word], at: int) -> bool:
    """Return whether a report names its object after the verb: "the board raised the fee"."""
    word = words[at]
    is_report = word.stem in REPORTING and word.plain.endswith("ed")
    is_report |= word.plain in PAST_FORMS
    return is_report and at + 1 < len(words) and words[at + 1].plain not in _NO_OBJECT


def _lead(words: Sequence[Word]) -> frozenset[str]:
    """Return the words of a phrase before the subject: "On Sundays we eat at eight"."""
    if not words or words[0].plain not in _LEADING:
        return frozenset()
    ends = (
        n
        for n, word in enumerate(words[1:], 1)
        if word.sort is Sort.STOP
        or (word.sort is Sort.FUNCTION and word.plain not in _WITHIN_PHRASE)
    )
    end = next(ends, len(words))
    return frozenset(word.key for word in words[1:end] if word.is_content)


def _is_temporary(words: Sequence[Word]) -> bool:
    """Return whether something holds for a time only: "tomorrow", "this week"."""
    plain = [word.plain for word in words]
    is_once = any(
        word in {"this", "next"} and _is_time(after)
        for word, after in zip(plain, words[1:], strict=False)
    )
    return is_once or not _TEMPORARY.isdisjoint(plain)


def _owners(words: Sequence[Word]) -> Iterator[str]:
    """Yield whose something is, or which one: "this morning" says neither."""
    for place, word in enumerate(words):
        if word.plain in _OWNERS and not any(map(_is_time, words[place + 1 : place + 2])):
            yield _OWNERS[word.plain]


def _is_time(word: Word) -> bool:
    return word.plain in _TIMES


def _is_indefinite(frame: Frame) -> bool:
    return any(word.plain in {"a", "an"} for word in frame.before[:1])


def _is_possible(word: Word) -> bool:
    return word.sort is Sort.MODAL and word.plain in _POSSIBLE


def _is_part(word: Word) -> bool:
    is_some = word.sort is Sort.QUANTIFIER and word.plain not in _WIDE
    return is_some or word.plain == "one"


def _is_dated(word: Word) -> bool:
    group = _group(word)
    return word.sort is Sort.NUMBER or (group is not None and group < DATES)


def _is_done(words: Sequence[Word], place: int | None) -> bool:
    """Return whether a clause reports a deed: "we moved", not "it is moved"."""
    if place is None:
        return False
    is_form = words[place].plain.endswith("ed") or words[place].plain in PAST_FORMS
    return is_form or words[place].plain in {"was", "were", "has", "have", "had"}


def _is_past(words: Sequence[Word], place: int | None) -> bool:
    if place is None:
        return False
    verb = words[place]
    is_report = verb.plain.endswith("ed") or verb.plain in IRREGULAR_FORMS - _PRESENT
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
    # All of "Status: waiting for the customer" is the value.
    value = frame.value if frame.verb else (*frame.value, *frame.after)
    if not frame.verb and _may_be_speaker(frame.before):
        return set()
    meaningful = [word for word in value if is_meaningful(word)]
    named = {word.key for word in meaningful if word.sort in {Sort.NAME, Sort.CODE}}
    if named and (frame.verb or len(named) == len(meaningful)):
        return named
    is_title = bool(meaningful) and all(word.written[:1].isupper() for word in meaningful)
    return {word.key for word in meaningful} if is_title or _has_free_value(frame) else set()


def _may_be_speaker(label: Sequence[Word]) -> bool:
    """Return whether a label may be who speaks: "Melanie: Wow" says no value of Melanie."""
    words = [*takewhile(lambda word: word.sort is not Sort.STOP, label)]
    is_name = all(word.written[:1].isupper() for word in (*words[:1], *words[-1:]))
    return is_name and bool(words) and words[-1].stem not in ATTRIBUTES


def _group(word: Word) -> int | None:
    """Return the closed group of a word, of a weekday also in the plural."""
    return _GROUPS.get(word.plain)


def _has_free_value(frame: Frame) -> bool:
    """Return whether any words are a value: of an attribute, or a definite place."""
    if frame.verb in {"", "be", "become"} and not frame.preposition:
        head = [word for word in _head(frame.before) if word.is_content]
        # "Prices" are several.
        is_one = bool(head) and not re.search("[^sui]s$", head[-1].plain)
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
    unit = after.plain if after else ""
    unit = unit if unit in UNITS else unit.removesuffix("s")
    pair = (word,) if after is None else (word, after)
    is_date = unit == "may" or GROUP_OF.get(unit, DATES) < DATES or word.plain.count("-") > 1
    follows = before.plain if before is not None else preposition
    is_alone = after is None or not after.is_content
    is_named = before is not None and before.is_content and before.sort is not Sort.NUMBER
    dimension, span = "number", (word,)
    if any(one is not None and one.sort is Sort.NUMBER for one in (before, after)):
        # The groups of a phone number are one value.
        pass
    elif is_date:
        dimension, span = "date", pair
    elif before is not None and before.plain in {"past", "half", "quarter"}:
        quarter = [w for w in words[max(0, at - 2) : at - 1] if w.plain in {"quarter", "half"}]
        dimension, span = "clock", (*quarter, before, word)
    elif before is not None and before.plain in {"\u20ac", "$", "\u00a3"}:
        dimension, span = "money", (before, word)
    elif unit in UNITS:
        dimension, span = UNITS[unit], pair
    elif before is not None and is_named:
        dimension, span = f"{before.key} number", (before, word)
    elif ":" in word.plain or (follows == "at" and is_alone):
        dimension = "clock"
    elif after is not None and not is_alone:
        dimension = f"number {after.key}"
    return dimension, span
