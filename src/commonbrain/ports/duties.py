"""The shelves of what agents owe and keep at hand: acknowledgements and working notes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Protocol

from commonbrain.domain.action_items import Ack
from commonbrain.domain.note import Note
from commonbrain.domain.scope import Caller


class Duties(Protocol):
    """The shelf of acknowledgements, and of what still wants one."""

    def pending(
        self, caller: Caller, *, projects: Collection[str] | None, now: datetime
    ) -> list[int]:
        """List the action items that bind a caller, oldest first.

        They are active, unexpired, the caller's to see, of one of the projects or of none (of any
        project, where None is given), and were set by another than the caller's very session. A
        task that anybody has acknowledged binds nobody; a rule binds each session until that
        session has acknowledged it; what is deferred binds again from that moment.
        """
        ...

    def owed(self, ids: Sequence[int]) -> set[int]:
        """Give of memories the tasks that must be acknowledged and are still to be done."""
        ...

    def has_ended(self, session: str) -> bool:
        """Say whether sessions of this key are known and all over."""
        ...

    def put(self, ack: Ack) -> None:
        """Keep a decision in the place of the one of the same agent and session, if any."""
        ...

    def drop(self, ack: Ack) -> None:
        """Take the decision of that agent and session on that memory away."""
        ...

    def of(self, ids: Sequence[int]) -> dict[int, list[Ack]]:
        """Give the decisions on memories, oldest first; memories without any are absent."""
        ...


class Notes(Protocol):
    """The shelf of working notes; expired ones are not there."""

    def put(self, note: Note) -> None:
        """Keep a note in the place of the one with its agent, session and key, if any."""
        ...

    def drop(self, note: Note) -> None:
        """Take away the note with this one's agent, session and key."""
        ...

    def of(self, caller: Caller, *, now: datetime) -> list[Note]:
        """List the notes of the caller's session, by key."""
        ...

    def pinned(self, project: str | None, *, now: datetime) -> list[Note]:
        """List the pinned notes of a project and of none, by key, then by who wrote them.

        Without a project, those of none.
        """
        ...

    def keep(self, caller: Caller, *, until: datetime, now: datetime) -> None:
        """Let the unpinned notes of the caller's session live until then; drop what has expired."""
        ...
