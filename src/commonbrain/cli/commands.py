"""Commands made from the operations: a request's fields become arguments and options."""

import inspect
import json
import sys
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, Literal, NoReturn, cast, get_args, get_origin

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from commonbrain.api.dispatch import check_person
from commonbrain.api.errors import EXIT_REFUSED
from commonbrain.api.operations import Command, Operation
from commonbrain.cli.context import GlobalOptions, open_brain_for
from commonbrain.cli.output import STREAMS, Output
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import CausalField, Kind, Severity
from commonbrain.model.limits import ITEMS_PER_CALL_MAX, RAW_TEXT_BYTES_MAX
from commonbrain.model.scope import Scope, Trust

Complete = Callable[[str], list[str]]
"""Takes the beginning of a word and returns its completions, as Typer expects."""


def complete_from(names: Callable[[], Iterable[str]]) -> Complete:
    """Return a completion whose names are computed when the shell asks."""

    def complete(incomplete: str) -> list[str]:
        return [str(name) for name in names() if name.startswith(incomplete)]

    return complete


def clients() -> Iterable[str]:
    """Names of the clients that can be connected."""
    # Imported when a shell asks for completions, so that no command waits for it.
    from commonbrain.integrations import CLIENTS  # noqa: PLC0415

    return CLIENTS


def client_scopes() -> Iterable[str]:
    """Names of the scopes of all clients."""
    from commonbrain.integrations import CLIENTS  # noqa: PLC0415 see clients

    return dict.fromkeys(scope for client in CLIENTS.values() for scope in client.scopes)


def formats() -> Iterable[str]:
    """Names of the formats that can be imported."""
    from commonbrain.transfer.importers import InstalledImporters  # noqa: PLC0415 see clients
    from commonbrain.transfer.merge import OWN_FORMAT  # noqa: PLC0415 see clients

    return [*InstalledImporters(), OWN_FORMAT]


CHOICES: Final[Mapping[str, Complete]] = {
    "field": complete_from(lambda: CausalField),
    "kind": complete_from(lambda: Kind),
    "kinds": complete_from(lambda: Kind),
    "scope": complete_from(lambda: Scope),
    "severity": complete_from(lambda: Severity),
    "trust": complete_from(lambda: Trust),
}
"""By the name of a request's field."""


_BYTES_MAX: Final = 64 * 1024 * 1024
"""Of a file; some 100,000 notes."""
_HINT: Final = 'Give one JSON object a line, such as {"text": "...", "kind": "fact"}.'


def read_objects(file: Path) -> list[dict[str, Any]]:
    """Parse every line of a file, or of stdin for `-`, as a JSON object.

    Raises:
        InvalidInputError: the file cannot be read, is too large, or a line is no JSON object.

    """
    raw = _read(file)
    if len(raw) > _BYTES_MAX:
        raise InvalidInputError(
            f"The file has over {_BYTES_MAX:,} bytes.", hint="Send it in parts, or import it."
        )
    return list(_parse_objects(_decode(raw).split("\n")))


def _decode(raw: bytes) -> str:
    """Decode UTF-16 that begins with a byte-order mark, else UTF-8; replace wrong bytes."""
    is_wide = raw.startswith((BOM_UTF16_LE, BOM_UTF16_BE))
    return raw.decode("utf-16" if is_wide else "utf-8-sig", "replace")


def _read(file: Path) -> bytes:
    if str(file) == "-":
        return sys.stdin.buffer.read(_BYTES_MAX + 1)
    try:
        with file.open("rb") as opened:
            return opened.read(_BYTES_MAX + 1)
    except OSError as error:
        raise InvalidInputError(f"{file} cannot be read: {error.strerror}.", hint=_HINT) from error


def _parse_objects(lines: list[str]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise InvalidInputError(f"Line {number} is no JSON object.", hint=_HINT)
        yield cast("dict[str, Any]", value)


# A list is given by repeating its option, which reads better in the singular.
SINGULAR: Final = {
    "tags": "tag",
    "cites": "cite",
    "kinds": "kind",
    "labels": "label",
    "keywords": "keyword",
    "skill_projects": "skill-project",
    "states": "state",
    "views": "view",
    "next_steps": "next",
    "blockers": "blocker",
    "scopes": "scope",
    "networks": "network",
    "given": "arg",
}
FROM_STDIN: Final = "-"
_PART_BYTES: Final = 64 * 1024
"""Of a stream that is read to its end, at once."""
_READ_BYTES_MAX: Final = 1024 * 1024 * 1024
"""Of such a stream, which takes half a second; longer ones may have no end."""

File = Annotated[Path | None, typer.Option("--file", help="A file with one JSON object per line.")]
Yes = Annotated[bool, typer.Option("--yes", help="Skip the confirmation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Csv = Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")]
Wait = Annotated[bool, typer.Option("--wait", help="Wait for the job, with a progress bar.")]

_FLAGS: Final = (("as_json", Json), ("yes", Yes))


def build_command(
    operation: Operation[Any, Any], subcommand: Command | None = None
) -> Callable[..., None]:
    """Build the command of one operation: parse, run, print, and exit with the reply's code."""
    name = subcommand.name if subcommand else operation.name

    def command(
        context: typer.Context,
        /,
        *,
        as_json: bool,
        as_csv: bool = False,
        yes: bool = False,
        wait: bool = False,
        file: Path | None = None,
        **options: Any,  # noqa: ANN401
    ) -> None:
        state: GlobalOptions = context.obj
        preset = dict(subcommand.preset) if subcommand else {}
        rest: Sequence[Any] = ()
        if file is not None:
            request, *rest = _batch_requests(operation, options, file=file, command=name)
        else:
            request = _request(operation, options | preset, command=name)
        with open_brain_for(state, operation, request=request) as (brain, call):
            check_person(operation, brain, request=request)
            if not (as_json or yes) and state.output.is_interactive:
                _confirm_preview(operation, request, brain=brain)
            reply = (
                operation.handle(brain, request)
                if as_json
                else _run_with_progress(operation, request, brain=brain)
            )
            expected = operation.expected_confirm(reply)
            if expected and (
                yes
                or (
                    not as_json
                    and state.output.is_interactive
                    and _confirm_count(operation, reply, expected=expected)
                )
            ):
                confirmed = request.model_copy(update={"confirm": expected})
                reply = operation.handle(brain, confirmed)
            if wait:
                # The worker is loaded only to wait for a job.
                from commonbrain.cli.worker import follow_job  # noqa: PLC0415

                reply = follow_job(brain, reply, is_shown=not as_json)
            replies = [reply, *(operation.handle(brain, one) for one in rest)]
            call.record_reply(operation, replies[-1])
        if as_csv and operation.to_csv:
            state.output.print_text(operation.to_csv(reply))
            raise typer.Exit(operation.exit_code(reply))
        _print_and_exit(operation, replies, output=state.output, as_json=as_json)

    def typer_command(**options: Any) -> None:  # noqa: ANN401 the signature below types it
        command(options.pop("typer_context"), **options)

    typer_command.__signature__ = inspect.Signature(_signature(operation, subcommand))  # type: ignore[attr-defined]
    typer_command.__doc__ = subcommand.purpose if subcommand else operation.purpose
    typer_command.__name__ = name
    return typer_command


def _signature(
    operation: Operation[Any, Any], subcommand: Command | None
) -> list[inspect.Parameter]:
    needs_confirmation = (
        subcommand.needs_confirmation if subcommand else operation.preview is not None
    )
    needs_yes = "confirm" in operation.request.model_fields or needs_confirmation
    named = _FLAGS if needs_yes else _FLAGS[:1]
    named += (("wait", Wait),) if subcommand and subcommand.is_awaited else ()
    named += (("as_csv", Csv),) if operation.to_csv else ()
    file_parameter = inspect.Parameter(
        "file", inspect.Parameter.KEYWORD_ONLY, annotation=File, default=None
    )
    return [
        inspect.Parameter(
            "typer_context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context
        ),
        *_parameters(operation, subcommand),
        *([file_parameter] if _takes_file(operation, subcommand) else []),
        *(
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=how, default=False)
            for name, how in named
        ),
    ]


def _print_and_exit(
    operation: Operation[Any, Any],
    replies: Sequence[Any],
    *,
    output: Output,
    as_json: bool,
) -> NoReturn:
    """Print a reply, or those to the parts of a file as one, and exit with the worst code."""
    if as_json:
        shown, *more = map(operation.to_json, replies)
        for one in more:
            shown[str(operation.batch_field)] += one[str(operation.batch_field)]
        output.print_json(shown)
    else:
        for reply in replies:
            _show(operation, reply, output=output)
    raise typer.Exit(max(map(operation.exit_code, replies)))


def _batch_requests(
    operation: Operation[Any, Any], options: dict[str, Any], *, file: Path, command: str
) -> Sequence[Any]:
    """Build the requests for the objects of a file, each for as many as one call takes.

    The other options apply to each object; an idempotency key gets the place of its first object.
    """
    if any(options.get(name) for name in operation.positional):
        raise InvalidInputError(
            "Give a text or a file, not both.", hint=f"See brain {command} --help."
        )
    fields = operation.request.model_fields
    shared = {
        name: value
        for name, value in options.items()
        if value not in (None, _default(fields[name]))
    }
    objects = read_objects(file)
    requests: list[Any] = []
    for first in range(0, max(len(objects), 1), ITEMS_PER_CALL_MAX):
        items: dict[str, Any] = {
            str(operation.batch_field): objects[first : first + ITEMS_PER_CALL_MAX]
        }
        if first and (key := shared.get("idempotency_key")):
            items["idempotency_key"] = f"{key}-{first}"
        requests.append(_validate(operation, shared | items, command=command))
    return requests


def _run_with_progress(operation: Operation[Any, Any], request: Any, *, brain: Brain) -> Any:  # noqa: ANN401
    """Run an operation, with a progress bar if it may take long."""
    handle: Any = operation.handle
    if not operation.has_progress:
        return handle(brain, request)
    # Progress bars take long to load, as tables do.
    from commonbrain.cli.terminal import progress_bar  # noqa: PLC0415

    with progress_bar(operation.name, is_shown=True) as move:
        return handle(brain, request, on_progress=move)


def _show(operation: Operation[Any, Any], reply: Any, *, output: Output = STREAMS) -> None:  # noqa: ANN401
    from commonbrain.cli.terminal import print_reply  # noqa: PLC0415 with `--json` it is not needed

    print_reply(operation, reply, console=output.console())


def _confirm_count(operation: Operation[Any, Any], reply: Any, *, expected: int) -> bool:  # noqa: ANN401
    """Show a preview and ask for confirmation."""
    _show(operation, reply)
    return typer.confirm(f"Go on with these {expected}?")


def _confirm_preview(operation: Operation[Any, Any], request: Any, *, brain: Brain) -> None:  # noqa: ANN401
    """Show the consequences of a far-reaching change, and ask for confirmation."""
    preview = operation.preview(brain, request) if operation.preview else None
    if preview is None:
        return
    _show(operation, preview)
    if not typer.confirm("Go on?"):
        raise typer.Exit(EXIT_REFUSED)


def _parameters(
    operation: Operation[Any, Any], subcommand: Command | None
) -> list[inspect.Parameter]:
    fields = operation.request.model_fields
    taken = operation.fields_of(subcommand)
    order = (subcommand and subcommand.positional) or operation.positional
    positional = [name for name in order if name in taken]
    options = [name for name in taken if name not in positional]
    accepts_file = _takes_file(operation, subcommand)
    required = subcommand.required if subcommand else ()
    mandatory = {name for name in taken if operation.is_mandatory(name) or name in required}
    single = subcommand.single if subcommand else ()
    return [
        _as_single(parameter) if parameter.name in single else parameter
        for parameter in (
            _parameter(
                name,
                fields[name],
                is_positional=name in positional,
                is_mandatory=name in mandatory,
                is_replaced_by_file=accepts_file,
            )
            for name in (*positional, *options)
        )
    ]


def _as_single(parameter: inspect.Parameter) -> inspect.Parameter:
    """Accept a single value for a list field."""
    _, annotation = get_args(parameter.annotation)
    return parameter.replace(annotation=Annotated[str, annotation])


def _takes_file(operation: Operation[Any, Any], subcommand: Command | None) -> bool:
    """Return whether a command accepts a file of requests; one with preset fields does not."""
    return operation.batch_field is not None and subcommand is None


def _parameter(
    name: str,
    field: FieldInfo,
    *,
    is_positional: bool,
    is_mandatory: bool,
    is_replaced_by_file: bool,
) -> inspect.Parameter:
    """Build one parameter; `is_spared` if a file may replace the required ones."""
    help_ = _help(field)
    required = is_mandatory and not is_replaced_by_file
    words = _literal_values(field.annotation)
    completion = CHOICES.get(name) or (complete_from(lambda: words) if words else None)
    if is_positional:
        annotation: object = typer.Argument(help=help_, autocompletion=completion)
    else:
        option = f"--{SINGULAR.get(name, name).replace('_', '-')}"
        shape = "NAME=VALUE" if get_origin(field.annotation) is dict else None
        annotation = typer.Option(option, help=help_, autocompletion=completion, metavar=shape)
    type_ = _cli_type(field.annotation)
    default = inspect.Parameter.empty if required else _default(field)
    if required and type(None) in get_args(type_):
        type_ = str
    if is_replaced_by_file and is_mandatory:
        type_, default = type_ | None, None
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        annotation=Annotated[type_, annotation],
        default=default,
    )


def _help(field: FieldInfo) -> str | None:
    """Describe a field, with its choices, which a schema would list by itself."""
    description = field.description
    words = _literal_values(field.annotation)
    return (
        f"{', '.join(words)}{f' ({description})' if description else ''}" if words else description
    )


def _literal_values(annotation: Any) -> list[str]:  # noqa: ANN401 annotations are of any sort
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    return [word for part in get_args(annotation) for word in _literal_values(part)]


def _cli_type(annotation: Any) -> Any:  # noqa: ANN401 annotations are of any sort
    """Return the type for the command line; the request validates the value."""
    if get_origin(annotation) in {list, dict}:
        return list[str]
    if annotation in {int, float, bool}:
        return annotation
    is_optional = type(None) in get_args(annotation)
    plain = next((one for one in (int, float) if one in get_args(annotation)), str)
    return plain | None if is_optional else plain


def _default(field: FieldInfo) -> Any:  # noqa: ANN401 defaults are of any sort
    default = field.get_default(call_default_factory=True)
    return [] if default == {} else default


def _request(operation: Operation[Any, Any], options: dict[str, Any], *, command: str) -> Any:  # noqa: ANN401
    """Validate the arguments.

    Raises:
        InvalidInputError: a value is malformed; the message names its option.

    """
    if options.get("text") == FROM_STDIN:
        read = _both_ends if operation.reads_both_ends else _beginning
        options["text"] = _decode(read(sys.stdin.buffer))
    fields = operation.request.model_fields
    paired = {name for name in options if get_origin(fields[name].annotation) is dict}
    options |= {name: _parse_pairs(name, options[name]) for name in paired}
    missing = [
        name for name, value in options.items() if value is None and fields[name].is_required()
    ]
    if missing:
        raise InvalidInputError(
            f"Missing {', '.join(missing)}.", hint=f"See brain {command} --help."
        )
    given = {name: value for name, value in options.items() if value is not None}
    return _validate(operation, given, command=command)


def _beginning(stream: BinaryIO) -> bytes:
    """Read more than is allowed, so that the write gate detects a text that is too long.

    It counts characters, of up to four bytes each, and a mark of the encoding is none of them.
    """
    return stream.read(4 * (RAW_TEXT_BYTES_MAX + 2))


def _both_ends(stream: BinaryIO) -> bytes:
    """Read as much of both ends as is allowed: a quarter of it from the beginning.

    Raises:
        InvalidInputError: it does not end within `_READ_BYTES_MAX`.

    """
    head = stream.read(RAW_TEXT_BYTES_MAX // 4)
    parts = deque[bytes](maxlen=(RAW_TEXT_BYTES_MAX - len(head)) // _PART_BYTES)
    for _ in range(_READ_BYTES_MAX // _PART_BYTES):
        part = stream.read(_PART_BYTES)
        if not part:
            return head + b"".join(parts)
        parts.append(part)
    raise InvalidInputError(
        f"The input has more than {_READ_BYTES_MAX >> 30} GiB.",
        hint="Give its last lines: ... | tail -n 1000",
    )


def _validate(operation: Operation[Any, Any], options: dict[str, Any], *, command: str) -> Any:  # noqa: ANN401
    fields = operation.request.model_fields
    try:
        return operation.request.model_validate(options)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = next((str(at) for at in first["loc"] if at in fields), "arguments")
        option = name if name in operation.positional else f"--{SINGULAR.get(name, name)}"
        raise InvalidInputError(
            f"{option.replace('_', '-')}: {first['msg']}.",
            hint=f"See brain {command} --help.",
        ) from error


def _parse_pairs(name: str, texts: Sequence[str]) -> dict[str, Any]:
    """Parse `NAME=VALUE`; a repeated name has a list of values.

    Raises:
        InvalidInputError: one of them has no `=`.

    """
    pairs: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise InvalidInputError(
                f"--{SINGULAR.get(name, name)}: {text[:40]!r} is no NAME=VALUE.",
                hint="Repeat it for more.",
            )
        previous = pairs.get(key)
        if previous is None:
            pairs[key] = value
        else:
            pairs[key] = [*(previous if isinstance(previous, list) else [previous]), value]
    return pairs
