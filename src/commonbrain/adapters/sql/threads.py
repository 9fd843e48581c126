"""The shelf of threads."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import bindparam, select

from commonbrain.adapters.sql.tables import threads
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.memory import ThreadRef
from commonbrain.ports.store import IdTaken

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
