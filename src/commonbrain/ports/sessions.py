"""The shelf of sessions: who is at work, and who was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.domain.session import Ending, Process, Session


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A sign of life, or of an end: the session as who heard it at `heartbeat_at` knows it."""

    tenant: str
    session: Session


class Sessions(Protocol):
    """The shelf of sessions; each is known by its agent and key."""

    def get(self, agent: str, key: str) -> Session | None:
        """Give a session, live or over; None when it was never seen."""
        ...

    def save(self, session: Session) -> None:
        """Write a session whole, over what is there under its agent and key; the id stays."""
        ...

    def live(
        self, *, limit: int, agent: str | None = None, project: str | None = None
    ) -> list[Session]:
        """List who is not known to be over, latest heartbeat first."""
        ...

    def of_process(self, agent: str, process: Process, *, cwd: str | None) -> list[Session]:
        """List an agent's live sessions of one process in one folder, oldest first."""
        ...

    def to_probe(self, host: str, *, limit: int) -> list[Session]:
        """List live sessions with a process on this host, the longest unlooked-at first."""
        ...

    def silent(self, host: str, *, since: datetime, limit: int) -> list[Session]:
        """List live sessions unheard since then that nobody on this host can look at."""
        ...

    def probed(self, ids: Sequence[int], *, at: datetime) -> None:
        """Note when sessions were looked at."""
        ...

    def end(self, ids: Sequence[int], *, ending: Ending, at: datetime) -> None:
        """End those of the sessions that are live."""
        ...
