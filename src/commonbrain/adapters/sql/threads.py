"""The shelf of threads."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import insert, select

from commonbrain.adapters.sql.tables import threads
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.memory import ThreadRef


@dataclass(frozen=True, slots=True)
class ThreadShelf:
    """Threads of one tenant in one transaction."""

    work: Work

    def open(self, thread: ThreadRef, project: str | None, *, new_id: int, now: datetime) -> int:
        """Find a thread by its key or make it under the new id; give its id."""
        known = select(threads.c.id).where(
            threads.c.tenant_id == self.work.tenant, threads.c.key == thread.key
        )
        found = self.work.connection.execute(known).scalar()
        if found is not None:
            return found
        self.work.connection.execute(
            insert(threads).values(
                tenant_id=self.work.tenant,
                id=new_id,
                key=thread.key,
                subject=thread.subject,
                project=project,
                created_at=now,
            )
        )
        return new_id
