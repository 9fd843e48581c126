"""Learned models, evaluations, and the log of recalls with feedback."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa

from commonbrain.model import ids
from commonbrain.model.limits import MODELS_SHOWN_MAX
from commonbrain.model.model_card import (
    SERVING,
    ModelCard,
    ModelRole,
    ModelState,
    replacement_reason,
)
from commonbrain.model.query import (
    MARKED_WITHIN,
    VOTES,
    Feedback,
    FeedbackEvent,
    FeedbackMark,
    RankedCandidate,
    RecallLogEntry,
    ShownExtent,
)
from commonbrain.model.values import asdict, dataclass
from commonbrain.storage.interface import EntryFilter
from commonbrain.storage.schema.activity import evaluations, feedback, models, recall_traces
from commonbrain.storage.sql.context import Repository, count_up_to

_MOVES: Final = ("digest", "state", "percent", "allow", "moved_at", "reason")
_UNMOVED: Final = ("digest", "state", "moved_at")
"""Columns that change when a card moves or its artifact is dropped."""
_CARD: Final = sa.select(*(column for column in models.columns if column.name != "tenant_id"))


class ModelRepository(Repository):
    """Cards of learned models; each role has at most one active model and one canary."""

    def add(self, card: ModelCard) -> bool:
        """Insert a card; return False if its id is taken."""
        return self.work.add(models, {"tenant_id": self.work.tenant, **_row(card)})

    def get(self, id_: int) -> ModelCard | None:
        """Return a card; None if there is none."""
        return next(iter(self._all(_CARD.where(self.work.here(models, id=id_)))), None)

    def listed(
        self, role: ModelRole | None = None, *, before: int | None = None, limit: int
    ) -> list[ModelCard]:
        """List cards, newest first, starting below `before` if given."""
        cards = _CARD.where(self.work.here(models))
        if role is not None:
            cards = cards.where(models.c.role == role)
        if before is not None:
            cards = cards.where(models.c.id < before)
        return self._all(cards.order_by(models.c.id.desc()).limit(limit))

    def serving(self, role: ModelRole | None = None) -> list[ModelCard]:
        """Return the active model and the canary of a role, or of all, as far as they exist."""
        serving = _CARD.where(self.work.here(models, models.c.state.in_(sorted(SERVING))))
        return self._all(serving if role is None else serving.where(models.c.role == role))

    def replaced_by(self, card: ModelCard) -> ModelCard | None:
        """Find the model that an active one replaced, by the reason of its retirement.

        A model whose artifact was deleted since cannot serve again.
        """
        if card.state is not ModelState.ACTIVE:
            return None
        known = self.listed(card.role, limit=MODELS_SHOWN_MAX)
        retired = (one for one in known if one.state is ModelState.RETIRED and one.digest)
        return next((one for one in retired if one.reason == replacement_reason(card)), None)

    def has_artifact(self, digest: str) -> bool:
        """Check whether any card has an artifact with this digest."""
        here = self.work.here(models, digest=digest)
        return self.work.connection.execute(sa.select(sa.exists().where(here))).scalar_one()

    def move(self, before: ModelCard, after: ModelCard) -> bool:
        """Write the new state of a card; return False if the row no longer equals `before`.

        A digest may be removed but not replaced. Nothing is written either if another model of the
        role is already active, or a canary.
        """
        unmoved = [models.c[name] == getattr(before, name) for name in _UNMOVED]
        here = self.work.here(models, models.c.id == before.id, *unmoved)
        if after.state in SERVING and after.state is not before.state:
            other = models.alias()
            taken = sa.select(other.c.id).where(
                other.c.tenant_id == self.work.tenant,
                other.c.role == after.role,
                other.c.state == after.state,
            )
            here = sa.and_(here, ~sa.exists(taken))
        row = _row(after)
        statement = sa.update(models).where(here).values({name: row[name] for name in _MOVES})
        return self.work.connection.execute(statement).rowcount > 0

    def _all(self, question: sa.Select[Any]) -> list[ModelCard]:
        rows = self.work.connection.execute(question).mappings()
        return [ModelCard(**row) for row in rows]


def _row(card: ModelCard) -> dict[str, Any]:
    return {**asdict(card), "told": dict(card.told)}


class EvaluationRepository(Repository):
    """Evaluations of one tenant; the latest of each name are kept."""

    def add(self, evaluation: StoredEvaluation) -> bool:
        """Insert an evaluation; return False if its id is taken."""
        row = {**asdict(evaluation), "setup": dict(evaluation.setup)}
        return self.work.add(evaluations, {"tenant_id": self.work.tenant, **row})

    def listed(self, name: str, *, limit: int) -> list[StoredEvaluation]:
        """List the evaluations of a name, newest first."""
        table = evaluations.c
        columns = [column for column in table if column.name != "tenant_id"]
        here = sa.select(*columns).where(table.tenant_id == self.work.tenant, table.name == name)
        rows = self.work.connection.execute(here.order_by(table.id.desc()).limit(limit)).mappings()
        return [StoredEvaluation(**_figures_of(row)) for row in rows]

    def surplus(self, *, newest: int) -> int:
        """Count the evaluations with at least `newest` newer ones of their name."""
        old = self._older(newest).subquery()
        return self.work.connection.execute(
            sa.select(sa.func.count()).select_from(old)
        ).scalar_one()

    def drop(self, *, newest: int, limit: int) -> int:
        """Delete up to `limit` of those, oldest first; return the number deleted."""
        table, old = evaluations.c, self._older(newest).subquery()
        page = sa.select(old.c.id).order_by(old.c.id).limit(limit)
        here = sa.delete(evaluations).where(table.tenant_id == self.work.tenant, table.id.in_(page))
        return self.work.connection.execute(here).rowcount

    def _older(self, newest: int) -> sa.Select[tuple[int]]:
        """Match evaluations with at least `newest` newer ones of their name."""
        table = evaluations.c
        newer = sa.func.row_number().over(partition_by=table.name, order_by=table.id.desc())
        ranked = sa.select(table.id, newer.label("place")).where(
            table.tenant_id == self.work.tenant
        )
        known = ranked.subquery()
        return sa.select(known.c.id).where(known.c.place > newest)


def _figures_of(row: sa.RowMapping) -> dict[str, Any]:
    figures = {name: Figure(**one) for name, one in row["figures"].items()}
    return {**row, "figures": figures}


_AS_STORED: Final = (*("id", "asked_at", "agent", "session", "query", "ranker", "stages_ms"),)
"""What an entry of the log and its row have alike."""
_SHOWN_MAX: Final = 200
"""Recalls of one session looked through for one that showed a memory, the latest."""
_MILLISECOND: Final = timedelta(milliseconds=1)
"""Resolution of ids: a recall in the same millisecond counts as earlier."""


class RecallLogRepository(Repository):
    """The recalls of one tenant: what they considered and packed, and the feedback on it."""

    def mark(self, marks: Sequence[Feedback]) -> int:
        """Store feedback, each once; skip unknown traces; return the number stored."""
        named = sorted({one.trace_id for one in marks})
        traces = recall_traces.c.id
        known = sa.select(traces).where(self.work.here(recall_traces, traces.in_(named)))
        there = {row.id for row in self.work.connection.execute(known)}
        return sum(
            self.work.add(feedback, self.work.row_of(one)) for one in marks if one.trace_id in there
        )

    def showing(self, use: FeedbackEvent) -> Mapping[int, int]:
        """Map memories to the latest trace of the session that packed them, in `MARKED_WITHIN`.

        A memory is absent if no trace packed it, and for a fetch also if that trace showed it in
        full.
        """
        table = recall_traces.c
        whose = table.agent == use.agent, table.session.is_not_distinct_from(use.session)
        since, until = (
            ids.make_id(at, 0) for at in (use.at - MARKED_WITHIN, use.at + _MILLISECOND)
        )
        question = (
            sa.select(table.id, table.packed)
            .where(self.work.here(recall_traces, table.id >= since, table.id < until, *whose))
            .order_by(table.id.desc())
            .limit(_SHOWN_MAX)
        )
        latest: dict[int, int] = {}
        for row in self.work.connection.execute(question):
            for id_ in set(row.packed).intersection(use.ids):
                latest.setdefault(id_, row.id)
        return self._shown_in_part(latest) if use.is_fetch and latest else latest

    def credit(self, use: FeedbackEvent) -> Sequence[int]:
        """Mark used memories on the traces that showed them; return ids without a trace.

        A vote replaces the marks of the agent's earlier votes on the same memories.
        """
        if use.mark in VOTES:
            self._withdraw_votes(use)
        shown = self.showing(use)
        self.mark(use.marks(shown))
        return [id_ for id_ in use.ids if id_ not in shown]

    def _withdraw_votes(self, use: FeedbackEvent) -> None:
        table = feedback.c
        here = self.work.here(
            feedback,
            table.memory_id.in_(use.ids),
            table.agent == use.agent,
            table.mark.in_(VOTES - {use.mark}),
            table.at <= use.at,
        )
        self.work.connection.execute(sa.delete(feedback).where(here))

    def _shown_in_part(self, shown: Mapping[int, int]) -> dict[int, int]:
        """Leave out memories that the trace showed in full."""
        table = recall_traces.c
        here = self.work.here(recall_traces, table.id.in_(sorted(set(shown.values()))))
        in_full = {
            (row.id, one["id"])
            for row in self.work.connection.execute(
                sa.select(table.id, table.considered).where(here)
            )
            for one in row.considered
            if one.get("shown") == ShownExtent.WHOLE
        }
        return {id_: trace for id_, trace in shown.items() if (trace, id_) not in in_full}

    def entries(self, criteria: EntryFilter, *, after: int = 0, limit: int) -> list[RecallLogEntry]:
        """List recalls above an id with their feedback, oldest first."""
        above = self.work.here(recall_traces, recall_traces.c.id > after, *self._of(criteria))
        entries = sa.select(recall_traces).where(above).order_by(recall_traces.c.id).limit(limit)
        return self._read(entries)

    def latest(
        self, criteria: EntryFilter, *, before: int = ids.LAST, limit: int, is_brief: bool = False
    ) -> list[RecallLogEntry]:
        """List recalls below an id, newest first; `is_brief` leaves out the candidates."""
        table = recall_traces.c
        below = self.work.here(recall_traces, table.id < before, *self._of(criteria))
        entries = sa.select(recall_traces).where(below).order_by(table.id.desc()).limit(limit)
        if is_brief:
            nothing = sa.literal([], sa.JSON).label("considered")
            brief = [column for column in table if column.name != "considered"]
            entries = entries.with_only_columns(*brief, nothing)
        return self._read(entries)

    def count(self, criteria: EntryFilter, *, before: int, at_most: int) -> int:
        """Count recalls below an id, up to a number."""
        table = recall_traces.c
        below = self.work.here(recall_traces, table.id < before, *self._of(criteria))
        question = sa.select(table.id).where(below)
        return count_up_to(self.work.connection, question, at_most=at_most)

    def _read(self, question: sa.Select[Any]) -> list[RecallLogEntry]:
        rows = self.work.connection.execute(question).all()
        marks = self._marks(row.id for row in rows)
        return [_entry(row, marks.get(row.id, {})) for row in rows]

    def _of(self, criteria: EntryFilter) -> Iterator[sa.ColumnElement[bool]]:
        table = recall_traces.c
        if criteria.since is not None:
            yield table.id >= ids.make_id(criteria.since, 0)
        if criteria.until is not None:
            yield table.id < ids.make_id(criteria.until, 0)
        if criteria.memory is not None:
            # A list of ids, which have too many digits for one to contain another by chance.
            yield sa.cast(table.packed, sa.Text).contains(str(criteria.memory))
        for name in ("ranker", "agent", "session"):
            if (value := getattr(criteria, name)) is not None:
                yield table[name] == value
        if criteria.is_by_weights:
            yield table.ranker.is_(None)
            yield table.query != ""
        if criteria.share < 1:
            span = 1 << ids.RANDOM_BITS
            yield table.id % span < int(criteria.share * span)
        if criteria.is_marked:
            yield sa.exists().where(self.work.here(feedback, feedback.c.trace_id == table.id))

    def _marks(self, traces: Iterable[int]) -> Mapping[int, Mapping[int, frozenset[FeedbackMark]]]:
        of_these = self.work.here(feedback, feedback.c.trace_id.in_(list(traces)))
        question = sa.select(feedback.c.trace_id, feedback.c.memory_id, feedback.c.mark)
        entries: defaultdict[int, dict[int, frozenset[FeedbackMark]]] = defaultdict(dict)
        for row in self.work.connection.execute(question.where(of_these)):
            known = entries[row.trace_id].get(row.memory_id, frozenset())
            entries[row.trace_id][row.memory_id] = known | {row.mark}
        return entries


def _entry(row: sa.Row[Any], marks: Mapping[int, frozenset[FeedbackMark]]) -> RecallLogEntry:
    return RecallLogEntry(
        **{name: getattr(row, name) for name in _AS_STORED},
        status=row.verdict,
        considered=tuple(
            RankedCandidate(
                memory_id=one["id"],
                score=one["score"],
                features=one["features"],
                left_out=one.get("left_out"),
                shown=ShownExtent(one["shown"]) if "shown" in one else None,
            )
            for one in row.considered
        ),
        packed=tuple(row.packed),
        degraded=tuple(row.degraded),
        marks=marks,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A mean of values from 0 to 1, with the ends of its 95% interval."""

    mean: float
    low: float
    high: float
    count: int
    """Number of questions."""

    @property
    def spread(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEvaluation:
    """One measurement of one store."""

    id: int
    name: str
    at: datetime
    """Memories stored later are not included."""
    agent: str
    """The agent that asked; memories hidden from it are not included."""
    figures: Mapping[str, Figure]
    setup: Mapping[str, object]
    """Program, models, embedding space and questions."""
    took_ms: Mapping[str, float]
    """Time of a typical recall: `p50` and `p95`."""
