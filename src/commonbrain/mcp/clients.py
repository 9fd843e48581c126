"""Who is behind the messages of MCP: one client at the other end of a pipe, or many over HTTP."""

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
"""One message of a client, with what is known of where it came from."""


@dataclass(slots=True)
class LazyBrain:
    """A brain that is opened behind the first answer, so that a client need not wait for it.

    Claude Code shows its model no tools of a server that takes over a second to answer.
    """

    open: Callable[[], Brain]
    lock: Lock
    connection: Connection
    brain: Brain | None = None
    worker: EmbeddedWorker | None = None

    def get(self) -> Brain:
        """Open the brain once, whoever asks first."""
        with self.lock:
            if self.brain is None:
                self.brain = self.open()
                self.worker = EmbeddedWorker(self.brain.services)
                self.worker.start()
            return self.brain

    def warm(self) -> None:
        """Begin to open it in the background; a call that comes before waits for that."""
        Thread(target=self._open_quietly, daemon=True, name="open").start()

    def _open_quietly(self) -> None:
        # Whoever needs the brain tries again, and is told what is wrong.
        with suppress(CommonbrainError):
            self.get()

    def close(self) -> None:
        """Tell that the client is gone, and close what was opened or is being opened right now."""
        self.connection.close()
        with self.lock:
            if self.worker is not None:
                self.worker.close()
            if self.brain is not None:
                self.brain.close()


class ClientResolver(Protocol):
    """Tells who is behind a message."""

    def role(self, context: Message, /) -> Role:
        """Give the role whose tools are shown; never waits."""
        ...

    def brain_for(self, context: Message, /) -> Brain:
        """Give the brain as it is seen from there; called in the thread that works on it."""
        ...

    def record_missed_call(
        self, context: Message, /, *, call: CallContext, error: CommonbrainError
    ) -> None:
        """Keep what was called of a brain that could not be seen."""
        ...

    def redact_error(self, error: CommonbrainError, /) -> CommonbrainError:
        """Give an error as who is there may read it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StdioClient:
    """The one client at the other end of a pipe, who is the user that started it."""

    brain: Callable[[], Brain]
    agent: str | None
    """Who acts when the user said so; otherwise the client's own name."""
    connection: Connection
    warm: Callable[[], None]
    """Called when a client has shown that it is there."""

    def role(self, _context: Message) -> Role:
        """Take it for the user, and begin to open the brain."""
        self.warm()
        return Role.ADMIN

    def brain_for(self, context: Message) -> Brain:
        """See the brain as the client does, which is the agent unless the user named one."""
        opened = self.brain()
        # A model fills the arguments: it may not claim more trust than its user has, nor is an
        # agent raised whose own ceiling is lower.
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
        """Let the event of a call wait on disk, for the session that boots."""
        client = client_of(context)
        agent = self.agent or (printable_name(client.name) if client else None)
        record_failed_open(call, error, agent=agent)

    def redact_error(self, error: CommonbrainError) -> CommonbrainError:
        """Tell all: the user's own machine is what it is about."""
        return error


def client_of(context: Message) -> Implementation | None:
    """Give what the client calls itself, where it said so."""
    parameters = context.session.client_params
    return parameters.client_info if parameters else None
