"""Pages of lists: a cursor that continues after the last row, and how many rows are left.

Every list is read by key, never by offset, so that rows that appear or vanish in between neither
repeat nor hide others. A cursor holds the key of the last row and a checksum of the list and its
filters; it grants nothing, since each page is checked like the first.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final, Generic, TypeVar, cast

from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import CURSOR_CHARS_MAX, MORE_COUNTED_MAX
from commonbrain.model.timestamps import to_millis
from commonbrain.model.values import dataclass, field

RowT = TypeVar("RowT")
Key = tuple[int | str, ...]
"""The values by which a list is ordered, unique to a row."""
_CHECKSUM_CHARS: Final = 8
_INTEGER_MAX: Final = 2**63 - 1
_EARLIEST: Final = to_millis(datetime.min.replace(tzinfo=UTC))
_LATEST: Final = to_millis(datetime.max.replace(tzinfo=UTC))


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[RowT]):
    """Some rows of a list, the cursor of the next page, and how many rows are left."""

    rows: tuple[RowT, ...] = ()
    next: str | None = None
    """None on the last page."""
    more: int = 0
    """Rows after this page; 1,000 means 1,000 or more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """A list with its filters, of which a cursor names a place."""

    name: str
    limit: int
    cursor: str | None = None
    filters: Mapping[str, object] = field(default_factory=dict[str, object])

    def checked(self, limit_max: int) -> "Listing":
        """Return the list if its limit is allowed.

        Raises:
            RejectedError: `limit_exceeded`.

        """
        if not 1 <= self.limit <= limit_max:
            raise RejectedError(
                f"limit is {self.limit}; 1 to {limit_max} is allowed.",
                code="limit_exceeded",
                hint="Read page by page: each reply has the cursor of the next page.",
            )
        return self

    def after(self, *types: type[int] | type[str] | type[datetime]) -> Key | None:
        """Return the key after which the page begins, with values of these types.

        A `datetime` stays the number of its milliseconds.

        Raises:
            InvalidInputError: the cursor is malformed, or of another list or other filters.

        """
        if self.cursor is None:
            return None
        given = _decode(self.cursor)
        key = tuple(given[1:])
        is_key = len(key) == len(types) and all(map(_is_value, key, types))
        if given[:1] != [self._checksum()] or not is_key:
            raise InvalidInputError(
                f"{self.cursor[:40]!r} is not a cursor of this list with these filters.",
                hint="Give `next` of the page before with the same filters, or no cursor.",
            )
        return cast("Key", key)

    def page(
        self,
        rows: Sequence[RowT],
        *,
        key: Callable[[RowT], Key],
        count: Callable[[int], int] | None = None,
    ) -> Page[RowT]:
        """Make a page of rows, of which there is one more than the limit if there are more.

        `count` counts the rows from the beginning of the page on, up to a number; by default, they
        are those given.
        """
        shown = tuple(rows[: self.limit])
        if len(rows) <= self.limit:
            return Page(rows=shown)
        counted = len(rows) if count is None else count(self.limit + MORE_COUNTED_MAX)
        return Page(
            rows=shown,
            next=self.cursor_after(key(shown[-1])),
            more=max(1, min(counted - self.limit, MORE_COUNTED_MAX)),
        )

    def page_of_all(self, rows: Sequence[RowT], *, key: Callable[[RowT], Key]) -> Page[RowT]:
        """Make a page of a short list that is read in full, in the order of its keys."""
        ordered = sorted(rows, key=key)
        after = self.after(*map(type, key(ordered[0]))) if ordered else None
        return self.page([one for one in ordered if after is None or key(one) > after], key=key)

    def cursor_after(self, key: Key) -> str:
        """Return the cursor of the page that begins after a key."""
        text = json.dumps([self._checksum(), *key], separators=(",", ":"), ensure_ascii=False)
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    def _checksum(self) -> str:
        given = {name: value for name, value in self.filters.items() if value not in (None, "", ())}
        text = json.dumps([self.name, given], default=str, sort_keys=True)
        return sha256(text.encode()).hexdigest()[:_CHECKSUM_CHARS]


def count_text(more: int) -> str:
    """Format a number of rows that is counted up to a bound."""
    return f"{more:,}+" if more >= MORE_COUNTED_MAX else f"{more:,}"


def more_line(more: int, cursor: str | None) -> tuple[str, ...]:
    """Render how many rows are left and the option that shows them; nothing on the last page."""
    return (f"{count_text(more) if more else 'Perhaps'} more: --cursor {cursor}",) if cursor else ()


def _decode(cursor: str) -> list[Any]:
    """Decode the values of a cursor; an empty list if it is none."""
    if len(cursor) > CURSOR_CHARS_MAX:
        return []
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        value = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
    except (binascii.Error, ValueError, RecursionError):
        return []
    return cast("list[Any]", value) if isinstance(value, list) else []


def _is_value(value: object, type_: type) -> bool:
    if type_ is str:
        return isinstance(value, str)
    low, high = (_EARLIEST, _LATEST) if type_ is datetime else (-_INTEGER_MAX, _INTEGER_MAX)
    return type(value) is int and low <= value <= high
