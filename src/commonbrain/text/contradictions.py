"""Decide from their words whether two statements can both be true.

Two decisions with opposite errors. `find_contradiction` would rather miss a conflict, because a
conflict makes readers doubt both memories. `may_add_information` would rather accept a text than
call it a duplicate, because rejected news is lost and a repetition costs one row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from commonbrain.model.links import Basis
from commonbrain.text.statements import CHOICES, Reading, Statement, read_statement

_ALIKE_FROM: Final = 0.5
"""Share of the shorter statement's words, without the subject, that the longer must contain."""
_LONGER_AT_MOST: Final = 4
"""A text that is longer by this factor contains the words of any short statement by chance."""
_REPLACED_WORDS_MAX: Final = 3
"""A value is a name or a short phrase; a longer difference makes another statement."""

# After these words there is one value: where something is, who does it, what it is made with. After
# "for" or "about" there may be several that do not exclude each other.
_ONE_FOLLOWS: Final = frozenset("in on at by with to from after until is are was were than".split())
_MANY_FOLLOW: Final = frozenset({("depend", "on"), ("rely", "on"), ("work", "with")})
_WHERE: Final = frozenset("in on under behind inside at".split())
_PLACED: Final = frozenset("stored kept saved hosted located installed live sit".split())
_COPULAS: Final = frozenset("is are was were be".split())
_NAMES: Final[Callable[[Reading], frozenset[str]]] = attrgetter("names")
_CONTENT: Final[Callable[[Reading], frozenset[str]]] = attrgetter("content")
_CHOICES: Final[Callable[[Reading], frozenset[str]]] = attrgetter("choices")
_CHANGES: Final = frozenset("moved switched migrated replaced upgraded renamed".split())
_SINGULAR_VERBS: Final = frozenset("uses use costs cost takes take starts ends expires".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two statements on one subject that exclude each other, and the basis of that."""

    basis: Basis


@dataclass(frozen=True, slots=True)
class _Replaced:
    """The words that differ between two statements that agree before and after them."""

    before: tuple[str, ...]
    one: tuple[str, ...]
    other: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def both(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The differing words of both."""
        return self.one, self.other


def find_contradiction(new: Statement, neighbour: Statement) -> Conflict | None:
    """Return the contradiction between two statements, or None; their order does not matter.

    Measured by `brain eval conflicts` and, among similar texts, by `brain eval duplicates`.
    """
    one, other = read_statement(new), read_statement(neighbour)
    if not (one.is_claim and other.is_claim):
        return None
    basis = _by_holder(one, other) or (_by_value(one, other) if one.shares_subject(other) else None)
    return Conflict(basis=basis) if basis else None


def repeats(text: str, *, old: str, new: str) -> bool:
    """Return whether a text has a value that `new` dropped, and none that `new` introduced.

    Values are numbers, names, words of a closed group, and the words in which the two differ.
    """
    here, before, after = (read_statement(Statement(text=one)) for one in (text, old, new))
    replaced = _replaced(before, after)
    is_short = replaced is not None and len(replaced.one) <= _REPLACED_WORDS_MAX
    dropped = {*_values(before), *(replaced.one if replaced and is_short else ())}
    added = {*_values(after), *(replaced.other if replaced and is_short else ())}
    stated = {*here.words, *here.numbers}
    return bool(stated & (dropped - {*after.words, *after.numbers})) and stated.isdisjoint(
        added - {*before.words, *before.numbers}
    )


def _values(reading: Reading) -> frozenset[str]:
    return reading.numbers | reading.names | reading.choices


def may_add_information(one: str, other: str) -> bool:
    """Return whether one text may contain news for the other, however similar they look."""
    here, there = read_statement(Statement(text=one)), read_statement(Statement(text=other))
    return (
        here.numbers != there.numbers
        or _by_holder(here, there) is not None
        or here.is_denied != there.is_denied
        or _are_swapped(here, there, named=_NAMES)
        or _are_swapped(here, there, named=_CHOICES)
        or _is_one_replaced(_replaced(here, there))
    )


def is_one_value_replaced(one: str, other: str) -> bool:
    """Return whether one short value replaces another in otherwise equal texts."""
    here, there = (read_statement(Statement(text=text)) for text in (one, other))
    return _is_one_replaced(_replaced(here, there))


def _by_holder(one: Reading, other: Reading) -> Basis | None:
    """Detect two holders of what only one can hold, such as the owner of a service."""
    if not (one.holder and other.holder and one.held == other.held):
        return None
    is_other = one.holder.isdisjoint(other.holder) and one.is_denied == other.is_denied
    return Basis.ENTITY if is_other else None


def _by_value(one: Reading, other: Reading) -> Basis | None:
    """Detect different values, given that both have the same subject."""
    is_alike = _say_alike(one.predicate, other.predicate)
    if one.denies != other.denies:
        is_same = is_alike and not _are_swapped(one, other, named=_CONTENT)
        return Basis.NEGATION if is_same and not _is_detailed(one, other) else None
    if is_alike and one.numbers - other.numbers and other.numbers - one.numbers:
        return Basis.NUMBER
    if _are_swapped(one, other, named=_NAMES) and _CHANGES & {*one.words, *other.words}:
        return Basis.ENTITY
    return Basis.VALUE if _are_bare_values(one, other) else _by_place(one, other)


def _is_detailed(one: Reading, other: Reading) -> bool:
    """Return whether the longer only adds a "without": a detail, not a denial."""
    shorter, longer = sorted((one.words, other.words), key=len)
    start = len(shorter)
    return longer[:start] == shorter and longer[start : start + 1] == ("without",)


def _by_place(one: Reading, other: Reading) -> Basis | None:
    """Detect different values at the same position of sentences that agree up to their verb."""
    replaced = _replaced(one, other)
    if replaced is None or not {one.verb, other.verb}.issubset(replaced.before):
        return None
    named = one.names & set(replaced.one), other.names & set(replaced.other)
    if not _takes_one_value(replaced, is_named=any(named)):
        return None
    are_names = all(named)
    return Basis.ENTITY if are_names else Basis.VALUE


def _are_bare_values(one: Reading, other: Reading) -> bool:
    """Return whether both are just a value for the subject that their authors gave."""
    is_short = max(len(one.words), len(other.words)) <= _REPLACED_WORDS_MAX
    is_bare = one.verb is None and other.verb is None and bool(one.given_subject)
    return is_short and is_bare and one.content.isdisjoint(other.content)


def _takes_one_value(replaced: _Replaced, *, is_named: bool) -> bool:
    """Return whether the preceding words allow only one value."""
    longest = max(len(replaced.one), len(replaced.other))
    before = replaced.before
    has_number = any(word[0].isdigit() for word in (*replaced.one, *replaced.other))
    if longest > _REPLACED_WORDS_MAX or before[-2:] in _MANY_FOLLOW:
        return False
    if _is_elsewhere(replaced):
        return True
    if {*replaced.one} <= CHOICES and {*replaced.other} <= CHOICES:
        return True
    if before[-1] in _COPULAS:
        # "is written in Go" and "is deployed by Anna" are two properties, not two values of one.
        first = (replaced.one[0], replaced.other[0])
        return longest == 1 and not any(word.endswith("ed") for word in first)
    return (
        before[-1] in _ONE_FOLLOWS
        or (longest == 1 and bool(replaced.after) and (is_named or has_number))
        or (longest == 1 and before[-1] in _SINGULAR_VERBS)
    )


def _is_elsewhere(replaced: _Replaced) -> bool:
    """Return whether they state two places: "is in the safe", "is on the desk"."""
    first = {replaced.one[0], replaced.other[0]}
    is_placed = replaced.before[-1] in _COPULAS | _PLACED and not replaced.after
    return is_placed and len(first) > 1 and first <= _WHERE and min(map(len, replaced.both)) > 1


def _replaced(one: Reading, other: Reading) -> _Replaced | None:
    """Return the only position at which two statements differ, or None."""
    left, right = one.words, other.words
    shorter = min(len(left), len(right))
    start = 0
    while start < shorter and left[start] == right[start]:
        start += 1
    end = 0
    while end < shorter - start and left[-1 - end] == right[-1 - end]:
        end += 1
    middle = left[start : len(left) - end], right[start : len(right) - end]
    if not all(middle):
        return None
    return _Replaced(left[:start], *middle, left[len(left) - end :])


def _is_one_replaced(replaced: _Replaced | None) -> bool:
    """Return whether one short value replaces another in otherwise equal sentences."""
    if replaced is None:
        return False
    longest = max(len(replaced.one), len(replaced.other))
    shared = len(replaced.before) + len(replaced.after)
    return longest <= _REPLACED_WORDS_MAX and shared >= 2 * longest


def _are_swapped(
    one: Reading, other: Reading, *, named: Callable[[Reading], frozenset[str]]
) -> bool:
    """Return whether each has one that the other lacks; only one too many is a detail."""
    here = named(one).difference(other.words)
    return bool(here) and bool(named(other).difference(one.words))


def _say_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether both say the same of the subject apart from their values."""
    shorter, longer = sorted((one, other), key=len)
    if not shorter:
        return not longer
    is_as_long = len(longer) <= _LONGER_AT_MOST * len(shorter)
    return is_as_long and len(one & other) / len(shorter) >= _ALIKE_FROM
