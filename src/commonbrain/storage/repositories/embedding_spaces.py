"""The spaces of a store: which serves, which are built beside it, and what is left of others."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from sqlalchemy import Connection, delete, func, insert, select, tuple_, update

from commonbrain.embeddings.interface import EmbeddingSpace, SpaceState, StoredSpace
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.repositories.maintenance import MissingEmbeddings
from commonbrain.storage.schema.invalidation import field_vectors
from commonbrain.storage.schema.memories import spaces, vectors
from commonbrain.storage.sql.context import Dialect, SqlContext, known_spaces
from commonbrain.storage.sql.errors import map_driver_errors

_NAME_CHARS: Final = 100
"""What is kept of the name of a dropped space, which its number follows."""


@dataclass(frozen=True, slots=True)
class SpaceRepository:
    """The spaces of a store, which all of its tenants share."""

    dialect: Dialect

    def listed(self) -> list[StoredSpace]:
        """List those that there are, the oldest first.

        Raises:
            UnavailableError: `store_down`, the store cannot be read.

        """
        with self._reading() as connection:
            return _live(connection)

    def lacking(self, space_id: int) -> dict[str, int]:
        """Count by tenant the findable memories that lack vectors in a space; none are left out.

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
        """Say whether the engine has all that it searches a large space by."""
        with self._reading() as connection:
            return self.dialect.is_indexed(connection, space_id)

    def add(self, space: EmbeddingSpace) -> StoredSpace:
        """Give what there is of a space; where there is none it is made, to be built.

        Raises:
            InvalidInputError: `space_mismatch`, there is one of that name with other dimensions.
            UnavailableError: the store stayed locked, is full or read-only; nothing was made.

        """
        known = _same(self.listed(), space)
        if known is not None:
            return known
        with self._writing() as connection:
            row = {"name": space.name, "dimensions": space.dimensions}
            building = insert(spaces).values(row | {"state": SpaceState.BUILDING})
            # Another process may have been faster; what it made is found and left alone.
            if _same(_live(connection), space) is None:
                connection.execute(building)
            return _named(connection, space.name)

    def switch(self, name: str) -> StoredSpace:
        """Let another space serve: for every process at once, and in one transaction.

        Nobody writes while it is looked for what the space lacks, so that nothing is overlooked.

        Returns:
            The space that served until then.

        Raises:
            NotFoundError: there is none of that name.
            RejectedError: `space_incomplete`, memories lack vectors in it; nothing was changed.
            UnavailableError: the store stayed locked, is full or read-only; nothing was changed.

        """
        with self._writing() as connection:
            wanted = _named(connection, name)
            [serving] = (one for one in _live(connection) if one.state is SpaceState.CURRENT)
            if wanted.id == serving.id:
                return serving
            for tenant in self.dialect.each_tenant(connection):
                # Whoever remembers something now waits, and finds the other space when its turn is.
                self.dialect.take_turn(connection, tenant)
                self._check_whole(connection, tenant, wanted=wanted)
            # One after the other: at no moment may two of them serve.
            for one, state in ((serving, SpaceState.RETIRED), (wanted, SpaceState.CURRENT)):
                _write(connection, replace(one, state=state))
            self.dialect.mark_switch(connection)
            return serving

    def drop(self, name: str) -> StoredSpace:
        """Let a space be none of the store's any more; its vectors are there until swept.

        Raises:
            NotFoundError: there is none of that name.
            RejectedError: `space_in_use`, it serves.

        """
        with self._writing() as connection:
            wanted = _named(connection, name)
            if wanted.state is SpaceState.CURRENT:
                raise RejectedError(
                    f"The space {name} serves.",
                    code="space_in_use",
                    hint="Let another serve first: `brain embeddings switch NAME`.",
                )
            # Who has it open still writes into it, and its name is free to be built anew.
            renamed = f"{wanted.name[:_NAME_CHARS]} dropped {wanted.id}"
            _write(connection, replace(wanted, state=SpaceState.DROPPED, name=renamed))
            return wanted

    def dropped(self) -> int:
        """Count the vectors that are left of dropped spaces."""
        count = 0
        with self._reading() as connection:
            gone = _gone(connection)
            for tenant in self.dialect.each_tenant(connection):
                for table in (vectors, field_vectors):
                    of_gone = table.c.tenant_id == tenant, table.c.space_id.in_(gone)
                    counted = select(func.count()).select_from(table).where(*of_gone)
                    count += connection.execute(counted).scalar_one()
        return count

    def sweep(self, *, limit: int) -> int:
        """Delete up to so many vectors of dropped spaces of a tenant each; count them."""
        with self._reading() as connection:
            gone = _gone(connection)
            tenants = list(self.dialect.each_tenant(connection)) if gone else []
        return sum(self._swept(tenant, gone, limit=limit) for tenant in tenants)

    def _swept(self, tenant: str, gone: Sequence[int], *, limit: int) -> int:
        """Delete vectors of one tenant in a transaction of their own: others write in between."""
        count = 0
        with self._writing(tenant) as connection:
            for kept in (vectors, field_vectors):
                table = self.dialect.as_kept(kept)
                own = table.c.tenant_id == tenant, table.c.space_id.in_(gone)
                some = select(*table.primary_key).where(*own).limit(limit)
                dropped = delete(table).where(own[0], tuple_(*table.primary_key).in_(some))
                count += connection.execute(dropped).rowcount
        return count

    def _check_whole(self, connection: Connection, tenant: str, *, wanted: StoredSpace) -> None:
        lacking = MissingEmbeddings(work=self._work(connection, tenant), space_id=wanted.id)
        if lacking.oldest(limit=1):
            raise RejectedError(
                f"{lacking.pending()} memories of tenant {tenant} lack vectors in {wanted.name}.",
                code="space_incomplete",
                hint="Build it first: `brain embeddings build` goes on where it ended.",
            )

    @contextmanager
    def _writing(self, tenant: str = LOCAL_TENANT) -> Generator[Connection]:
        with (
            map_driver_errors(self.dialect.location),
            self.dialect.writer(tenant) as connection,
            connection.begin(),
        ):
            yield connection
        self.dialect.check_kept()

    @contextmanager
    def _reading(self) -> Generator[Connection]:
        with (
            map_driver_errors(self.dialect.location),
            self.dialect.reader(None) as connection,
            connection.begin(),
        ):
            yield connection

    def _work(self, connection: Connection, tenant: str) -> SqlContext:
        return SqlContext(connection=connection, tenant=tenant, dialect=self.dialect)


def _live(connection: Connection) -> list[StoredSpace]:
    return [one for one in known_spaces(connection) if one.state is not SpaceState.DROPPED]


def _gone(connection: Connection) -> list[int]:
    return [one.id for one in known_spaces(connection) if one.state is SpaceState.DROPPED]


def _named(connection: Connection, name: str) -> StoredSpace:
    known = _live(connection)
    for one in known:
        if one.name == name:
            return one
    raise NotFoundError(
        f"This store has no space {name[:100]!r}.",
        hint=f"It has {', '.join(one.name for one in known)}.",
    )


def _same(known: Sequence[StoredSpace], space: EmbeddingSpace) -> StoredSpace | None:
    """Find a space among those that are known.

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


def _write(connection: Connection, space: StoredSpace) -> None:
    written = {"state": space.state, "name": space.name}
    connection.execute(update(spaces).where(spaces.c.id == space.id).values(written))
