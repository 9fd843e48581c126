"""Commands drawn from the operations: a request's fields become arguments and options."""

import inspect
import json
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from commonbrain.domain.errors import Invalid
from commonbrain.domain.inert import escaped
from commonbrain.domain.limits import TEXT_BYTES_MAX
from commonbrain.interfaces.cli.state import State
from commonbrain.interfaces.operations import Operation

# A list is given by repeating its option, which reads better in the singular.
_SINGULAR: Final = {
    "tags": "tag",
    "kinds": "kind",
    "labels": "label",
    "states": "state",
    "views": "view",
}
_FROM_STDIN: Final = "-"

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def draw(operation: Operation[Any, Any]) -> Callable[..., None]:
    """Make the command of one operation: parse, run, show, and exit by what became of it."""

    def command(context: typer.Context, /, *, as_json: bool, **given: Any) -> None:  # noqa: ANN401
        state: State = context.obj
        request = _request(operation, given)
        with state.open() as brain:
            reply = operation.handle(brain, request)
        if as_json:
            typer.echo(escaped(json.dumps(operation.to_json(reply), ensure_ascii=False)))
        else:
            # Tables and colours take longer to load than a program waits for JSON.
            from commonbrain.interfaces.cli.render import show  # noqa: PLC0415

            show(operation, reply)
        raise typer.Exit(operation.exit_code(reply))

    parameters = [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *_parameters(operation),
        inspect.Parameter(
            "as_json", inspect.Parameter.KEYWORD_ONLY, annotation=Json, default=False
        ),
    ]

    def adapted(**given: Any) -> None:  # noqa: ANN401 the signature below types it
        command(given.pop("context"), **given)

    adapted.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    adapted.__doc__ = operation.purpose
    adapted.__name__ = operation.name
    return adapted


def _parameters(operation: Operation[Any, Any]) -> list[inspect.Parameter]:
    fields = operation.request.model_fields
    named = [name for name in fields if name not in operation.positional]
    return [
        _parameter(name, fields[name], is_positional=name in operation.positional)
        for name in (*operation.positional, *named)
    ]


def _parameter(name: str, field: FieldInfo, *, is_positional: bool) -> inspect.Parameter:
    help_ = field.description
    required = field.is_required()
    if is_positional:
        how: object = typer.Argument(help=help_)
    else:
        how = typer.Option(f"--{_SINGULAR.get(name, name).replace('_', '-')}", help=help_)
    type_ = _plain(field.annotation)
    default = inspect.Parameter.empty if required else _default(field)
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[type_, how], default=default
    )


def _plain(annotation: Any) -> Any:  # noqa: ANN401 annotations are of any sort
    """Give the type the command line reads; the request itself judges the value."""
    if get_origin(annotation) is list:
        return list[str]
    if annotation in {int, float, bool}:
        return annotation
    is_optional = type(None) in get_args(annotation)
    return str | None if is_optional else str


def _default(field: FieldInfo) -> Any:  # noqa: ANN401 defaults are of any sort
    return field.get_default(call_default_factory=True)


def _request(operation: Operation[Any, Any], given: dict[str, Any]) -> Any:  # noqa: ANN401
    """Check what was typed.

    Raises:
        Invalid: a value is malformed; the message names its option.

    """
    if given.get("text") == _FROM_STDIN:
        # One byte more than the gate allows, so that it sees what is too long without reading on.
        given["text"] = sys.stdin.buffer.read(TEXT_BYTES_MAX + 1).decode("utf-8", "replace")
    try:
        return operation.request.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = str(first["loc"][0]) if first["loc"] else "arguments"
        option = name if name in operation.positional else f"--{_SINGULAR.get(name, name)}"
        raise Invalid(
            f"{option.replace('_', '-')}: {first['msg']}.",
            hint=f"See brain {operation.name} --help.",
        ) from error
