"""SQL functions that the engines spell differently."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    BindParameter,
    Dialect,
    String,
    TableValuedAlias,
    TypeDecorator,
    bindparam,
)
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

_POSTGRES = "postgresql"


class Listing(TypeDecorator[Any]):
    """A list in one parameter: JSON in SQLite, an array in Postgres.

    Numbers go to Postgres as an array literal: its driver takes six times as long to convert each,
    and one recall runs ten statements with 40 to 120 ids.
    """

    impl = JSON
    cache_ok = True

    def __init__(self, of: type[BigInteger | String]) -> None:
        super().__init__()
        self.of = of

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Choose the type that the engine can unnest."""
        return dialect.type_descriptor(ARRAY(self.of()) if dialect.name == _POSTGRES else JSON())

    def bind_processor(self, dialect: Dialect) -> Any:  # noqa: ANN401 of the library's own
        """Format numbers for Postgres; other values stay."""
        is_written = dialect.name == _POSTGRES and self.of is BigInteger
        return _array_of if is_written else super().bind_processor(dialect)


def _array_of(value: Iterable[int] | None) -> str | None:
    return None if value is None else f"{{{','.join(map(str, map(int, value)))}}}"


class unnest(FunctionElement[Any]):  # noqa: N801 a function of SQL
    """The members of a list, one row each."""

    name = "members"
    inherit_cache = True


@compiles(unnest)
def _unfold_json(element: unnest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"json_each({compiler.process(element.clauses, **more)})"


@compiles(unnest, _POSTGRES)
def _unfold_array(element: unnest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"(SELECT unnest({compiler.process(element.clauses, **more)}) AS value)"


def members_of(name: str, of: type[BigInteger | String] = BigInteger) -> TableValuedAlias:
    """Return the members of a list parameter as a table with the column `value`."""
    given: BindParameter[Any] = bindparam(name, type_=Listing(of))
    return unnest(given).table_valued("value")


class greatest(FunctionElement[int]):  # noqa: N801 a function of SQL
    """The greater of two numbers."""

    name = "greater"
    inherit_cache = True
    type = BigInteger()


@compiles(greatest)
def _scalar_max(element: greatest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"max({compiler.process(element.clauses, **more)})"


@compiles(greatest, _POSTGRES)
def _greatest(element: greatest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"greatest({compiler.process(element.clauses, **more)})"
