"""The shelf of threads."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, bindparam, delete, select, update

from commonbrain.adapters.sql.tables import DETAILS, threads
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import Thread, ThreadRef
from commonbrain.ports.store import IdTaken

_ROW: Final = select(*(threads.c[field.name] for field in fields(Thread)))
_MESSAGES: Final = DETAILS[Kind.MESSAGE]
_SUBJECTS: Final = select(threads.c.id, threads.c.subject).where(
    threads.c.tenant_id == bindparam("tenant"),
    threads.c.id.in_(bindparam("ids", expanding=True)),
)


@dataclass(frozen=True, slots=True)
class ThreadShelf:
    """Threads of one tenant in one transaction."""

    work: Work

    def subjects(self, ids: Sequence[int]) -> dict[int, str]:
        """Give the subjects of threads by their ids; unknown ids are absent."""
        if not ids:
            return {}
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        rows = self.work.connection.execute(_SUBJECTS, given)
        return {id_: subject for id_, subject in rows}  # noqa: C416 rows are not pairs to a checker

    def open(self, thread: ThreadRef, project: str | None, *, new_id: int, now: datetime) -> int:
        """Find a thread by its key or make it under the new id, or raise `IdTaken`; give its id."""
        known = self._id_of(thread.key)
        if known is not None:
            return known
        made = Thread(
            id=new_id, key=thread.key, subject=thread.subject, project=project, created_at=now
        )
        if not self._add(made):
            raise IdTaken
        return new_id

    def page(self, *, after: int, limit: int) -> list[Thread]:
        """List threads above one id, ascending."""
        here = threads.c.tenant_id == self.work.tenant, threads.c.id > after
        statement = _ROW.where(*here).order_by(threads.c.id).limit(limit)
        return [Thread(**row) for row in self.work.connection.execute(statement).mappings()]

    def merge(self, thread: Thread) -> int:
        """Take in a thread of another store; of two ids for one key the lower stands."""
        known = self._id_of(thread.key)
        if known is None:
            self._add(thread)
            return thread.id
        if known <= thread.id:
            return known
        # The key is unique, so that the old row has to leave its key before the new one comes.
        self._update_thread(known, key=f"{thread.key}\n{known}")
        self._add(thread)
        self._move_messages(known, to=thread.id)
        self.work.connection.execute(delete(threads).where(*self._at(known)))
        return thread.id

    def _id_of(self, key: str) -> int | None:
        here = threads.c.tenant_id == self.work.tenant, threads.c.key == key
        return self.work.connection.execute(select(threads.c.id).where(*here)).scalar()

    def _add(self, thread: Thread) -> bool:
        return self.work.add(threads, {"tenant_id": self.work.tenant, **asdict(thread)})

    def _update_thread(self, id_: int, *, key: str) -> None:
        self.work.connection.execute(update(threads).where(*self._at(id_)).values(key=key))

    def _move_messages(self, id_: int, *, to: int) -> None:
        here = _MESSAGES.c.tenant_id == self.work.tenant, _MESSAGES.c.thread_id == id_
        self.work.connection.execute(update(_MESSAGES).where(*here).values(thread_id=to))

    def _at(self, id_: int) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        return threads.c.tenant_id == self.work.tenant, threads.c.id == id_
