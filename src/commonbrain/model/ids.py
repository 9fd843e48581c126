"""Identifiers: 63-bit integers ordered by time, displayed with a prefix for their type."""

from datetime import datetime
from typing import Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.timestamps import to_millis

RANDOM_BITS: Final = 21
_MILLIS_BITS: Final = 42
_MAX: Final = (1 << (RANDOM_BITS + _MILLIS_BITS)) - 1
LAST: Final = _MAX
"""Above every generated id."""
_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base32: no I, L, O or U (https://www.crockford.com/base32.html)."""
_VALUES: Final = {digit: value for value, digit in enumerate(_DIGITS)} | {
    "I": 1,
    "L": 1,
    "O": 0,
}
_LENGTH: Final = 13
_PAIRS: Final = tuple(one + other for one in _DIGITS for other in _DIGITS)

MEMORY: Final = "mem"
TRACE: Final = "trc"
THREAD: Final = "thr"
ANNOTATION: Final = "ann"
CHANGE: Final = "chg"
SESSION: Final = "ses"
JOB: Final = "job"
EVENT: Final = "evt"
EVALUATION: Final = "evl"
MODEL: Final = "mdl"


def make_id(now: datetime, random_bits: int) -> int:
    """Combine 42 bits of milliseconds with 21 random bits, so that ids sort by time."""
    return (to_millis(now) << RANDOM_BITS) | (random_bits & ((1 << RANDOM_BITS) - 1))


def after(last: int, drawn: int) -> int:
    """Return the generated id, or the successor of the last one if the clock went back."""
    return max(drawn, last + 1)


def show(prefix: str, id_: int) -> str:
    """Format an id: `mem_` and 13 characters of Crockford's base32."""
    # Unrolled, because a result shows dozens of ids.
    return (
        f"{prefix}_{_DIGITS[(id_ >> 60) & 31]}{_PAIRS[(id_ >> 50) & 1023]}"
        f"{_PAIRS[(id_ >> 40) & 1023]}{_PAIRS[(id_ >> 30) & 1023]}"
        f"{_PAIRS[(id_ >> 20) & 1023]}{_PAIRS[(id_ >> 10) & 1023]}{_PAIRS[id_ & 1023]}"
    )


def parse(prefix: str, text: str) -> int:
    """Parse an id; case and the look-alikes I, L and O do not matter.

    Raises:
        InvalidInputError: the text is not an id of this type.

    """
    # Annotations do not stop a program from passing None, the id of a rejected text.
    given = cast("object", text)
    if not isinstance(given, str):
        raise _not_an_id(prefix, str(given))
    given_prefix, _, digits = text.strip().partition("_")
    id_ = 0
    if given_prefix.lower() != prefix or len(digits) != _LENGTH:
        raise _not_an_id(prefix, text)
    for digit in digits.upper():
        value = _VALUES.get(digit)
        if value is None:
            raise _not_an_id(prefix, text)
        id_ = id_ << 5 | value
    if id_ > _MAX:
        raise _not_an_id(prefix, text)
    return id_


def _not_an_id(prefix: str, text: str) -> InvalidInputError:
    return InvalidInputError(
        f"{text[:80]!r} is not an id of this sort: expected {prefix}_ and {_LENGTH} characters.",
        hint="Take ids from the replies of remember and recall.",
    )
