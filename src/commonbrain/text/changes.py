"""Whether a newer text says that what an older one says no longer holds.

A change is claimed only on words that can be quoted. The newer text names the older value as
replaced; or it denies what the older says, with its subject and predicate; or it says the same of
the same thing with another value, of which there is one at a time; or it says, with a word such as
"now", another value of the same attribute. Everything else is left to the reader.
"""

from itertools import takewhile
from typing import Final

from commonbrain.model.links import Basis
from commonbrain.text.assertions import (
    ATTRIBUTES,
    GENERAL,
    Assertion,
    corrects,
    read_assertions,
)
from commonbrain.text.frames import NO_VERB, REPORTING

_ASSERTIONS_MAX: Final = 8
"""Clauses of each text that are compared; a longer text says many things."""


def find_change(older: str, newer: str) -> Basis | None:
    """Return on what basis a newer text changes an older one, or None if it does not."""
    is_correction = corrects(newer) and not corrects(older)
    context = frozenset[str]().union(*(one.whole for one in read_assertions(newer)))
    for new in read_assertions(newer)[:_ASSERTIONS_MAX]:
        for old in read_assertions(older)[:_ASSERTIONS_MAX]:
            basis = _change(old, new, context=context, is_correction=is_correction)
            if basis is not None:
                return basis
    return None


def _change(
    old: Assertion, new: Assertion, *, context: frozenset[str], is_correction: bool
) -> Basis | None:
    """Return the basis on which one assertion changes another."""
    announced = Basis.CORRECTION if is_correction else Basis.ANNOUNCED
    is_new = new.has_cue or is_correction
    if (not old.is_past or is_correction) and _quotes(old, new, context=context):
        return announced
    is_event = (old.is_past or new.is_past) and not is_correction
    if is_event or old.is_modal != new.is_modal:
        return None
    if old.is_denied != new.is_denied:
        basis = announced if is_new else Basis.NEGATION
        return basis if _denies(old, new) else None
    has_one_value = old.has_one_value and new.has_one_value
    is_possible = has_one_value or (is_correction and not old.has_many_values)
    if not is_possible or len(_differing(old, new)) != 1:
        return None
    is_same = _say_the_same_else(old, new)
    if is_new:
        return announced if is_same or _is_same_attribute(old, new) else None
    is_single = is_same and old.is_single and new.is_single
    return _basis_of_value(old, new) if is_single else None


def _basis_of_value(old: Assertion, new: Assertion) -> Basis:
    [(value, _)] = _differing(old, new)
    if any(key[:1].isdigit() for key in value):
        return Basis.NUMBER
    return Basis.ENTITY if value <= old.names else Basis.VALUE


def _quotes(old: Assertion, new: Assertion, *, context: frozenset[str]) -> bool:
    """Return whether the newer names a value of the older as replaced, of the same thing."""
    stated = old.whole - old.subject
    measured = frozenset[str]().union(*old.values.values()) | old.names
    values = frozenset[str]().union(*new.values.values())
    for former in new.former:
        quoted = frozenset(takewhile(stated.__contains__, former))
        if not quoted & measured:
            continue
        about, news = (old.whole - quoted) & context, new.whole - old.whole
        shared = about & (old.subject | {old.verb})
        are_others = (old.names - context) and (new.names - old.whole - values)
        # Whatever else it names must be in the older text: "the connect timeout" is another one.
        others = new.things - old.whole - quoted - values - {new.verb} - REPORTING
        is_same = len(about & old.subject) * 2 >= len(old.subject) and not (are_others or others)
        if news and shared and is_same and (about & old.subject or len(about) > 1):
            return True
    return False


def _denies(old: Assertion, new: Assertion) -> bool:
    """Return whether one says what the other denies, word for word but for a condition."""
    if not old.content or NO_VERB in {old.verb, new.verb}:
        return False
    is_part = new.content <= old.content and old.subject | {old.verb} - GENERAL <= new.content
    return old.content == new.content or (new.has_cue and is_part)


def _differing(old: Assertion, new: Assertion) -> set[tuple[frozenset[str], frozenset[str]]]:
    """Return the values of one dimension of which neither is a part of the other."""
    pairs = ((old.values[n], new.values[n]) for n in old.values.keys() & new.values.keys())
    return {(one, other) for one, other in pairs if not (one <= other or other <= one)}


def _rest(one: Assertion, other: Assertion) -> frozenset[str]:
    """Return the content of an assertion without values and verbs that say nothing."""
    values = frozenset[str]().union(*one.values.values())
    verbs = {one.verb, other.verb}
    return one.content - values - (verbs if GENERAL & verbs else frozenset())


def _say_the_same_else(old: Assertion, new: Assertion) -> bool:
    rest = _rest(old, new)
    is_as_much = old.values.keys() == new.values.keys() and old.is_wide == new.is_wide
    return bool(rest) and rest == _rest(new, old) and is_as_much


def _is_same_attribute(old: Assertion, new: Assertion) -> bool:
    """Return whether both speak of the same attribute of the same thing, as far as they say."""
    verbs = {old.verb, new.verb}
    if len(verbs) > 1 and not GENERAL & verbs:
        return False
    known, rest = _rest(old, new) - verbs, _rest(new, old) - verbs
    lost, gained = known - rest, rest - known
    if new.is_wide:
        lost -= old.qualifiers
    if not rest:
        shared = old.values.keys() & new.values.keys()
        return not lost & old.qualifiers and any(name.endswith(" number") for name in shared)
    if gained:
        return False
    may_be_lost = old.modifiers | ATTRIBUTES if new.is_report else old.modifiers
    return lost <= may_be_lost and not lost & old.names and bool(rest & known)
