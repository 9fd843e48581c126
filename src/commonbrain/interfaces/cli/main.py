"""The command `brain`."""

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from commonbrain.domain.errors import CommonbrainError
from commonbrain.flows.importing import Report
from commonbrain.interfaces.cli.connecting import connect_client
from commonbrain.interfaces.cli.drawing import Json, draw
from commonbrain.interfaces.cli.render import Inert
from commonbrain.interfaces.cli.render import report as render_report
from commonbrain.interfaces.cli.state import State
from commonbrain.interfaces.errors import describe, fault_of
from commonbrain.interfaces.operations import OPERATIONS, Door

app = typer.Typer(
    name="brain",
    help="One long-term memory that all your agents share.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

for _operation in OPERATIONS:
    if Door.CLI in _operation.doors:
        app.command(_operation.name)(draw(_operation))


def _print_version(wanted: bool) -> None:  # noqa: FBT001 Typer calls it so
    if wanted:
        typer.echo(version("commonbrain"))
        raise typer.Exit


@app.callback()
def _before(
    context: typer.Context,
    *,
    store: Annotated[
        Path | None,
        typer.Option(envvar="COMMONBRAIN_STORE", help="The file memories live in."),
    ] = None,
    agent: Annotated[str | None, typer.Option(envvar="COMMONBRAIN_AGENT", help="Who acts.")] = None,
    session: Annotated[
        str | None, typer.Option(envvar="COMMONBRAIN_SESSION", help="Which session acts.")
    ] = None,
    version: Annotated[  # noqa: ARG001 the callback prints it
        bool, typer.Option("--version", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    context.obj = State(store=store, agent=agent, session=session)


@app.command("import")
def import_(
    context: typer.Context,
    format: Annotated[str, typer.Argument(help="conversations or markdown")],  # noqa: A002
    *,
    path: Annotated[Path, typer.Argument(help="A file or folder.")],
    project: Annotated[str | None, typer.Option(help="Instead of what the source says.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Store nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Read a foreign format into memory; running it again stores nothing twice."""
    state: State = context.obj
    with state.open() as brain, _progress(is_shown=not as_json) as progress:
        task = progress.add_task("importing", total=1.0)

        def move(report: Report) -> None:
            counts = f"{report.read:,} read, {report.stored:,} stored"
            progress.update(task, completed=report.progress, description=counts)

        report = brain.import_(format, path, project=project, dry_run=dry_run, on_progress=move)
    if as_json:
        from pydantic import TypeAdapter  # noqa: PLC0415 only here

        typer.echo(TypeAdapter(Report).dump_json(report).decode())
    else:
        Console().print(Inert(render_report(report)))


@app.command()
def mcp(context: typer.Context) -> None:
    """Serve one MCP client over stdin and stdout."""
    # The protocol's library costs every other command half a second.
    from commonbrain.interfaces.mcp import serve_stdio  # noqa: PLC0415

    state: State = context.obj
    serve_stdio(state.open, agent=state.agent)


app.command("connect")(connect_client)


def run() -> None:
    """Run the command line; every error of the house becomes its exit code and a next step."""
    try:
        app()
    except CommonbrainError as error:
        _complain(error)
        sys.exit(fault_of(error).exit_code)


def _complain(error: CommonbrainError) -> None:
    if "--json" in sys.argv:
        typer.echo(json.dumps({"error": describe(error)}, ensure_ascii=False))
        return
    console = Console(stderr=True)
    console.print(Inert(Text(f"{error.code}: {error.message}", style="bold red")))
    if error.hint:
        console.print(Inert(Text(error.hint)))


def _progress(*, is_shown: bool) -> Progress:
    columns: tuple[Any, ...] = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), disable=not is_shown)
