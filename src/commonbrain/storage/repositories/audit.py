"""Both audits as one list: changes of memories, refusals and administrative changes."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, Table, select

from commonbrain.model import ids
from commonbrain.storage.interface import AuditFilter, AuditLine
from commonbrain.storage.schema.activity import access_audit
from commonbrain.storage.schema.memories import audit
from commonbrain.storage.sql.context import SqlContext, count_up_to
from commonbrain.storage.sql.filters import unindexed

_FIELDS: Final = tuple(one.name for one in fields(AuditLine))
_EARLIEST: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of the lowest id."""
_EQUAL: Final = ("agent", "action", "request_id", "memory_id")


@dataclass(frozen=True, slots=True)
class AuditRepository:
    """Reads the audit of memories and the access audit of one tenant, newest first."""

    work: SqlContext

    def latest(self, criteria: AuditFilter, *, before: int | None, limit: int) -> list[AuditLine]:
        """List lines below an id, newest first."""
        lines: list[AuditLine] = []
        for table, query in self._queries(criteria, before=before):
            # The lines of one memory are few; SQLite would walk all lines in their order instead.
            id_ = table.c.id if criteria.memory_id is None else unindexed(table.c.id)
            rows = self.work.connection.execute(query.order_by(id_.desc()).limit(limit))
            lines += (AuditLine(**row) for row in rows.mappings())
        return sorted(lines, key=attrgetter("id"), reverse=True)[:limit]

    def count(self, criteria: AuditFilter, *, before: int | None, at_most: int) -> int:
        """Count lines below an id, up to a number."""
        queries = self._queries(criteria, before=before)
        counts = (count_up_to(self.work.connection, query, at_most=at_most) for _, query in queries)
        return min(sum(counts), at_most)

    def _queries(
        self, criteria: AuditFilter, *, before: int | None
    ) -> Iterator[tuple[Table, Select[Any]]]:
        """Build the query of each audit; only that of memories has lines about a memory."""
        tables = (
            *(() if criteria.is_of_access else (audit,)),
            *(() if criteria.memory_id is not None else (access_audit,)),
        )
        for table in tables:
            columns = [table.c[name] for name in _FIELDS if name in table.c]
            conditions = self._conditions(table, criteria)
            query = select(*columns).where(table.c.tenant_id == self.work.tenant, *conditions)
            yield table, query if before is None else query.where(table.c.id < before)

    def _conditions(self, table: Table, criteria: AuditFilter) -> Iterator[ColumnElement[bool]]:
        for name in _EQUAL:
            if (value := getattr(criteria, name)) is not None:
                yield table.c[name] == value
        if criteria.since is not None:
            # No id is lower than one made at its time, and the primary key finds these.
            yield table.c.id >= ids.make_id(max(criteria.since, _EARLIEST), 0)
            yield table.c.at >= criteria.since
        if criteria.until is not None:
            yield table.c.at <= criteria.until
