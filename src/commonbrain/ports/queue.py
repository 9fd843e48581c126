"""A queue of tickets: who works on jobs need not look for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What a queue carries: whose job, and which."""

    tenant: str
    job: int


class Queue(Protocol):
    """Tickets in, tickets out: it makes workers quick, and may lose all it holds."""

    def put(self, ticket: Ticket) -> None:
        """Tell some worker of a job that is committed.

        Raises:
            Unavailable: `queue_down`; the job's row is found without it.

        """
        ...

    def take(self) -> Ticket | None:
        """Give a ticket to one of those who ask; None when there was none for about a second.

        Raises:
            Unavailable: `queue_down`.

        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
