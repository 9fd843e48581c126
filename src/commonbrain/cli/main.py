"""The command `brain`."""

import os
import sys
from contextvars import ContextVar
from functools import partial
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Annotated, Final

import typer

from commonbrain.api.errors import to_transport_error
from commonbrain.cli.commands import Json, clients, complete_from, formats
from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.groups import CONTEXT_SETTINGS, MainGroup, add_groups
from commonbrain.cli.output import STREAMS
from commonbrain.extras import IMPORT_FORMATS
from commonbrain.hosts import is_url
from commonbrain.model.errors import CommonbrainError
from commonbrain.runtime.callers import ask_for_passphrases, check_command_is_of_person
from commonbrain.runtime.pause import begin_pause, end_pause, pause_in

_STATE: Final = ContextVar("_STATE", default=GlobalOptions())  # noqa: B039 it is frozen
"""Typer's context, for a command that already has the maximum number of parameters."""

app = typer.Typer(
    name="brain",
    cls=MainGroup,
    help="One long-term memory that all your agents share.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=CONTEXT_SETTINGS,
)

add_groups(app)


def _print_version(is_requested: bool) -> None:  # noqa: FBT001 Typer calls it so
    if is_requested:
        typer.echo(version("commonbrain"))
        raise typer.Exit


@app.callback()
def _before(
    context: typer.Context,
    *,
    store: Annotated[
        str | None,
        typer.Option(envvar="COMMONBRAIN_STORE", help="The store: a file or a URL."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option(envvar="COMMONBRAIN_AGENT", help="Name of the acting agent.")
    ] = None,
    session: Annotated[
        str | None, typer.Option(envvar="COMMONBRAIN_SESSION", help="Key of the acting session.")
    ] = None,
    tenant: Annotated[
        str | None, typer.Option(envvar="COMMONBRAIN_TENANT", help="Tenant whose memories to use.")
    ] = None,
    version: Annotated[  # noqa: ARG001 the callback prints it
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    # Clients pass on variables that are set to nothing.
    context.obj = GlobalOptions(
        store=store or None, agent=agent or None, session=session or None, tenant=tenant or None
    )
    _STATE.set(context.obj)
    if STREAMS.is_interactive:
        ask_for_passphrases(_ask_passphrase)


def _ask_passphrase(prompt: str) -> str:
    from getpass import getpass  # noqa: PLC0415 a sealed store alone needs it

    return getpass(prompt)


@app.command()
def mcp(
    context: typer.Context,
    *,
    url: Annotated[
        str | None, typer.Option(help="URL of a server to use instead of a local store.")
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the server's key; default: COMMONBRAIN_KEY."),
    ] = None,
) -> None:
    """Serve one MCP client over stdin and stdout, from this machine's store or from a server."""
    if url is not None:
        from commonbrain.mcp.proxy import run_proxy  # noqa: PLC0415

        run_proxy(url, key_file=key_file)
        return
    # The MCP library takes half a second to load, which no other command should pay.
    from commonbrain.mcp.server import serve_stdio  # noqa: PLC0415

    state: GlobalOptions = context.obj
    open_brain = partial(state.open, server_name="mcp")
    serve_stdio(open_brain, agent=state.agent, profile=state.profile())


@app.command()
def ui(
    context: typer.Context,
    *,
    port: Annotated[int, typer.Option(help="Port to listen on; default: a free one.")] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open the page in the browser.")
    ] = True,
) -> None:
    """Open the web page to search, browse, correct and decide."""
    from commonbrain.cli.ui import run_ui  # noqa: PLC0415

    run_ui(context.obj, port=port, opens_browser=browser)


@app.command()
def setup(  # noqa: PLR0913 options of the command
    context: typer.Context,
    *,
    client: Annotated[
        list[str] | None,
        typer.Option(
            help="Only this client; may be repeated.", autocompletion=complete_from(clients)
        ),
    ] = None,
    hooks: Annotated[
        bool, typer.Option("--hooks/--no-hooks", help="Connect hooks where a client has them.")
    ] = True,
    import_: Annotated[
        bool, typer.Option("--import/--no-import", help="Import past sessions and notes.")
    ] = True,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: take all.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for the import also without a terminal.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an entry that points elsewhere.")
    ] = False,
    undo: Annotated[
        bool, typer.Option("--undo", help="Disconnect: files become what they were.")
    ] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Only show what a session costs in tokens.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Connect the agents on this machine, and import what they know."""
    from commonbrain.cli.setup import (  # noqa: PLC0415
        SetupOptions,
        run_cost,
        run_setup,
        run_undo,
    )

    if cost:
        run_cost(context.obj, as_json=as_json)
        return
    options = SetupOptions(
        clients=tuple(client or ()),
        has_hooks=hooks,
        has_import=import_,
        is_confirmed=yes,
        is_dry_run=dry_run,
        is_forced=force,
        waits=wait,
        as_json=as_json,
    )
    (run_undo if undo else run_setup)(context.obj, options)


# Progress bars, tables and colours are loaded by the commands that use them: loading takes longer
# than a client waits for a server to start.
@app.command("import")
def import_(  # noqa: PLR0913 options of the command
    *,
    format: Annotated[  # noqa: A002 the public name is format
        str | None,
        typer.Argument(
            help="The format: markdown, claude-code, codex or commonbrain; with "
            f"commonbrain[import] also {', '.join(IMPORT_FORMATS)}.",
            autocompletion=complete_from(formats),
        ),
    ] = None,
    path: Annotated[Path | None, typer.Argument(help="A file or folder.")] = None,
    find: Annotated[
        bool, typer.Option("--find", help="List what is on this machine, and choose.")
    ] = False,
    choose: Annotated[
        str | None,
        typer.Option(help="With --find: numbers or formats of the list, or all."),
    ] = None,
    list_formats: Annotated[
        bool, typer.Option("--formats", help="List the formats and what they read.")
    ] = False,
    project: Annotated[
        str | None, typer.Option(help="Project to use instead of the source's.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Store nothing.")] = False,
    background: Annotated[
        bool, typer.Option("--background", help="Run it as a background job.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Import notes, chats and what other programs remember."""
    from commonbrain.cli.imports import ImportCommand, run_import_command  # noqa: PLC0415

    run_import_command(
        _STATE.get(),
        ImportCommand(
            format=format,
            path=path,
            project=project,
            is_dry_run=dry_run,
            is_background=background,
            is_find=find,
            choice=choose,
            is_list=list_formats,
        ),
        as_json=as_json,
    )


@app.command()
def export(
    context: typer.Context,
    *,
    path: Annotated[Path, typer.Argument(help="A new file.")],
    as_json: Json = False,
) -> None:
    """Export everything to a file for `brain import commonbrain`."""
    from commonbrain.cli.stores import run_export  # noqa: PLC0415

    run_export(context.obj, path, as_json=as_json)


@app.command()
def backup(
    context: typer.Context,
    *,
    destination: Annotated[Path, typer.Argument(help="The file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
    as_json: Json = False,
) -> None:
    """Back up the store to a verified file, while others keep writing."""
    from commonbrain.cli.stores import run_backup  # noqa: PLC0415

    run_backup(context.obj, destination, replace=force, as_json=as_json)


@app.command()
def restore(
    context: typer.Context,
    *,
    file: Annotated[Path, typer.Argument(help="A file from brain backup.")],
    digest: Annotated[str | None, typer.Option(help="The SHA-256 that the file must have.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show both stores only.")] = False,
    as_json: Json = False,
) -> None:
    """Replace the store with a backup; the old store is shown first and saved."""
    from commonbrain.cli.stores import BackupOptions, run_restore  # noqa: PLC0415

    options = BackupOptions(file=file, digest=digest, is_confirmed=yes, is_dry_run=dry_run)
    run_restore(context.obj, options, as_json=as_json)


@app.command()
def seal(  # noqa: PLR0913 options of the command
    context: typer.Context,
    *,
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the key, made if it does not exist; default: the settings'."),
    ] = None,
    keyring: Annotated[
        bool, typer.Option("--keyring", help="Keep the key in the keyring of the system.")
    ] = False,
    rotate: Annotated[
        bool, typer.Option("--rotate", help="Change the key of a sealed store.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    as_json: Json = False,
) -> None:
    """Encrypt the store with a key in a file or the keyring, or else with a passphrase."""
    from commonbrain.cli.seal import SealOptions, run_seal  # noqa: PLC0415

    options = SealOptions(
        key_file=key_file,
        uses_keyring=keyring,
        is_rotation=rotate,
        is_confirmed=yes,
        is_dry_run=dry_run,
    )
    run_seal(context.obj, options, as_json=as_json)


@app.command()
def unseal(
    context: typer.Context,
    *,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan only.")] = False,
    as_json: Json = False,
) -> None:
    """Decrypt a sealed store: everybody who can read its file can read its memories then."""
    from commonbrain.cli.seal import SealOptions, run_unseal  # noqa: PLC0415

    options = SealOptions(is_confirmed=yes, is_dry_run=dry_run)
    run_unseal(context.obj, options, as_json=as_json)


@app.command()
def worker(
    context: typer.Context,
    *,
    once: Annotated[bool, typer.Option("--once", help="Stop when no job is due.")] = False,
    concurrency: Annotated[int, typer.Option(help="Jobs at once, each in a thread.")] = 1,
    kinds: Annotated[
        list[str] | None, typer.Option(help="Only jobs of this kind; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run background jobs until stopped; several workers may share a store."""
    from commonbrain.cli.worker import WorkerOptions, run_worker  # noqa: PLC0415

    options = WorkerOptions(is_once=once, concurrency=concurrency, kinds=tuple(kinds or ()))
    run_worker(context.obj, options, as_json=as_json)


@app.command()
def maintain(
    context: typer.Context,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show what would be done.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run the daily maintenance now: expiry, retention, stale tasks, old jobs."""
    from commonbrain.cli.worker import run_maintain  # noqa: PLC0415

    run_maintain(context.obj, dry_run=dry_run, as_json=as_json)


@app.command()
def pause(
    *,
    length: Annotated[
        str | None, typer.Option("--for", help="How long, such as 30m, 1h or 2d; default: no end.")
    ] = None,
) -> None:
    """Switch the memory off on this machine: no hook runs, and no agent stores anything."""
    check_command_is_of_person("Pausing the memory")
    begin_pause(os.environ, length=length)
    typer.echo(f"Paused {pause_in(os.environ)}.")


@app.command()
def resume() -> None:
    """End the pause of the memory."""
    check_command_is_of_person("Ending the pause of the memory")
    end_pause(os.environ)
    typer.echo("The memory is on.")


@app.command("hook")
def hook(
    context: typer.Context,
    *,
    client: Annotated[
        str, typer.Argument(help="claude-code, codex, cursor, gemini; or: status, trust.")
    ],
    event: Annotated[str, typer.Argument(help="Such as session-start.")] = "",
    url: Annotated[
        str | None, typer.Option(help="URL of a server to use instead of a local store.")
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the server's key; default: COMMONBRAIN_KEY."),
    ] = None,
    no_key: Annotated[bool, typer.Option("--no-key", help="The server needs no key.")] = False,
) -> None:
    """Answer a client's hook event from stdin; it never fails.

    status: show the hooks in use. trust: use the project that the .commonbrain.toml of this folder
    names.
    """
    from commonbrain.hooks.remote import RemoteMemory  # noqa: PLC0415
    from commonbrain.hooks.runner import run_hook  # noqa: PLC0415

    state: GlobalOptions = context.obj
    if is_url(state.store):
        # Every user of the machine can read a command line, and a URL may contain a password.
        os.environ["COMMONBRAIN_STORE"] = str(state.store)
    store = ("--store", state.store) if state.store and not is_url(state.store) else ()
    agent = ("--agent", state.agent) if state.agent else ()
    server = RemoteMemory(url=url, key_file=key_file, has_key=not no_key).words if url else ()
    tenant = ("--tenant", state.tenant) if state.tenant else ()
    run_hook([client, event, *store, *agent, *tenant, *server], began=monotonic())


@app.command("statusline")
def status_line() -> None:
    """Print what a client's session was shown, for its status line; it reads JSON from stdin."""
    from commonbrain.hooks.status_line import run_status_line  # noqa: PLC0415

    run_status_line(sys.argv[1:])


def run() -> None:
    """Run the command line; print errors with the next step and set the exit code."""
    try:
        app()
    except CommonbrainError as error:
        STREAMS.print_error(error, as_json="--json" in sys.argv)
        sys.exit(to_transport_error(error).exit_code)
