"""`brain serve` and `brain dev`: the shared server."""

import os
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from commonbrain.cli.context import GlobalOptions
from commonbrain.runtime.signals import stopped_by_signals
from commonbrain_server.settings import ServerSettings, load_server_settings

serve_app: Final = typer.Typer(add_completion=False, rich_markup_mode=None)
dev_app: Final = typer.Typer(add_completion=False, rich_markup_mode=None)


@serve_app.command()
def serve(  # noqa: PLR0913 options of the command
    context: typer.Context,
    *,
    host: Annotated[
        str | None, typer.Option(help="Address to listen on; default 127.0.0.1.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port; default 8377.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of server processes; default 1.")
    ] = None,
    open: Annotated[  # noqa: A002 the option is --open
        bool, typer.Option("--open", help="Accept calls from this machine without a key.")
    ] = False,
    url: Annotated[str | None, typer.Option(help="Public URL, behind a proxy.")] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="Another host name to accept.")
    ] = None,
) -> None:
    """Serve agents and people over HTTP: the page at /, REST under /v1, MCP at /mcp."""
    state: GlobalOptions = context.obj
    options = {"host": host, "port": port, "workers": workers, "url": url, "open": open or None}
    settings = _server_settings(state, {**options, "allow_hosts": allow_host})
    # Help and completion do without the server.
    from commonbrain_server.http.server import prepare  # noqa: PLC0415
    from commonbrain_server.http.server import serve as serve_until_stopped  # noqa: PLC0415

    # Workers open the store themselves, and receive no options.
    if state.store is not None:
        os.environ["COMMONBRAIN_STORE"] = str(state.store)
    for line in prepare(settings):
        typer.echo(line, err=True)
    typer.echo(
        f"Serving at {settings.public_url}: the page at /, REST under /v1, MCP at /mcp.", err=True
    )
    if settings.has_no_name:
        typer.echo(
            f"No machine is called {settings.host}, and requests to other names are refused: "
            f"add --url http://NAME:{settings.port} with the name that others use.",
            err=True,
        )
    serve_until_stopped(settings)


@dev_app.command()
def dev(
    context: typer.Context,
    *,
    folder: Annotated[Path, typer.Argument(help="Folder for the data of Postgres and Redis.")],
    port: Annotated[int | None, typer.Option(help="Port; default 8377.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of server processes; default 1.")
    ] = None,
) -> None:
    """Run a complete server for development: Postgres, Redis, a worker and a first key."""
    settings = _server_settings(context.obj, {"port": port, "workers": workers})
    from commonbrain_server.http.server import (  # noqa: PLC0415 as above
        dev_server,
        prepare,
        serve,
    )

    with stopped_by_signals(), dev_server(folder.expanduser().absolute()) as server:
        prepare(settings)
        url, load = settings.public_url, f". {shlex.quote(str(server.environment))}"
        summary = {
            "Page": url,
            "REST": f"{url}/v1, described at {url}/openapi.json",
            "MCP": f"{url}/mcp",
            "Postgres": f"{folder / 'postgres'}, brought to {server.schema_version}",
            "Redis": str(folder / "redis"),
            "Environment": load,
            "First key": str(server.key.text)
            if server.key
            else f"made before; another: {load} && brain key create NAME --role admin",
        }
        for label, where in summary.items():
            typer.echo(f"{label:<11} {where}")
        serve(settings)


def _server_settings(state: GlobalOptions, options: dict[str, object]) -> ServerSettings:
    """Return the settings of the server; None is an option that was not given."""
    if state.agent is not None:
        os.environ["COMMONBRAIN_AGENT"] = state.agent
    return load_server_settings(
        **{name: value for name, value in options.items() if value is not None}
    )
