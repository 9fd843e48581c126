"""Action items: what a boot shows (rules and open tasks), and the acknowledgements of them."""

from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    CTE,
    BigInteger,
    ColumnElement,
    Exists,
    Integer,
    Select,
    Table,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    text,
    tuple_,
    union_all,
)

from commonbrain.model.kinds import Kind, Severity, TaskPriority
from commonbrain.model.memory import State
from commonbrain.model.query import Filter
from commonbrain.model.scope import Authority, Caller, Scope, Trust
from commonbrain.model.tasks import NEVER_DUE, OPEN_STATUSES, Decision, TaskDecision
from commonbrain.storage.interface import QueryScope, RankedRule
from commonbrain.storage.schema.activity import acks, sessions
from commonbrain.storage.schema.memories import DETAILS, memories
from commonbrain.storage.schema.types import Instant
from commonbrain.storage.sql.context import OptionalRows, SqlContext
from commonbrain.storage.sql.filters import TENANT, allowed, given, within
from commonbrain.storage.sql.statements import LISTED, exists_in, in_ids

_Rows = Select[*tuple[Any, ...]]
_BUILT_MAX: Final = 64
"""Statements cached for the projects that booted last."""
_RULES: Final = DETAILS[Kind.RULE]
_TASKS: Final = DETAILS[Kind.TASK]
# As words, because SQLite uses an index of few rows only for the very condition it has.
_IS_UNFINISHED: Final = text("tasks.status IN ('open', 'blocked')")
_TASK_KEY: Final = ("after_place", "after_due", "after_id")
_LIMIT: Final = bindparam("limit", type_=Integer())
_ALL: Final = func.count().over()
_RANK: Final = case({one: one.rank for one in Authority}, value=memories.c.authority)
_BY_PRIORITY: Final = case(
    {priority: -place for place, priority in enumerate(TaskPriority)}, value=_TASKS.c.priority
)


@dataclass(frozen=True, slots=True)
class BriefingRepository:
    """Rules, tasks and pinned memories of a boot, among the active memories of a query scope."""

    work: SqlContext

    def blockers(self, scope: QueryScope, *, limit: int) -> RankedRule:
        """Find BLOCKER rules without a trigger.

        A person's first, then pinned, then of a project, then newest.
        """
        return _ranked(self._rows(_blockers, scope, limit=limit, of=OptionalRows.RULES))

    def patterns(self, scope: QueryScope) -> dict[int, int]:
        """Map each PATTERN rule without a trigger to its precedence; newest first.

        Higher is more: by authority, then for a pinned one.
        """
        rows = self._rows(_patterns, scope, limit=-1, of=OptionalRows.RULES)
        return {id_: precedence for id_, precedence in rows if precedence is not None}

    def has_patterns(self, scope: QueryScope) -> bool:
        """Check whether there is any PATTERN rule without a trigger."""
        return bool(self._rows(_any_pattern, scope, limit=1, of=OptionalRows.RULES))

    def pinned(self, scope: QueryScope) -> dict[int, int]:
        """Map each pinned memory to its precedence, newest first.

        Rules without a trigger, and tasks that are no longer open, are left out. Of what no
        person wrote, a project's precedes the rest.
        """
        rows = self._rows(_pinned, scope, limit=-1, of=OptionalRows.PINNED)
        return {id_: -rank for id_, rank in rows}

    def open_tasks(self, scope: QueryScope, *, limit: int) -> RankedRule:
        """Find open and blocked tasks: a person's first, then in the order of `task_keys`."""
        return _ranked(self._rows(_open_tasks, scope, limit=limit, of=OptionalRows.TASKS))

    def task_keys(
        self, scope: QueryScope, *, after: tuple[int, datetime, int] | None, limit: int
    ) -> list[tuple[int, datetime, int]]:
        """List the keys by which open tasks are ordered: priority, due date and id.

        `after` is the key of the last task of the page before.
        """
        build = _first_task_keys if after is None else _next_task_keys
        named = {} if after is None else dict(zip(_TASK_KEY, after, strict=True))
        parameters = given(scope, self.work.tenant) | {"limit": limit} | named
        rows = self.work.rows(build(scope.filter), parameters)
        return [(place, due_at, id_) for place, due_at, id_ in rows]

    def latest(self, scope: QueryScope, *, limit: int) -> list[int]:
        """List the memories of a narrow scope, latest occurrence first."""
        return [id_ for (id_,) in self._rows(_latest, scope, limit=limit)]

    def _rows(
        self,
        build: Callable[[Filter], _Rows],
        scope: QueryScope,
        *,
        limit: int,
        of: OptionalRows | None = None,
    ) -> Sequence[Any]:
        parameters = given(scope, self.work.tenant) | {"limit": limit}
        return self.work.rows(build(scope.filter), parameters, of=of)


def _ranked(rows: Sequence[Any]) -> RankedRule:
    return RankedRule(ids=tuple(id_ for id_, _ in rows), total=rows[0][1] if rows else 0)


# Rules and tasks are far fewer than memories, so that each statement begins with them, and looks
# each of them up among the memories: left to itself, the planner does it the other way round.
@lru_cache(_BUILT_MAX)
def _blockers(filter_: Filter) -> _Rows:
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
        .where(row.id.in_(select(strict.c.memory_id)), within(filter_))
        .order_by(_RANK, row.pinned.desc(), row.project.is_(None), row.id.desc())
        .limit(_LIMIT)
    )


@lru_cache(_BUILT_MAX)
def _latest(filter_: Filter) -> _Rows:
    # Selected by project and kind, then sorted: an index by time would read every other row.
    few = allowed(filter_).cte("few").prefix_with("MATERIALIZED")
    row = memories.c
    return (
        select(row.id)
        .join_from(few, memories, (row.tenant_id == TENANT) & (row.id == few.c.id))
        .order_by(row.occurred_at.desc(), row.id.desc())
        .limit(_LIMIT)
    )


@lru_cache(_BUILT_MAX)
def _patterns(filter_: Filter) -> _Rows:
    precedence = case((memories.c.pinned, 1), else_=0) - 2 * _RANK
    seen = _seen(_RULES, filter_, column=precedence).scalar_subquery()
    return _pattern_rules(seen).order_by(_RULES.c.memory_id.desc())


@lru_cache(_BUILT_MAX)
def _any_pattern(filter_: Filter) -> _Rows:
    is_seen = _seen(_RULES, filter_).exists()
    return _pattern_rules().where(is_seen).limit(_LIMIT)


@lru_cache(_BUILT_MAX)
def _pinned(filter_: Filter) -> _Rows:
    row = memories.c
    is_in_sections = exists_in(
        _RULES, _RULES.c.memory_id == row.id, _RULES.c.skill.is_(null()), of=memories
    )
    is_over = exists_in(
        _TASKS,
        _TASKS.c.memory_id == row.id,
        _TASKS.c.status.not_in(sorted(OPEN_STATUSES)),
        of=memories,
    )
    is_of_all = case((and_(_RANK > 0, row.project.is_(None)), 1), else_=0)
    # As words, because SQLite uses an index of few rows only for the very condition it has.
    is_pinned = text("memories.pinned")
    return (
        select(row.id, 2 * _RANK + is_of_all)
        .where(is_pinned, within(filter_), ~is_in_sections, ~is_over)
        .order_by(row.id.desc())
    )


def _pattern_rules(*more: Any) -> _Rows:  # noqa: ANN401 columns of any sort
    own = _RULES.c
    return select(own.memory_id, *more).where(
        own.tenant_id == TENANT, own.severity == Severity.PATTERN, own.skill.is_(null())
    )


@lru_cache(_BUILT_MAX)
def _open_tasks(filter_: Filter) -> _Rows:
    # Counted and sorted in one pass over the unfinished tasks.
    unfinished = _unfinished(filter_)
    total = select(func.count()).select_from(unfinished).scalar_subquery()
    row = unfinished.c
    return (
        select(row.memory_id, total)
        .order_by(row.rank, row.place, row.due_at.is_(None), row.due_at, row.memory_id)
        .limit(_LIMIT)
    )


def _unfinished(filter_: Filter) -> CTE:
    own = _TASKS.c
    rank = _seen(_TASKS, filter_, column=_RANK).scalar_subquery()
    unfinished = (
        select(own.memory_id, own.due_at, _BY_PRIORITY.label("place"), rank.label("rank"))
        .where(own.tenant_id == TENANT, _IS_UNFINISHED)
        .cte("unfinished")
        .prefix_with("MATERIALIZED")
    )
    return select(unfinished).where(unfinished.c.rank.is_not(None)).cte("seen")


@lru_cache(_BUILT_MAX)
def _first_task_keys(filter_: Filter) -> _Rows:
    row = _unfinished(filter_).c
    latest = bindparam(None, NEVER_DUE, type_=Instant())
    key = row.place, func.coalesce(row.due_at, latest, type_=Instant()).label("due"), row.memory_id
    return select(*key).order_by(*key).limit(_LIMIT)


@lru_cache(_BUILT_MAX)
def _next_task_keys(filter_: Filter) -> _Rows:
    types = (Integer(), Instant(), BigInteger())
    after = (bindparam(name, type_=type_) for name, type_ in zip(_TASK_KEY, types, strict=True))
    keys = _first_task_keys(filter_).limit(None).order_by(None).subquery()
    key = keys.c.place, keys.c.due, keys.c.memory_id
    return select(*key).where(tuple_(*key) > tuple_(*after)).order_by(*key).limit(_LIMIT)


def _seen(details: Table, filter_: Filter, *, column: Any = memories.c.id) -> _Rows:  # noqa: ANN401
    """Select a column of the memory of a detail row if the scope allows it."""
    same = (details.c.tenant_id == memories.c.tenant_id) & (details.c.memory_id == memories.c.id)
    return select(column).where(same, within(filter_))


_TASK_DETAILS: Final = DETAILS[Kind.TASK]
_RULE_DETAILS: Final = DETAILS[Kind.RULE]
_NOW: Final = bindparam("now", type_=Instant())
_BELIEVED: Final = [one for one in Trust if one.weight >= Trust.USER_CLAIM.weight]


def _acknowledged(items: Table, *whose: ColumnElement[bool]) -> Exists:
    """Match an item that has a decision, among those whose decisions count."""
    holds = or_(acks.c.decision != Decision.DEFERRED, acks.c.until > _NOW)
    return exists_in(acks, acks.c.memory_id == items.c.memory_id, holds, *whose, of=items)


def _to_acknowledge(items: Table, *conditions: ColumnElement[bool]) -> Select[int]:
    # As words, because SQLite uses an index of few rows only for the very condition it has.
    is_item = text(f"{items.name}.must_ack")
    return select(items.c.memory_id).where(
        items.c.tenant_id == bindparam("tenant"), is_item, *conditions
    )


# Nearly every store has none or few of them, in indexes of their own: what is asked before every
# write looks into two empty indexes.
_WANTING: Final = union_all(
    _to_acknowledge(
        _TASK_DETAILS,
        _TASK_DETAILS.c.status.in_(sorted(OPEN_STATUSES)),
        or_(
            _TASK_DETAILS.c.assignee.is_(None),
            _TASK_DETAILS.c.assignee == bindparam("agent"),
        ),
        ~_acknowledged(_TASK_DETAILS),
    ),
    _to_acknowledge(
        _RULE_DETAILS,
        ~_acknowledged(
            _RULE_DETAILS,
            acks.c.agent == bindparam("agent"),
            acks.c.session == bindparam("session"),
        ),
    ),
)
_IS_OWN: Final = and_(
    memories.c.agent == bindparam("agent"),
    func.coalesce(memories.c.session, "") == bindparam("session"),
)
_BINDING: Final = (
    select(memories.c.id)
    .where(
        in_ids(memories.c.id),
        memories.c.state == State.ACTIVE,
        memories.c.trust.in_(_BELIEVED),
        memories.c.authority.in_(bindparam("binding", expanding=True)),
        or_(memories.c.scope != Scope.PRIVATE, memories.c.agent == bindparam("agent")),
        or_(memories.c.expires_at.is_(None), memories.c.expires_at > _NOW),
        ~_IS_OWN,
    )
    .order_by(memories.c.id)
)
_OF_PROJECTS: Final = _BINDING.where(
    or_(
        memories.c.project.is_(None),
        memories.c.project.in_(bindparam("projects", expanding=True)),
    )
)
_OPEN_AMONG: Final = _to_acknowledge(
    _TASK_DETAILS,
    _TASK_DETAILS.c.status.in_(sorted(OPEN_STATUSES)),
    _TASK_DETAILS.c.memory_id.in_(LISTED),
)
_UNANSWERED: Final = union_all(
    _to_acknowledge(
        _TASK_DETAILS,
        _TASK_DETAILS.c.status.in_(sorted(OPEN_STATUSES)),
        ~_acknowledged(_TASK_DETAILS),
    ),
    _to_acknowledge(_RULE_DETAILS),
)
_SET_BY: Final = (
    select(memories.c.id)
    .where(
        in_ids(memories.c.id),
        memories.c.state == State.ACTIVE,
        memories.c.agent == bindparam("agent"),
        func.coalesce(memories.c.project, "") == bindparam("project"),
        or_(memories.c.expires_at.is_(None), memories.c.expires_at > _NOW),
    )
    .order_by(memories.c.id)
)
_OF: Final = (
    select(*(acks.c[field.name] for field in fields(TaskDecision)))
    .where(in_ids(acks.c.memory_id))
    .order_by(acks.c.at, acks.c.agent, acks.c.session)
)


@dataclass(frozen=True, slots=True)
class AckRepository:
    """Acknowledgements of action items, and the items that still need one."""

    work: SqlContext

    def pending(
        self, caller: Caller, *, projects: Collection[str] | None, now: datetime
    ) -> list[int]:
        """List the action items that a caller has to acknowledge, oldest first.

        They are active, unexpired, visible to the caller, of one of `projects` or of none (of any
        project if `projects` is None), assigned to no other agent, of no lower authority than the
        caller's, and were set outside the caller's own session. One acknowledgement settles a task
        for every agent; a rule needs one from each session. A deferred item is pending again from
        its `until` on.
        """
        given: dict[str, Any] = {
            "tenant": self.work.tenant,
            "agent": caller.agent,
            "session": caller.session or "",
            "binding": [one for one in Authority if one.covers(caller.authority)],
            "now": now,
        }
        if not any(map(self.work.may_have, (OptionalRows.TASKS, OptionalRows.RULES))):
            return []
        wanting = sorted(id_ for (id_,) in self.work.rows(_WANTING, given))
        statement = _BINDING
        if projects is not None:
            statement, given = _OF_PROJECTS, given | {"projects": sorted(projects)}
        return self.work.scalars(statement, given | {"ids": wanting}) if wanting else []

    def set_by(self, agent: str, *, project: str | None, now: datetime) -> list[int]:
        """List the action items that an agent set in a project and that may block others.

        They are its rules, and its open tasks without an acknowledgement; oldest first.
        """
        unanswered = [
            id_ for (id_,) in self.work.rows(_UNANSWERED, {"tenant": self.work.tenant, "now": now})
        ]
        given = {"ids": sorted(unanswered), "agent": agent, "project": project or "", "now": now}
        return self.work.scalars(_SET_BY, given) if unanswered else []

    def open_tasks(self, ids: Sequence[int]) -> set[int]:
        """Select the ids of tasks that must be acknowledged and are not done."""
        return set(self.work.scalars(_OPEN_AMONG, {"ids": list(ids)}))

    def has_ended(self, session: str) -> bool:
        """Check whether sessions with this key are known and all have ended."""
        here = sessions.c.tenant_id == self.work.tenant, sessions.c.key == session
        ends = self.work.connection.execute(select(sessions.c.ended_at).where(*here)).scalars()
        known = list(ends)
        return bool(known) and None not in known

    def put(self, ack: TaskDecision) -> None:
        """Store a decision; it replaces the one of the same agent and session."""
        self.drop(ack)
        row = self.work.row_of(ack)
        self.work.connection.execute(insert(acks), row)

    def drop(self, ack: TaskDecision) -> None:
        """Delete the decision of this agent and session on this memory."""
        key = {"memory_id": ack.memory_id, "agent": ack.agent, "session": ack.session}
        self.work.connection.execute(delete(acks).where(self.work.here(acks, **key)))

    def of(self, ids: Sequence[int]) -> dict[int, list[TaskDecision]]:
        """Map memories to the decisions on them, oldest first; memories without any are absent."""
        if not ids:
            return {}
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        acks_by_id: defaultdict[int, list[TaskDecision]] = defaultdict(list)
        for row in self.work.connection.execute(_OF, given).mappings():
            acks_by_id[row["memory_id"]].append(TaskDecision(**row))
        return dict(acks_by_id)
