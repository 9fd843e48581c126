"""JSON as a source: the elements of its lists, one at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO, Final

from commonbrain.model.errors import InvalidInputError
from commonbrain.transfer.importer import Content, ImportItem, Meter, Unreadable
from commonbrain_import.rows import fitted

_BOM: Final = b"\xef\xbb\xbf"
_VALUES_MAX: Final = 2_000_000
"""In one record: about 200 MB of objects; a larger one is skipped, not built."""

_DIGITS_MAX: Final = 4_300
"""In one number: Python reads no longer integer; ijson 3.6 ends the process at 66,000 digits."""
_STRING_BYTES_MAX: Final = 8 * 1024 * 1024
"""Of one string: ijson joins its parts in quadratic time, 0.2 s for a string of this length."""
_ESCAPED: Final = re.compile(rb"\\.", re.DOTALL)
# Tried once in every run of digits, so that the search takes linear time.
_LONG_NUMBER: Final = re.compile(rb"(?<![0-9])[0-9]{%d}" % (_DIGITS_MAX + 1))
_DIGITS_AT_END: Final = re.compile(rb"(?<![0-9])[0-9]+\Z")

Events = Iterator[tuple[str, Any]]
"""The tokenizer's output, in order: the name of an event and its value."""


class NotJson(Exception):
    """The rest of the bytes is not JSON; the message is the tokenizer's own."""


@dataclass(slots=True)
class BoundedJson:
    """Bytes of JSON for a parser that must not see a number or a string beyond a length."""

    stream: BinaryIO
    string_bytes_max: int = _STRING_BYTES_MAX
    """Of one string, in bytes as they stand in the file."""
    _is_in_string: bool = False
    _is_escaped: bool = False
    """Whether the last byte was a backslash that escapes the next one."""
    _string_bytes: int = 0
    """Of the string that the last bytes belong to."""
    _digits: bytes = b""
    """Outside of strings, at the end of the last bytes."""
    _fault: str | None = None

    def read(self, size: int = -1) -> bytes:
        """Read up to a number of bytes, which end before what is too long.

        Raises:
            ValueError: a number or a string that comes next is too long.

        """
        if self._fault is None:
            chunk = self.stream.read(size)
            passed = self._check(chunk) if chunk else 0
            if passed or not chunk:
                return chunk[:passed]
        raise ValueError(self._fault)

    def _check(self, chunk: bytes) -> int:
        """Return how many of these bytes come before what is too long, and set the fault."""
        carried = b"\\" if self._is_escaped else b""
        start = -len(carried)
        self._string_bytes += start
        text = _ESCAPED.sub(b"__", carried + chunk)
        self._is_escaped = text.endswith(b"\\")
        for number, part in enumerate(text.split(b'"')):
            if number:
                self._is_in_string = not self._is_in_string
                self._string_bytes, self._digits = 0, b""
            if self._is_in_string:
                self._string_bytes += len(part)
                if self._string_bytes > self.string_bytes_max:
                    self._fault = f"a string is longer than {self.string_bytes_max:,} bytes"
            else:
                self._digits += part
                if len(self._digits) > _DIGITS_MAX and (long := _LONG_NUMBER.search(self._digits)):
                    self._fault = f"a number has more than {_DIGITS_MAX:,} digits"
                    start += max(long.start() - (len(self._digits) - len(part)), 0)
            if self._fault is not None:
                return max(start, 0)
            start += len(part) + 1
        at_end = _DIGITS_AT_END.search(self._digits)
        self._digits = at_end[0] if at_end else b""
        return len(chunk)


@dataclass(frozen=True, slots=True, kw_only=True)
class Oversized:
    """Replaces a record with too many values."""

    values: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """An element of a list, or a value of the object around the lists."""

    key: str
    """The key of the list or value in the outer object; empty if the list is the file."""
    value: object
    is_in_list: bool
    number: int = 0
    """The place in the list, from 1."""
    owner: int = 0
    """The number of the object that has the list; 0 if the list is the file."""


@contextmanager
def open_json(source: Path, *, hint: str) -> Generator[BinaryIO]:
    """Open a file of JSON.

    Raises:
        InvalidInputError: it cannot be opened.

    """
    try:
        stream = source.open("rb")
    except OSError as error:
        raise InvalidInputError(f"{source} cannot be read: {error.strerror}.", hint=hint) from error
    with stream:
        yield stream


def skip_byte_order_mark(stream: BinaryIO) -> None:
    """Move a stream behind a byte order mark, if one comes next."""
    start = stream.tell()
    if stream.read(len(_BOM)) != _BOM:
        stream.seek(start)


def read_elements(
    source: Path,
    read: Callable[[Element], Iterable[Content]],
    *,
    hint: str,
    what: str = "",
    shows_format: Callable[[Element], bool] = lambda _: True,
    lists: Collection[str] | None = None,
) -> Iterator[ImportItem]:
    """Yield what `read` makes of the elements, with drafts as the write gate accepts them.

    Raises:
        InvalidInputError: the file is missing, not JSON, or it has contents and no element before
            them showed the format `what`; raised before the first piece.

    """
    wrong = InvalidInputError(f"{source} is no {what}.", hint=hint)
    is_known, count = not what, 0
    with open_json(source, hint=hint) as stream:
        meter = Meter(total=source.stat().st_size)
        try:
            for element in elements(stream, lists=lists):
                count += 1
                is_known = is_known or shows_format(element)
                for content in fitted(read(element)):
                    if not is_known:
                        raise wrong
                    meter.done = stream.tell()
                    yield meter.piece(content)
        except NotJson as error:
            if not is_known:
                raise InvalidInputError(f"{source} is not JSON: {error}.", hint=hint) from error
            reason = f"From here on it cannot be read ({error}); nothing after it was read."
            where = f"{source.name}, after record {count}"
            yield meter.piece(Unreadable(where=where, reason=reason))
    if not is_known:
        raise wrong


def elements(stream: BinaryIO, *, lists: Collection[str] | None = None) -> Iterator[Element]:
    """Yield the elements of a list, or of the lists in an object, and the object's other values.

    Of several values, as in JSON Lines, each is read so. With `lists`, only lists of these names
    are read by element, and an object without one is yielded whole.

    Raises:
        NotJson: the rest of the bytes is not JSON; everything before was yielded.

    """
    parser: Any = import_module("ijson")  # It brings no types, and is not needed to start.
    # With `use_float` an integer past 64 bits would end the file; without it, reals are Decimal.
    events: Events = parser.basic_parse(BoundedJson(stream), multiple_values=True)
    objects = 0
    skip_byte_order_mark(stream)
    try:
        for event, value in events:
            if event == "start_array":
                yield from _listed(events, key="", owner=0)
            elif event == "start_map":
                objects += 1
                yield from _members(events, lists=lists, owner=objects)
            else:
                yield Element(key="", value=value, is_in_list=False)
    except (parser.JSONError, ValueError) as error:
        raise NotJson(parser_message(error)) from error


def _members(events: Events, *, lists: Collection[str] | None, owner: int) -> Iterator[Element]:
    whole: dict[str, object] = {}
    is_split = lists is None
    for event, key in events:
        if event == "end_map":
            break
        event_of_value, value = next(events)
        if event_of_value == "start_array" and (lists is None or key in lists):
            is_split = True
            yield from _listed(events, key=key, owner=owner)
        else:
            built = build_value(event_of_value, value, events=events)
            if lists is None:
                yield Element(key=key, value=built, is_in_list=False)
            else:
                whole[key] = built
    if not is_split:
        yield Element(key="", value=whole, is_in_list=False)


def _listed(events: Events, *, key: str, owner: int) -> Iterator[Element]:
    for number, (event, value) in enumerate(events, 1):
        if event == "end_array":
            return
        built = build_value(event, value, events=events)
        yield Element(key=key, value=built, is_in_list=True, number=number, owner=owner)


def build_value(event: str, value: object, *, events: Events) -> object:
    """Build the value that begins with this event, or skip it if it is too large."""
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


def parser_message(error: Exception) -> str:
    """Return the first line of the tokenizer's error, which may be bytes."""
    detail: object = error.args[0] if error.args else ""
    text = detail.decode("utf-8", "replace") if isinstance(detail, bytes) else str(detail)
    return text.strip().partition("\n")[0]
