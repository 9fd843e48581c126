"""Whether two statements can both be true, by their words alone.

Two judgements with opposite errors. `judge` finds conflicts and would rather miss one, for a mark
makes readers doubt both memories. `may_be_news` keeps a text from being called a duplicate and
would rather err on that side, for news that is refused is lost and a repetition costs a row.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from commonbrain.model.conflicts import Basis
from commonbrain.text.statements import CHOICES, Reading, Statement, read_statement

_ALIKE_FROM: Final = 0.5
"""Share of the shorter's words, beside the subject, that the longer has as well."""
_LONGER_AT_MOST: Final = 4
"""A page holds the words of any short statement; that makes it no statement on the same."""
_REPLACED_WORDS_MAX: Final = 3
"""A value is a name or a short phrase; what differs in more words is another statement."""

# After these one thing stands: where it lives, who does it, what it is made with. After "for" or
# "about" many may, and none denies another.
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
    """Two statements about one subject that cannot both hold, and by what it shows."""

    basis: Basis


@dataclass(frozen=True, slots=True)
class _Replaced:
    """Words at the same place in two statements that agree before and after them."""

    before: tuple[str, ...]
    one: tuple[str, ...]
    other: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def both(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What stands there in the one and in the other."""
        return self.one, self.other


def find_contradiction(new: Statement, neighbour: Statement) -> Conflict | None:
    """Say by what two statements contradict each other, or None; the order makes no difference.

    Measured by `brain eval conflicts`, and among what is alike by `brain eval duplicates`.
    """
    one, other = read_statement(new), read_statement(neighbour)
    if not (one.is_claim and other.is_claim):
        return None
    basis = _by_holder(one, other) or (_by_value(one, other) if one.shares_subject(other) else None)
    return Conflict(basis=basis) if basis else None


def repeats(text: str, *, old: str, new: str) -> bool:
    """Say whether a text has a value that `new` dropped, and none of those that `new` brought.

    Values are numbers, names, words of a closed group, and what stands in another's place.
    """
    here, before, after = (read_statement(Statement(text=one)) for one in (text, old, new))
    replaced = _replaced(before, after)
    is_short = replaced is not None and len(replaced.one) <= _REPLACED_WORDS_MAX
    gone = {*_values(before), *(replaced.one if replaced and is_short else ())}
    come = {*_values(after), *(replaced.other if replaced and is_short else ())}
    said = {*here.words, *here.numbers}
    return bool(said & (gone - {*after.words, *after.numbers})) and said.isdisjoint(
        come - {*before.words, *before.numbers}
    )


def _values(reading: Reading) -> frozenset[str]:
    return reading.numbers | reading.names | reading.choices


def may_add_information(one: str, other: str) -> bool:
    """Say whether one text may tell what the other does not, however alike they look."""
    here, there = read_statement(Statement(text=one)), read_statement(Statement(text=other))
    return (
        here.numbers != there.numbers
        or _by_holder(here, there) is not None
        or here.is_denied != there.is_denied
        or _are_swapped(here, there, named=_NAMES)
        or _are_swapped(here, there, named=_CHOICES)
        or _is_one_replaced(_replaced(here, there))
    )


def _by_holder(one: Reading, other: Reading) -> Basis | None:
    """Find two holders of what only one can hold, such as who owns a service."""
    if not (one.holder and other.holder and one.held == other.held):
        return None
    is_other = one.holder.isdisjoint(other.holder) and one.is_denied == other.is_denied
    return Basis.ENTITY if is_other else None


def _by_value(one: Reading, other: Reading) -> Basis | None:
    """Find another value, given that both are about the same thing."""
    is_alike = _say_alike(one.said, other.said)
    if one.denies != other.denies:
        is_same = is_alike and not _are_swapped(one, other, named=_CONTENT)
        return Basis.NEGATION if is_same and not _is_detailed(one, other) else None
    if is_alike and one.numbers - other.numbers and other.numbers - one.numbers:
        return Basis.NUMBER
    if _are_swapped(one, other, named=_NAMES) and _CHANGES & {*one.words, *other.words}:
        return Basis.ENTITY
    return Basis.VALUE if _are_bare_values(one, other) else _by_place(one, other)


def _is_detailed(one: Reading, other: Reading) -> bool:
    """Say whether the longer is the shorter and a "without": a detail more, and no denial."""
    shorter, longer = sorted((one.words, other.words), key=len)
    start = len(shorter)
    return longer[:start] == shorter and longer[start : start + 1] == ("without",)


def _by_place(one: Reading, other: Reading) -> Basis | None:
    """Find another value at the same place of two sentences that agree up to their verb."""
    replaced = _replaced(one, other)
    if replaced is None or not {one.verb, other.verb}.issubset(replaced.before):
        return None
    named = one.names & set(replaced.one), other.names & set(replaced.other)
    if not _takes_one_value(replaced, is_named=any(named)):
        return None
    are_names = all(named)
    return Basis.ENTITY if are_names else Basis.VALUE


def _are_bare_values(one: Reading, other: Reading) -> bool:
    """Say whether both but name a value, of the subject that their authors gave beside it."""
    is_short = max(len(one.words), len(other.words)) <= _REPLACED_WORDS_MAX
    is_bare = one.verb is None and other.verb is None and bool(one.given_subject)
    return is_short and is_bare and one.content.isdisjoint(other.content)


def _takes_one_value(replaced: _Replaced, *, is_named: bool) -> bool:
    """Say whether what stands there before it leaves room for one value only."""
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
    """Say whether something is at one place and at another: "is in the safe", "is on the shelf"."""
    first = {replaced.one[0], replaced.other[0]}
    is_placed = replaced.before[-1] in _COPULAS | _PLACED and not replaced.after
    return is_placed and len(first) > 1 and first <= _WHERE and min(map(len, replaced.both)) > 1


def _replaced(one: Reading, other: Reading) -> _Replaced | None:
    """Find the one place where two statements differ, or None when there is none."""
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
    """Say whether little was put in another's place in an otherwise equal sentence."""
    if replaced is None:
        return False
    longest = max(len(replaced.one), len(replaced.other))
    kept = len(replaced.before) + len(replaced.after)
    return longest <= _REPLACED_WORDS_MAX and kept >= 2 * longest


def _are_swapped(
    one: Reading, other: Reading, *, named: Callable[[Reading], frozenset[str]]
) -> bool:
    """Say whether each has one that is nowhere in the other; one too many is but a detail."""
    here = named(one).difference(other.words)
    return bool(here) and bool(named(other).difference(one.words))


def _say_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    """Say whether what is said of the subject is the same but for its values."""
    shorter, longer = sorted((one, other), key=len)
    if not shorter:
        return not longer
    is_as_long = len(longer) <= _LONGER_AT_MOST * len(shorter)
    return is_as_long and len(one & other) / len(shorter) >= _ALIKE_FROM
