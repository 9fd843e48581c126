"""What upkeep looks for among the rows of one tenant, by ascending ids, page by page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Exists, Integer, Select, and_, bindparam, func, or_, select

from commonbrain.model.kinds import CausalField, Kind
from commonbrain.model.memory import CURRENT_STATES, FINDABLE_STATES
from commonbrain.model.retention import Retention
from commonbrain.model.tasks import OWED
from commonbrain.storage.interface import DueBy
from commonbrain.storage.schema.invalidation import field_vectors
from commonbrain.storage.schema.memories import DETAILS, memories, vectors
from commonbrain.storage.sql.context import SqlContext


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


_FINDABLE: Final = sorted(FINDABLE_STATES)
_ATOMS: Final = DETAILS[Kind.ATOM]
_TELLS: Final = or_(*(_ATOMS.c[name] != "" for name in CausalField))
# Asked at every search of a field: the keys of the rows are enough, and few memories are read.
_FIELDLESS: Final = (
    select(_ATOMS.c.memory_id)
    .where(
        _ATOMS.c.tenant_id == bindparam("tenant"),
        _TELLS,
        ~select(1)
        .where(
            field_vectors.c.tenant_id == _ATOMS.c.tenant_id,
            field_vectors.c.memory_id == _ATOMS.c.memory_id,
            field_vectors.c.space_id == bindparam("space"),
        )
        .exists(),
        select(1)
        .where(
            memories.c.tenant_id == _ATOMS.c.tenant_id,
            memories.c.id == _ATOMS.c.memory_id,
            memories.c.state.in_(bindparam("states", expanding=True)),
        )
        .exists(),
    )
    .limit(1)
)


# What a memory lacks is asked for each that is embedded, so that these are made once.
_OWN: Final = ~(
    select(1)
    .where(
        vectors.c.tenant_id == memories.c.tenant_id,
        vectors.c.memory_id == memories.c.id,
        vectors.c.space_id == bindparam("space"),
        vectors.c.vector.is_not(None),
    )
    .exists()
)
# An atom has vectors of all its fields or of none: they are written together.
_FIELDS: Final = and_(
    memories.c.kind == Kind.ATOM,
    select(1)
    .where(
        _ATOMS.c.tenant_id == memories.c.tenant_id,
        _ATOMS.c.memory_id == memories.c.id,
        _TELLS,
    )
    .exists(),
    ~select(1)
    .where(
        field_vectors.c.tenant_id == memories.c.tenant_id,
        field_vectors.c.memory_id == memories.c.id,
        field_vectors.c.space_id == bindparam("space"),
        field_vectors.c.vector.is_not(None),
    )
    .exists(),
)
# Superseded ones are findable too: they answer `as_of`.
_HERE: Final = (
    memories.c.tenant_id == bindparam("tenant"),
    memories.c.state.in_(_FINDABLE),
)
_OF: Final = select(_OWN, _FIELDS).where(*_HERE, memories.c.id == bindparam("memory"))
_PENDING: Final = select(func.count()).select_from(memories).where(*_HERE, or_(_OWN, _FIELDS))
_OLDEST: Final = (
    select(memories.c.id)
    .where(*_HERE, memories.c.id > bindparam("after"), or_(_OWN, _FIELDS))
    .order_by(memories.c.id)
    .limit(bindparam("most", type_=Integer))
)


def without_words(has_own: Exists, *, has_fields: Exists) -> Select[int]:
    """Select findable memories above an id that lack words: all of theirs, or of their fields.

    Args:
        has_own: whether a row of memories stands in the engine's full text.
        has_fields: the same of an atom, in the full text of fields.

    """
    lacks = or_(~has_own, and_(memories.c.kind == Kind.ATOM, ~has_fields))
    return (
        select(memories.c.id)
        .where(*_HERE, memories.c.id > bindparam("after"), lacks)
        .order_by(memories.c.id)
        .limit(bindparam("most", type_=Integer))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEmbeddings:
    """What lacks vectors of one space among one tenant's memories, in one transaction."""

    work: SqlContext
    space_id: int

    def of(self, memory_id: int) -> tuple[bool, bool]:
        """Say whether a memory can be found and lacks its own vectors, or those of its fields."""
        for own, fields in self.work.rows(_OF, {"space": self.space_id, "memory": memory_id}):
            return bool(own), bool(fields)
        return False, False

    def pending(self) -> int:
        """Count the findable memories that lack vectors: all, or those of their fields."""
        [(count,)] = self.work.rows(_PENDING, {"space": self.space_id})
        return count

    def any_fields(self) -> bool:
        """Say whether there are findable atoms whose fields never got vectors."""
        given = {"tenant": self.work.tenant, "space": self.space_id, "states": _FINDABLE}
        return self.work.connection.execute(_FIELDLESS, given).first() is not None

    def oldest(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id that lack vectors, ascending."""
        given = {"space": self.space_id, "after": after, "most": limit}
        return [id_ for (id_,) in self.work.rows(_OLDEST, given)]
