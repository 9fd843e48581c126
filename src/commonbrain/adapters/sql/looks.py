"""A look as SQL: the one place where tenant, visibility and filter become conditions."""

from datetime import datetime
from functools import lru_cache
from typing import Final

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Select,
    and_,
    bindparam,
    or_,
    select,
    union_all,
)

from commonbrain.adapters.sql.tables import EntityType, Instant, entities, memories
from commonbrain.domain.memory import CURRENT_STATES, State
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Caller, Scope
from commonbrain.domain.trust import Trust
from commonbrain.ports.store import Look

_BUILT_MAX: Final = 256
_NOW: Final[BindParameter[datetime]] = bindparam("now", type_=Instant())


def confine(look: Look, tenant: str) -> ColumnElement[bool]:
    """Say which rows a look allows; the domain says the same of each row again at the end."""
    return and_(
        *_open_to(look.caller, look.filter, tenant=tenant, now=look.now), *_in_project(look.filter)
    )


@lru_cache(_BUILT_MAX)
def allowed(caller: Caller, wanted: Filter, *, tenant: str) -> Select[int] | CompoundSelect[int]:
    """Select the ids that a look allows at the moment `now`, a parameter.

    Building a statement costs more than running it, so it is built once for all looks that differ
    in nothing but their moment.
    """
    ids = select(memories.c.id).where(*_open_to(caller, wanted, tenant=tenant, now=_NOW))
    # One part per project, because no index serves two values of which one is NULL.
    parts = [ids.where(one) for one in _projects(wanted)]
    return union_all(*parts) if parts else ids


@lru_cache(_BUILT_MAX)
def within(caller: Caller, wanted: Filter, *, tenant: str) -> ColumnElement[bool]:
    """Say which rows a look allows at the moment `now`, a parameter."""
    return and_(*_open_to(caller, wanted, tenant=tenant, now=_NOW), *_in_project(wanted))


def _open_to(
    caller: Caller, wanted: Filter, *, tenant: str, now: datetime | BindParameter[datetime]
) -> list[ColumnElement[bool]]:
    """Give every condition of a look but its project."""
    row = memories.c
    believed = [trust for trust in Trust if trust.weight >= wanted.trust_min]
    conditions = [
        row.tenant_id == tenant,
        or_(row.scope != Scope.PRIVATE, row.agent == caller.agent),
        *_believed(wanted.as_of, now=now),
        *_given(wanted),
    ]
    if len(believed) < len(Trust):
        conditions.append(row.trust.in_(believed))
    return conditions


def _in_project(wanted: Filter) -> list[ColumnElement[bool]]:
    projects = _projects(wanted)
    return [or_(*projects)] if projects else []


def _projects(wanted: Filter) -> list[ColumnElement[bool]]:
    """Give the two ways to belong to a project; none when every project is wanted."""
    row = memories.c
    return [] if wanted.project is None else [row.project == wanted.project, row.project.is_(None)]


def _believed(
    as_of: datetime | None, *, now: datetime | BindParameter[datetime]
) -> list[ColumnElement[bool]]:
    row = memories.c
    moment = now if as_of is None else as_of
    unexpired = or_(row.expires_at.is_(None), row.expires_at > moment)
    if as_of is None:
        return [unexpired, row.state.in_(sorted(CURRENT_STATES))]
    return [
        unexpired,
        row.state.in_([*sorted(CURRENT_STATES), State.SUPERSEDED]),
        row.recorded_at <= as_of,
        or_(row.superseded_at.is_(None), row.superseded_at > as_of),
    ]


def _given(wanted: Filter) -> list[ColumnElement[bool]]:
    row = memories.c
    conditions: list[ColumnElement[bool]] = []
    if wanted.kinds:
        conditions.append(row.kind.in_(wanted.kinds))
    if wanted.labels:
        conditions.append(row.label.in_(wanted.labels))
    if wanted.agent is not None:
        conditions.append(row.agent == wanted.agent)
    if wanted.since is not None:
        conditions.append(row.occurred_at >= wanted.since)
    if wanted.until is not None:
        conditions.append(row.occurred_at <= wanted.until)
    if wanted.min_confidence > 0:
        conditions.append(row.confidence >= wanted.min_confidence)
    conditions.extend(_is_tagged(tag) for tag in wanted.tags)
    return conditions


def _is_tagged(tag: str) -> ColumnElement[bool]:
    named = entities.c
    return (
        select(1)
        .where(
            named.tenant_id == memories.c.tenant_id,
            named.memory_id == memories.c.id,
            named.type == EntityType.TAG,
            named.name == tag,
        )
        .exists()
    )
