"""The values that a clause quotes as replaced: "from 10 to 25 MB", "instead of Jest", "not Ann"."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from commonbrain.text.frames import (
    ARROWS,
    BE,
    PAST_FORMS,
    PREPOSITIONS,
    REPORTING,
    is_meaningful,
    split_value,
)
from commonbrain.text.words import ARTICLES, UNITS, Sort, Word

_WORDS_MAX: Final = 6
_BEFORE: Final = tuple(
    tuple(marker.split())
    for marker in (
        "instead of,rather than,in place of,and not,but not,over from,used to be,up from,down from"
        ",formerly,previously,replaces,succeeds,succeeded,dropped,stopped using,got rid of"
        ",migrated off,moved off,moved out of,abandoned"
        ",gave up,retired,passed from,taken over from"
    ).split(",")
)
"""Words in a row after which a value is quoted as replaced."""
_AFTER: Final = frozenset(
    "gone archived retired discontinued wrong dead mistake error typo".split()
)
"""Words before which a value is quoted as replaced."""
_WISHED: Final = frozenset(
    "if whether unless wish wishes try tried tries attempt want wants wanted plan plans planned ask"
    " asked asks propose proposed proposes proposal suggest suggested suggests discuss discussed"
    " consider considered considering refuse refused reject rejected against decline declined like"
    " almost nearly nobody vote voted todo draft idea thought think thinks believed dream".split()
)
"""Words of what is only wished, weighed or refused."""
_TARGETS: Final = frozenset({"to", "into"}) | ARROWS
"""Words before the new value."""
_TAKING: Final = frozenset("over took passed".split())
_TAKEN_WITHIN: Final = 8
_REPLACED: Final = frozenset("replace replaced swapped swap".split())
_HANDED: Final = frozenset({"handed", "passed"})
_OPPOSED_WITHIN: Final = 7
_OPENING: Final = (
    frozenset({marker[0] for marker in _BEFORE} | {"from", "out", "renamed", "not", "was"})
    | _REPLACED
    | _HANDED
    | _AFTER
    | ARROWS
)
"""The words at which a value may be quoted, with contractions of "not"."""
_UNREAL: Final = frozenset({Sort.MODAL, Sort.NEGATION})


def quoted_values(clause: Sequence[Word]) -> Iterator[tuple[str, ...]]:
    """Yield the content words of each value that is quoted as replaced, from the marker on.

    What is only possible, wished or denied replaces nothing: "we may move from A to B".
    """
    plain = [word.plain for word in clause]
    for place, word in enumerate(plain):
        opens = word in _OPENING or word.endswith("n't")
        comma = next((n for n in range(place, 0, -1) if clause[n - 1].written in ",("), 0)
        if opens and not is_unreal(clause[comma:place]):
            yield from chain(
                _after_from(clause, plain, place=place),
                _of_verb(clause, plain, place=place),
                _at_marker(clause, plain, place=place),
            )


def is_unreal(words: Sequence[Word]) -> bool:
    """Return whether words say what is not so, or not yet."""
    return any(word.sort in _UNREAL or word.plain in _WISHED for word in words)


def opposes(clause: Sequence[Word], place: int) -> bool:
    """Return whether a value is denied for another here: "not X but Y", "Y, not X"."""
    word = clause[place]
    if word.plain != "not" and not word.plain.endswith("n't"):
        return False
    following = [one.plain for one in clause[place + 1 : place + _OPPOSED_WITHIN]]
    if following[:1] in (["only"], ["just"], ["merely"]):
        return False
    return "but" in following or (word.plain == "not" and _is_first(clause, place))


def _phrase_of(words: Sequence[Word]) -> tuple[str, ...]:
    """Return the content words of the value that begins here."""
    value, _ = split_value(words)
    return tuple(word.key for word in value if is_meaningful(word))[:_WORDS_MAX]


def _phrase_before(words: Sequence[Word], *, is_whole: bool = False) -> tuple[str, ...]:
    """Return the content words of the phrase that ends here, the last first; of a number it."""
    phrase: list[Word] = []
    for word in reversed(words[-_WORDS_MAX:]):
        is_end = word.sort is Sort.STOP or word.plain in PREPOSITIONS
        if phrase and (is_end or (phrase[-1].sort is Sort.NUMBER and not is_whole)):
            break
        if is_meaningful(word):
            phrase.append(word)
    return tuple(word.key for word in phrase)


def _after_from(
    clause: Sequence[Word], plain: Sequence[str], *, place: int
) -> Iterator[tuple[str, ...]]:
    """Yield what follows "from" or "out of" before the new value, or before who took it over."""
    has_target = not _TARGETS.isdisjoint(plain[place:])
    if plain[place] == "from":
        is_taken = not _TAKING.isdisjoint(plain[max(0, place - _TAKEN_WITHIN) : place])
        if is_taken or (has_target and _is_reported(clause, place)):
            yield _phrase_of(clause[place + 1 :])
    elif plain[place : place + 2] == ["out", "of"] and has_target and _is_reported(clause, place):
        yield _phrase_of(clause[place + 2 :])


def _is_reported(words: Sequence[Word], place: int) -> bool:
    """Return whether something was changed: a train that goes from X to Y changes nothing."""
    return any(_reports(words, at) for at in range(place))


def _reports(words: Sequence[Word], at: int) -> bool:
    word, before = words[at], words[at - 1].plain if at else ""
    if word.stem not in REPORTING or before in ARTICLES:
        return False
    is_done = word.plain.endswith("ed") or word.plain in PAST_FORMS
    is_ordered = _is_first(words, at) and not word.plain.endswith("s")
    is_going_on = word.plain.endswith("ing") and (before in BE or "'" in before)
    # "The deadline moves from ..." is one change, "zooming moves the size from ..." are many.
    is_once = word.plain == "moves" and words[at + 1].plain == "from"
    return is_done or is_ordered or is_going_on or is_once


def _of_verb(
    clause: Sequence[Word], plain: Sequence[str], *, place: int
) -> Iterator[tuple[str, ...]]:
    """Yield what was replaced, handed over or renamed."""
    before, after, following = clause[:place], clause[place + 1 :], plain[place + 1 :]
    verb = plain[place]
    if verb in _REPLACED and {"by", "with", "for"} & {*following}:
        is_passive = place > 0 and plain[place - 1] in BE
        yield _phrase_before(before) if is_passive else _phrase_of(after)
    elif verb in _HANDED and "over" in following:
        by = after[following.index("by") + 1 :] if "by" in following else ()
        yield _phrase_of(by) if by else _phrase_before(before)
    elif verb == "renamed" and "to" in following:
        yield _phrase_before(after[: following.index("to")])


def _at_marker(
    clause: Sequence[Word], plain: Sequence[str], *, place: int
) -> Iterator[tuple[str, ...]]:
    """Yield what follows or precedes words that say that it is replaced."""
    # "Exit code 1 -> retry" has a number on one side only.
    is_measured = place > 1 and clause[place - 1].plain.removesuffix("s") in UNITS
    end = place - 1 if is_measured and clause[place - 2].sort is Sort.NUMBER else place
    sides = (*clause[max(0, end - 1) : end], *clause[place + 1 : place + 2])
    is_of_one_kind = len({word.sort is Sort.NUMBER for word in sides}) == 1
    if plain[place] in ARROWS and is_of_one_kind:
        yield _phrase_before(clause[:place])
    ended = clause[: place - 1 if plain[place - 1] in ARTICLES else place] if place else ()
    if plain[place] in _AFTER and ended and ended[-1].plain in BE:
        yield _phrase_before(ended, is_whole=True)
    if opposes(clause, place) or (plain[place] == "was" and _is_first(clause, place)):
        yield _phrase_of(clause[place + 1 :])
    marker = next((one for one in _BEFORE if tuple(plain[place : place + len(one)]) == one), None)
    if marker is not None:
        yield _phrase_of(clause[place + len(marker) :])


def _is_first(words: Sequence[Word], place: int) -> bool:
    return place == 0 or words[place - 1].sort is Sort.STOP
