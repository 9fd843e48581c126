"""Runs a command for another process, in the one that serves its store."""

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any, Final

import typer
from typer import TyperException

from commonbrain.api.errors import to_transport_error
from commonbrain.cli.commands import FROM_STDIN
from commonbrain.cli.context import GlobalOptions, SessionUse, as_command, in_session
from commonbrain.cli.groups import find_operation_command
from commonbrain.cli.output import CallerTerminal, Output
from commonbrain.client import Brain
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.sessions import ClientInfo
from commonbrain.model.values import dataclass
from commonbrain.runtime.local_requests import LocalHost, brain_for
from commonbrain.runtime.local_socket import JsonObject
from commonbrain.runtime.settings_loading import login_name
from commonbrain.services import Services

_DECLINED: Final = {"is_declined": True}
"""Nothing was done; the other process runs the command itself."""
_LONG: Final = frozenset({"atomize", "reflect"})
"""Operations that may call language models for minutes."""
_HELP: Final = frozenset({"--help", "-h"})
"""Help is printed to this process's own stdout, which may belong to an MCP client."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CallersState(GlobalOptions):
    """The options of the process that asked, with the store that this one has open."""

    services: Services
    request: JsonObject

    def open(self, *, server_name: str | None = None, use: SessionUse = SessionUse.RESUME) -> Brain:
        """Return the brain of the caller, who never acts as the client that this process serves."""
        del server_name
        is_person = bool(self.request.get("is_owner") or self.request.get("is_person"))
        brain = as_command(brain_for(self.services, self.request), is_person=is_person)
        return in_session(brain, ClientInfo(cwd=self.request["cwd"]), use=use)

    def close(self, brain: Brain) -> None:
        """Leave the store open."""

    def check_exists(self) -> None:
        """Accept the store, which is open."""


def answer_command(host: LocalHost, request: JsonObject) -> JsonObject:
    """Run a command with the words, identity, folder and terminal of another process.

    Returns its stdout, its stderr and its exit code; or that it is declined: commands that ask,
    read a file or stdin, wait, show progress or take minutes, and lines with mistakes. These do
    nothing here.
    """
    words: Sequence[str] = request["words"]
    match = find_operation_command(words)
    if match is None or _HELP & set(words):
        return _DECLINED
    operation, command, arguments = match
    out, err = StringIO(), StringIO()
    state = _CallersState(
        agent=request["agent"] or login_name(),
        output=Output(out=out, err=err, terminal=CallerTerminal(**request["terminal"])),
        services=host.brain.services,
        request=request,
    )
    code = 0
    try:
        context = command.make_context("brain", list(arguments), obj=state)
        if (
            operation.name in _LONG
            or operation.has_progress
            or _needs_its_terminal(context.params, is_interactive=request["is_interactive"])
        ):
            return _DECLINED
        with context:
            command.invoke(context)
    except typer.Exit as exit_:
        code = exit_.exit_code
    except TyperException:
        return _DECLINED
    except CommonbrainError as error:
        state.output.print_error(error, as_json="--json" in words)
        code = to_transport_error(error).exit_code
    return {"out": out.getvalue(), "err": err.getvalue(), "code": code}


def _needs_its_terminal(options: Mapping[str, Any], *, is_interactive: bool) -> bool:
    """Return whether a command reads files or stdin, waits, or asks a person."""
    asks = is_interactive and "yes" in options and not (options["yes"] or options["as_json"])
    reads = options.get("file") is not None or options.get("text") == FROM_STDIN
    return bool(asks or reads or options.get("wait"))
