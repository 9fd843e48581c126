"""Rows of other systems: their values, and drafts made of them, as the write gate accepts them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Final, TypeVar, cast
from uuid import UUID

from commonbrain.ingestion.validation import Rejection, validate
from commonbrain.model.kinds import FactDetail, Kind
from commonbrain.model.limits import SOURCE_REF_CHARS_MAX
from commonbrain.model.memory import Draft
from commonbrain.model.timestamps import to_utc
from commonbrain.text.classification import severity_of
from commonbrain.transfer.importer import Content, Unreadable, shorten_name
from commonbrain.transfer.importers.chats import parse_time, split_to_fit

Row = Mapping[str, object]
"""One row: its values by column; a column that the table does not have is missing."""
Choice = TypeVar("Choice", bound=StrEnum)
_SHORTEST: Final = timedelta(milliseconds=1)
"""The shortest time that a memory can be valid, as times are stored in milliseconds."""
_WHOLE_MAX: Final = 2**53
"""The largest whole number up to which a float has each one."""


def text_in(row: Row, *columns: str) -> str:
    """Return the first of these columns that holds a text or a number, stripped; empty without."""
    texts = (_text_of(row.get(one)) for one in columns)
    return next((text.strip() for text in texts if text and text.strip()), "")


def _text_of(value: object) -> str | None:
    """Return a text, also one in bytes, or a number as text; None of other values."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return None
    is_plain = isinstance(value, str | int | float | Decimal | UUID) and not isinstance(value, bool)
    try:
        return str(value) if is_plain else None
    except ValueError:  # An integer of more digits than Python writes.
        return None


def number_in(row: Row, column: str) -> float | None:
    """Return a finite number; None without one."""
    value = row.get(column)
    try:
        number = float(value) if isinstance(value, int | float | str | Decimal) else math.nan
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def share_in(row: Row, column: str) -> float | None:
    """Return a number, cut to 0..1; None without one."""
    number = number_in(row, column)
    return None if number is None else min(max(number, 0.0), 1.0)


def whole_in(row: Row, column: str) -> int:
    """Return a whole number, cut to what a float can count; 0 without one."""
    return int(min(max(number_in(row, column) or 0, -_WHOLE_MAX), _WHOLE_MAX))


def flag_in(row: Row, column: str) -> bool:
    """Return a truth value, as databases and their dumps write it."""
    value = row.get(column)
    return value.lower() in {"t", "true", "1"} if isinstance(value, str) else bool(value)


def time_in(row: Row, *columns: str) -> datetime | None:
    """Return the first of these times that can be parsed; one without a zone is in UTC."""
    for column in columns:
        value = row.get(column)
        time = to_utc(value) if isinstance(value, datetime) else parse_time(value)
        if time is not None:
            return time
    return None


def choice_in(row: Row, column: str, *, default: Choice) -> Choice:
    """Return the value of a column as one of the choices that the default is of."""
    value = text_in(row, column).lower()
    return next((one for one in type(default) if one.value.lower() == value), default)


def json_in(row: Row, column: str) -> object:
    """Return the value of a column with JSON; None if it is not JSON."""
    value = row.get(column)
    if not isinstance(value, str | bytes):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def names_in(given: object) -> tuple[str, ...]:
    """Return the names in a list, or in a text with a JSON list or one name; each once."""
    return tuple(dict.fromkeys(map(shorten_name, ids_in(given))))


def ids_in(given: object) -> tuple[str, ...]:
    """Return what `names_in` does, but whole and all of them."""
    if isinstance(given, str):
        parsed = json_in({"given": given}, "given")
        given = cast("object", parsed) if isinstance(parsed, list) else (given,)
    if not isinstance(given, list | tuple):
        return ()
    words = (_text_of(one) for one in cast("Sequence[object]", given))
    return tuple(dict.fromkeys(word.strip() for word in words if word and word.strip()))


def fitted(contents: Iterable[Content]) -> Iterator[Content]:
    """Return contents with their drafts, or the parts of long ones, as the write gate accepts them.

    A rule gets the severity that its words give it. What does not pass as one statement of its kind
    becomes an event, so that no text is lost. The event keeps the name of the kind as its label.
    """
    for content in contents:
        if not isinstance(content, Draft):
            yield content
        elif content.body:
            yield from map(_accepted, split_to_fit(_completed(content)))
        else:
            yield Unreadable(
                where=content.source_ref or str(content.kind), reason="It has no text."
            )


def _completed(draft: Draft) -> Draft:
    if draft.kind == Kind.RULE and draft.severity is None:
        draft = replace(draft, severity=severity_of(draft.body))
    if draft.expires_at and draft.occurred_at and draft.expires_at <= draft.occurred_at:
        # The gate refuses what ends before it begins, and without an end it would be current.
        draft = replace(draft, occurred_at=draft.expires_at - _SHORTEST)
    return draft


def _accepted(draft: Draft) -> Draft:
    if isinstance(validate(draft), Rejection) and draft.headline is not None:
        draft = replace(draft, headline=None)
    if isinstance(validate(draft), Rejection):
        label = draft.label or draft.kind
        return replace(draft, kind=Kind.EVENT, label=label, severity=None, detail=None)
    return draft


def about_entity(entity: str) -> FactDetail:
    """Return the detail of a fact about an entity."""
    return FactDetail(subject=entity[:SOURCE_REF_CHARS_MAX] or None)
