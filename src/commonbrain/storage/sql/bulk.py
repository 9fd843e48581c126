"""Bulk statements: many ids in one parameter, many rows past SQLAlchemy's slow path."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import repeat
from typing import Any, Final

from sqlalchemy import (
    JSON,
    BigInteger,
    BindParameter,
    Dialect,
    Select,
    String,
    Table,
    TableValuedAlias,
    TypeDecorator,
    bindparam,
    delete,
    insert,
    select,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from commonbrain.model.values import dataclass
from commonbrain.storage.sql.context import SqlContext, shared_driver


def json_of(value: Iterable[int] | None) -> str | None:
    """Write ids as a JSON list, which is how Python shows one of integers."""
    return None if value is None else str([*value])


@dataclass(frozen=True, slots=True, kw_only=True)
class ListForm:
    """How an engine takes a list as one parameter."""

    type_of: Callable[[type[BigInteger | String]], TypeEngine[Any]]
    """Makes the type of a list from that of its members."""
    write_ids: Callable[[Iterable[int] | None], str | None]
    """Formats numbers, which is faster than an encoder."""


_JSON: Final = ListForm(type_of=lambda _: JSON(), write_ids=json_of)
LIST_FORMS: Final[dict[str, ListForm]] = {}
"""The forms of other engines, by the name of their dialect; each adds its own."""


class ListParam(TypeDecorator[Any]):
    """A list in one parameter: JSON, unless the engine has another form."""

    impl = JSON
    cache_ok = True

    def __init__(self, of: type[BigInteger | String]) -> None:
        super().__init__()
        self.of = of

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the type that the engine can unnest."""
        return dialect.type_descriptor(LIST_FORMS.get(dialect.name, _JSON).type_of(self.of))

    def bind_processor(self, dialect: Dialect) -> Any:  # noqa: ANN401 of the library's own
        """Format numbers, which is faster than an encoder; other values stay."""
        if self.of is not BigInteger:
            return super().bind_processor(dialect)
        return LIST_FORMS.get(dialect.name, _JSON).write_ids


class unnest(FunctionElement[Any]):  # noqa: N801 a function of SQL
    """The members of a list, one row each."""

    name = "members"
    inherit_cache = True


@compiles(unnest)
def _unfold_json(element: unnest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"json_each({compiler.process(element.clauses, **more)})"


def members_of(name: str, of: type[BigInteger | String] = BigInteger) -> TableValuedAlias:
    """Return the members of a list parameter as a table with the column `value`."""
    given: BindParameter[Any] = bindparam(name, type_=ListParam(of))
    return unnest(given).table_valued("value")


class greatest(FunctionElement[int]):  # noqa: N801 a function of SQL
    """The greater of two numbers."""

    name = "greater"
    inherit_cache = True
    type = BigInteger()


@compiles(greatest)
def _scalar_max(element: greatest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"max({compiler.process(element.clauses, **more)})"


def id_list_param(name: str, of: type[BigInteger | String] = BigInteger) -> Select[Any]:
    """Select the ids, or words, of a list parameter.

    One parameter each would need thousands of names and a new statement for every number of them; a
    list costs a tenth of that.
    """
    return select(members_of(name, of).c.value)


LISTED: Final = id_list_param("ids")


def bulk_insert(
    work: SqlContext, into: Table, *, shared: Mapping[str, Any], each: Mapping[str, Sequence[Any]]
) -> None:
    """Insert rows of a tenant that have `shared` values in common and differ in `each`."""
    # SQLite takes twice as long for rows with explicit NULLs.
    given = {name: value for name, value in shared.items() if value is not None}
    filled = {name: values for name, values in each.items() if values.count(None) < len(values)}
    _run(work, into, shared={"tenant_id": work.tenant, **given}, each=filled, is_insert=True)


def bulk_delete(work: SqlContext, table: Table, *, each: Mapping[str, Sequence[Any]]) -> None:
    """Delete the rows of a tenant with these values in these columns."""
    _run(work, table, shared={"tenant_id": work.tenant}, each=each, is_insert=False)


def _run(
    work: SqlContext,
    table: Table,
    *,
    shared: Mapping[str, Any],
    each: Mapping[str, Sequence[Any]],
    is_insert: bool,
) -> None:
    """Bind shared values once and the rest by column; one mapping per row costs far more."""
    count = len(next(iter(each.values())))
    if not count:
        return
    dialect = shared_driver(work.connection.dialect)
    statement, order = _compiled(table, (*shared, *each), dialect=dialect, is_insert=is_insert)
    alike = {name: _written(table, name, dialect=dialect)(value) for name, value in shared.items()}
    columns = [
        _bound(each[name], _written(table, name, dialect=dialect))
        if name in each
        else repeat(alike[name], count)
        for name in order
    ]
    work.connection.exec_driver_sql(statement, list(zip(*columns, strict=True)))


@lru_cache
def _compiled(
    table: Table, names: tuple[str, ...], *, dialect: Dialect, is_insert: bool
) -> tuple[str, tuple[str, ...]]:
    """Compile a statement for the driver, with the order of its parameters."""
    if is_insert:
        made = insert(table).compile(dialect=dialect, column_keys=list(names))
    else:
        here = [table.c[name] == bindparam(name) for name in names]
        made = delete(table).where(*here).compile(dialect=dialect)
    return made.string, tuple(made.positiontup or ())


def _bound(values: Sequence[Any], write: Callable[[Any], Any]) -> Sequence[Any]:
    """Convert values for the driver; few differ, and each is converted once."""
    if write is _as_it_is:
        return values
    written = {value: write(value) for value in set(values)}
    return [written[value] for value in values]


@lru_cache
def _written(table: Table, name: str, *, dialect: Dialect) -> Callable[[Any], Any]:
    """Return the converter of a column's values for the driver."""
    return table.c[name].type.dialect_impl(dialect).bind_processor(dialect) or _as_it_is


def _as_it_is(value: Any) -> Any:  # noqa: ANN401 columns hold anything
    return value
