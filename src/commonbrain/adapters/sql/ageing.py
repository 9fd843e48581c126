"""What upkeep looks for among the rows of one tenant, by ascending ids, page by page."""

from sqlalchemy import ColumnElement, Select, and_, or_, select

from commonbrain.adapters.sql.tables import DETAILS, memories
from commonbrain.domain.action_items import OWED
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import CURRENT_STATES
from commonbrain.domain.retention import Retention
from commonbrain.ports.ageing import DueBy


def due_by(wanted: DueBy, tenant: str) -> Select[int]:
    """Select current memories that may be due for something; who reads them decides."""
    row = memories.c
    conditions = [row.expires_at <= wanted.now, _overdue(wanted)]
    conditions += [_too_old(rule, wanted) for rule in wanted.rules]
    is_current = row.state.in_(sorted(CURRENT_STATES))
    return (
        select(row.id).where(row.tenant_id == tenant, is_current, or_(*conditions)).order_by(row.id)
    )


def bodiless(tenant: str) -> Select[int]:
    """Select rows that lack the row of their kind, in which the body is."""
    row = memories.c
    kept = [and_(row.kind == kind, _has_body(kind)) for kind in Kind]
    return select(row.id).where(row.tenant_id == tenant, ~or_(*kept)).order_by(row.id)


def _overdue(wanted: DueBy) -> ColumnElement[bool]:
    task = DETAILS[Kind.TASK].c
    late = select(task.memory_id).where(
        task.tenant_id == memories.c.tenant_id,
        task.status.in_(sorted(OWED)),
        task.due_at <= wanted.tasks_before,
    )
    return and_(memories.c.kind == Kind.TASK, memories.c.id.in_(late))


def _too_old(rule: Retention, wanted: DueBy) -> ColumnElement[bool]:
    row = memories.c
    conditions = [row.kind == rule.kind, row.recorded_at <= rule.recorded_before(wanted.now)]
    conditions += [row.label == rule.label] if rule.label is not None else []
    conditions += [row.scope == rule.scope] if rule.scope is not None else []
    return and_(*conditions, ~row.pinned)


def _has_body(kind: Kind) -> ColumnElement[bool]:
    detail = DETAILS[kind].c
    own = detail.tenant_id == memories.c.tenant_id, detail.memory_id == memories.c.id
    return select(1).where(*own).exists()
