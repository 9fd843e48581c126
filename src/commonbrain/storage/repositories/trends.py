"""Figures over time, aggregated in the database: memories stored, recalls, and calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import BigInteger, ColumnElement, Subquery, case, func, literal_column, select

from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.query import FeedbackMark
from commonbrain.model.timestamps import from_millis
from commonbrain.observability.tool_events import OK, REFUSED, WEB_TRANSPORT
from commonbrain.storage.schema.activity import feedback, recall_traces, tool_events
from commonbrain.storage.schema.memories import memories
from commonbrain.storage.sql.context import Repository

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
_MILLISECOND: Final = timedelta(milliseconds=1)
_HELPFUL: Final = (FeedbackMark.USED, FeedbackMark.USEFUL)


class StoredRow(NamedTuple):
    """The memories of a kind stored in a period, whatever became of them."""

    at: datetime
    kind: Kind
    memories: int


class RecallRow(NamedTuple):
    """The recalls with one verdict in a period."""

    at: datetime
    verdict: str
    recalls: int
    helped: int
    """Those of which a memory was used or rated useful."""
    misled: int
    """Those of which a memory was rated wrong."""


class CallRow(NamedTuple):
    """The calls of a period, with percentiles by nearest rank."""

    at: datetime
    calls: int
    failed: int
    p50_ms: float
    p95_ms: float


class TrendRepository(Repository):
    """Figures of one tenant by UTC period, oldest first; periods without rows are absent.

    Ids begin with the time, so that primary keys bound what is read.
    """

    def stored(self, *, since: datetime, period: timedelta = DAY) -> list[StoredRow]:
        """Count the memories stored since a time, by period and kind."""
        table = memories.c
        at = _period(table.id, period)
        question = (
            select(at, table.kind, func.count())
            .where(table.tenant_id == self.work.tenant, table.id >= ids.make_id(since, 0))
            .group_by(at, table.kind)
            .order_by(at, table.kind)
        )
        rows = self.work.connection.execute(question)
        return [StoredRow(_start(at, period), kind, count) for at, kind, count in rows]

    def recalls(
        self, *, since: datetime, agent: str | None, limit: int, period: timedelta = DAY
    ) -> list[RecallRow]:
        """Count the recalls since a time, by period and verdict, and how often they helped.

        Recalls without a query only list memories: they are left out.

        Args:
            since: the earliest time.
            agent: only those of this agent; None for all.
            limit: the number of recalls read, the newest.
            period: the length of a period.

        """
        table = recall_traces.c
        here = [
            table.tenant_id == self.work.tenant,
            table.id >= ids.make_id(since, 0),
            table.query != "",
        ]
        if agent is not None:
            here.append(table.agent == agent)
        newest = select(table.id, table.verdict).where(*here).order_by(table.id.desc()).limit(limit)
        read = newest.subquery()
        marked = self._marked(since)
        at = _period(read.c.id, period)
        question = (
            select(
                at,
                read.c.verdict,
                func.count(),
                func.sum(func.coalesce(marked.c.helped, 0)),
                func.sum(func.coalesce(marked.c.misled, 0)),
            )
            .select_from(read.outerjoin(marked, marked.c.trace_id == read.c.id))
            .group_by(at, read.c.verdict)
            .order_by(at, read.c.verdict)
        )
        rows = self.work.connection.execute(question)
        return [RecallRow(_start(at, period), status, *counts) for at, status, *counts in rows]

    def calls(self, *, since: datetime, limit: int, period: timedelta = HOUR) -> list[CallRow]:
        """Return figures of agents' calls since a time by period, from the newest `limit` calls.

        People who read the page are left out: its screens are slower than most calls of agents.
        """
        table = tool_events.c
        read = (
            select(table.id, table.duration_ms, table.outcome)
            .where(
                table.tenant_id == self.work.tenant,
                table.id >= ids.make_id(since, 0),
                table.door != WEB_TRANSPORT,
            )
            .order_by(table.id.desc())
            .limit(limit)
            .subquery()
        )
        at = _period(read.c.id, period).label("at")
        rank = func.cume_dist().over(partition_by=at, order_by=read.c.duration_ms)
        ranked = select(at, read.c.duration_ms, read.c.outcome, rank.label("rank")).subquery()
        # Neither engine has both a percentile by group and the other's spelling of it; the smallest
        # duration that a share of the calls does not exceed is the same in both.
        question = (
            select(
                ranked.c.at,
                func.count(),
                func.sum(case((ranked.c.outcome.not_in((OK, REFUSED)), 1), else_=0)),
                *(
                    func.min(case((ranked.c.rank >= share, ranked.c.duration_ms)))
                    for share in (0.5, 0.95)
                ),
            )
            .group_by(ranked.c.at)
            .order_by(ranked.c.at)
        )
        rows = self.work.connection.execute(question)
        return [CallRow(_start(at, period), *figures) for at, *figures in rows]

    def considered(self, *, agent: str | None, limit: int) -> list[Sequence[Mapping[str, Any]]]:
        """List the candidates of the newest recalls with a query, as stored."""
        table = recall_traces.c
        here = [table.tenant_id == self.work.tenant, table.query != ""]
        if agent is not None:
            here.append(table.agent == agent)
        newest = select(table.considered).where(*here).order_by(table.id.desc()).limit(limit)
        return list(self.work.connection.execute(newest).scalars())

    def _marked(self, since: datetime) -> Subquery:
        """Select the recalls with feedback, and whether it says that they helped or misled."""
        table = feedback.c
        return (
            select(
                table.trace_id,
                func.max(case((table.mark.in_(_HELPFUL), 1), else_=0)).label("helped"),
                func.max(case((table.mark == FeedbackMark.WRONG, 1), else_=0)).label("misled"),
            )
            .where(table.tenant_id == self.work.tenant, table.trace_id >= ids.make_id(since, 0))
            .group_by(table.trace_id)
            .subquery()
        )


def _period(id_: ColumnElement[Any], period: timedelta) -> ColumnElement[int]:
    """Return the number of the period, counted from 1970, in which an id was made."""
    # As a literal, because Postgres groups by an expression only if it is the same text.
    span = (period // _MILLISECOND) << ids.RANDOM_BITS
    return id_ // literal_column(str(span), BigInteger())


def _start(number: int, period: timedelta) -> datetime:
    return from_millis(number * (period // _MILLISECOND))
