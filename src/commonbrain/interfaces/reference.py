"""The reference, drawn from the tables: what can be called, stored, set, bounded and go wrong.

`PAGES` is the table: a file name and the function that writes it. The pages are never edited or
kept: `python -m commonbrain.interfaces.reference FOLDER` writes them anew.
"""

import ast
import inspect
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic.fields import FieldInfo

from commonbrain.domain import limits
from commonbrain.domain.kinds import ALIASES, KINDS
from commonbrain.interfaces.errors import ERRORS
from commonbrain.interfaces.operations import OPERATIONS, Operation
from commonbrain.interfaces.schemas import lean_schema
from commonbrain.settings import Settings

_Schema = Mapping[str, Any]
_HOUR: Final = timedelta(hours=1)


def operations_page() -> str:
    """Tell of every operation: its purpose, its doors, its request and its reply."""
    sections = "\n".join(_operation(operation) for operation in OPERATIONS)
    return f"# Operations\n\nThe same at every door.\n\n{sections}"


def kinds_page() -> str:
    """Tell of every kind: its lifecycle, its own columns, and the names accepted for it."""
    lifecycle = _table(
        "kind|one statement only|a duplicate is|half-life|archived after|salience|pruned|columns",
        (
            (
                f"`{policy.kind}`",
                _yes(policy.is_atomic),
                _ON_DUPLICATE[policy.on_duplicate],
                _span(policy.half_life),
                _span(policy.archived_after),
                policy.salience,
                _yes(policy.is_pruned),
                _code(policy.columns),
            )
            for policy in KINDS.values()
        ),
    )
    aliases = _table(
        "name|kind", ((f"`{name}`", f"`{kind}`") for name, kind in sorted(ALIASES.items()))
    )
    return (
        f"# Kinds\n\n{lifecycle}\n\n"
        f"## Aliases\n\nAccepted as a kind; kept as the label.\n\n{aliases}"
    )


def settings_page() -> str:
    """Tell of every setting: its environment variable, default and bounds."""
    rows = (
        (f"`COMMONBRAIN_{name.upper()}`", _default(field), _bounds(name), field.description)
        for name, field in Settings.model_fields.items()
    )
    return f"# Settings\n\n{_table('variable|default|allowed|what it does', rows)}"


def errors_page() -> str:
    """Tell of every error: its default code, exit code, HTTP status and meaning."""
    rows = (
        (
            f"`{fault.error.__name__}`",
            f"`{fault.error.default_code}`",
            fault.exit_code,
            fault.http_status,
            _first_line(fault.error),
        )
        for fault in ERRORS
    )
    return f"# Errors\n\n{_table('error|code|exit code|HTTP status|meaning', rows)}"


def limits_page() -> str:
    """Tell of every limit, with what its module says of it."""
    rows = (
        (f"`{name}`", f"{getattr(limits, name):,}", meaning) for name, meaning in limit_meanings()
    )
    return f"# Limits\n\n{_table('limit|value|meaning', rows)}"


def limit_meanings() -> list[tuple[str, str]]:
    """Read each limit's name and the docstring below it, empty where it has none."""
    body = ast.parse(inspect.getsource(limits)).body
    return [
        (statement.target.id, _docstring(below))
        for statement, below in zip(body, [*body[1:], None], strict=True)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name)
    ]


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "operations.md": operations_page,
    "kinds.md": kinds_page,
    "settings.md": settings_page,
    "errors.md": errors_page,
    "limits.md": limits_page,
}


def write(folder: Annotated[Path, typer.Argument(help="Where the pages go.")]) -> None:
    """Write every page of the reference into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in PAGES.items():
        (folder / name).write_text(draw() + "\n", encoding="utf-8")
        typer.echo(folder / name)


_ON_DUPLICATE: Final = {
    "refuse": "refused",
    "warn": "stored with a warning",
    "recur": "stored",
    "keep": "stored",
}


def _operation(operation: Operation[Any, Any]) -> str:
    doors = ", ".join(sorted(operation.doors))
    usage = " ".join(["brain", operation.name, *map(str.upper, operation.positional)])
    reply = operation.replies.json_schema(mode="serialization")
    shapes = (_shape(name, shape) for name, shape in sorted(reply.get("$defs", {}).items()))
    return (
        f"## {operation.name}\n\n{operation.purpose}\n\n"
        f"Doors: {doors}, library. Command: `{usage}`. Role: {operation.role}.\n\n"
        f"### {operation.name}: request\n\n{_request(lean_schema(operation.request))}\n\n"
        f"### {operation.name}: reply\n\n{_reply(reply)}\n{''.join(shapes)}"
    )


def _request(schema: _Schema) -> str:
    """Write what a caller gives as a table."""
    required = schema.get("required", ())
    rows = [
        (f"`{name}`", _type(field), _yes(name in required), field.get("description", ""))
        for name, field in schema["properties"].items()
    ]
    return _table("field|type|required|meaning", rows) if rows else "Nothing needs to be said."


def _reply(schema: _Schema) -> str:
    """Write what comes back as a table; every field is always there."""
    rows = ((f"`{name}`", _type(field)) for name, field in schema["properties"].items())
    return _table("field|type", rows)


def _shape(name: str, schema: _Schema) -> str:
    """Write what a name in a reply stands for: an object, or one word of several."""
    if "enum" in schema:
        return f"\n`{name}` is one of {_code(schema['enum'])}.\n"
    return f"\nEach `{name}`:\n\n{_reply(schema)}\n"


def _type(field: _Schema) -> str:
    """Name a JSON type in words; what is defined elsewhere goes by its name."""
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"])
    if "const" in field:
        return f"`{field['const']}`"
    items = field.get("items")
    name = str(field.get("format") or field.get("type", "any"))
    return f"list of {_type(items)}" if items else name


def _default(field: FieldInfo) -> str:
    # The place depends on the machine and its user; the page must not.
    if field.default_factory is not None:
        return "`brain.db` in the user's data folder"
    return "not set" if field.default is None else f"`{field.default}`"


def _bounds(setting: str) -> str:
    """Say what a setting may be, as its schema says it."""
    schema: dict[str, Any] = Settings.model_json_schema()["properties"][setting]
    choices: list[dict[str, Any]] = schema.get("anyOf") or [{}]
    known = schema | choices[0]
    if "enum" in known:
        return _code(known["enum"])
    said = (_BOUNDS[name].format(known[name]) for name in _BOUNDS if name in known)
    return " ".join([str(known.get("format") or known["type"]), *said])


_BOUNDS: Final = {
    "minimum": "from {}",
    "exclusiveMinimum": "above {}",
    "maximum": "to {}",
    "maxLength": "of at most {} characters",
}


def _table(heads: str, rows: Iterable[Iterable[object]]) -> str:
    """Write a Markdown table; `heads` are parted by bars."""
    cells = [heads.split("|"), ["---"] * (heads.count("|") + 1), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in cells)


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "none"


def _yes(is_so: bool) -> str:  # noqa: FBT001 it is the value shown
    return "yes" if is_so else "no"


def _span(span: timedelta | None) -> str:
    if span is None:
        return "never"
    return f"{span.days} days" if span > timedelta(days=2) else f"{span / _HOUR:.0f} hours"


def _first_line(of: type) -> str:
    return (inspect.getdoc(of) or "").partition("\n")[0]


def _docstring(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return text
        case _:
            return ""


if __name__ == "__main__":
    typer.run(write)
