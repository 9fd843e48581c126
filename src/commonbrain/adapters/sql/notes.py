"""The shelf of working notes."""

from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, and_, delete, insert, or_, select, text, update

from commonbrain.adapters.sql.coordination_tables import notes
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.note import Note
from commonbrain.domain.scope import Caller

_ROWS: Final = select(*(notes.c[field.name] for field in fields(Note)))


@dataclass(frozen=True, slots=True)
class NoteShelf:
    """Working notes of one tenant in one transaction."""

    work: Work

    def put(self, note: Note) -> None:
        """Keep a note in the place of the one with its agent, session and key."""
        self.drop(note)
        row = {"tenant_id": self.work.tenant, **asdict(note)}
        self.work.connection.execute(insert(notes), row)

    def drop(self, note: Note) -> None:
        """Take away the note with this one's agent, session and key."""
        here = self._written(note.agent, note.session), notes.c.key == note.key
        self.work.connection.execute(delete(notes).where(*here))

    def of(self, caller: Caller, *, now: datetime) -> list[Note]:
        """List the notes of the caller's session, by key."""
        here = self._written(caller.agent, caller.session or "")
        statement = _ROWS.where(here, _lives(now)).order_by(notes.c.key)
        return [Note(**row) for row in self.work.connection.execute(statement).mappings()]

    def pinned(self, project: str | None, *, now: datetime) -> list[Note]:
        """List the pinned notes of a project and of none, by key, then by who wrote them."""
        here = notes.c.tenant_id == self.work.tenant
        of_project = or_(notes.c.project.is_(None), notes.c.project == project)
        statement = (
            # As a word, because SQLite uses an index of few rows only for its very condition.
            _ROWS.where(here, text("notes.pinned"), of_project, _lives(now)).order_by(
                notes.c.key, notes.c.agent, notes.c.session
            )
        )
        return [Note(**row) for row in self.work.connection.execute(statement).mappings()]

    def keep(self, caller: Caller, *, until: datetime, now: datetime) -> None:
        """Let the unpinned notes of the caller's session live until then; drop what has expired."""
        here = notes.c.tenant_id == self.work.tenant
        self.work.connection.execute(delete(notes).where(here, notes.c.expires_at <= now))
        own = self._written(caller.agent, caller.session or "")
        statement = update(notes).where(own, ~notes.c.pinned, notes.c.expires_at < until)
        self.work.connection.execute(statement.values(expires_at=until))

    def _written(self, agent: str, session: str) -> ColumnElement[bool]:
        return and_(
            notes.c.tenant_id == self.work.tenant,
            notes.c.agent == agent,
            notes.c.session == session,
        )


def _lives(now: datetime) -> ColumnElement[bool]:
    return or_(notes.c.expires_at.is_(None), notes.c.expires_at > now)
