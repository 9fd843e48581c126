"""The shelf of the ledger: traces read again, and the marks on them."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Final

from sqlalchemy import JSON, ColumnElement, Row, Select, and_, exists, literal, select

from commonbrain.adapters.sql.ledger_tables import feedback, recall_traces
from commonbrain.adapters.sql.work import Work
from commonbrain.domain import ids
from commonbrain.domain.ledger import MARKED_WITHIN, Entry, Extent, Feedback, Mark, Use, Weighed
from commonbrain.ports.ledger import EntryFilter

_SHOWN_MAX: Final = 200
"""Recalls of one session looked through for one that showed a memory, the latest."""
_MOMENT: Final = timedelta(milliseconds=1)
"""As exact as ids are: what was asked in the same one was asked before."""


@dataclass(frozen=True, slots=True)
class LedgerShelf:
    """The ledger of one tenant in one transaction."""

    work: Work

    def mark(self, told: Sequence[Feedback]) -> int:
        """Keep marks, each once; one on a trace that is not there is passed over."""
        wanted = sorted({one.trace_id for one in told})
        traces = recall_traces.c.id
        known = select(traces).where(self._here(recall_traces, traces.in_(wanted)))
        there = {row.id for row in self.work.connection.execute(known)}
        return sum(
            self.work.add(feedback, {"tenant_id": self.work.tenant, **asdict(one)})
            for one in told
            if one.trace_id in there
        )

    def showing(self, use: Use) -> Mapping[int, int]:
        """Give the latest trace of the session that packed each, of those just before its use."""
        table = recall_traces.c
        whose = table.agent == use.agent, table.session.is_not_distinct_from(use.session)
        since, until = (ids.make_id(at, 0) for at in (use.at - MARKED_WITHIN, use.at + _MOMENT))
        question = (
            select(table.id, table.packed)
            .where(self._here(recall_traces, table.id >= since, table.id < until, *whose))
            .order_by(table.id.desc())
            .limit(_SHOWN_MAX)
        )
        found: dict[int, int] = {}
        for row in self.work.connection.execute(question):
            for id_ in set(row.packed).intersection(use.ids):
                found.setdefault(id_, row.id)
        return self._told_in_part(found) if use.is_fetch and found else found

    def credit(self, use: Use) -> Sequence[int]:
        """Mark what was used on the traces that showed it; give what none that is here did."""
        shown = self.showing(use)
        self.mark(use.marks(shown))
        return [id_ for id_ in use.ids if id_ not in shown]

    def _told_in_part(self, shown: Mapping[int, int]) -> dict[int, int]:
        """Leave out what a trace had told the whole of."""
        table = recall_traces.c
        here = self._here(recall_traces, table.id.in_(sorted(set(shown.values()))))
        told = {
            (row.id, one["id"])
            for row in self.work.connection.execute(select(table.id, table.considered).where(here))
            for one in row.considered
            if one.get("shown") == Extent.WHOLE
        }
        return {id_: trace for id_, trace in shown.items() if (trace, id_) not in told}

    def entries(self, wanted: EntryFilter, *, after: int = 0, limit: int) -> list[Entry]:
        """List recalls above an id with their marks, the oldest first."""
        above = recall_traces.c.id > after
        found = select(recall_traces).where(self._here(recall_traces, above, *self._of(wanted)))
        return self._read(found.order_by(recall_traces.c.id).limit(limit))

    def latest(
        self, wanted: EntryFilter, *, before: int = ids.LAST, limit: int, is_brief: bool = False
    ) -> list[Entry]:
        """List recalls below an id, the newest first."""
        table = recall_traces.c
        below = self._here(recall_traces, table.id < before, *self._of(wanted))
        found = select(recall_traces).where(below).order_by(table.id.desc()).limit(limit)
        if is_brief:
            nothing = literal([], JSON).label("considered")
            brief = [column for column in table if column.name != "considered"]
            found = found.with_only_columns(*brief, nothing)
        return self._read(found)

    def _read(self, question: Select[Any]) -> list[Entry]:
        rows = self.work.connection.execute(question).all()
        marks = self._marks(row.id for row in rows)
        return [_entry(row, marks.get(row.id, {})) for row in rows]

    def _of(self, wanted: EntryFilter) -> Iterator[ColumnElement[bool]]:
        table = recall_traces.c
        if wanted.since is not None:
            yield table.id >= ids.make_id(wanted.since, 0)
        if wanted.until is not None:
            yield table.id < ids.make_id(wanted.until, 0)
        for name in ("ranker", "agent", "session"):
            if (value := getattr(wanted, name)) is not None:
                yield table[name] == value
        if wanted.is_by_weights:
            yield table.ranker.is_(None)
            yield table.query != ""
        if wanted.share < 1:
            span = 1 << ids.RANDOM_BITS
            yield table.id % span < int(wanted.share * span)
        if wanted.is_marked:
            yield exists().where(self._here(feedback, feedback.c.trace_id == table.id))

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
                left_out=one.get("left_out"),
                shown=Extent(one["shown"]) if "shown" in one else None,
            )
            for one in row.considered
        ),
        packed=tuple(row.packed),
        degraded=tuple(row.degraded),
        stages_ms=row.stages_ms,
        marks=marks,
    )
