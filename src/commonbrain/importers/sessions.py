"""The sessions of one conversation: their threads, their clocks, and the drafts of their turns."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final

from commonbrain.domain.kinds import Kind, MessageDetail
from commonbrain.domain.limits import TEXT_BYTES_MAX
from commonbrain.domain.memory import Draft, ThreadRef
from commonbrain.importers.pieces import cut
from commonbrain.importers.references import name, reference
from commonbrain.importers.turns import Turn, moment
from commonbrain.ports.importing import Unreadable

_BETWEEN_TURNS: Final = timedelta(seconds=1)
"""A turn without a time of its own follows the one before by so much, which keeps the order."""


@dataclass(slots=True, kw_only=True)
class Session:
    """A sitting: its thread, how many turns it has had, and when the next one is said."""

    thread: ThreadRef
    clock: datetime | None
    said: int = 0

    def tick(self, at: datetime | None) -> datetime | None:
        """Give the time of a turn that says `at`, and set the clock for the next one."""
        now = at or self.clock
        try:
            self.clock = now + _BETWEEN_TURNS if now else None
        except OverflowError:
            self.clock = now
        return now


@dataclass(slots=True, kw_only=True)
class Conversation:
    """Makes drafts of turns as they come; `name` is what their references begin with."""

    name: str
    title: str
    project: str | None
    sessions: dict[str, Session] = field(default_factory=dict[str, Session])

    def open(self, key: str, *, at: datetime | None, time: object = None) -> Session:
        """Begin a session; `time` is shown as the source writes it where it cannot be read."""
        spoken = f"session {key.removeprefix('session_')}" if key else ""
        day = f"{at.day} {at:%B} {at.year}" if at else _as_written(time)
        subject = ", ".join(part for part in (self.title, spoken, day) if part)
        thread = ThreadRef(key=reference(self.name, key), subject=reference(subject, ""))
        self.sessions[key] = Session(thread=thread, clock=at)
        return self.sessions[key]

    def say(self, turn: Turn, *, session: str | None = None) -> Iterator[Draft | Unreadable]:
        """Make a draft of a turn, or say why there is none.

        A turn that no memory can hold becomes several, cut between its lines, all of its time and
        place. A time that cannot be read is kept in the words, where search finds it.
        """
        key = session or turn.session or ""
        at = moment(turn.time)
        sitting = self.sessions.get(key) or self.open(key, at=at)
        sitting.said += 1
        place = turn.id or ":".join(part for part in (key, str(sitting.said)) if part)
        where = reference(self.name, place)
        occurred_at = sitting.tick(at)
        unread = _as_written(turn.time) if at is None else ""
        body = f"{turn.text}\n[said at: {unread}]" if unread and turn.text else turn.text
        if not body:
            yield Unreadable(where=where, reason="The turn has no text.")
            return
        draft = Draft(
            kind=Kind.MESSAGE,
            body=body,
            project=name(self.project) if self.project else None,
            source_ref=where,
            occurred_at=occurred_at,
            thread=sitting.thread,
            detail=MessageDetail(sender=name(turn.speaker) if turn.speaker else None),
        )
        yield from _fitting(draft)


def _fitting(draft: Draft) -> Iterator[Draft]:
    """Give a draft, or its parts where no memory can hold it."""
    if len(draft.body.encode("utf-8", "replace")) <= TEXT_BYTES_MAX:
        yield draft
        return
    for number, part in enumerate(cut(draft.body), 1):
        yield replace(draft, body=part, part=number)


def _as_written(time: object) -> str:
    return "" if time is None else str(time).strip()
