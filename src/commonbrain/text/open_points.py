"""Whether a later clause settles an open point: the same subject, numbers, names and direction.

An open point that is dropped by mistake is lost to the reader of a summary; one that stays although
it is settled costs a line. Therefore whatever differs keeps the point open.
"""

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from commonbrain.text.clause_roles import states_failure, without_label
from commonbrain.text.clauses import is_question
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.repetition import content_stems, stem_sequence
from commonbrain.text.statements import Reading, Statement, read_statement

_SHARED_MIN: Final = 2
_SHARE_MIN: Final = 0.6
"""Share of the words of an open point that a clause must have to settle it; others say "open"."""
_OPEN_DENIAL: Final = lazy_pattern(
    r"\b(?:(?:has|have|is|are) (?:still )?not|(?:has|have|is|are)n['\u2019]t|not yet|no one has"
    r"|nobody has)\b",
    re.IGNORECASE,
)
"""Negations that say only that something is open: "The job is not merged"."""
_MONTHS: Final = (
    r"(?:january|february|march|april|may|june|july|august|september|october|november|december)"
)
_DEADLINE: Final = lazy_pattern(
    r",? \(?(?:(?:due )?(?:by|before|until|till)|due(?: on)?) (?:the |this |next )?"
    r"(?:end of )?(?:the )?(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|tomorrow|tonight"
    r"|noon|midnight|week|month|day|quarter|year"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?(?: of)? {_MONTHS}|{_MONTHS}(?: \d{{1,2}}(?:st|nd|rd|th)?)?"
    r"|20\d\d-\d\d-\d\d|\d{1,2}(?::\d\d)? ?[ap]m|\d{1,2}:\d\d)\b\)?",
    re.IGNORECASE,
)
_ENVIRONMENT: Final = lazy_pattern(
    r"\b(?:to|on|in|for) (?:the )?(staging|production|prod|development|dev|ci|test|testing|qa|uat"
    r"|canary|preview|sandbox)\b",
    re.IGNORECASE,
)
_WHETHER: Final = lazy_pattern(r"\bwhether\b", re.IGNORECASE)


def settles(clause: str, *, point: str) -> bool:
    """Return whether a clause that decides or reports something settles an open point.

    A denial settles only a question, as "We do not use Redis" settles "Do we use Redis?".
    """
    if states_failure(clause):
        return False
    open_part = _without_deadline(without_label(point), answer=clause)
    need = read_statement(Statement(text=_OPEN_DENIAL.sub(" ", open_part)))
    answer = read_statement(Statement(text=clause))
    asks = is_question(open_part) or _WHETHER.search(open_part) is not None
    if not need.numbers <= answer.numbers or not _has_names(need, answer, may_choose=asks):
        return False
    if need.is_denied != answer.is_denied and not asks:
        return False
    stems, known = content_stems(open_part), content_stems(clause)
    is_alike = len(stems & known) >= max(_SHARED_MIN, _SHARE_MIN * len(stems))
    is_alike = is_alike and _environments(clause) <= _environments(open_part)
    return is_alike and not _names_other_kind(open_part, clause)


def _without_deadline(point: str, *, answer: str) -> str:
    """Drop the date by which something is due, unless the answer has one, too."""
    return point if _DEADLINE.search(answer) else _DEADLINE.sub("", point)


def _environments(text: str) -> set[str]:
    """Return where a text says that something runs, since one place is not every place."""
    return {name.casefold() for name in map(str, _ENVIRONMENT.findall(text))}


def _has_names(need: Reading, answer: Reading, *, may_choose: bool) -> bool:
    """Return whether the names and choices are the same; an answer may name one of several."""
    if _are_exchanged(need.choices, answer.choices):
        return False
    if may_choose:
        return not _are_exchanged(need.names, answer.names)
    return need.names <= {*answer.words}


def _are_exchanged(one: Iterable[str], other: Iterable[str]) -> bool:
    return bool({*one} - {*other}) and bool({*other} - {*one})


def _names_other_kind(one: str, other: str) -> bool:
    """Return whether a shared word follows different words: "memory limit" and "disk limit"."""
    here, there = stem_sequence(one), stem_sequence(other)
    shared = {*here} & {*there}
    before = {word: first for first, word in pairwise(there) if word in shared}
    return any(
        word in before and first not in shared and before[word] not in shared
        for first, word in pairwise(here)
    )
