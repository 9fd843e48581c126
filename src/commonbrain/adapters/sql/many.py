"""Statements about very many rows: their ids in one parameter, their values past the slow path."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final

from sqlalchemy import JSON, Select, Table, bindparam, delete, func, insert, select
from sqlalchemy.engine.interfaces import Dialect

from commonbrain.adapters.sql.work import Work


def listed(name: str) -> Select[int]:
    """Select the ids that a parameter lists.

    A parameter for each would be thousands of names to make up, and a statement to be parsed anew
    whenever their number differs; one list costs a tenth of that. The function is SQLite's own.
    """
    values = func.json_each(bindparam(name, type_=JSON)).table_valued("value")
    return select(values.c.value)


LISTED: Final = listed("ids")


def add_many(
    work: Work, into: Table, *, shared: Mapping[str, Any], each: Mapping[str, Sequence[Any]]
) -> None:
    """Insert rows of a tenant that are equal in what is `shared` and differ in `each`."""
    given = {"tenant_id": work.tenant, **shared}
    _run(work, into, given, each=each, is_insert=True)


def drop_many(work: Work, table: Table, *, each: Mapping[str, Sequence[Any]]) -> None:
    """Delete the rows of a tenant that have these values in these columns."""
    _run(work, table, {"tenant_id": work.tenant}, each=each, is_insert=False)


def _run(
    work: Work,
    table: Table,
    shared: Mapping[str, Any],
    *,
    each: Mapping[str, Sequence[Any]],
    is_insert: bool,
) -> None:
    """Bind what is shared once, and the rest column by column; a mapping a row costs far more."""
    count = len(next(iter(each.values())))
    if not count:
        return
    dialect = work.connection.dialect
    statement, order = _compiled(table, (*shared, *each), dialect, is_insert=is_insert)
    columns = [
        _bound(table, name, each[name], dialect=dialect)
        if name in each
        else repeat(*_bound(table, name, [shared[name]], dialect=dialect), count)
        for name in order
    ]
    work.connection.exec_driver_sql(statement, list(zip(*columns, strict=True)))


@lru_cache
def _compiled(
    table: Table, names: tuple[str, ...], dialect: Dialect, *, is_insert: bool
) -> tuple[str, tuple[str, ...]]:
    """Write a statement in the words of the driver, and tell the order of its parameters."""
    if is_insert:
        made = insert(table).compile(dialect=dialect, column_keys=list(names))
    else:
        here = [table.c[name] == bindparam(name) for name in names]
        made = delete(table).where(*here).compile(dialect=dialect)
    return made.string, tuple(made.positiontup or ())


def _bound(table: Table, name: str, values: Sequence[Any], *, dialect: Dialect) -> Sequence[Any]:
    """Give values as the driver takes them."""
    write = table.c[name].type.dialect_impl(dialect).bind_processor(dialect)
    return values if write is None else [write(value) for value in values]
