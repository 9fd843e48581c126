"""Assigns each call of a client to a session."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock

from commonbrain.client import Brain
from commonbrain.model.sessions import UNKNOWN, ClientInfo


@dataclass(slots=True, kw_only=True)
class Connection:
    """Gives each call its session; a server makes one of these for every client it serves.

    A call belongs to the session that the caller names, else to the one that the client reported,
    else to one created for this connection. `find` identifies the client at the first call;
    `reported_session` gives the key that it reported at the start.
    """

    find: Callable[[Brain], ClientInfo] = lambda _: UNKNOWN
    reported_session: Callable[[Brain], str | None] = lambda _: None
    _contact: ClientInfo | None = None
    _last: Brain | None = None
    _lock: Lock = field(default_factory=Lock)

    def view(self, brain: Brain, *, client: str | None = None) -> Brain:
        """Give the brain for the connection's session and project; counts as a heartbeat."""
        with self._lock:
            if self._contact is None:
                self._contact = replace(self.find(brain), client=client)
            last_session = self._last.caller.session if self._last else self.reported_session(brain)
            identified = brain.acting_as(contact=self._contact)
            session = identified.session.meet(last=last_session)
            project = session.project or brain.caller.project
            self._last = identified.acting_as(session=session.key, project=project)
            return self._last

    def close(self) -> None:
        """Record that the client disconnected; it is written soon, or when the brain is closed."""
        with self._lock:
            if self._last is not None:
                self._last.session.leave()
                self._last = None
