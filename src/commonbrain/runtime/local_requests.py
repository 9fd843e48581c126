"""Requests that short processes of this machine send to one that serves their store.

`HANDLERS` is the table of their kinds. A handler is imported when it is first asked.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Final

from commonbrain.client import Brain, identity_of
from commonbrain.coordination.processes import LocalProcesses
from commonbrain.hosts import is_url
from commonbrain.model.errors import InvalidInputError
from commonbrain.runtime.bootstrap import brain_of
from commonbrain.runtime.local_socket import JsonObject, LocalServer, socket_path
from commonbrain.runtime.settings_loading import load_settings
from commonbrain.services import Services


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalHost:
    """The process that answers."""

    brain: Brain
    has_worker: bool
    """Whether it has a worker, which maintains the store."""


def services_for(services: Services, request: JsonObject) -> Services:
    """Return services that act for the process that a request describes."""
    processes = LocalProcesses(
        pid=request["pid"], environment=request["variables"], cwd=request["cwd"]
    )
    return replace(services, processes=processes)


Handler = Callable[[LocalHost, JsonObject], JsonObject]

HANDLERS: Final[Mapping[str, str]] = {
    "hook": "commonbrain.hooks.actions:answer_hook",
    "command": "commonbrain.cli.command_server:answer_command",
    "status line": "commonbrain.hooks.status_line:answer_status_line",
}
"""By the request's field `kind`."""


def brain_for(services: Services, request: JsonObject) -> Brain:
    """Return the brain of the caller that a request describes.

    The names in this process's environment belong to its own client.

    Raises:
        InvalidInputError: a name is not valid.
        NotFoundError: there is no such tenant.

    """
    names = identity_of(agent=request["agent"], session=request["session"])
    settings = load_settings().model_copy(update={"agent": None, "session": None})
    return brain_of(services_for(services, request), settings, tenant=request["tenant"], **names)


def start_local_server(brain: Brain, *, has_worker: bool) -> LocalServer | None:
    """Start to answer at the socket of a store in a file; None if it has no socket.

    A server in front of Postgres is that of a team, and has none.
    """
    location = brain.services.store.location
    path = None if is_url(location) else socket_path(Path(location), os.environ)
    if path is None:
        return None
    server = LocalServer(path, answer_requests(brain, has_worker=has_worker))
    server.start()
    return server


def answer_requests(brain: Brain, *, has_worker: bool) -> Callable[[JsonObject], JsonObject]:
    """Return the function that answers any request with a brain that is open."""
    return partial(_answer, LocalHost(brain=brain, has_worker=has_worker))


def _answer(host: LocalHost, request: JsonObject) -> JsonObject:
    name = HANDLERS.get(str(request.get("kind")))
    if name is None:
        raise InvalidInputError(f"There is no request {str(request.get('kind'))[:40]!r}.")
    handler: Handler = resolve_name(name)
    return handler(host, request)
