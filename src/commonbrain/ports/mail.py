"""The shelf of mail: to whom messages went, and what became of them there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from commonbrain.domain.message import Place, Reader, Receipt


class Mail(Protocol):
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

    def unread(self, reader: Reader, *, below: Place, limit: int) -> list[Place]:
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
