"""The shelf of threads."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select

from commonbrain.adapters.sql.tables import threads
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.memory import ThreadRef
from commonbrain.ports.store import IdTaken


@dataclass(frozen=True, slots=True)
class ThreadShelf:
    """Threads of one tenant in one transaction."""

    work: Work

    def open(self, thread: ThreadRef, project: str | None, *, new_id: int, now: datetime) -> int:
        """Find a thread by its key or make it under the new id, or raise `IdTaken`; give its id."""
        known = select(threads.c.id).where(
            threads.c.tenant_id == self.work.tenant, threads.c.key == thread.key
        )
        found = self.work.connection.execute(known).scalar()
        if found is not None:
            return found
        row = {
            "tenant_id": self.work.tenant,
            "id": new_id,
            "key": thread.key,
            "subject": thread.subject,
            "project": project,
            "created_at": now,
        }
        if not self.work.add(threads, row):
            raise IdTaken
        return new_id

    def exists(self, thread_id: int) -> bool:
        """Say whether there is such a thread."""
        there = select(threads.c.id).where(
            threads.c.tenant_id == self.work.tenant, threads.c.id == thread_id
        )
        return self.work.connection.execute(there).first() is not None
