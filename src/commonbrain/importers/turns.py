"""What one turn of a conversation says, whatever its writer called the fields."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, cast

from commonbrain.domain.errors import Invalid
from commonbrain.domain.times import from_millis, parse_instant

SPOKEN: Final = "%I:%M %p on %d %B, %Y"
"""How the LoCoMo conversations write a time: `1:56 pm on 8 May, 2023`."""
_MILLIS_FROM: Final = 100_000_000_000
"""A larger count is of milliseconds: as seconds it would lie past the year 5138."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One thing somebody said; `time` is what the source gives, of any sort."""

    text: str
    speaker: str | None = None
    id: str | None = None
    session: str | None = None
    time: object = None


def as_object(value: object) -> Mapping[str, object] | None:
    """Take a JSON value for an object, or give None."""
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else None


def as_list(value: object) -> Sequence[object] | None:
    """Take a JSON value for a list, or give None."""
    return cast("Sequence[object]", value) if isinstance(value, list) else None


def is_turn(value: object) -> bool:
    """Say whether a value has the field that holds what was said."""
    fields = as_object(value)
    return fields is not None and ("text" in fields or "content" in fields)


def turn_of(fields: Mapping[str, object]) -> Turn:
    """Read a turn; a caption is said to be one, since nobody spoke it."""
    said = _text(fields.get("text")) or _text(fields.get("content"))
    caption = _text(fields.get("blip_caption"))
    shared = f"[shared a picture: {caption}]" if caption else ""
    return Turn(
        text="\n".join(line for line in (said, shared) if line),
        speaker=_word(fields, "speaker", "role"),
        id=_word(fields, "dia_id", "id"),
        session=_word(fields, "session"),
        time=fields.get("time"),
    )


def moment(time: object) -> datetime | None:
    """Read ISO 8601, the LoCoMo spelling, or a count since 1970 in seconds or milliseconds.

    A time without a zone is read as UTC; None where there is no time or it cannot be read.
    """
    try:
        if isinstance(time, str):
            return _instant(time)
        if isinstance(time, int | float | Decimal) and not isinstance(time, bool):
            count = float(time)
            return from_millis(round(count if abs(count) >= _MILLIS_FROM else count * 1000))
    except (Invalid, ValueError, OverflowError):
        return None
    return None


def _instant(text: str) -> datetime:
    try:
        return datetime.strptime(text.strip(), SPOKEN).replace(tzinfo=UTC)
    except ValueError:
        return parse_instant(text)


def _text(value: object) -> str:
    """Give the text of a field that holds one, or a list of parts; other parts are named."""
    if isinstance(value, str):
        return value.strip()
    parts = as_list(value)
    return "\n".join(filter(None, map(_part, parts))) if parts else ""


def _part(part: object) -> str:
    fields = as_object(part)
    if fields is None:
        return _text(part)
    sort = fields.get("type")
    return _text(fields.get("text")) or (f"[{sort}]" if isinstance(sort, str) else "")


def _word(fields: Mapping[str, object], *names: str) -> str | None:
    """Give the first of these fields that is a word or a number, as a word."""
    values = (fields.get(name) for name in names)
    words = (str(value).strip() for value in values if isinstance(value, str | int | Decimal))
    return next((word for word in words if word), None)
