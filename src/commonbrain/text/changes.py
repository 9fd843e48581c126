"""Whether a newer text says that what an older one says no longer holds.

A change is claimed only on words that can be quoted. The newer text names the older value as
replaced; or it denies what the older says, with its subject and predicate; or it says the same of
the same thing with another value, of which there is one at a time; or it says, with a word such as
"now", another value of the same attribute. Everything else is left to the reader. In languages
other than English, only an arrow and the value of a label change something.
"""

from collections.abc import Sequence
from functools import lru_cache
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
from commonbrain.text.frames import ARROWS, NO_VERB, REPORTING
from commonbrain.text.languages import is_english
from commonbrain.text.patterns import lazy_pattern
from commonbrain.text.words import read_words

_SEVERAL: Final = frozenset({"name", "place", "clock", "date"})
"""What there may be several of where something is possible."""
_HAVING: Final = frozenset("have get take need last cost be".split()) | REPORTING
"""Verbs that say no more of a measure than that it is one."""
_LABELLED: Final = lazy_pattern(r"[^:.\n]{1,60}:\s*\S+(?: \S+)?\s*")
"""A label and its value, which say the same in every language."""
_CACHED: Final = 512
_UNREAD: Final = frozenset({"", NO_VERB})
"""Verbs of clauses of which it is not known where the value begins."""


def find_change(older: str, newer: str) -> Basis | None:
    """Return on what basis a newer text changes an older one, or None if it does not."""
    words = _content_of(older)
    changing = [one for one in read_assertions(newer) if _may_concern(one, words)]
    is_read = all(is_english(text) or _LABELLED.fullmatch(text) for text in (older, newer))
    if not changing or not (is_read or any(arrow in newer for arrow in ARROWS)):
        return None
    is_correction = is_read and corrects(newer) and not corrects(older)
    stated, context = (
        frozenset[str]().union(*(one.whole for one in read_assertions(text)))
        for text in (older, newer)
    )
    # What the newer text says as well, it does not change.
    repeated = read_assertions(newer)
    open_ = [one for one in read_assertions(older) if one not in repeated]
    for new in changing:
        for old in open_:
            if _are_apart(old, new):
                continue
            is_open = not old.is_past or is_correction or new.is_opposed
            if is_open and _quotes(old, new, stated=stated, context=context):
                return Basis.CORRECTION if is_correction else Basis.ANNOUNCED
            basis = _restates(old, new, is_correction=is_correction) if is_read else None
            if basis is not None:
                return basis
    return None


def may_change(newer: str, *, words: frozenset[str]) -> bool:
    """Return whether `find_change` may find a change of a text that has no words but these."""
    return any(_may_concern(one, words) for one in read_assertions(newer))


def _may_concern(new: Assertion, words: frozenset[str]) -> bool:
    """Return whether a text of these words may say what the newer replaces, ends or restates."""
    is_quoted = any(former[0] in words for former in new.former if former)
    is_ended = new.is_ended and new.stated <= words
    values = frozenset[str]().union(*new.values.values())
    about = new.content - values - new.stated - {new.verb}
    is_named = all(key in words or key.removeprefix("#") in words for key in about)
    return is_named or is_quoted or is_ended


@lru_cache(maxsize=_CACHED)
def _content_of(text: str) -> frozenset[str]:
    return frozenset(word.key for word in read_words(text) if word.is_content)


def _are_apart(old: Assertion, new: Assertion) -> bool:
    """Return whether they speak of other people's things, other numbers or a part of a kind."""
    numbers = [{key for key in one.subject if key.startswith("#")} for one in (old, new)]
    are_numbered = all(numbers) and numbers[0] != numbers[1]
    counted = {key[1:] for key in numbers[1] if ":" not in key} - old.whole
    are_read = _UNREAD.isdisjoint({old.verb, new.verb})
    are_counted = new.is_report and bool(counted)
    are_owned = bool(old.owners and new.owners) and old.owners != new.owners
    are_parts = old.parts != new.parts and not new.is_wide
    is_for_a_time = bool(new.lead - old.whole) or (new.is_temporary and not old.is_temporary)
    return (are_read and (are_numbered or are_counted)) or are_owned or are_parts or is_for_a_time


def _restates(old: Assertion, new: Assertion, *, is_correction: bool) -> Basis | None:
    """Return the basis on which the newer says the same with another value, or denies it."""
    announced = Basis.CORRECTION if is_correction else Basis.ANNOUNCED
    is_new = new.has_cue or is_correction
    is_event = (old.is_past or new.is_past) and not is_correction
    if new.is_ended and _ends(old, new):
        return announced
    if new.is_added or old.is_added or is_event or old.is_modal != new.is_modal:
        return None
    if old.is_denied != new.is_denied:
        basis = announced if is_new else Basis.NEGATION
        return basis if _denies(old, new) else None
    if len(_differing(old, new)) != 1 or _may_be_both(old, new, is_new=is_new):
        return None
    is_same = _say_the_same_else(old, new)
    if is_new:
        return announced if is_same or _is_same_attribute(old, new) else None
    is_single = is_same and old.is_single and new.is_single and not old.has_cue
    return _basis_of_value(old, new) if is_single else None


def _may_be_both(old: Assertion, new: Assertion, *, is_new: bool) -> bool:
    """Return whether there may be several values: of what one can do, or of unlike places."""
    shared = old.values.keys() & new.values.keys()
    is_one = old.has_one_value and new.has_one_value
    is_many = old.has_many_values or new.has_many_values or "place" in shared
    are_open = (old.is_possible or new.is_possible) and bool(shared & _SEVERAL)
    are_unlike = "place" in shared and old.preposition != new.preposition and not new.is_report
    return not (is_one or (is_new and not is_many)) or are_open or are_unlike


def _ends(old: Assertion, new: Assertion) -> bool:
    """Return whether the newer says that the value of the older is none any longer."""
    is_held = not (old.is_past or old.is_denied or old.is_modal)
    value = new.stated - old.subject
    is_all = new.whole - {new.verb} <= old.whole and bool(value) and value <= old.whole
    return is_held and new.is_denied and is_all and bool((old.whole - value) & new.subject)


def _basis_of_value(old: Assertion, new: Assertion) -> Basis:
    [(value, _)] = _differing(old, new)
    if any(key[:1].isdigit() for key in value):
        return Basis.NUMBER
    return Basis.ENTITY if value <= old.names else Basis.VALUE


def _quotes(
    old: Assertion, new: Assertion, *, stated: frozenset[str], context: frozenset[str]
) -> bool:
    """Return whether the newer names a value of the older as replaced, of the same thing.

    `stated` and `context` are the words of the whole older and newer text.
    """
    if new.is_indefinite and not old.is_indefinite:
        return False
    return any(
        _is_of_same_thing(old, new, former=former, shared=stated & context, context=context)
        and not _is_of_another(old, new, context=context)
        for former in new.former
        if new.whole - old.whole
        # A number that the older has not is another value: "dropped TLS 1.0".
        and not new.numbers.intersection(former) - old.whole
    )


def _is_of_same_thing(
    old: Assertion,
    new: Assertion,
    *,
    former: Sequence[str],
    shared: frozenset[str],
    context: frozenset[str],
) -> bool:
    """Return whether a quoted value is one of the older, and enough else is named in both."""
    quoted = frozenset(takewhile(old.whole.__contains__, former))
    is_read = old.verb not in _UNREAD
    if is_read and not new.is_opposed:
        numbers = {key.removeprefix("#") for key in old.subject}
        quoted -= old.subject | (numbers if quoted & old.subject else frozenset())
    names = quoted & (old.names | new.names)
    is_named = bool(names) or len(quoted) > 1
    rest = old.whole - quoted - old.numbers
    shared -= quoted | old.numbers
    is_about = len(shared) > 1 or (is_named and bool(shared & (old.names | new.names)))
    is_half = len(rest & context) * 2 >= len(rest)
    is_enough = (is_about or is_half or len(names) > 1) if is_named else (is_about and is_half)
    is_whole = not (rest - {old.verb}) and is_named and quoted == frozenset(former)
    thing = old.subject - quoted if is_read and old.subject - quoted else rest - {old.verb}
    # The new value is not what it is a value of.
    about = thing & context - frozenset[str]().union(*new.values.values())
    is_same = bool(about) and is_enough
    return bool(quoted) and (is_same or (is_whole and not new.subject - old.whole - REPORTING))


def _is_of_another(old: Assertion, new: Assertion, *, context: frozenset[str]) -> bool:
    """Return whether the newer qualifies what it names otherwise: "the connect timeout"."""
    values = frozenset[str]().union(*new.values.values())
    quoted = frozenset(key for former in new.former for key in former)
    identity = old.names & (old.subject | old.qualifiers) - quoted
    if identity - context and new.names - old.whole - values - quoted:
        return True
    allowed = old.whole | quoted | values | {new.verb} | REPORTING | ATTRIBUTES
    shared = old.whole - quoted
    return any(phrase - allowed for is_apart, phrase in new.phrases if is_apart or phrase & shared)


def _denies(old: Assertion, new: Assertion) -> bool:
    """Return whether one says what the other denies, word for word but for a condition."""
    if not old.content or not _UNREAD.isdisjoint({old.verb, new.verb}):
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
    are_places = "place" in old.values.keys() & new.values.keys()
    is_as_much = old.values.keys() == new.values.keys() or are_places
    return bool(rest) and rest == _rest(new, old) and is_as_much and old.is_wide == new.is_wide


def _is_same_attribute(old: Assertion, new: Assertion) -> bool:
    """Return whether both speak of the same attribute of the same thing, as far as they say."""
    verbs = {old.verb, new.verb}
    known = _rest(old, new) - verbs - (old.stated if old.has_named_value else frozenset())
    rest = _rest(new, old) - verbs - (new.stated if new.has_named_value else frozenset())
    shared = known & rest
    is_alike = verbs <= _HAVING and len(shared) > 1
    if len(verbs) > 1 and not (GENERAL & verbs or is_alike):
        return False
    dimensions = new.values.keys() - old.values.keys() - {"name", "place"}
    if not rest and new.has_cue and not dimensions:
        common = old.values.keys() & new.values.keys()
        return not known & old.qualifiers and any(name.endswith(" number") for name in common)
    if dimensions or rest - known or not shared:
        return False
    lost = known - rest - (old.qualifiers if new.is_wide else frozenset())
    # "The gateway timeout" is the request timeout of the gateway; "the timeout" may be any.
    may_be_lost = old.modifiers if len(shared) > 1 else frozenset[str]()
    may_be_lost |= ATTRIBUTES if new.is_report else frozenset()
    return lost <= may_be_lost and not lost & old.names
