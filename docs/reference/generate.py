"""The reference pages; `python docs/reference/generate.py FOLDER` writes them into a folder.

`PAGES` is the table: a file name and the function that generates it.
"""

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.main
from commonbrain_server.settings import ServerSettings, TokenSettings
from pydantic.fields import FieldInfo
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from commonbrain.api.errors import ERRORS
from commonbrain.api.operations import (
    OPERATIONS,
    Operation,
    OperationRow,
    Transport,
    load_operations,
)
from commonbrain.api.schemas import compact_schema
from commonbrain.cli.main import app
from commonbrain.config import EnvironmentSettings, Settings
from commonbrain.model import limits
from commonbrain.model.kinds import ALIASES, KINDS


def table(heads: str, rows: Iterable[Iterable[object]]) -> str:
    """Render a Markdown table; bars separate the `heads`."""
    cells = [heads.split("|"), ["---"] * (heads.count("|") + 1), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in cells)


def code(names: Iterable[str]) -> str:
    """List names as code; "none" if there are none."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def yes_or_no(is_so: bool) -> str:  # noqa: FBT001 it is the value shown
    """Return `yes` or `no`."""
    return "yes" if is_so else "no"


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


_HOUR: Final = timedelta(hours=1)
_ON_DUPLICATE: Final = {
    "refuse": "refused",
    "warn": "stored with a warning",
    "recur": "stored",
    "keep": "stored",
}
_BOUNDS: Final = {
    "minimum": "from {}",
    "exclusiveMinimum": "above {}",
    "maximum": "to {}",
    "maxLength": "of at most {} characters",
}


def kinds_page() -> str:
    """Document every kind: lifecycle, columns and accepted names."""
    lifecycle = table(
        "kind|one statement only|a duplicate is|half-life|archived after|salience|pruned|columns",
        (
            (
                f"`{policy.kind}`",
                yes_or_no(policy.is_atomic),
                _ON_DUPLICATE[policy.on_duplicate],
                _span(policy.half_life),
                _span(policy.archived_after),
                policy.salience,
                yes_or_no(policy.is_pruned),
                code(policy.columns),
            )
            for policy in KINDS.values()
        ),
    )
    aliases = table(
        "name|kind|a filter by it matches",
        (
            (
                f"`{name}`",
                f"`{kind}`",
                "all of the kind" if name in KINDS[kind].synonyms else "those with this label",
            )
            for name, kind in sorted(ALIASES.items())
        ),
    )
    return (
        f"# Kinds\n\n{lifecycle}\n\n"
        f"## Aliases\n\nAccepted as a kind; kept as the label.\n\n{aliases}"
    )


def settings_page() -> str:
    """Document every setting: environment variable, default and bounds."""
    return (
        f"# Settings\n\n{_settings(Settings)}\n\n"
        f"## Of the shared server\n\nOptions of `brain serve` go before them.\n\n"
        f"{_settings(ServerSettings)}\n\n"
        f"## Of tokens and logins at a shared server\n\n{_settings(TokenSettings)}"
    )


def _settings(model: type[EnvironmentSettings]) -> str:
    schema, prefix = model.model_json_schema()["properties"], model.prefix
    rows = (
        (f"`{prefix}{name.upper()}`", _default(field), _bounds(schema[name]), field.description)
        for name, field in model.model_fields.items()
    )
    return table("variable|default|allowed|what it does", rows)


def errors_page() -> str:
    """Document every error: default code, exit code, HTTP status and meaning."""
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
    return f"# Errors\n\n{table('error|code|exit code|HTTP status|meaning', rows)}"


def limits_page() -> str:
    """Document every limit with the docstring below it."""
    rows = (
        (f"`{name}`", f"{getattr(limits, name):,}", meaning) for name, meaning in limit_meanings()
    )
    return f"# Limits\n\n{table('limit|value|meaning', rows)}"


def limit_meanings() -> list[tuple[str, str]]:
    """Return each limit's name and the docstring below it; empty without one."""
    body = ast.parse(inspect.getsource(limits)).body
    return [
        (statement.target.id, _docstring(below))
        for statement, below in zip(body, [*body[1:], None], strict=True)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(getattr(limits, statement.target.id, None), int | float)
    ]


def _span(span: timedelta | None) -> str:
    if span is None:
        return "never"
    return f"{span.days} days" if span > timedelta(days=2) else f"{span / _HOUR:.0f} hours"


def _default(field: FieldInfo) -> str:
    # The default depends on the machine and its user; the page must not.
    if field.default_factory is not None:
        return "`brain.db` in the user's data folder"
    return "not set" if field.default is None else f"`{field.default}`"


def _bounds(schema: dict[str, Any]) -> str:
    """Describe the bounds of a setting, from its schema."""
    choices: list[dict[str, Any]] = schema.get("anyOf") or [{}]
    allowed = schema | choices[0]
    if "enum" in allowed:
        return code(allowed["enum"])
    constraints = (_BOUNDS[name].format(allowed[name]) for name in _BOUNDS if name in allowed)
    return " ".join([str(allowed.get("format") or allowed["type"]), *constraints])


def _first_line(of: type) -> str:
    return (inspect.getdoc(of) or "").partition("\n")[0]


def _docstring(statement: ast.stmt | None) -> str:
    match statement:
        case ast.Expr(value=ast.Constant(value=str() as text)):
            return text
        case _:
            return ""


_Schema = Mapping[str, Any]
_PATHS: Final = (
    ("`GET /v1/memories/{id}`", "`get` of one memory; an `ETag` that `If-None-Match` may repeat"),
    ("`POST /v1/import?format=`", "takes a file or zip as `application/octet-stream`; gives a job"),
    ("`GET /v1/exports/{id}`", "what a job of kind `export` wrote, for a day"),
    ("`POST /v0/memory/{remember,recall,reflect,train}`", "with the bodies of Brainstem"),
    ("`GET /v0/memory/{id}`, `DELETE /v0/memory/{id}`", "inspects, forgets; `?reason=` is stored"),
    ("`POST /mcp`", "MCP over streamable HTTP; a connection is a session"),
    ("`GET /healthz`", "200 while the process lives"),
    ("`GET /readyz`", "200 when store and embedder answer, else 503"),
    ("`GET /openapi.json`", "the description"),
)
_HEADERS: Final = (
    ("`Authorization: Bearer ...` or `X-API-Key`", "who calls: tenant, agent and role"),
    ("`Commonbrain-Session`", "which of the agent's sessions calls; else one per client's name"),
    ("`Idempotency-Key`", "of `remember`: the same key stores once"),
    ("`If-None-Match`", "of `GET /v1/memories/{id}`: 304 where nothing changed"),
)


def operations_page() -> str:
    """Document every operation: purpose, transports, request and reply."""
    sections = "\n".join(_operation(row) for row in OPERATIONS)
    return f"# Operations\n\nThe same on every transport.\n\n{sections}"


def commands_page() -> str:
    """Document every command with its arguments and options."""
    brain = typer.main.get_command(app)
    if not isinstance(brain, TyperGroup):
        raise TypeError("The command line has become a single command.")
    sections = (
        f"\n## {name}\n\n{command.help}\n\n{_parameters(command.params)}\n"
        for name, command in _commands(brain, "brain")
    )
    return (
        f"# Commands\n\nOptions that stand before the command:\n\n"
        f"{_parameters(brain.params)}\n{''.join(sections)}"
    )


def rest_page() -> str:
    """Document every path of the shared server."""
    table_rows = (
        (f"`POST /v1/{one.name}`", f"`{one.role}`", one.purpose)
        for one in load_operations()
        if Transport.REST in one.transports
    )
    return (
        "# REST\n\nThe body of a request and of a reply is that of the operation, in JSON; "
        "`GET /openapi.json` describes both. "
        "An error is `application/problem+json` with `code`, `detail` and `hint`.\n\n"
        f"{table('path|takes the role|what it does', table_rows)}\n\n"
        f"## Further paths\n\n{table('path|what it does', _PATHS)}\n\n"
        f"## Headers of a request\n\n{table('header|what it says', _HEADERS)}"
    )


def _commands(group: TyperGroup, name: str) -> Iterator[tuple[str, TyperCommand]]:
    """Return every command with its full name; a group is replaced by its commands."""
    context = typer.Context(group, info_name=name)
    for own in group.list_commands(context):
        command = group.get_command(context, own)
        if isinstance(command, TyperGroup):
            yield from _commands(command, f"{name} {own}")
        elif isinstance(command, TyperCommand):
            yield f"{name} {own}", command


def _operation(row: OperationRow) -> str:
    operation = row.load()
    transports = ", ".join(sorted(operation.transports))
    usage = _usage(row)
    reply = operation.reply_adapter.json_schema(mode="serialization")
    shapes = (_shape(name, shape) for name, shape in sorted(reply.get("$defs", {}).items()))
    return (
        f"## {operation.name}\n\n{operation.purpose}\n\n"
        f"Transports: {transports}, library. Command: {usage}. Role: {operation.role}.\n\n"
        f"### {operation.name}: request\n\n{_request(operation)}\n\n"
        f"### {operation.name}: reply\n\n{_reply(reply)}\n{''.join(shapes)}"
    )


def _usage(row: OperationRow) -> str:
    """List the commands of an operation with their arguments."""
    operation = row.load()
    positional = {one.name: one.positional for one in operation.commands}
    return code(
        " ".join([f"brain {name}", *map(str.upper, positional.get(name, operation.positional))])
        for name in row.commands
    )


def _request(operation: Operation[Any, Any]) -> str:
    """Render the arguments as a table."""
    schema = compact_schema(operation.request, is_whole=True)
    required = schema.get("required", ())
    fields = operation.request.model_fields
    rows = [
        (f"`{name}`", _type(field), yes_or_no(name in required), fields[name].description or "")
        for name, field in schema["properties"].items()
    ]
    return table("field|type|required|meaning", rows) if rows else "Nothing needs to be said."


def _reply(schema: _Schema) -> str:
    """Render the reply as a table; every field is always present."""
    rows = ((f"`{name}`", _type(field)) for name, field in schema["properties"].items())
    return table("field|type", rows)


def _shape(name: str, schema: _Schema) -> str:
    """Describe a type of a reply: an object, or a choice of words."""
    if "enum" in schema:
        return f"\n`{name}` is one of {code(schema['enum'])}.\n"
    return f"\nEach `{name}`:\n\n{_reply(schema)}\n"


def _type(field: _Schema) -> str:
    """Describe a JSON type in words; types defined elsewhere by name."""
    if "$ref" in field:
        return f"`{field['$ref'].rpartition('/')[2]}`"
    if "anyOf" in field:
        return " or ".join(_type(choice) for choice in field["anyOf"])
    if "const" in field:
        return f"`{field['const']}`"
    items = field.get("items")
    name = str(field.get("format") or field.get("type", "any"))
    return f"list of {_type(items)}" if items else name


def _parameters(parameters: Iterable[object]) -> str:
    """Render arguments and options as a table, without those for shell completion."""
    rows = [
        (_name(one), yes_or_no(one.required), one.help or "")
        for one in parameters
        if isinstance(one, TyperArgument | TyperOption) and not one.opts[0].endswith("-completion")
    ]
    return table("argument or option|required|meaning", rows) if rows else "It takes nothing."


def _name(one: TyperArgument | TyperOption) -> str:
    if isinstance(one, TyperArgument):
        return f"`{(one.name or '').upper()}`"
    variable = f" or `{one.envvar}`" if one.envvar else ""
    return f"`{one.opts[0]}`{variable}{', any number of times' if one.multiple else ''}"


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "operations.md": operations_page,
    "commands.md": commands_page,
    "rest.md": rest_page,
    "kinds.md": kinds_page,
    "settings.md": settings_page,
    "errors.md": errors_page,
    "limits.md": limits_page,
}


def write(folder: Annotated[Path, typer.Argument(help="Where the pages go.")]) -> None:
    """Write every page of the reference into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, render in PAGES.items():
        (folder / name).write_text(render() + "\n", encoding="utf-8")
        typer.echo(folder / name)


if __name__ == "__main__":
    typer.run(write)
