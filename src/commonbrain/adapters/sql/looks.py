"""A look as SQL: the one place where tenant, visibility and filter become conditions."""

from sqlalchemy import ColumnElement, and_, or_, select

from commonbrain.adapters.sql.tables import EntityType, entities, memories
from commonbrain.domain.memory import CURRENT_STATES, State
from commonbrain.domain.query import Filter
from commonbrain.domain.scope import Scope
from commonbrain.domain.trust import Trust
from commonbrain.ports.store import Look


def confine(look: Look, tenant: str) -> ColumnElement[bool]:
    """Say which rows a look allows; the domain says the same of each row again at the end."""
    wanted, row = look.filter, memories.c
    believed = [trust for trust in Trust if trust.weight >= wanted.trust_min]
    conditions = [
        row.tenant_id == tenant,
        or_(row.scope != Scope.PRIVATE, row.agent == look.caller.agent),
        *_believed(look),
        *_given(wanted),
    ]
    if len(believed) < len(Trust):
        conditions.append(row.trust.in_(believed))
    return and_(*conditions)


def _believed(look: Look) -> list[ColumnElement[bool]]:
    row, as_of = memories.c, look.filter.as_of
    moment = as_of or look.now
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
    if wanted.project is not None:
        conditions.append(or_(row.project == wanted.project, row.project.is_(None)))
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
