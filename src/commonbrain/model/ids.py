"""Identifiers: 63-bit integers ordered by time, shown with a prefix that says what they name."""

from datetime import datetime
from typing import Final, cast

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.timestamps import to_millis

RANDOM_BITS: Final = 21
_MILLIS_BITS: Final = 42
_MAX: Final = (1 << (RANDOM_BITS + _MILLIS_BITS)) - 1
LAST: Final = _MAX
"""Above every id that is drawn."""
_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
"""Crockford's base32: no I, L, O or U (https://www.crockford.com/base32.html)."""
_VALUES: Final = {digit: value for value, digit in enumerate(_DIGITS)} | {
    "I": 1,
    "L": 1,
    "O": 0,
}
_LENGTH: Final = 13
_PAIRS: Final = tuple(one + other for one in _DIGITS for other in _DIGITS)
_PLACES: Final = range(50, -1, -10)
"""Where the digits after the first stand, two by two: an answer shows dozens of ids."""

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
    """Put 42 bits of milliseconds over 21 random bits, so that ids sort by birth."""
    return (to_millis(now) << RANDOM_BITS) | (random_bits & ((1 << RANDOM_BITS) - 1))


def after(last: int, drawn: int) -> int:
    """Give a drawn id, or the one next to the last where a clock went back."""
    return max(drawn, last + 1)


def show(prefix: str, id_: int) -> str:
    """Write an id for people and wires: `mem_` and 13 characters of Crockford's base32."""
    pairs = [_PAIRS[(id_ >> shift) & 1023] for shift in _PLACES]
    return f"{prefix}_{_DIGITS[(id_ >> 60) & 31]}{''.join(pairs)}"


def parse(prefix: str, text: str) -> int:
    """Read an id back; upper and lower case and the look-alikes I, L, O are forgiven.

    Raises:
        InvalidInputError: the text is not an id of this sort.

    """
    # No annotation keeps a program from giving the None that a refused text has for an id.
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
