"""How Postgres writes the functions and lists of the shared queries."""

from collections.abc import Iterable
from typing import Any, Final

from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler

from commonbrain.storage.repositories.memory_rows import json_list
from commonbrain.storage.sql.statements import ListForm, greatest, unnest


@compiles(unnest, "postgresql")
def unnest_array(element: unnest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    """Compile the members of a list."""
    return f"(SELECT unnest({compiler.process(element.clauses, **more)}) AS value)"


@compiles(greatest, "postgresql")
def compile_greatest(element: greatest, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    """Compile the greater of two numbers."""
    return f"greatest({compiler.process(element.clauses, **more)})"


@compiles(json_list, "postgresql")
def build_json_array(element: json_list, compiler: SQLCompiler, **more: Any) -> str:  # noqa: ANN401
    """Compile values as a JSON list."""
    return f"json_build_array({compiler.process(element.clauses, **more)})::text"


def array_of(value: Iterable[int] | None) -> str | None:
    """Write ids as an array literal.

    The driver takes six times as long to convert each, and one recall runs ten statements with 40
    to 120 ids.
    """
    return None if value is None else f"{{{','.join(map(str, map(int, value)))}}}"


ARRAYS: Final = ListForm(type_of=lambda of: ARRAY(of()), write_ids=array_of)
