"""JSON read as it streams: one record in memory at a time, however long the file is."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO, Final

LISTS: Final = ("turns", "messages")
"""The keys under which an object holds the turns of one conversation."""
_VALUES_MAX: Final = 2_000_000
"""Of one record: about 200 MB of objects; past it the record is skimmed, not built."""
_BOM: Final = b"\xef\xbb\xbf"

Events = Iterator[tuple[str, Any]]
"""What the tokenizer tells, in order: the name of an event and its value."""


class NotJson(Exception):
    """The bytes stop being JSON; the message is the tokenizer's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One element, and the number of the object whose list holds it; 0 where none does."""

    value: object
    conversation: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversized:
    """Stands for a record of too many values to hold."""

    values: int


def records(stream: BinaryIO) -> Iterator[Record]:
    """Give the elements of a list, of an object's list of turns, or of JSON Lines, in order.

    Raises:
        NotJson: from here on the bytes are not JSON; everything before was given.

    """
    if stream.read(len(_BOM)) != _BOM:
        stream.seek(0)
    tokenizer: Any = import_module("ijson")  # It brings no types, and is not needed to start.
    # With `use_float` an integer past 64 bits would end the file; without it, reals are Decimal.
    events: Events = tokenizer.basic_parse(stream, multiple_values=True)
    held = 0
    try:
        for event, value in events:
            if event == "start_array":
                yield from map(_loose, _elements(events))
            elif event == "start_map":
                held += 1
                yield from _object(events, number=held)
            else:
                yield _loose(value)
    except (tokenizer.JSONError, ValueError) as error:
        raise NotJson(_message(error)) from error


def _loose(value: object) -> Record:
    return Record(value=value)


def _elements(events: Events) -> Iterator[object]:
    """Give the elements of the list that has just begun."""
    for event, value in events:
        if event == "end_array":
            return
        yield _build(event, value, events=events)


def _object(events: Events, *, number: int) -> Iterator[Record]:
    """Give the turns that an object holds, one by one, or else the object itself."""
    rest: dict[str, object] = {}
    is_container = False
    for event, key in events:
        if event == "end_map":
            break
        event_of_value, value = next(events)
        if key in LISTS and event_of_value == "start_array":
            is_container = True
            yield from (Record(value=each, conversation=number) for each in _elements(events))
        else:
            rest[key] = _build(event_of_value, value, events=events)
    if not is_container:
        yield Record(value=rest)


def _build(event: str, value: object, *, events: Events) -> object:
    """Build the value that begins with this event, or count it where it is too large to hold."""
    builder: Any = import_module("ijson").ObjectBuilder()
    builder.event(event, value)
    depth = _step(event)
    values = 1
    while depth:
        event, value = next(events)
        depth += _step(event)
        values += 1
        if values <= _VALUES_MAX:
            builder.event(event, value)
    return builder.value if values <= _VALUES_MAX else Oversized(values=values)


def _step(event: str) -> int:
    return event.startswith("start_") - event.startswith("end_")


def _message(error: Exception) -> str:
    """Take the first line of what the tokenizer says, which may come as bytes."""
    detail: object = error.args[0] if error.args else ""
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    return text.strip().partition("\n")[0]
