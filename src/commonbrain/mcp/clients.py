"""The clients of MCP: one at the other end of a pipe, or many over HTTP."""

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
"""One message of a client, with its context."""


@dataclass(slots=True)
class LazyBrain:
    """A store that is opened after the first answer, so that a client need not wait for it.

    Claude Code shows its model no tools of a server that takes over a second to answer.
    """

    open: Callable[[], Brain]
    lock: Lock
    connection: Connection
    brain: Brain | None = None
    worker: EmbeddedWorker | None = None

    def get(self) -> Brain:
        """Open the store once, in the first caller's thread."""
        with self.lock:
            if self.brain is None:
                self.brain = self.open()
                self.worker = EmbeddedWorker(self.brain.services)
                self.worker.start()
            return self.brain

    def warm(self) -> None:
        """Start to open it in the background; a call in the meantime waits for that."""
        Thread(target=self._open_quietly, daemon=True, name="open").start()

    def _open_quietly(self) -> None:
        # The next call that needs the store tries again and gets the error.
        with suppress(CommonbrainError):
            self.get()

    def close(self) -> None:
        """End the session, and close what was opened or is being opened."""
        self.connection.close()
        with self.lock:
            if self.worker is not None:
                self.worker.close()
            if self.brain is not None:
                self.brain.close()


class ClientResolver(Protocol):
    """Resolves the client behind a message."""

    def role(self, context: Message, /) -> Role:
        """Return the role whose tools are shown; never waits."""
        ...

    def brain_for(self, context: Message, /) -> Brain:
        """Return the store as the client sees it; called in the thread that uses it."""
        ...

    def record_missed_call(
        self, context: Message, /, *, call: CallContext, error: CommonbrainError
    ) -> None:
        """Record a call that failed because the store could not be opened."""
        ...

    def redact_error(self, error: CommonbrainError, /) -> CommonbrainError:
        """Return an error without what this client may not see."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioClient:
    """The one client at the other end of a pipe, which is the user who started it."""

    brain: Callable[[], Brain]
    agent: str | None
    """The agent that the user set; otherwise the client's own name."""
    connection: Connection
    warm: Callable[[], None]
    """Called when the client sends its first message."""

    def role(self, _context: Message) -> Role:
        """Return the user's role, and start to open the store."""
        self.warm()
        return Role.ADMIN

    def brain_for(self, context: Message) -> Brain:
        """Return the store for this client, which is the agent unless the user set one."""
        opened = self.brain()
        # A model fills the arguments, so it may not claim more trust than its user, and an agent
        # with a lower ceiling keeps it.
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
        """Save the event of a call on disk for the session that boots."""
        client = client_of(context)
        agent = self.agent or (printable_name(client.name) if client else None)
        record_failed_open(call, error, agent=agent)

    def redact_error(self, error: CommonbrainError) -> CommonbrainError:
        """Return the error unchanged: it is about the user's own machine."""
        return error


def client_of(context: Message) -> Implementation | None:
    """Return the client's name for itself, if it sent one."""
    parameters = context.session.client_params
    return parameters.client_info if parameters else None
