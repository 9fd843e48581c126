"""The shelf of what a boot shows: rules that bind, tasks that are owed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import Select, Table, bindparam, case, func, null, select, text

from commonbrain.adapters.sql.looks import within
from commonbrain.adapters.sql.tables import DETAILS, memories
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.kinds import Kind, Severity, TaskPriority
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Caller
from commonbrain.domain.session import UNKNOWN
from commonbrain.ports.board import Ranked
from commonbrain.ports.look import Look

_BUILT_MAX: Final = 64
"""Statements kept for the callers and projects that booted last."""
_RULES: Final = DETAILS[Kind.RULE]
_TASKS: Final = DETAILS[Kind.TASK]
# As words, because SQLite uses an index of few rows only for the very condition it has.
_IS_OWED: Final = text("tasks.status IN ('open', 'blocked')")
_LIMIT: Final = bindparam("limit")
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
        return {id_: pinned for id_, pinned in rows}  # noqa: C416 rows are not pairs to a checker

    def has_patterns(self, look: Look) -> bool:
        """Say whether there is any PATTERN rule without a trigger."""
        return bool(self._rows(_patterns, look, limit=1))

    def owed(self, look: Look, *, limit: int) -> Ranked:
        """Find tasks that are open or blocked: by priority, then the earliest due, then oldest."""
        return _ranked(self._rows(_owed, look, limit=limit))

    def _rows(self, build: Any, look: Look, *, limit: int) -> Sequence[Any]:  # noqa: ANN401
        # Every session of an agent sees the same, so that they share the statement.
        viewer = replace(look.caller, session=None, project=None, contact=UNKNOWN)
        statement = build(viewer, look.filter, self.work.tenant)
        given = {"now": look.now, "limit": limit}
        return self.work.connection.execute(statement, given).all()


def _ranked(rows: Sequence[Any]) -> Ranked:
    return Ranked(ids=tuple(id_ for id_, _ in rows), total=rows[0][1] if rows else 0)


@lru_cache(_BUILT_MAX)
def _blockers(caller: Caller, wanted: Filter, tenant: str) -> Select[Any]:
    row = memories.c
    return (
        _of(_RULES, row.id, _ALL)
        .where(_RULES.c.severity == Severity.BLOCKER, _RULES.c.skill.is_(null()))
        .where(within(caller, wanted, tenant=tenant))
        .order_by(row.pinned.desc(), row.project.is_(None), row.id.desc())
        .limit(_LIMIT)
    )


@lru_cache(_BUILT_MAX)
def _patterns(caller: Caller, wanted: Filter, tenant: str) -> Select[Any]:
    row = memories.c
    return (
        _of(_RULES, row.id, row.pinned)
        .where(_RULES.c.severity == Severity.PATTERN, _RULES.c.skill.is_(null()))
        .where(within(caller, wanted, tenant=tenant))
        .order_by(row.id.desc())
        .limit(_LIMIT)
    )


@lru_cache(_BUILT_MAX)
def _owed(caller: Caller, wanted: Filter, tenant: str) -> Select[Any]:
    due_at = _TASKS.c.due_at
    return (
        _of(_TASKS, memories.c.id, _ALL)
        .where(_IS_OWED, within(caller, wanted, tenant=tenant))
        .order_by(_BY_PRIORITY, due_at.is_(None), due_at, memories.c.id)
        .limit(_LIMIT)
    )


def _of(details: Table, *columns: Any) -> Select[Any]:  # noqa: ANN401 columns and functions alike
    """Select from the memories of a kind that has far fewer of them than there are of all."""
    own = details.c
    same = (own.tenant_id == memories.c.tenant_id) & (own.memory_id == memories.c.id)
    return select(*columns).select_from(details.join(memories, same))
