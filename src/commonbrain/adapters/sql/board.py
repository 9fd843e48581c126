"""The shelf of what a boot shows: rules that bind, tasks that are owed."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Integer, Select, Table, bindparam, case, func, null, select, text

from commonbrain.adapters.sql.looks import TENANT, allowed, given, within
from commonbrain.adapters.sql.tables import DETAILS, memories
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.kinds import Kind, Severity, TaskPriority
from commonbrain.domain.query import Filter
from commonbrain.ports.board import Ranked
from commonbrain.ports.look import Look

_Rows = Select[*tuple[Any, ...]]
_BUILT_MAX: Final = 64
"""Statements kept for the projects that booted last."""
_RULES: Final = DETAILS[Kind.RULE]
_TASKS: Final = DETAILS[Kind.TASK]
# As words, because SQLite uses an index of few rows only for the very condition it has.
_IS_OWED: Final = text("tasks.status IN ('open', 'blocked')")
_LIMIT: Final = bindparam("limit", type_=Integer())
_ALL: Final = func.count().over()
_BY_PRIORITY: Final = case(
    {priority: -place for place, priority in enumerate(TaskPriority)}, value=_TASKS.c.priority
)


@dataclass(frozen=True, slots=True)
class BoardShelf:
    """What binds and what is owed, of one tenant in one transaction."""

    work: Work

    def blockers(self, look: Look, *, limit: int) -> Ranked:
        """Find BLOCKER rules without a trigger: pinned first, then of a project, then newest."""
        return _ranked(self._rows(_blockers, look, limit=limit))

    def patterns(self, look: Look) -> dict[int, bool]:
        """Give every PATTERN rule without a trigger, and whether it is pinned; newest first."""
        rows = self._rows(_patterns, look, limit=-1)
        return {id_: pinned for id_, pinned in rows if pinned is not None}

    def has_patterns(self, look: Look) -> bool:
        """Say whether there is any PATTERN rule without a trigger."""
        return bool(self._rows(_any_pattern, look, limit=1))

    def owed(self, look: Look, *, limit: int) -> Ranked:
        """Find tasks that are open or blocked: by priority, then the earliest due, then oldest."""
        return _ranked(self._rows(_owed, look, limit=limit))

    def latest(self, look: Look, *, limit: int) -> list[int]:
        """List the little that a narrow look allows, latest occurrence first."""
        return [id_ for (id_,) in self._rows(_latest, look, limit=limit)]

    def _rows(self, build: Any, look: Look, *, limit: int) -> Sequence[Any]:  # noqa: ANN401
        told = given(look, self.work.tenant) | {"limit": limit}
        return self.work.connection.execute(build(look.filter), told).all()


def _ranked(rows: Sequence[Any]) -> Ranked:
    return Ranked(ids=tuple(id_ for id_, _ in rows), total=rows[0][1] if rows else 0)


# Rules and tasks are far fewer than memories, so that each statement begins with them, and looks
# each of them up among the memories: left to itself, the planner does it the other way round.
@lru_cache(_BUILT_MAX)
def _blockers(wanted: Filter) -> _Rows:
    row = memories.c
    strict = (
        select(_RULES.c.memory_id)
        .where(_RULES.c.tenant_id == TENANT, _RULES.c.severity == Severity.BLOCKER)
        .where(_RULES.c.skill.is_(null()))
        .cte("strict")
        .prefix_with("MATERIALIZED")
    )
    return (
        select(row.id, _ALL)
        .where(row.id.in_(select(strict.c.memory_id)), within(wanted))
        .order_by(row.pinned.desc(), row.project.is_(None), row.id.desc())
        .limit(_LIMIT)
    )


@lru_cache(_BUILT_MAX)
def _latest(wanted: Filter) -> _Rows:
    # Found by project and kind and then sorted: by time, all that is not wanted would be read.
    few = allowed(wanted).cte("few").prefix_with("MATERIALIZED")
    row = memories.c
    return (
        select(row.id)
        .join_from(few, memories, (row.tenant_id == TENANT) & (row.id == few.c.id))
        .order_by(row.occurred_at.desc(), row.id.desc())
        .limit(_LIMIT)
    )


@lru_cache(_BUILT_MAX)
def _patterns(wanted: Filter) -> _Rows:
    pinned = _seen(_RULES, wanted).scalar_subquery()
    return _pattern_rules(pinned).order_by(_RULES.c.memory_id.desc())


@lru_cache(_BUILT_MAX)
def _any_pattern(wanted: Filter) -> _Rows:
    is_seen = _seen(_RULES, wanted).exists()
    return _pattern_rules().where(is_seen).limit(_LIMIT)


def _pattern_rules(*more: Any) -> _Rows:  # noqa: ANN401 columns of any sort
    own = _RULES.c
    return select(own.memory_id, *more).where(
        own.tenant_id == TENANT, own.severity == Severity.PATTERN, own.skill.is_(null())
    )


@lru_cache(_BUILT_MAX)
def _owed(wanted: Filter) -> _Rows:
    own = _TASKS.c
    # Counted and sorted in one pass over what is owed.
    owed = (
        select(own.memory_id, own.due_at, _BY_PRIORITY.label("place"))
        .where(own.tenant_id == TENANT, _IS_OWED)
        .where(_seen(_TASKS, wanted).exists())
        .cte("owed")
        .prefix_with("MATERIALIZED")
    )
    total = select(func.count()).select_from(owed).scalar_subquery()
    row = owed.c
    return (
        select(row.memory_id, total)
        .order_by(row.place, row.due_at.is_(None), row.due_at, row.memory_id)
        .limit(_LIMIT)
    )


def _seen(details: Table, wanted: Filter) -> _Rows:
    """Select the memory that a row of details is of, where the look allows it."""
    same = (details.c.tenant_id == memories.c.tenant_id) & (details.c.memory_id == memories.c.id)
    return select(memories.c.pinned).where(same, within(wanted))
