"""The shelf of memories: projection, detail and tags, written and read together."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    RowMapping,
    String,
    Table,
    bindparam,
    case,
    column,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    update,
    values,
)

from commonbrain.adapters.sql.columns import Instant
from commonbrain.adapters.sql.looks import confine
from commonbrain.adapters.sql.tables import DETAILS, EntityType, entities, memories
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.kinds import KINDS, Detail, Kind
from commonbrain.domain.memory import CURRENT_STATES, Memory, State
from commonbrain.ports.store import Hit, IdTaken, Look

_SPEAKER: Final = 0
"""The position of who said it among the people of a memory; whom it names comes after."""
_NAMED: Final = {
    "tags": EntityType.TAG,
    "people": EntityType.PERSON,
    "topics": EntityType.TOPIC,
    "references": EntityType.REFERENCE,
}
"""Fields of a memory that stand in rows of their own."""
# What the projection row holds of a memory, in the names both use.
_PROJECTED: Final = tuple(
    field.name for field in fields(Memory) if field.name not in {"body", "detail", *_NAMED}
)
# Statements are built once: building one costs more than running it.
_ADD_DETAIL: Final = {kind: insert(table) for kind, table in DETAILS.items()}
_ADD_ENTITIES: Final = insert(entities)
_GET: Final = select(memories).where(
    memories.c.tenant_id == bindparam("tenant"),
    memories.c.id.in_(bindparam("ids", expanding=True)),
)
_GET_DETAIL: Final = {
    kind: select(table).where(
        table.c.tenant_id == bindparam("tenant"),
        table.c.memory_id.in_(bindparam("ids", expanding=True)),
    )
    for kind, table in DETAILS.items()
}
_GET_NAMES: Final = (
    select(entities.c.memory_id, entities.c.type, entities.c.name)
    .where(
        entities.c.tenant_id == bindparam("tenant"),
        entities.c.memory_id.in_(bindparam("ids", expanding=True)),
        or_(entities.c.type != EntityType.PERSON, entities.c.position > _SPEAKER),
    )
    .order_by(entities.c.position)
)
_SAID: Final = select(1).where(
    entities.c.tenant_id == bindparam("tenant"),
    entities.c.type == EntityType.PERSON,
    entities.c.position == _SPEAKER,
)
_BY_HASH: Final = select(memories.c.id).where(
    memories.c.tenant_id == bindparam("tenant"),
    memories.c.kind == bindparam("kind"),
    memories.c.semantic_hash == bindparam("hash"),
    memories.c.state.in_(sorted(CURRENT_STATES)),
)
_BY_HASH_AND_SOURCE: Final = _BY_HASH.where(memories.c.source_ref == bindparam("source"))


_REPLACED: Final = select(memories.c.id).where(
    memories.c.tenant_id == bindparam("tenant"), memories.c.superseded_by == bindparam("memory")
)
_FIELD_OF: Final = {type_: field for field, type_ in _NAMED.items()}
_DROP_ENTITIES: Final = delete(entities).where(
    entities.c.tenant_id == bindparam("tenant"), entities.c.memory_id == bindparam("memory")
)
_TOUCH: Final = (
    update(memories)
    .where(
        memories.c.tenant_id == bindparam("tenant"),
        memories.c.id.in_(bindparam("ids", expanding=True)),
    )
    .values(
        access_count=memories.c.access_count + 1,
        last_access_at=case(
            (memories.c.last_access_at > bindparam("at", type_=Instant), memories.c.last_access_at),
            else_=bindparam("at", type_=Instant),
        ),
    )
)


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
        rows = _names(memory)
        if rows:
            entity = tenant | {"memory_id": memory.id}
            self.work.connection.execute(_ADD_ENTITIES, [entity | row for row in rows])

    def get(self, ids: Sequence[int]) -> dict[int, Memory]:
        """Fetch memories of any state by id."""
        if not ids:
            return {}
        rows = self._rows(_GET, ids)
        by_kind: defaultdict[Kind, list[int]] = defaultdict(list)
        for row in rows:
            by_kind[row["kind"]].append(row["id"])
        details = {
            detail["memory_id"]: detail
            for kind, of_kind in by_kind.items()
            for detail in self._rows(_GET_DETAIL[kind], of_kind)
        }
        names: defaultdict[int, list[RowMapping]] = defaultdict(list)
        for row in self._rows(_GET_NAMES, ids):
            names[row["memory_id"]].append(row)
        return {
            row["id"]: _memory(row, details[row["id"]], names=names.get(row["id"], ()))
            for row in rows
        }

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

    def update(self, before: Memory, after: Memory) -> None:
        """Write what differs between two states of one memory; its text never does."""
        old, new = _projection(before), _projection(after)
        changed = {name: value for name, value in new.items() if value != old[name]}
        self._update(before.id, changed, table=memories)
        details = _changed(before.detail, after.detail)
        self._update(before.id, details, table=DETAILS[before.kind])
        if _names(before) == _names(after):
            return
        self.work.connection.execute(_DROP_ENTITIES, self._of(before.id))
        entity = {"tenant_id": self.work.tenant, "memory_id": before.id}
        rows = [entity | row for row in _names(after)]
        if rows:
            self.work.connection.execute(_ADD_ENTITIES, rows)

    def replaced_by(self, memory_id: int) -> int | None:
        """Give the id of what this memory replaced; None when it is the first of its chain."""
        return self.work.connection.execute(_REPLACED, self._of(memory_id)).scalar()

    def touch(self, ids: Sequence[int], *, at: datetime) -> None:
        """Count one more access to each memory, last at a moment."""
        if ids:
            given = {"tenant": self.work.tenant, "ids": list(ids), "at": at}
            self.work.connection.execute(_TOUCH, given)

    def skills(self, look: Look) -> Mapping[int, Mapping[str, object]]:
        """Give the triggers of the rules that the look allows and that have one, by id."""
        rules = DETAILS[Kind.RULE].c
        of_rule = (rules.tenant_id == memories.c.tenant_id) & (rules.memory_id == memories.c.id)
        statement = (
            select(rules.memory_id, rules.skill)
            .join(memories, of_rule)
            # Said again of the rules, so that the index of triggers serves.
            .where(rules.tenant_id == self.work.tenant, rules.skill.is_not(null()))
            .where(confine(look, self.work.tenant))
        )
        return {id_: skill for id_, skill in self.work.connection.execute(statement)}  # noqa: C416

    def people(self, names: Sequence[str]) -> set[str]:
        """Say which of these case-folded names are of somebody who said something here."""
        if not names:
            return set()
        asked = values(column("name", String), name="asked").data([(name,) for name in names])
        each = asked.cte("asked")
        # One look into the index per name, however much its bearer said.
        said = _SAID.where(entities.c.name == each.c.name).exists()
        given = {"tenant": self.work.tenant}
        return set(self.work.connection.execute(select(each.c.name).where(said), given).scalars())

    def counts(self) -> Mapping[tuple[Kind, State], int]:
        """Count the tenant's memories by kind and state."""
        statement = (
            select(memories.c.kind, memories.c.state, func.count())
            .where(memories.c.tenant_id == self.work.tenant)
            .group_by(memories.c.kind, memories.c.state)
        )
        rows = self.work.connection.execute(statement)
        return {(kind, state): count for kind, state, count in rows}

    def _update(self, memory_id: int, changes: Mapping[str, Any], *, table: Table) -> None:
        if not changes:
            return
        key = table.c.id if table is memories else table.c.memory_id
        row = (table.c.tenant_id == self.work.tenant) & (key == memory_id)
        self.work.connection.execute(update(table).where(row).values(**changes))

    def _of(self, memory_id: int) -> Mapping[str, Any]:
        return {"tenant": self.work.tenant, "memory": memory_id}

    def _rows(self, statement: Any, ids: Sequence[int]) -> Sequence[RowMapping]:  # noqa: ANN401
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        return self.work.connection.execute(statement, given).mappings().all()


def _memory(row: RowMapping, detail: RowMapping, *, names: Iterable[RowMapping]) -> Memory:
    """Put the rows of one memory together."""
    kind: Kind = row["kind"]
    policy = KINDS[kind]
    own = policy.detail(**{name: detail[name] for name in policy.columns})
    projected = {name: row[name] for name in _PROJECTED}
    named: dict[str, Any] = {}
    for one in names:
        field = _FIELD_OF[one["type"]]
        named[field] = (*named.get(field, ()), one["name"])
    return Memory(**projected, body=detail["body"], detail=own, **named)


def _projection(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in _PROJECTED}


def _changed(before: Detail, after: Detail) -> dict[str, Any]:
    old, new = asdict(before), asdict(after)
    return {name: value for name, value in new.items() if value != old[name]}


def _names(memory: Memory) -> list[dict[str, Any]]:
    """Give the rows of what a memory names, and of who said it."""
    said = [(EntityType.PERSON, _SPEAKER, memory.speaker.casefold())] if memory.speaker else []
    named = [
        (type_, position, name)
        for field, type_ in _NAMED.items()
        for position, name in enumerate(getattr(memory, field), _SPEAKER + 1)
        if (type_, _SPEAKER, name) not in said
    ]
    return [
        {"type": type_, "position": position, "name": name}
        for type_, position, name in (*said, *named)
    ]
