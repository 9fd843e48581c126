"""The shelf of the ledger: traces read again, and the marks on them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import JSON, ColumnElement, Row, Select, and_, exists, literal, select

from commonbrain.adapters.sql.ledger_tables import feedback, recall_traces
from commonbrain.adapters.sql.work import Work
from commonbrain.domain import ids
from commonbrain.domain.ledger import Entry, Feedback, Mark, Weighed
from commonbrain.ports.ledger import EntryFilter

_SHOWN_MAX: Final = 200
"""Recalls of one session looked through for one that showed a memory, the latest."""


@dataclass(frozen=True, slots=True)
class LedgerShelf:
    """The ledger of one tenant in one transaction."""

    work: Work

    def mark(self, feedback_: Sequence[Feedback]) -> int:
        """Keep marks, each once; one on a trace that is not there is passed over."""
        wanted = sorted({one.trace_id for one in feedback_})
        traces = recall_traces.c.id
        known = select(traces).where(self._here(recall_traces, traces.in_(wanted)))
        there = {row.id for row in self.work.connection.execute(known)}
        return sum(
            self.work.add(feedback, {"tenant_id": self.work.tenant, **asdict(one)})
            for one in feedback_
            if one.trace_id in there
        )

    def showing(
        self, memory_ids: Collection[int], *, agent: str, session: str | None, since: datetime
    ) -> Mapping[int, int]:
        """Give the latest trace of an agent's session that packed each."""
        table = recall_traces.c
        whose = table.agent == agent, table.session.is_not_distinct_from(session)
        question = (
            select(table.id, table.packed)
            .where(self._here(recall_traces, table.id >= ids.make_id(since, 0), *whose))
            .order_by(table.id.desc())
            .limit(_SHOWN_MAX)
        )
        found: dict[int, int] = {}
        for row in self.work.connection.execute(question):
            for id_ in set(row.packed).intersection(memory_ids):
                found.setdefault(id_, row.id)
        return found

    def entries(self, wanted: EntryFilter, *, after: int = 0, limit: int) -> list[Entry]:
        """List recalls above an id with their marks, the oldest first."""
        table = recall_traces.c
        found = self._found(wanted).where(table.id > after)
        return self._read(found.order_by(table.id).limit(limit))

    def latest(
        self, wanted: EntryFilter, *, before: int = ids.LAST, limit: int, is_brief: bool = False
    ) -> list[Entry]:
        """List recalls below an id, the newest first."""
        table = recall_traces.c
        found = self._found(wanted).where(table.id < before)
        found = found.order_by(table.id.desc()).limit(limit)
        if is_brief:
            nothing = literal([], JSON).label("considered")
            brief = [column for column in table if column.name != "considered"]
            found = found.with_only_columns(*brief, nothing)
        return self._read(found)

    def _found(self, wanted: EntryFilter) -> Select[Any]:
        table = recall_traces.c
        here: list[ColumnElement[bool]] = []
        if wanted.since is not None:
            here.append(table.id >= ids.make_id(wanted.since, 0))
        if wanted.until is not None:
            here.append(table.id < ids.make_id(wanted.until, 0))
        if wanted.ranker is not None:
            here.append(table.ranker == wanted.ranker)
        if wanted.is_by_weights:
            here += [table.ranker.is_(None), table.query != ""]
        if wanted.share < 1:
            span = 1 << ids.RANDOM_BITS
            here.append(table.id % span < int(wanted.share * span))
        if wanted.is_marked:
            of_it = self._here(feedback, feedback.c.trace_id == table.id)
            here.append(exists().where(of_it))
        return select(recall_traces).where(self._here(recall_traces, *here))

    def _read(self, question: Select[Any]) -> list[Entry]:
        rows = self.work.connection.execute(question).all()
        marks = self._marks(row.id for row in rows)
        return [_entry(row, marks.get(row.id, {})) for row in rows]

    def _marks(self, traces: Iterable[int]) -> Mapping[int, Mapping[int, frozenset[Mark]]]:
        of_these = self._here(feedback, feedback.c.trace_id.in_(list(traces)))
        question = select(feedback.c.trace_id, feedback.c.memory_id, feedback.c.mark)
        found: defaultdict[int, dict[int, frozenset[Mark]]] = defaultdict(dict)
        for row in self.work.connection.execute(question.where(of_these)):
            known = found[row.trace_id].get(row.memory_id, frozenset())
            found[row.trace_id][row.memory_id] = known | {row.mark}
        return found

    def _here(self, table: Any, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:  # noqa: ANN401 any table that has a tenant
        return and_(table.c.tenant_id == self.work.tenant, *conditions)


def _entry(row: Row[Any], marks: Mapping[int, frozenset[Mark]]) -> Entry:
    return Entry(
        id=row.id,
        asked_at=row.asked_at,
        agent=row.agent,
        session=row.session,
        query=row.query,
        verdict=row.verdict,
        ranker=row.ranker,
        considered=tuple(
            Weighed(
                memory_id=one["id"],
                score=one["score"],
                features=one["features"],
                left_out=one["left_out"],
            )
            for one in row.considered
        ),
        packed=tuple(row.packed),
        degraded=tuple(row.degraded),
        stages_ms=row.stages_ms,
        marks=marks,
    )
