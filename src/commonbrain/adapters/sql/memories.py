"""The shelf of memories: projection, detail and tags, written and read together."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from sqlalchemy import (
    Executable,
    Select,
    String,
    bindparam,
    func,
    insert,
    select,
    union_all,
    update,
)

from commonbrain.adapters.sql.looks import confine
from commonbrain.adapters.sql.tables import DETAILS, EntityType, entities, memories
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.kinds import KINDS, Kind
from commonbrain.domain.memory import CURRENT_STATES, Memory, State
from commonbrain.ports.store import Hit, IdTaken, Look

# What the projection row holds of a memory, in the names both use.
_PROJECTED: Final = tuple(
    field.name for field in fields(Memory) if field.name not in {"body", "detail", "tags"}
)
_ID: Final = _PROJECTED.index("id")
_KIND: Final = _PROJECTED.index("kind")
_COLUMNS: Final = {kind: policy.columns for kind, policy in KINDS.items()}
# Statements are built once: building one costs more than running it.
_ADD_DETAIL: Final = {kind: insert(table) for kind, table in DETAILS.items()}
_ADD_ENTITIES: Final = insert(entities)
_GET: Final = select(*(memories.c[name] for name in _PROJECTED)).where(
    memories.c.tenant_id == bindparam("tenant"),
    memories.c.id.in_(bindparam("ids", expanding=True)),
)
_GET_DETAIL: Final = {
    kind: select(
        table.c.memory_id, table.c.body, *(table.c[name] for name in _COLUMNS[kind])
    ).where(
        table.c.tenant_id == bindparam("tenant"),
        table.c.memory_id.in_(bindparam("ids", expanding=True)),
    )
    for kind, table in DETAILS.items()
}
_GET_TAGS: Final = (
    select(entities.c.memory_id, entities.c.name)
    .where(
        entities.c.tenant_id == bindparam("tenant"),
        entities.c.memory_id.in_(bindparam("ids", expanding=True)),
        entities.c.type == EntityType.TAG,
    )
    .order_by(entities.c.position)
)
_SAID: Final = select(1).where(
    entities.c.tenant_id == bindparam("tenant"), entities.c.type == EntityType.PERSON
)
_BY_HASH: Final = select(memories.c.id).where(
    memories.c.tenant_id == bindparam("tenant"),
    memories.c.kind == bindparam("kind"),
    memories.c.semantic_hash == bindparam("hash"),
    memories.c.state.in_(sorted(CURRENT_STATES)),
)
_BY_HASH_AND_SOURCE: Final = _BY_HASH.where(memories.c.source_ref == bindparam("source"))


@dataclass(frozen=True, slots=True)
class MemoryShelf:
    """Memories of one tenant in one transaction."""

    work: Work

    def add(self, memory: Memory) -> None:
        """Store a new memory whole, or raise `IdTaken` with nothing stored."""
        tenant = {"tenant_id": self.work.tenant}
        row = {name: getattr(memory, name) for name in _PROJECTED}
        if not self.work.add(memories, tenant | row):
            raise IdTaken
        own = {"memory_id": memory.id, "kind": memory.kind, "body": memory.body}
        detail = asdict(memory.detail)
        self.work.connection.execute(_ADD_DETAIL[memory.kind], tenant | own | detail)
        named = {EntityType.TAG: memory.tags, EntityType.PERSON: memory.people}
        entity = tenant | {"memory_id": memory.id}
        rows = [
            entity | {"type": type_, "name": name, "position": position}
            for type_, names in named.items()
            for position, name in enumerate(names)
        ]
        if rows:
            self.work.connection.execute(_ADD_ENTITIES, rows)

    def get(self, ids: Sequence[int]) -> dict[int, Memory]:
        """Fetch memories of any state by id."""
        if not ids:
            return {}
        rows = self._rows(_GET, ids)
        by_kind: defaultdict[Kind, list[int]] = defaultdict(list)
        for row in rows:
            by_kind[row[_KIND]].append(row[_ID])
        details = {
            memory_id: detail
            for kind, of_kind in by_kind.items()
            for memory_id, *detail in self._rows(_GET_DETAIL[kind], of_kind)
        }
        tags: defaultdict[int, list[str]] = defaultdict(list)
        for memory_id, name in self._rows(_GET_TAGS, ids):
            tags[memory_id].append(name)
        return {row[_ID]: _memory(row, details[row[_ID]], tags=tags[row[_ID]]) for row in rows}

    def by_hash(
        self, kind: Kind, semantic_hash: str, *, source_ref: str | None = None
    ) -> list[Memory]:
        """Find the current memories of a kind, or of a source, that say the same to the letter."""
        given = {"tenant": self.work.tenant, "kind": kind, "hash": semantic_hash}
        statement = _BY_HASH
        if source_ref is not None:
            statement, given = _BY_HASH_AND_SOURCE, given | {"source": source_ref}
        ids = sorted(self.work.connection.execute(statement, given).scalars())
        found = self.get(ids)
        return [found[id_] for id_ in ids]

    def newest(self, look: Look, *, limit: int) -> list[Hit]:
        """List what the look allows, latest occurrence first."""
        statement = (
            select(memories.c.id, memories.c.occurred_at)
            .where(confine(look, self.work.tenant))
            .order_by(memories.c.occurred_at.desc(), memories.c.id.desc())
            .limit(limit)
        )
        rows = self.work.connection.execute(statement)
        return [Hit(id=id_, score=occurred_at.timestamp()) for id_, occurred_at in rows]

    def any(self, look: Look) -> bool:
        """Say whether the look allows anything at all."""
        statement = select(memories.c.id).where(confine(look, self.work.tenant)).limit(1)
        return self.work.connection.execute(statement).first() is not None

    def change_state(self, memory_id: int, state: State) -> None:
        """Move a memory to another state."""
        self._update(memory_id, {"state": state})

    def supersede(self, old_id: int, new_id: int, *, at: datetime) -> None:
        """Point an old memory at the one that replaces it."""
        changes = {
            "state": State.SUPERSEDED,
            "superseded_by": new_id,
            "superseded_at": at,
        }
        self._update(old_id, changes)

    def people(self, names: Sequence[str]) -> set[str]:
        """Say which of these case-folded names are of somebody who said something here."""
        if not names:
            return set()
        given = {f"name_{number}": name for number, name in enumerate(names)}
        statement = _people(len(names))
        return set(
            self.work.connection.execute(statement, given | {"tenant": self.work.tenant}).scalars()
        )

    def counts(self) -> Mapping[tuple[Kind, State], int]:
        """Count the tenant's memories by kind and state."""
        statement = (
            select(memories.c.kind, memories.c.state, func.count())
            .where(memories.c.tenant_id == self.work.tenant)
            .group_by(memories.c.kind, memories.c.state)
        )
        rows = self.work.connection.execute(statement)
        return {(kind, state): count for kind, state, count in rows}

    def _update(self, memory_id: int, changes: Mapping[str, Any]) -> None:
        row = (memories.c.tenant_id == self.work.tenant) & (memories.c.id == memory_id)
        self.work.connection.execute(update(memories).where(row).values(**changes))

    def _rows(self, statement: Executable, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        return self.work.connection.execute(statement, given).all()


@lru_cache
def _people(count: int) -> Select[str]:
    """Select of so many names those of somebody who said something."""
    names = (bindparam(f"name_{number}", type_=String) for number in range(count))
    # Not VALUES, which would be compiled anew each time.
    each = union_all(*(select(name.label("name")) for name in names)).cte("asked")
    # One look into the index per name, however much its bearer said.
    return select(each.c.name).where(_SAID.where(entities.c.name == each.c.name).exists())


def _memory(row: Sequence[Any], detail: Sequence[Any], *, tags: Iterable[str]) -> Memory:
    """Put the rows of one memory together."""
    kind: Kind = row[_KIND]
    body, *columns = detail
    own = KINDS[kind].detail(**dict(zip(_COLUMNS[kind], columns, strict=True)))
    projected = dict(zip(_PROJECTED, row, strict=True))
    return Memory(**projected, body=body, detail=own, tags=tuple(tags))
