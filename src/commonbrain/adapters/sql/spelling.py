"""What the engines spell differently in statements that are otherwise the same."""

from __future__ import annotations

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
    """A list in one parameter: JSON in SQLite, an array in Postgres."""

    impl = JSON
    cache_ok = True

    def __init__(self, of: type[BigInteger | String]) -> None:
        super().__init__()
        self.of = of

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """Take what the engine can unfold again."""
        return dialect.type_descriptor(ARRAY(self.of()) if dialect.name == _POSTGRES else JSON())


class members(FunctionElement[Any]):  # noqa: N801 a function of SQL
    """The members of a list, a row for each."""

    name = "members"
    inherit_cache = True


@compiles(members)
def _unfold_json(element: members, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"json_each({compiler.process(element.clauses, **more)})"


@compiles(members, _POSTGRES)
def _unfold_array(element: members, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"(SELECT unnest({compiler.process(element.clauses, **more)}) AS value)"


def members_of(name: str, of: type[BigInteger | String] = BigInteger) -> TableValuedAlias:
    """Give the members of a list, a parameter, as a table with the column `value`."""
    given: BindParameter[Any] = bindparam(name, type_=Listing(of))
    return members(given).table_valued("value")


class greater(FunctionElement[int]):  # noqa: N801 a function of SQL
    """The greater of two numbers."""

    name = "greater"
    inherit_cache = True
    type = BigInteger()


@compiles(greater)
def _scalar_max(element: greater, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"max({compiler.process(element.clauses, **more)})"


@compiles(greater, _POSTGRES)
def _greatest(element: greater, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    return f"greatest({compiler.process(element.clauses, **more)})"
