"""What lacks vectors: findable memories that wait to be embedded, whatever the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Select, and_, bindparam, func, or_, select

from commonbrain.adapters.sql.field_tables import field_vectors
from commonbrain.adapters.sql.tables import DETAILS, memories, vectors
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.atom import CausalField
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import FINDABLE_STATES

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lacking:
    """What lacks vectors of one space among one tenant's memories, in one transaction."""

    work: Work
    space_id: int

    def of(self, memory_id: int) -> tuple[bool, bool]:
        """Say whether a memory can be found and lacks its own vectors, or those of its fields."""
        run = self.work.connection.execute
        asked = (
            self._lacking(what, memories.c.id).where(memories.c.id == memory_id)
            for what in (self._own(), self._fields())
        )
        own, fields = (run(statement).first() is not None for statement in asked)
        return own, fields

    def pending(self) -> int:
        """Count the findable memories that lack vectors: all, or those of their fields."""
        lacks = or_(self._own(), self._fields())
        return self.work.connection.execute(self._lacking(lacks, func.count())).scalar_one()

    def any_fields(self) -> bool:
        """Say whether there are findable atoms whose fields never got vectors."""
        given = {"tenant": self.work.tenant, "space": self.space_id, "states": _FINDABLE}
        return self.work.connection.execute(_FIELDLESS, given).first() is not None

    def oldest(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id that lack vectors, ascending."""
        lacks = or_(self._own(), self._fields()) & (memories.c.id > after)
        waiting = self._lacking(lacks, memories.c.id).order_by(memories.c.id).limit(limit)
        return list(self.work.connection.execute(waiting).scalars())

    def _lacking(self, what: ColumnElement[bool], given: ColumnElement[int]) -> Select[int]:
        """Select from the findable memories that lack something; superseded ones answer `as_of`."""
        return (
            select(given)
            .select_from(memories)
            .where(
                memories.c.tenant_id == self.work.tenant,
                memories.c.state.in_(_FINDABLE),
                what,
            )
        )

    def _own(self) -> ColumnElement[bool]:
        own = select(1).where(
            vectors.c.tenant_id == memories.c.tenant_id,
            vectors.c.memory_id == memories.c.id,
            vectors.c.space_id == self.space_id,
            vectors.c.vector.is_not(None),
        )
        return ~own.exists()

    def _fields(self) -> ColumnElement[bool]:
        """Say which atoms have fields and vectors of none: those are written together."""
        told = select(1).where(
            _ATOMS.c.tenant_id == memories.c.tenant_id,
            _ATOMS.c.memory_id == memories.c.id,
            _TELLS,
        )
        made = select(1).where(
            field_vectors.c.tenant_id == memories.c.tenant_id,
            field_vectors.c.memory_id == memories.c.id,
            field_vectors.c.space_id == self.space_id,
            field_vectors.c.vector.is_not(None),
        )
        return and_(memories.c.kind == Kind.ATOM, told.exists(), ~made.exists())
