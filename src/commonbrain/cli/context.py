"""The options before the command: the store, and the agent."""

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer

from commonbrain.api.dispatch import (
    Call,
    CallContext,
    record_call,
    record_event,
    record_failed_open,
)
from commonbrain.api.operation import Request
from commonbrain.api.operations import Operation, Profile, Transport
from commonbrain.api.switches import check_switched_on
from commonbrain.cli.output import STREAMS, Output
from commonbrain.client import Brain, Identity, identity_of
from commonbrain.coordination.session_registry import may_resume, resume_session, touch_session
from commonbrain.model.errors import CommonbrainError, NotFoundError
from commonbrain.model.scope import Authority
from commonbrain.model.sessions import UNKNOWN, ClientInfo
from commonbrain.model.values import dataclass, replace
from commonbrain.runtime.callers import acts_for_owner, is_of_person, store_file


class SessionUse(StrEnum):
    """How a command uses the session that its terminal booted."""

    RESUME = "resume"
    """It belongs to that session, if there is one."""
    REQUIRE = "require"
    """It starts one if there is none."""
    START = "start"
    """It starts another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalOptions:
    """The options that every command shares."""

    store: str | None = None
    agent: str | None = None
    session: str | None = None
    tenant: str | None = None
    output: Output = STREAMS

    def profile(self) -> Profile:
        """Return the profile of tools for an MCP client, from the settings."""
        from commonbrain.runtime.settings_loading import load_settings  # noqa: PLC0415

        return Profile(load_settings().mcp_profile)

    def open(self, *, server_name: str | None = None, use: SessionUse = SessionUse.RESUME) -> Brain:
        """Open the store, for one command or for a server of this name.

        A command belongs to the session that it names, else to the one that this terminal booted.
        """
        # The adapters take long to load; help and completion do without.
        from commonbrain.runtime.bootstrap import open_brain  # noqa: PLC0415

        brain = open_brain(
            self.store, tenant=self.tenant, server_name=server_name, **self.identity()
        )
        folder = _current_folder_contact()
        if server_name is None:
            is_person = acts_for_owner(os.environ) or is_of_person(os.environ)
            return in_session(as_command(brain, is_person=is_person), folder, use=use)
        if brain.caller.session is None:
            return brain.acting_as(contact=folder)
        return _in_named_session(brain, folder)

    def identity(self) -> Identity:
        """Return the agent and the session, if they are given."""
        return identity_of(agent=self.agent, session=self.session)

    def close(self, brain: Brain) -> None:
        """Close what `open` returned."""
        brain.close()

    def check_exists(self) -> None:
        """Check that there is a store to read; opening one that does not exist makes it.

        Raises:
            NotFoundError: there is no such file.

        """
        store = store_file(self.store, os.environ)
        if store is None:
            return
        try:
            store.expanduser().stat()
        except (FileNotFoundError, NotADirectoryError):
            raise NotFoundError(
                f"There is no store {store}.",
                hint="`brain remember` makes it; --store or COMMONBRAIN_STORE name another.",
            ) from None
        except OSError:
            # Opening it says what is wrong.
            return


def as_command(brain: Brain, *, is_person: bool) -> Brain:
    """Return the brain of one command, which a person runs at a terminal, or a model or script."""
    return brain if is_person else brain.acting_as(authority=Authority.MODEL)


def in_session(brain: Brain, folder: ClientInfo, *, use: SessionUse) -> Brain:
    """Return the brain of one command, in the session that it names, or of its terminal."""
    brain = brain.identified()
    if brain.caller.session is None:
        return _in_terminal(brain, folder, use=use)
    return _in_named_session(brain, folder)


def _in_named_session(brain: Brain, folder: ClientInfo) -> Brain:
    """Record a heartbeat, because a command is short; use the session's project."""
    session = touch_session(brain.services, brain.caller)
    return brain.acting_as(project=brain.caller.project or session.project, contact=folder)


def _in_terminal(brain: Brain, folder: ClientInfo, *, use: SessionUse) -> Brain:
    """Return the brain in the session of the client that passed one, or of this terminal."""
    processes = brain.services.processes
    if key := processes.session(brain.caller.agent):
        return _in_named_session(brain.acting_as(session=key), folder)
    if use is SessionUse.RESUME and not may_resume(brain.services, brain.caller):
        return brain.acting_as(contact=folder)
    brain = brain.acting_as(contact=replace(folder, process=processes.terminal()))
    if use is SessionUse.START or brain.caller.contact.process is None:
        return brain
    session = resume_session(brain.services, brain.caller)
    if session is None and use is SessionUse.REQUIRE:
        session = touch_session(brain.services, brain.caller)
    if session is None:
        return brain
    return brain.acting_as(session=session.key, project=brain.caller.project or session.project)


def _session_use(operation: Operation[Any, Any], request: Request | None) -> SessionUse:
    """Return how a command uses the session of its terminal."""
    match operation.name, getattr(request, "op", None):
        case "boot", _:
            return SessionUse.START
        case "session", "task" | "note" | "handoff":
            return SessionUse.REQUIRE
        case _:
            return SessionUse.RESUME


def _current_folder_contact() -> ClientInfo:
    """Return the current folder as the client's only lasting property."""
    with suppress(OSError):
        return ClientInfo(cwd=str(Path.cwd()))
    return UNKNOWN


@contextmanager
def open_brain_for(
    state: GlobalOptions, operation: Operation[Any, Any], *, request: Request | None
) -> Generator[tuple[Brain, Call]]:
    """Open the store and record the call; `request` is None if a file contains several.

    Raises:
        CommonbrainError: the store cannot be opened; the call is recorded later.

    """
    call = (
        CallContext(operation=operation, transport=Transport.CLI, arguments={})
        if request is None
        else record_call(operation, request, transport=Transport.CLI)
    )
    try:
        if operation.only_reads(request):
            state.check_exists()
        brain = state.open(use=_session_use(operation, request))
    except CommonbrainError as error:
        record_failed_open(call, error, agent=state.agent)
        raise
    left: typer.Exit | None = None
    with ExitStack() as at_end:
        at_end.callback(state.close, brain)
        noting = at_end.enter_context(record_event(brain, call))
        check_switched_on(operation, brain.caller, request=request)
        try:
            yield brain, noting
        except typer.Exit as exit_:
            noting.record_exit_code(exit_.exit_code)
            left = exit_
    if left is not None:
        raise left
