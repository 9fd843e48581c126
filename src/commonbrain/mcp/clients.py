"""Resolves the caller of an MCP message: one client over stdio, or many over HTTP."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock, Thread
from typing import Any, Protocol

from mcp.server.context import ServerRequestContext
from mcp.types import (
    Implementation,
)

from commonbrain.api.dispatch import CallContext, record_failed_open
from commonbrain.api.threads import Connection
from commonbrain.client import Brain
from commonbrain.jobs.worker import EmbeddedWorker
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.scope import Role, Trust
from commonbrain.model.sessions import printable_name

Message = ServerRequestContext[Any]
"""One message of a client, with its transport context."""


@dataclass(slots=True)
class LazyBrain:
    """A brain that is opened in the background, so that a client need not wait for it.

    Claude Code does not offer the tools of a server that takes over a second to answer.
    """

    open: Callable[[], Brain]
    lock: Lock
    connection: Connection
    brain: Brain | None = None
    worker: EmbeddedWorker | None = None

    def get(self) -> Brain:
        """Return the brain; the first call opens it."""
        with self.lock:
            if self.brain is None:
                self.brain = self.open()
                self.worker = EmbeddedWorker(self.brain.services)
                self.worker.start()
            return self.brain

    def warm(self) -> None:
        """Start to open the brain in the background; an earlier call waits for it."""
        Thread(target=self._open_quietly, daemon=True, name="open").start()

    def _open_quietly(self) -> None:
        # The next call tries again and reports the error.
        with suppress(CommonbrainError):
            self.get()

    def close(self) -> None:
        """Record that the client disconnected; close the brain, even if it is being opened."""
        self.connection.close()
        with self.lock:
            if self.worker is not None:
                self.worker.close()
            if self.brain is not None:
                self.brain.close()


class ClientResolver(Protocol):
    """Resolves the caller of a message."""

    def role(self, context: Message, /) -> Role:
        """Return the role that decides which tools are listed; never waits."""
        ...

    def brain_for(self, context: Message, /) -> Brain:
        """Return the caller's brain; called in the thread that runs the operation."""
        ...

    def record_missed_call(
        self, context: Message, /, *, call: CallContext, error: CommonbrainError
    ) -> None:
        """Record a call for which the brain could not be opened."""
        ...

    def redact_error(self, error: CommonbrainError, /) -> CommonbrainError:
        """Return an error without details that the caller may not see."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioClient:
    """The single client of stdio, which acts for the user who started it."""

    brain: Callable[[], Brain]
    agent: str | None
    """The agent that the user named; None: the client's own name."""
    connection: Connection
    warm: Callable[[], None]
    """Called at the client's first request."""

    def role(self, _context: Message) -> Role:
        """Return the user's role, and start to open the brain."""
        self.warm()
        return Role.ADMIN

    def brain_for(self, context: Message) -> Brain:
        """Return the brain as the agent: the one that the user named, or the client."""
        opened = self.brain()
        # A model fills in the arguments: it cannot claim more trust than its user, and an agent
        # with a lower ceiling is not raised.
        ceiling = min(opened.caller.trust_ceiling, Trust.USER_CLAIM, key=lambda one: one.weight)
        brain = opened.acting_as(trust_ceiling=ceiling)
        client = client_of(context)
        agent = self.agent or (printable_name(client.name) if client else None)
        agent_brain = brain.acting_as(agent=agent) if agent else brain
        client_label = printable_name(f"{client.name} {client.version}") if client else None
        return self.connection.view(agent_brain, client=client_label)

    def record_missed_call(
        self, context: Message, *, call: CallContext, error: CommonbrainError
    ) -> None:
        """Store the event of a call on disk until a session boots."""
        client = client_of(context)
        agent = self.agent or (printable_name(client.name) if client else None)
        record_failed_open(call, error, agent=agent)

    def redact_error(self, error: CommonbrainError) -> CommonbrainError:
        """Return the error unchanged: the client runs on the user's own machine."""
        return error


def client_of(context: Message) -> Implementation | None:
    """Return the client's name and version, if it sent them."""
    parameters = context.session.client_params
    return parameters.client_info if parameters else None
