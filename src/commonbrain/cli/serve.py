"""`brain serve` and `brain dev`: the shared server."""

import os
import shlex
from importlib.util import find_spec
from pathlib import Path

import typer

from commonbrain.cli.context import State
from commonbrain.config import ServerSettings
from commonbrain.model.errors import InvalidInputError
from commonbrain.runtime.signals import stopped_by_signals


def run_server(state: State, **options: object) -> None:
    """Serve until stopped.

    Args:
        state: the store, and the agent of callers without a key.
        options: settings of the server from the command line; None for those not given.

    Raises:
        InvalidInputError: the extra is not installed, a setting is wrong, or the server would
            accept strangers.

    """
    settings = _server_settings(state, options)
    from commonbrain.http.server import prepare, serve, url_of  # noqa: PLC0415

    # Workers open the store themselves, and receive no options.
    if state.store is not None:
        os.environ["COMMONBRAIN_STORE"] = str(state.store)
    prepare(settings)
    typer.echo(
        f"Serving at {url_of(settings)}: the page at /, REST under /v1, MCP at /mcp.", err=True
    )
    serve(settings)


def run_dev_server(state: State, folder: Path, **options: object) -> None:
    """Serve from a Postgres and a Redis of its own, with a worker, until stopped.

    Args:
        state: the agent of callers without a key.
        folder: the data folder of Postgres and Redis.
        options: settings of the server from the command line; None for those not given.

    Raises:
        InvalidInputError: the extra or a wheel is not installed, or a setting is wrong.

    """
    settings = _server_settings(state, options)
    from commonbrain.http.server import (  # noqa: PLC0415  # noqa: PLC0415
        FIRST_AGENT,
        dev_server,
        prepare,
        serve,
        url_of,
    )

    with stopped_by_signals(), dev_server(folder.expanduser().absolute()) as dev_server:
        prepare(settings)
        url, load = url_of(settings), f". {shlex.quote(str(dev_server.environment))}"
        summary = {
            "Page": url,
            "REST": f"{url}/v1, described at {url}/openapi.json",
            "MCP": f"{url}/mcp",
            "Postgres": f"{folder / 'postgres'}, brought to {dev_server.schema_version}",
            "Redis": str(folder / "redis"),
            "Environment": load,
            "First key": dev_server.key
            or f"made before; another: {load} && brain key create {FIRST_AGENT}",
        }
        for label, where in summary.items():
            typer.echo(f"{label:<11} {where}")
        serve(settings)


def _server_settings(state: State, options: dict[str, object]) -> ServerSettings:
    missing = next((name for name in ("fastapi", "uvicorn") if find_spec(name) is None), None)
    if missing:
        raise InvalidInputError(
            f"A shared server needs {missing}, which is not installed.",
            code="extra_missing",
            hint="Install it with: pip install 'commonbrain[server]'",
        )
    from commonbrain.runtime.settings_loading import load_server_settings  # noqa: PLC0415

    if state.agent is not None:
        os.environ["COMMONBRAIN_AGENT"] = state.agent
    return load_server_settings(
        **{name: value for name, value in options.items() if value is not None}
    )
