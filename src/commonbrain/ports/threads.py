"""The shelf of threads, the conversations that messages belong to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.domain.memory import Thread, ThreadRef
from commonbrain.domain.scope import Caller
from commonbrain.ports.look import Look


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A message with what was said just before and after it in its thread, in that order."""

    thread: int
    ids: tuple[int, ...]
    """Of what a look allows, the message itself among them."""


class Threads(Protocol):
    """The shelf of threads that messages belong to."""

    def subjects(self, ids: Sequence[int]) -> dict[int, str]:
        """Give the subjects of threads by their ids; unknown ids are absent."""
        ...

    def open(self, thread: ThreadRef, project: str | None, *, new_id: int, now: datetime) -> int:
        """Find a thread by its key or make it under the new id; give its id.

        Raises:
            IdTaken: another thread has the new id; nothing was stored.

        """
        ...

    def last(self) -> int:
        """Give the id of the newest message of any thread, whoever sees it; 0 without any."""
        ...

    def is_begun(self, thread_id: int) -> bool | None:
        """Say whether a message was ever in a thread; None when there is no such thread."""
        ...

    def recent(
        self, caller: Caller, *, now: datetime, below: int, limit: int
    ) -> list[tuple[Thread, int]]:
        """List threads with a current message that a caller sees, each with its newest's id.

        The newest is below `below` and comes first.
        """
        ...

    def messages(
        self, thread_id: int, caller: Caller, *, now: datetime, below: int, limit: int
    ) -> list[int]:
        """List the current messages of a thread that a caller sees, newest first."""
        ...

    def around(
        self, ids: Sequence[int], look: Look, *, before: int, after: int
    ) -> dict[int, Passage]:
        """Give the passage around each of these that is a message of a thread.

        So many messages `before` and `after`, at least 1 each, of those that the look allows: what
        nobody may see or was forgotten lies in no one's way, as long as it is but a few.
        """
        ...

    def participants(self, messages: Sequence[int]) -> set[str]:
        """Give who sent these messages or was sent them by name."""
        ...

    def page(self, *, after: int, limit: int) -> list[Thread]:
        """List threads above one id, ascending."""
        ...

    def merge(self, thread: Thread) -> int:
        """Take in a thread of another store; give the id that it has here from now on.

        Where a key is known under another id, the lower of both stands, so that two stores which
        take in each other's threads end alike; messages here follow.
        """
        ...
