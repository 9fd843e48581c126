"""The reference pages, and the command that writes them into a folder.

`PAGES` is the table: a file name and the function that generates it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer
import typer.main
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from commonbrain.api.operations import (
    OPERATIONS,
    OperationRow,
    Transport,
    load_operations,
)
from commonbrain.api.schemas import compact_schema
from commonbrain.cli.main import app
from commonbrain.cli.reference.tables import (
    code,
    errors_page,
    kinds_page,
    limits_page,
    settings_page,
    table,
    yes_or_no,
)

_Schema = Mapping[str, Any]
_PATHS: Final = (
    ("`GET /v1/memories/{id}`", "`get` of one memory; an `ETag` that `If-None-Match` may repeat"),
    ("`POST /v1/import?format=`", "takes a file as its body, or a folder as a zip; gives the job"),
    ("`GET /v1/exports/{id}`", "what a job of kind `export` wrote, for a day"),
    ("`POST /v0/memory/{remember,recall,reflect}`", "the same as under `/v1`"),
    ("`GET /v0/memory/{id}`, `DELETE /v0/memory/{id}`", "`get`, `forget`; `?reason=` is kept"),
    ("`POST /mcp`", "MCP over streamable HTTP, without sessions of its own"),
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
    request = compact_schema(operation.request, shows_all=True)
    usage = _usage(row)
    reply = operation.reply_adapter.json_schema(mode="serialization")
    shapes = (_shape(name, shape) for name, shape in sorted(reply.get("$defs", {}).items()))
    return (
        f"## {operation.name}\n\n{operation.purpose}\n\n"
        f"Transports: {transports}, library. Command: {usage}. Role: {operation.role}.\n\n"
        f"### {operation.name}: request\n\n{_request(request)}\n\n"
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


def _request(schema: _Schema) -> str:
    """Render the arguments as a table."""
    required = schema.get("required", ())
    rows = [
        (f"`{name}`", _type(field), yes_or_no(name in required), field.get("description", ""))
        for name, field in _flat_properties(schema["properties"])
    ]
    return table("field|type|required|meaning", rows) if rows else "Nothing needs to be said."


def _flat_properties(properties: _Schema) -> Iterator[tuple[str, _Schema]]:
    """Return each property; a nested one as `details.priority`."""
    for name, field in properties.items():
        yield name, field
        for part, one in field.get("properties", {}).items():
            yield f"{name}.{part}", one


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
