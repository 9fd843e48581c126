"""Embedding spaces of a store, and which memories lack vectors in one."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sa

from commonbrain.embeddings.interface import EmbeddingSpace, SpaceState, StoredSpace
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.kinds import CausalField, Kind
from commonbrain.model.memory import FINDABLE_STATES
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.model.values import dataclass, replace
from commonbrain.storage.schema.memories import DETAILS, field_vectors, memories, spaces, vectors
from commonbrain.storage.sql.context import Dialect, SqlContext, known_spaces
from commonbrain.storage.sql.statements import exists_in

_NAME_CHARS: Final = 100
"""Characters kept of the name of a dropped space, before its number."""


@dataclass(frozen=True, slots=True)
class SpaceRepository:
    """The embedding spaces of a store, shared by all of its tenants."""

    dialect: Dialect

    def listed(self) -> list[StoredSpace]:
        """List the spaces, oldest first.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.

        """
        with self._reading() as connection:
            return _live(connection)

    def missing_vectors(self, space_id: int) -> dict[str, int]:
        """Count the findable memories without vectors in a space, for every tenant.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.

        """
        with self._reading() as connection:
            return {
                tenant: MissingEmbeddings(
                    work=self._work(connection, tenant), space_id=space_id
                ).pending()
                for tenant in self.dialect.each_tenant(connection)
            }

    def is_indexed(self, space_id: int) -> bool:
        """Check whether the engine has every index that it uses to search a large space."""
        with self._reading() as connection:
            return self.dialect.is_indexed(connection, space_id)

    def add(self, space: EmbeddingSpace) -> StoredSpace:
        """Return a space by name; create it in state `building` if there is none.

        Raises:
            InvalidInputError: `space_mismatch`, the space of that name has other dimensions.
            UnavailableError: the store stayed locked, is full or read-only; nothing was created.

        """
        known = _same(self.listed(), space)
        if known is not None:
            return known
        with self._writing() as connection:
            row = {"name": space.name, "dimensions": space.dimensions}
            building = sa.insert(spaces).values(row | {"state": SpaceState.BUILDING})
            # Another process may have been faster; its row is left alone.
            if _same(_live(connection), space) is None:
                connection.execute(building)
            return _named(connection, space.name)

    def switch(self, name: str) -> StoredSpace:
        """Make another space the serving one, for every process at once, in one transaction.

        It blocks writers while it counts missing vectors, so that none is overlooked.

        Returns:
            The space that served until then.

        Raises:
            NotFoundError: there is no space of that name.
            RejectedError: `space_incomplete`, memories lack vectors in it; nothing was changed.
            UnavailableError: the store stayed locked, is full or read-only; nothing was changed.

        """
        with self._writing() as connection:
            target = _named(connection, name)
            [serving] = (one for one in _live(connection) if one.state is SpaceState.CURRENT)
            if target.id == serving.id:
                return serving
            # Whoever remembers something now waits, and finds the other space when its turn is.
            for tenant in self.dialect.each_tenant(connection, to_write=True):
                self._check_whole(connection, tenant, target=target)
            # One after the other: at no moment may two of them serve.
            for one, state in ((serving, SpaceState.RETIRED), (target, SpaceState.CURRENT)):
                _write(connection, replace(one, state=state))
            self.dialect.mark_switch(connection)
            return serving

    def drop(self, name: str) -> StoredSpace:
        """Mark a space as dropped; `sweep` deletes its vectors.

        Raises:
            NotFoundError: there is no space of that name.
            RejectedError: `space_in_use`, it is the serving space.

        """
        with self._writing() as connection:
            target = _named(connection, name)
            if target.state is SpaceState.CURRENT:
                raise RejectedError(
                    f"The space {name} serves.",
                    code="space_in_use",
                    hint="Let another serve first: `brain embeddings switch NAME`.",
                )
            # Programs that have it open still write into it, and its name can be used again.
            renamed = f"{target.name[:_NAME_CHARS]} dropped {target.id}"
            _write(connection, replace(target, state=SpaceState.DROPPED, name=renamed))
            return target

    def dropped(self) -> int:
        """Count the remaining vectors of dropped spaces."""
        count = 0
        with self._reading() as connection:
            dropped = _dropped_ids(connection)
            for tenant in self.dialect.each_tenant(connection):
                for table in (vectors, field_vectors):
                    in_dropped = table.c.tenant_id == tenant, table.c.space_id.in_(dropped)
                    counted = sa.select(sa.func.count()).select_from(table).where(*in_dropped)
                    count += connection.execute(counted).scalar_one()
        return count

    def sweep(self, *, limit: int) -> int:
        """Delete up to `limit` vectors of dropped spaces per tenant; return the number deleted."""
        with self._reading() as connection:
            dropped = _dropped_ids(connection)
            tenants = list(self.dialect.each_tenant(connection)) if dropped else []
        return sum(self._sweep_tenant(tenant, dropped, limit=limit) for tenant in tenants)

    def _sweep_tenant(self, tenant: str, dropped: Sequence[int], *, limit: int) -> int:
        """Delete vectors of one tenant in a transaction of its own: others write in between."""
        count = 0
        with self._writing(tenant) as connection:
            for source in (vectors, field_vectors):
                table = self.dialect.stored_table(source)
                own = table.c.tenant_id == tenant, table.c.space_id.in_(dropped)
                some = sa.select(*table.primary_key).where(*own).limit(limit)
                statement = sa.delete(table).where(own[0], sa.tuple_(*table.primary_key).in_(some))
                count += connection.execute(statement).rowcount
        return count

    def _check_whole(self, connection: sa.Connection, tenant: str, *, target: StoredSpace) -> None:
        missing = MissingEmbeddings(work=self._work(connection, tenant), space_id=target.id)
        if missing.oldest(limit=1):
            count = missing.pending()
            subject = "1 memory lacks" if count == 1 else f"{count:,} memories lack"
            raise RejectedError(
                f"In tenant {tenant}, {subject} vectors in {target.name}.",
                code="space_incomplete",
                hint="Build it first: `brain embeddings build` goes on where it ended.",
            )

    @contextmanager
    def _writing(self, tenant: str = LOCAL_TENANT) -> Generator[sa.Connection]:
        with (
            self.dialect.map_errors(),
            self.dialect.writer(tenant) as connection,
            connection.begin(),
        ):
            yield connection
        self.dialect.check_location()

    @contextmanager
    def _reading(self) -> Generator[sa.Connection]:
        with (
            self.dialect.map_errors(),
            self.dialect.reader(None) as connection,
            connection.begin(),
        ):
            yield connection

    def _work(self, connection: sa.Connection, tenant: str) -> SqlContext:
        return SqlContext(connection=connection, tenant=tenant, dialect=self.dialect)


def _live(connection: sa.Connection) -> list[StoredSpace]:
    return [one for one in known_spaces(connection) if one.state is not SpaceState.DROPPED]


def _dropped_ids(connection: sa.Connection) -> list[int]:
    return [one.id for one in known_spaces(connection) if one.state is SpaceState.DROPPED]


def _named(connection: sa.Connection, name: str) -> StoredSpace:
    known = _live(connection)
    for one in known:
        if one.name == name:
            return one
    raise NotFoundError(
        f"This store has no space {name[:100]!r}.",
        hint=f"It has {', '.join(one.name for one in known)}.",
    )


def _same(known: Sequence[StoredSpace], space: EmbeddingSpace) -> StoredSpace | None:
    """Find a space by name among the known ones.

    Raises:
        InvalidInputError: it has other dimensions there.

    """
    for one in known:
        if one.name == space.name and one.dimensions != space.dimensions:
            raise InvalidInputError(
                f"The space {one.name} has {one.dimensions} dimensions here; the embedder makes "
                f"{space.dimensions}.",
                code="space_mismatch",
                hint="A model of other dimensions has another name.",
            )
        if one.name == space.name:
            return one
    return None


def _write(connection: sa.Connection, space: StoredSpace) -> None:
    written = {"state": space.state, "name": space.name}
    connection.execute(sa.update(spaces).where(spaces.c.id == space.id).values(written))


_FINDABLE: Final = sorted(FINDABLE_STATES)
_ATOMS: Final = DETAILS[Kind.ATOM]
_HAS_FIELDS: Final = sa.or_(*(_ATOMS.c[name] != "" for name in CausalField))
# Asked at every search of a field: the keys of the rows are enough, and few memories are read.
_FIELDLESS: Final = (
    sa.select(_ATOMS.c.memory_id)
    .where(
        _ATOMS.c.tenant_id == sa.bindparam("tenant"),
        _HAS_FIELDS,
        ~exists_in(
            field_vectors,
            field_vectors.c.memory_id == _ATOMS.c.memory_id,
            field_vectors.c.space_id == sa.bindparam("space"),
            of=_ATOMS,
        ),
        exists_in(
            memories,
            memories.c.id == _ATOMS.c.memory_id,
            memories.c.state.in_(sa.bindparam("states", expanding=True)),
            of=_ATOMS,
        ),
    )
    .limit(1)
)


def _lacks(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return which memories have no vector in a table."""
    return ~exists_in(
        table,
        table.c.memory_id == memories.c.id,
        table.c.space_id == sa.bindparam("space"),
        table.c.vector.is_not(None),
        of=memories,
    )


_OWN: Final = _lacks(vectors)
# An atom has vectors of all its fields or of none: they are written together.
_FIELDS: Final = sa.and_(
    memories.c.kind == Kind.ATOM,
    exists_in(_ATOMS, _ATOMS.c.memory_id == memories.c.id, _HAS_FIELDS, of=memories),
    _lacks(field_vectors),
)
# Superseded ones are findable too: they answer `as_of`.
_HERE: Final = (
    memories.c.tenant_id == sa.bindparam("tenant"),
    memories.c.state.in_(_FINDABLE),
)
_OF: Final = sa.select(_OWN, _FIELDS).where(*_HERE, memories.c.id == sa.bindparam("memory"))
# For all memories at once, the difference of two sorted lists takes a tenth of the time of looking
# each one up; the order makes SQLite merge them, instead of building a table of both.
_WITHOUT_ROWS: Final = (
    sa.select(memories.c.id.label("id"))
    .where(memories.c.tenant_id == sa.bindparam("tenant"))
    .except_(
        sa.select(vectors.c.memory_id).where(
            vectors.c.tenant_id == sa.bindparam("tenant"),
            vectors.c.space_id == sa.bindparam("space"),
        )
    )
    .order_by("id")
)
# An index has the few rows without a value.
_WITH_DROPPED: Final = sa.select(vectors.c.memory_id).where(
    vectors.c.tenant_id == sa.bindparam("tenant"),
    vectors.c.space_id == sa.bindparam("space"),
    vectors.c.vector.is_(None),
)
_PENDING: Final = sa.select(
    *(
        sa.select(sa.func.count()).select_from(memories).where(*_HERE, *lacks).scalar_subquery()
        for lacks in (
            (memories.c.id.in_(_WITHOUT_ROWS),),
            (memories.c.id.in_(_WITH_DROPPED), _OWN),
            (~_OWN, _FIELDS),
        )
    )
)
_OLDEST: Final = (
    sa.select(memories.c.id)
    .where(*_HERE, memories.c.id > sa.bindparam("after"), sa.or_(_OWN, _FIELDS))
    .order_by(memories.c.id)
    .limit(sa.bindparam("most", type_=sa.Integer))
)


def without_words(has_own: sa.Exists, *, has_fields: sa.Exists) -> sa.Select[int]:
    """Select findable memories above an id without full text: their own or that of their fields.

    Args:
        has_own: whether the full text of the engine has the memory.
        has_fields: whether the full text of fields has the atom.

    """
    lacks = sa.or_(~has_own, sa.and_(memories.c.kind == Kind.ATOM, ~has_fields))
    return (
        sa.select(memories.c.id)
        .where(*_HERE, memories.c.id > sa.bindparam("after"), lacks)
        .order_by(memories.c.id)
        .limit(sa.bindparam("most", type_=sa.Integer))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingEmbeddings:
    """Memories of one tenant without vectors in one space, seen by one transaction."""

    work: SqlContext
    space_id: int

    def of(self, memory_id: int) -> tuple[bool, bool]:
        """Return whether a findable memory lacks its own vectors, and those of its fields."""
        for own, fields in self.work.rows(_OF, {"space": self.space_id, "memory": memory_id}):
            return bool(own), bool(fields)
        return False, False

    def pending(self) -> int:
        """Count the findable memories that lack any vector, their own or of their fields."""
        [counts] = self.work.rows(_PENDING, {"space": self.space_id})
        return sum(counts)

    def any_fields(self) -> bool:
        """Check whether any findable atom never got vectors of its fields."""
        given = {"tenant": self.work.tenant, "space": self.space_id, "states": _FINDABLE}
        return self.work.connection.execute(_FIELDLESS, given).first() is not None

    def oldest(self, *, limit: int, after: int = 0) -> list[int]:
        """List findable memories above an id that lack vectors, ascending."""
        given = {"space": self.space_id, "after": after, "most": limit}
        return [id_ for (id_,) in self.work.rows(_OLDEST, given)]
