"""A look as SQL: the one place where tenant, visibility and filter become conditions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Select,
    String,
    and_,
    bindparam,
    func,
    or_,
    select,
    union_all,
)

from commonbrain.model.kinds import CausalField, Kind
from commonbrain.model.memory import CURRENT_STATES, FINDABLE_STATES
from commonbrain.model.query import Filter
from commonbrain.model.scope import Scope
from commonbrain.model.trust import Trust
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.schema.coordination import receipts
from commonbrain.storage.schema.memories import (
    DETAILS,
    EntityType,
    changes,
    entities,
    memories,
    reviews,
)
from commonbrain.storage.schema.types import Instant

_BUILT_MAX: Final = 256
TENANT: Final[BindParameter[str]] = bindparam("tenant", type_=String())
_VIEWER: Final[BindParameter[str]] = bindparam("viewer", type_=String())
_NOW: Final[BindParameter[datetime]] = bindparam("now", type_=Instant())


def confine(scope: QueryScope, tenant: str) -> ColumnElement[bool]:
    """Say which rows a look allows; the domain says the same of each row again at the end."""
    of = _Of(tenant=tenant, viewer=scope.caller.agent, now=scope.now)
    return and_(*_open_to(scope.filter, of), *_in_project(scope.filter))


def given(scope: QueryScope, tenant: str) -> dict[str, Any]:
    """Give the parameters that `allowed` and `within` leave open."""
    return {"tenant": tenant, "viewer": scope.caller.agent, "now": scope.now}


@lru_cache(_BUILT_MAX)
def allowed(wanted: Filter) -> Select[int] | CompoundSelect[int]:
    """Select the ids that a look allows, whose tenant, viewer and moment are parameters.

    Building a statement costs more than running it, so it is built once for all looks that differ
    in nothing but these: a server has hundreds of viewers.
    """
    ids = select(memories.c.id).where(*_open_to(wanted, _OPEN))
    # One part per project, because no index serves two values of which one is NULL.
    parts = [ids.where(one) for one in _projects(wanted)]
    return union_all(*parts) if parts else ids


@lru_cache(_BUILT_MAX)
def within(wanted: Filter) -> ColumnElement[bool]:
    """Say which rows a look allows, whose tenant, viewer and moment are parameters."""
    return and_(*_open_to(wanted, _OPEN), *_in_project(wanted))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Of:
    """Whose look it is, and when: values, or parameters that are told each time."""

    tenant: str | BindParameter[str]
    viewer: str | BindParameter[str]
    now: datetime | BindParameter[datetime]


_OPEN: Final = _Of(tenant=TENANT, viewer=_VIEWER, now=_NOW)


def _open_to(wanted: Filter, of: _Of) -> list[ColumnElement[bool]]:
    """Give every condition of a look but its project."""
    row = memories.c
    believed = believed_from(wanted.trust_min)
    conditions = [
        row.tenant_id == of.tenant,
        open_to(of.viewer),
        *_believed(wanted, now=of.now),
        *_given(wanted),
    ]
    if len(believed) < len(Trust):
        conditions.append(row.trust.in_(believed))
    return conditions


def open_to(viewer: str | BindParameter[str]) -> ColumnElement[bool]:
    """Say which rows an agent may see of those of its tenant."""
    row = memories.c
    return or_(row.scope != Scope.PRIVATE, row.agent == viewer, _is_shared(viewer))


def believed_from(trust_min: float) -> list[Trust]:
    """Give the kinds of trust that weigh so much."""
    return [trust for trust in Trust if trust.weight >= trust_min]


def _is_shared(viewer: str | BindParameter[str]) -> ColumnElement[bool]:
    """Say which rows went to an agent; asked only of what is private to others."""
    return (
        select(1)
        .where(
            receipts.c.tenant_id == memories.c.tenant_id,
            receipts.c.agent == viewer,
            receipts.c.message_id == memories.c.id,
        )
        .exists()
    )


def _in_project(wanted: Filter) -> list[ColumnElement[bool]]:
    projects = _projects(wanted)
    return [or_(*projects)] if projects else []


def _projects(wanted: Filter) -> list[ColumnElement[bool]]:
    """Give the two ways to belong to a project; none when every project is wanted."""
    row = memories.c
    return [] if wanted.project is None else [row.project == wanted.project, row.project.is_(None)]


def _believed(
    wanted: Filter, *, now: datetime | BindParameter[datetime]
) -> list[ColumnElement[bool]]:
    row, as_of = memories.c, wanted.as_of
    moment = now if as_of is None else as_of
    unexpired = or_(row.expires_at.is_(None), row.expires_at > moment)
    if as_of is None:
        return [unexpired, row.state.in_(sorted(wanted.states or CURRENT_STATES))]
    is_held = and_(
        row.state.in_(sorted(CURRENT_STATES)),
        func.coalesce(row.believed_since, row.recorded_at) <= as_of,
    )
    return [
        unexpired,
        row.state.in_(sorted(FINDABLE_STATES)),
        row.recorded_at <= as_of,
        or_(is_held, _was_held(as_of)),
    ]


def _was_held(moment: datetime) -> ColumnElement[bool]:
    return (
        select(1)
        .where(
            changes.c.tenant_id == memories.c.tenant_id,
            changes.c.memory_id == memories.c.id,
            changes.c.believed_since <= moment,
            changes.c.believed_until > moment,
        )
        .exists()
    )


def _given(wanted: Filter) -> list[ColumnElement[bool]]:
    return [*_projected(wanted), *_beside(wanted)]


def _projected(wanted: Filter) -> Iterator[ColumnElement[bool]]:
    """Say what a filter asks of the row itself."""
    row = memories.c
    if wanted.kinds:
        yield row.kind.in_(wanted.kinds)
    if wanted.field is not None:
        yield row.kind == Kind.ATOM
    if wanted.labels:
        yield row.label.in_(wanted.labels)
    for name in ("scope", "session", "agent"):
        given = getattr(wanted, name)
        if given is not None:
            yield row[name] == given
    if wanted.since is not None:
        yield row.occurred_at >= wanted.since
    if wanted.until is not None:
        yield row.occurred_at <= wanted.until
    if wanted.min_confidence > 0:
        yield row.confidence >= wanted.min_confidence


def _beside(wanted: Filter) -> Iterator[ColumnElement[bool]]:
    """Say what a filter asks of what stands beside the row."""
    if wanted.thread is not None:
        yield _is_of_thread(wanted.thread)
    if wanted.field is not None:
        yield _tells(wanted.field)
    if wanted.people:
        yield _is_named(EntityType.PERSON, wanted.people)
    if wanted.needs_review:
        yield _needs_review()
    for tag in wanted.tags:
        yield _is_named(EntityType.TAG, (tag,))


def _is_named(type_: EntityType, names: Sequence[str]) -> ColumnElement[bool]:
    named = entities.c
    return (
        select(1)
        .where(
            named.tenant_id == memories.c.tenant_id,
            named.memory_id == memories.c.id,
            named.type == type_,
            named.name.in_(names),
        )
        .exists()
    )


def _tells(field: CausalField) -> ColumnElement[bool]:
    atom = DETAILS[Kind.ATOM].c
    return (
        select(1)
        .where(
            atom.tenant_id == memories.c.tenant_id,
            atom.memory_id == memories.c.id,
            atom[field] != "",
        )
        .exists()
    )


def _needs_review() -> ColumnElement[bool]:
    mark = reviews.c
    return (
        select(1)
        .where(
            mark.tenant_id == memories.c.tenant_id,
            mark.memory_id == memories.c.id,
            mark.settled_at.is_(None),
        )
        .exists()
    )


def _is_of_thread(thread_id: int) -> ColumnElement[bool]:
    message = DETAILS[Kind.MESSAGE].c
    return (
        select(1)
        .where(
            message.tenant_id == memories.c.tenant_id,
            message.memory_id == memories.c.id,
            message.thread_id == thread_id,
        )
        .exists()
    )
