"""The metadata of all tables, their column types, and the tenant column of every key."""

import json
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, cast

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Dialect,
    ForeignKey,
    Index,
    MetaData,
    String,
    Table,
    TypeDecorator,
    text,
)
from sqlalchemy.schema import SchemaItem

from commonbrain.model.scope import Authority
from commonbrain.model.timestamps import EPOCH, from_millis, to_millis

METADATA: Final = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_INDEXES: Final = "indexes"


class UnreadableValueError(ValueError):
    """A stored value that was never written: its column's type cannot have it."""


class _ColumnRead:
    """A context manager without a generator: it is entered for every value that is read."""

    __slots__ = ()

    def __enter__(self) -> None:
        """Begin to convert a stored value."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        """Raise `UnreadableValueError` if it failed, without the value: logs show the message."""
        if isinstance(error, (ValueError, KeyError, TypeError, OverflowError)) and not isinstance(
            error, UnreadableValueError
        ):
            raise UnreadableValueError(
                f"a value cannot be read ({type(error).__name__})"
            ) from error


_READING: Final = _ColumnRead()


def reading() -> AbstractContextManager[None]:
    """Tell a stored value that cannot be converted from an error of this program.

    Raises:
        UnreadableValueError: a conversion inside fails.

    """
    return _READING


def read_json(text: str) -> Any:  # noqa: ANN401 JSON holds anything
    """Read a column of JSON.

    Raises:
        UnreadableValueError: it is none.

    """
    with reading():
        return json.loads(text)


def tenant() -> Column[str]:
    """Return the tenant column, which begins every key."""
    return Column("tenant_id", String(128), ForeignKey("tenants.id"), primary_key=True)


def authority_column(default: Authority) -> Column[Authority]:
    """Return the column of who wrote a row; programs from before there was one leave it out."""
    return Column(
        "authority", EnumText(Authority), nullable=False, server_default=text(f"'{default}'")
    )


def tenant_table(name: str, *items: SchemaItem) -> Table:
    """Make a table of rows of tenants; its key is the tenant, then the columns of the key."""
    table = Table(name, METADATA, tenant(), *items)
    table.info[_INDEXES] = [one for one in items if isinstance(one, Index)]
    return table


def indexes_of(table: Table) -> Collection[Index]:
    """Return the indexes of a table in the order in which they are written down."""
    return table.info.get(_INDEXES, table.indexes)


def only(condition: str) -> dict[str, Any]:
    """Restrict an index to the rows of a condition.

    The schema of another engine adds the condition there: SQLAlchemy imports a dialect, with
    its drivers, for each of its options.
    """
    return {"sqlite_where": text(condition)}


class Instant(TypeDecorator[datetime]):
    """An aware UTC time as whole milliseconds."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:  # noqa: ARG002
        """Write a time as a number."""
        return None if value is None else to_millis(value)

    def process_result_value(self, value: int | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Read a number as a time."""
        with reading():
            return None if value is None else from_millis(value)

    @staticmethod
    def read_all(values: Sequence[int | None]) -> Sequence[datetime | None]:
        """Read a column of numbers as times, without a call for each."""
        return [None if one is None else EPOCH + timedelta(milliseconds=one) for one in values]


class EnumText(TypeDecorator[StrEnum]):
    """A word of a closed set; rejects any other before it is written."""

    impl = String
    cache_ok = True

    def __init__(self, choices: type[StrEnum]) -> None:
        super().__init__(24)
        self.choices = choices
        # A dictionary answers several times faster than the class, and a row may hold five words.
        members: dict[str | None, StrEnum | None] = {str(choice): choice for choice in choices}
        self.read = {**members, None: None}.__getitem__
        self.words = {None: None} | {word: word for word in map(str, choices)}

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:  # noqa: ARG002
        """Write a member as its text.

        Raises:
            ValueError: it is no member; the table has no CHECK of its own.

        """
        try:
            return self.words[value]
        except KeyError:
            known = ", ".join(self.choices)
            raise ValueError(f"{value!r} is not one of {known}.") from None

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:  # noqa: ARG002
        """Read a text as its member."""
        with reading():
            return self.read(value)


class Names(TypeDecorator[tuple[str, ...]]):
    """A few names as a JSON list."""

    impl = JSON
    cache_ok = True

    def process_bind_param(self, value: tuple[str, ...] | None, dialect: Dialect) -> list[str]:  # noqa: ARG002
        """Write names as a list."""
        return list(value or ())

    def process_result_value(self, value: list[str] | None, dialect: Dialect) -> tuple[str, ...]:  # noqa: ARG002
        """Read a list as names."""
        return tuple(value or ())


class JsonText(TypeDecorator[Any]):
    """A column of JSON or names, read as text: most values are empty and need no parser."""

    impl = String
    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401, ARG002
        """Read a text as JSON, a list as a tuple."""
        with reading():
            return self._read(value)

    @classmethod
    def read_all(cls, values: Sequence[Any]) -> Sequence[Any]:
        """Read a column; most of its values are empty and take no call."""
        return [() if one == "[]" else {} if one == "{}" else cls._read(one) for one in values]

    @staticmethod
    def _read(value: Any) -> Any:  # noqa: ANN401 JSON holds anything
        """Read a text as JSON, a list as a tuple; empty values skip the parser."""
        match value:
            case None | "[]":
                return () if value else None
            case "{}":
                return {}
            case _:
                # A driver may have read it already, as that of Postgres does.
                read: Any = json.loads(value) if isinstance(value, str) else value
                return tuple(cast("list[Any]", read)) if isinstance(read, list) else read


def fraction(column: str) -> CheckConstraint:
    """Return the CHECK that a column is in 0..1."""
    return CheckConstraint(f"{column} >= 0 AND {column} <= 1", name=f"{column}_fraction")
