"""`brain serve`: the shared server."""

import os

import typer

from commonbrain.domain.errors import Invalid
from commonbrain.interfaces.cli.state import State


def run_server(state: State, **given: object) -> None:
    """Serve until told to stop.

    Args:
        state: which store, and who acts where nobody is told apart.
        given: settings of the server that the command line names; None where it does not.

    Raises:
        Invalid: the extra is not installed, a setting is wrong, or strangers would be let in.

    """
    try:
        from commonbrain.interfaces.server.running import prepare, serve, url_of  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise Invalid(
            f"A shared server needs {error.name}, which is not installed.",
            code="extra_missing",
            hint="Install it with: pip install 'commonbrain[server]'",
        ) from error
    from commonbrain.wiring import load_server_settings  # noqa: PLC0415

    settings = load_server_settings(
        **{name: value for name, value in given.items() if value is not None}
    )
    # Workers open the store by themselves, and know no options.
    if state.store is not None:
        os.environ["COMMONBRAIN_STORE"] = str(state.store)
    if state.agent is not None:
        os.environ["COMMONBRAIN_AGENT"] = state.agent
    prepare(settings)
    typer.echo(f"Serving at {url_of(settings)}: REST under /v1, MCP at /mcp.", err=True)
    serve(settings)
