"""The shelf of sessions: who is at work, and who was."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from commonbrain.model.memory import Thread, ThreadRef
from commonbrain.model.messages import Mailbox, Reader, Receipt
from commonbrain.model.scope import Caller
from commonbrain.model.sessions import Ending, Note, Process, Session
from commonbrain.model.tasks import Ack
from commonbrain.storage.query_scope import QueryScope


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A sign of life, or of an end: the session as who heard it at `heartbeat_at` knows it."""

    tenant: str
    session: Session


class SessionRepository(Protocol):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadPassage:
    """A message with what was said just before and after it in its thread, in that order."""

    thread: int
    ids: tuple[int, ...]
    """Of what a look allows, the message itself among them."""


class ThreadRepository(Protocol):
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
        self, ids: Sequence[int], look: QueryScope, *, before: int, after: int
    ) -> dict[int, ThreadPassage]:
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


class MessageRepository(Protocol):
    """The shelf of receipts.

    A broadcast reaches who reads within its project, but its sender, from seven days before the
    first session of the reader on.
    """

    def post(self, deliveries: Sequence[Receipt]) -> None:
        """Deliver messages, to everybody by `EVERYBODY`; or share memories, as if read."""
        ...

    def open(self, reader: Reader) -> None:
        """Begin the reader's mailbox, where it has none yet: what comes from now on waits there."""
        ...

    def unread(self, reader: Reader, *, below: Mailbox, limit: int) -> list[Mailbox]:
        """List what is current and unread below a place, urgent first, newest first within."""
        ...

    def count_unread(self, reader: Reader, *, limit: int) -> int:
        """Count what is unread, up to a limit."""
        ...

    def unread_among(self, reader: Reader, ids: Sequence[int]) -> set[int]:
        """Say which of these messages are for the reader and unread."""
        ...

    def read(self, reader: Reader, *, below: int, limit: int) -> list[int]:
        """List what was read of what is current, below an id, newest first."""
        ...

    def take(self, reader: Reader) -> None:
        """Give the reader rows of its own for the next broadcasts it has none for."""
        ...

    def mark(self, reader: Reader, ids: Sequence[int]) -> None:
        """Mark messages as read now; what went to others is passed over, the first time stands."""
        ...

    def acknowledge(self, reader: Reader, message_id: int, *, answer: str | None) -> bool:
        """Keep an acknowledgement of a message that is read; False when it did not go there."""
        ...

    def of(self, ids: Sequence[int]) -> Mapping[int, tuple[Receipt, ...]]:
        """Give the receipts of messages, by agent."""
        ...

    def acks(self, ids: Sequence[int]) -> Mapping[int, tuple[Receipt, ...]]:
        """Give the receipts of messages that were acknowledged, by agent."""
        ...

    def between(self, reader: Reader, other: str, *, below: int, limit: int) -> list[int]:
        """List messages from either to the other, and the other's to all, newest first."""
        ...

    def delegated(self, agent: str, *, below: int, limit: int) -> list[int]:
        """List tasks that a message assigned, by the agent or to it, newest first."""
        ...

    def told(self, messages: Sequence[int]) -> list[int]:
        """List the memories of any state that name one of these as the message they come from."""
        ...

    def merge(self, receipt: Receipt) -> bool:
        """Take in what another store knows of a delivery; say whether it was new here."""
        ...


class AckRepository(Protocol):
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


class ScratchpadRepository(Protocol):
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedRule:
    """The first of some memories by their ids, best first, and how many there are in all."""

    ids: tuple[int, ...] = ()
    total: int = 0


class BriefingRepository(Protocol):
    """The shelf of what binds and what is owed, within a look at active memories."""

    def blockers(self, look: QueryScope, *, limit: int) -> RankedRule:
        """Find BLOCKER rules without a trigger: pinned first, then of a project, then newest."""
        ...

    def patterns(self, look: QueryScope) -> dict[int, bool]:
        """Give every PATTERN rule without a trigger, and whether it is pinned; newest first."""
        ...

    def has_patterns(self, look: QueryScope) -> bool:
        """Say whether there is any PATTERN rule without a trigger."""
        ...

    def owed(self, look: QueryScope, *, limit: int) -> RankedRule:
        """Find tasks that are open or blocked: by priority, then the earliest due, then oldest."""
        ...

    def latest(self, look: QueryScope, *, limit: int) -> list[int]:
        """List what a look of few rows allows, latest occurrence first."""
        ...
