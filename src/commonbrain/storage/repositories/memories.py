"""Memories: the common row, the detail of the kind and the names, read and written together."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Executable,
    Integer,
    Select,
    String,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    null,
    or_,
    select,
    update,
)

from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.limits import PERIOD_CHANGES_SEARCHED
from commonbrain.model.memory import (
    AWAITING_STATES,
    CURRENT_STATES,
    GIVEN_TIME,
    Memory,
    State,
    full_text,
    is_erased,
)
from commonbrain.model.query import Filter
from commonbrain.model.revision import Action
from commonbrain.model.tasks import OPEN_STATUSES
from commonbrain.model.timestamps import instant
from commonbrain.model.values import asdict, replace
from commonbrain.storage.interface import DueBy, Hit, IdTaken, QueryScope, Trigger
from commonbrain.storage.repositories.memory_rows import (
    COLUMNS,
    CURRENT,
    NAMED,
    PROJECTED,
    SPEAKER,
    encode_reading,
    fetch,
)
from commonbrain.storage.retention_rules import Retention
from commonbrain.storage.schema.memories import (
    DETAILS,
    EntityType,
    changes,
    entities,
    memories,
    threads,
)
from commonbrain.storage.sql.context import OptionalRows, Repository
from commonbrain.storage.sql.filters import (
    TENANT,
    allowed,
    first,
    given,
    indexed,
    is_awaiting,
    is_tag,
    unindexed,
    within,
)
from commonbrain.storage.sql.statements import (
    exists_in,
    greatest,
    id_list_param,
    in_ids,
    members_of,
)
from commonbrain.text.reading import read_memory

# Statements are built once: building one costs more than running it.
_TOPICS: Final = members_of("topics", String)
# The outer join makes SQLite start with the topics, and "position >= 0", which always holds, makes
# it use their index. Otherwise it reads the names of every memory of the tenant.
_NEWEST_WITH_TOPICS: Final[Select[int]] = (
    select(entities.c.memory_id)
    .distinct()
    .select_from(_TOPICS)
    .outerjoin(
        entities,
        and_(
            entities.c.tenant_id == bindparam("tenant"),
            entities.c.type == EntityType.TOPIC,
            entities.c.name == _TOPICS.c.value,
            entities.c.position >= 0,
        ),
    )
    .order_by(entities.c.memory_id.desc().nulls_last())
    .limit(bindparam("limit"))
)
_ADD_DETAIL: Final = {kind: insert(table) for kind, table in DETAILS.items()}
_ADD_ENTITIES: Final = insert(entities)
_IN_THREAD: Final = (
    update(threads)
    .where(threads.c.tenant_id == bindparam("tenant"), threads.c.id == bindparam("thread"))
    .values(
        last_id=greatest(
            func.coalesce(threads.c.last_id, 0), bindparam("message", type_=BigInteger)
        )
    )
)
_HEADLINES: Final = select(memories.c.id, memories.c.kind, memories.c.headline).where(
    in_ids(memories.c.id)
)
_BODIES: Final = {
    kind: select(table.c.memory_id, table.c.body).where(in_ids(table.c.memory_id))
    for kind, table in DETAILS.items()
}
_WITH_TAGS: Final = select(memories.c.id).where(
    memories.c.tenant_id == bindparam("tenant"),
    memories.c.state.in_(sorted(CURRENT_STATES)),
    memories.c.id.in_(
        select(entities.c.memory_id).where(
            entities.c.tenant_id == bindparam("tenant"),
            is_tag(),
            entities.c.name.in_(id_list_param("tags", String)),
        )
    ),
)
_TURN: Final = update(memories).where(in_ids(memories.c.id)).values(state=bindparam("into"))
_ASKED: Final = members_of("names", String)
# One index lookup per name, however many messages the person sent.
_PEOPLE: Final[Select[str]] = select(_ASKED.c.value).where(
    select(1)
    .where(
        entities.c.tenant_id == bindparam("tenant"),
        entities.c.type == EntityType.PERSON,
        entities.c.position == SPEAKER,
        entities.c.name == _ASKED.c.value,
    )
    .exists()
)
_BY_HASH: Final = select(memories.c.id).where(
    memories.c.tenant_id == bindparam("tenant"),
    memories.c.kind == bindparam("kind"),
    memories.c.semantic_hash == bindparam("hash"),
)
_PRESENT_BY_HASH: Final = _BY_HASH.where(
    memories.c.state.in_(sorted(CURRENT_STATES | AWAITING_STATES))
)
_FROM_SOURCE: Final = memories.c.source_ref == bindparam("source")
_PRESENT_BY_HASH_AND_SOURCE: Final = _PRESENT_BY_HASH.where(_FROM_SOURCE)
_BY_HASH_AND_SOURCE: Final = _BY_HASH.where(_FROM_SOURCE)

_RULES: Final = DETAILS[Kind.RULE]
_SKILLED: Final = (
    select(memories.c.id)
    .join(
        _RULES,
        (_RULES.c.tenant_id == memories.c.tenant_id) & (_RULES.c.memory_id == memories.c.id),
    )
    .where(
        memories.c.tenant_id == bindparam("tenant"),
        memories.c.kind == Kind.RULE,
        memories.c.state.in_(sorted(CURRENT_STATES)),
        _RULES.c.skill["name"].as_string() == bindparam("name"),
    )
)


_SKILLS: Final[Select[int, Mapping[str, object]]] = select(
    DETAILS[Kind.RULE].c.memory_id, DETAILS[Kind.RULE].c.skill
).where(
    DETAILS[Kind.RULE].c.tenant_id == bindparam("tenant"),
    DETAILS[Kind.RULE].c.skill.is_not(null()),
)
_DROP_ENTITIES: Final = delete(entities).where(
    entities.c.tenant_id == bindparam("tenant"), entities.c.memory_id == bindparam("memory")
)


class MemoryRepository(Repository):
    """The memories of one tenant, the only source of truth."""

    def add(self, memory: Memory) -> None:
        """Insert a new memory with its detail and names.

        Raises:
            IdTaken: another memory has this id; nothing was stored.

        """
        tenant = {"tenant_id": self.work.tenant}
        row = _projection(memory) | {"reading": _encoded_reading(memory)}
        if not self.work.add(memories, tenant | row):
            raise IdTaken
        own = {"memory_id": memory.id, "kind": memory.kind, "body": memory.body}
        detail = {name: getattr(memory.detail, name) for name in COLUMNS[memory.kind]}
        self.work.change(_ADD_DETAIL[memory.kind], tenant | own | detail)
        if isinstance(memory.detail, MessageDetail) and memory.detail.thread_id is not None:
            self._put_in_thread(memory.id, thread_id=memory.detail.thread_id)
        entity = tenant | {"memory_id": memory.id}
        self.work.change_by_each(_ADD_ENTITIES, [entity | row for row in _names(memory)])

    def get(self, ids: Sequence[int]) -> dict[int, Memory]:
        """Map ids to memories of any state, in ascending order; unknown ids are absent."""
        return fetch(self.work, ids)

    def texts(self, ids: Sequence[int]) -> dict[int, str]:
        """Map ids to full texts only."""
        by_kind: defaultdict[Kind, dict[int, str]] = defaultdict(dict)
        for id_, kind, headline in self._rows(_HEADLINES, ids):
            by_kind[kind][id_] = headline
        return {
            id_: full_text(headlines[id_], body)
            for kind, headlines in by_kind.items()
            for id_, body in self._rows(_BODIES[kind], list(headlines))
        }

    def by_hash(
        self,
        kind: Kind,
        semantic_hash: str,
        *,
        source_ref: str | None = None,
        in_any_state: bool = False,
    ) -> list[Memory]:
        """List memories of a kind, and source, with this hash, oldest first.

        Only current ones and proposals, unless any state is asked for.
        """
        given = {"kind": kind, "hash": semantic_hash}
        statement = _BY_HASH if in_any_state else _PRESENT_BY_HASH
        if source_ref is not None:
            statement = _BY_HASH_AND_SOURCE if in_any_state else _PRESENT_BY_HASH_AND_SOURCE
            given |= {"source": source_ref}
        ids = sorted(id_ for (id_,) in self.work.rows(statement, given))
        known = self.get(ids)
        return [known[id_] for id_ in ids]

    def with_skill(self, name: str) -> list[int]:
        """List the current rules whose trigger has this name."""
        return self.work.scalars(_SKILLED, {"name": name})

    def newest(
        self, scope: QueryScope, *, limit: int, after: tuple[datetime, int] | None = None
    ) -> list[Hit]:
        """List the memories in scope, latest occurrence first, optionally after a time and id."""
        since, until = scope.filter.since, scope.filter.until
        criteria = replace(scope.filter, since=None, until=None)
        bounds = (since is not None, until is not None, after is not None)
        at, id_ = after or (None, None)
        parameters = given(scope, self.work.tenant) | {
            "since": since,
            "until": until,
            "after_at": at,
            "after_id": id_,
            "limit": limit,
        }
        rows = self.work.connection.execute(_newest(criteria, bounds), parameters)
        return [Hit(id=id_, score=occurred_at.timestamp()) for id_, occurred_at in rows]

    def recurred(self, scope: QueryScope, *, limit: int) -> list[Hit]:
        """List the events in scope that came again in its period in the same words, latest first.

        Only the latest changes of the period are searched. Undone recurrences are included.
        """
        since, until = scope.filter.since, scope.filter.until
        criteria = replace(scope.filter, since=None, until=None)
        if criteria.matched_kinds and Kind.EVENT not in criteria.matched_kinds:
            return []
        parameters = given(scope, self.work.tenant) | {
            "since": since or datetime.min.replace(tzinfo=UTC),
            "until": until or scope.now,
            "limit": limit,
        }
        rows = self.work.connection.execute(_recurred(criteria), parameters)
        return [Hit(id=id_, score=at.timestamp()) for id_, at in rows]

    def any(self, scope: QueryScope) -> bool:
        """Check whether any memory is in scope."""
        rows = self.work.connection.execute(first(scope.filter), given(scope, self.work.tenant))
        return rows.first() is not None

    def count(self, scope: QueryScope, *, at_most: int) -> int:
        """Count the memories in scope, up to a limit."""
        some = allowed(scope.filter).limit(at_most).subquery()
        statement = select(func.count()).select_from(some)
        return self.work.connection.execute(statement, given(scope, self.work.tenant)).scalar_one()

    def update(self, before: Memory, after: Memory) -> None:
        """Write the difference between two states of one memory; its text never differs."""
        changed = _changed(_projection(before), _projection(after))
        if any(read(before) != read(after) for read in _READ):
            changed["reading"] = _encoded_reading(after)
        self._update(before.id, changed, table=memories)
        details = _changed(asdict(before.detail), asdict(after.detail))
        self._update(before.id, details, table=DETAILS[before.kind])
        if _names(before) == _names(after):
            return
        given = {"tenant": self.work.tenant, "memory": before.id}
        self.work.connection.execute(_DROP_ENTITIES, given)
        entity = {"tenant_id": self.work.tenant, "memory_id": before.id}
        self.work.change_by_each(_ADD_ENTITIES, [entity | row for row in _names(after)])

    def unread(self, *, after: int, limit: int) -> list[int]:
        """List ids above one id, ascending, whose reading is missing, old, or of an erased text."""
        row = memories.c
        is_erased_, is_missing = row.semantic_hash == "", row.reading.is_(None)
        is_old = row.reading.not_like(CURRENT)
        is_due = (is_erased_ & ~is_missing) | (~is_erased_ & (is_missing | is_old))
        statement = (
            select(row.id)
            .where(row.tenant_id == self.work.tenant, row.id > after, is_due)
            .order_by(row.id)
            .limit(limit)
        )
        return list(self.work.connection.execute(statement).scalars())

    def read_again(self, ids: Sequence[int]) -> int:
        """Store what the texts of memories say, as this program reads them; return their number."""
        known = self.get(ids)
        for id_, memory in known.items():
            self._update(id_, {"reading": _encoded_reading(memory)}, table=memories)
        return len(known)

    def set_state(self, ids: Sequence[int], state: State) -> None:
        """Set the state of memories and change nothing else."""
        given = {"tenant": self.work.tenant, "ids": list(ids), "into": state}
        self.work.connection.execute(_TURN, given)

    def skills(self, scope: QueryScope) -> Mapping[int, Trigger]:
        """Map the rules in scope that have a trigger to it; a project's rule names the project."""
        # Triggers are few and have an index of their own; joined to the rows at once, the planner
        # begins with all of these.
        skills: dict[int, Mapping[str, object]] = dict(
            self.work.rows(_SKILLS, {}, of=OptionalRows.SKILLS)
        )
        if not skills:
            return {}
        allowed = within(scope.filter), memories.c.id.in_(list(skills))
        rows = select(memories.c.id, memories.c.project, memories.c.authority).where(*allowed)
        parameters = given(scope, self.work.tenant)
        return {
            id_: Trigger.of(skills[id_], project=project, authority=authority)
            for id_, project, authority in self.work.connection.execute(rows, parameters)
        }

    def people(self, names: Sequence[str]) -> set[str]:
        """Select the case-folded names that belong to speakers of this store."""
        if not names:
            return set()
        given_names = {"names": list(names)}
        rows = self.work.rows(_PEOPLE, given_names, of=OptionalRows.MESSAGES)
        return {name for (name,) in rows}

    def with_references(
        self, references: Sequence[str], scope: QueryScope, *, limit: int
    ) -> dict[int, tuple[Kind, str | None]]:
        """Map those in scope with one of these references to kind and label, newest first."""
        named = {f"name_{n}": one for n, one in enumerate(references)}
        parameters = given(scope, self.work.tenant) | named | {"limit": limit}
        rows = self.work.rows(_with_references(scope.filter, tuple(named)), parameters)
        return {id_: (kind, label) for id_, kind, label in rows}

    def with_tags(self, tags: Sequence[str]) -> list[int]:
        """List the current memories with one of these tags, newest first."""
        return sorted(self.work.scalars(_WITH_TAGS, {"tags": list(tags)}), reverse=True)

    def with_topics(self, topics: Sequence[str], scope: QueryScope, *, limit: int) -> list[int]:
        """List those in scope, latest first, among the newest `limit` with one of these topics."""
        parameters = given(scope, self.work.tenant) | {"topics": list(topics), "limit": limit}
        statement = _with_topics(scope.filter)
        return [id_ for (id_,) in self.work.rows(statement, parameters, of=OptionalRows.TOPICS)]

    def predecessor(self, memory_id: int) -> int | None:
        """Return the memory that this one supersedes; None if it is the first."""
        here = memories.c.tenant_id == self.work.tenant, memories.c.superseded_by == memory_id
        return self.work.connection.execute(select(memories.c.id).where(*here)).scalar()

    def page(self, *, after: int, limit: int) -> list[int]:
        """List ids of memories of any state above one id, ascending."""
        statement = (
            select(memories.c.id)
            .where(memories.c.tenant_id == self.work.tenant, memories.c.id > after)
            .order_by(memories.c.id)
            .limit(limit)
        )
        return list(self.work.connection.execute(statement).scalars())

    def due(self, criteria: DueBy, *, after: int, limit: int) -> list[int]:
        """List ids of current memories that may be due for maintenance, above one id, ascending."""
        statement = due_by(criteria, self.work.tenant).where(memories.c.id > after).limit(limit)
        return list(self.work.connection.execute(statement).scalars())

    def bodiless(self, *, after: int, limit: int) -> list[int]:
        """List ids of rows without a body, above one id, ascending; normally none."""
        statement = bodiless(self.work.tenant).where(memories.c.id > after).limit(limit)
        return list(self.work.connection.execute(statement).scalars())

    def from_future(self, limit: datetime) -> list[tuple[int, datetime]]:
        """List current memories that occur or were recorded after a time, with that time."""
        row = memories.c
        is_after = or_(row.occurred_at > limit, row.recorded_at > limit)
        is_planned = cast(row.payload, String).like(f"%{GIVEN_TIME}%")
        statement = select(row.id, row.recorded_at, row.occurred_at, row.payload).where(
            row.tenant_id == self.work.tenant, row.state.in_(CURRENT_STATES), is_after | is_planned
        )
        late: list[tuple[int, datetime]] = []
        for id_, *times, payload in self.work.connection.execute(statement.order_by(row.id)):
            given = payload.get(GIVEN_TIME)
            latest = max(*times, *([instant(given)] if given else []))
            if latest > limit:
                late.append((id_, latest))
        return late

    def counts(self) -> Mapping[tuple[Kind, State], int]:
        """Count the tenant's memories by kind and state."""
        row = memories.c
        # In the order of an index, which SQLite then counts without sorting.
        each = (
            select(row.kind, row.state, func.count().label("count"))
            .where(row.tenant_id == self.work.tenant)
            .group_by(row.project, row.kind, row.state)
            .subquery()
        )
        count = cast(func.sum(each.c.count), Integer)
        statement = select(each.c.kind, each.c.state, count).group_by(each.c.kind, each.c.state)
        rows = self.work.connection.execute(statement)
        return {(kind, state): count for kind, state, count in rows}

    def _put_in_thread(self, message: int, *, thread_id: int) -> None:
        given = {"tenant": self.work.tenant, "thread": thread_id, "message": message}
        self.work.change(_IN_THREAD, given)
        known = self.work.highest.get(threads)
        if known is not None:
            self.work.highest[threads] = max(known, message)

    def _update(self, memory_id: int, changes: Mapping[str, Any], *, table: Table) -> None:
        if not changes:
            return
        key = table.c.id if table is memories else table.c.memory_id
        row = (table.c.tenant_id == self.work.tenant) & (key == memory_id)
        self.work.connection.execute(update(table).where(row).values(**changes))

    def _rows(self, statement: Executable, ids: Sequence[int]) -> Sequence[Sequence[Any]]:
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        return self.work.connection.execute(statement, given).all()


@lru_cache
def _newest(criteria: Filter, bounds: tuple[bool, bool, bool]) -> Select[int, datetime]:
    """Build a browse once for all periods: building it costs more than running it."""
    when = memories.c.occurred_at
    # It selects one thread, what waits for a decision, or only episodes.
    is_small = criteria.thread is not None or criteria.kinds == (Kind.EPISODE,)
    is_rare = criteria.needs_review or is_small or is_awaiting(criteria)
    # SQLite would walk the whole period in search of the few that match.
    place = unindexed(when) if is_rare and not is_awaiting(criteria) else when
    has_since, has_until, has_after = bounds
    since = [place >= bindparam("since", type_=when.type)] if has_since else []
    until = [place <= bindparam("until", type_=when.type)] if has_until else []
    after_at = bindparam("after_at", type_=when.type)
    after_id = bindparam("after_id", type_=BigInteger())
    is_after = (place <= after_at) & ((place < after_at) | (memories.c.id < after_id))
    after = [is_after] if has_after else []
    conditions = within(criteria), *indexed(criteria), *since, *until, *after
    rows = select(memories.c.id, when).where(*conditions)
    if is_rare:
        # Few match: finding them first takes less than reading all in order until enough do.
        matching = rows.cte("matching").prefix_with("MATERIALIZED")
        rows, ordered = select(matching.c.id, matching.c.occurred_at), matching.c
    else:
        ordered = memories.c
    latest_first = ordered.occurred_at.desc(), ordered.id.desc()
    return rows.order_by(*latest_first).limit(bindparam("limit"))


@lru_cache
def _with_references(criteria: Filter, names: tuple[str, ...]) -> Select[int, Kind, str | None]:
    # With a list in one parameter, Postgres would plan it anew each time.
    row, named = memories.c, entities.c
    is_one = named.type == EntityType.REFERENCE, named.name.in_(map(bindparam, names))
    has_one = exists_in(entities, named.memory_id == row.id, *is_one, of=memories)
    rows = select(row.id, row.kind, row.label).where(within(criteria), has_one)
    return rows.order_by(row.id.desc()).limit(bindparam("limit"))


@lru_cache
def _with_topics(criteria: Filter) -> Select[int]:
    """Build a look-up by topics once: their index finds the few whose rows are read."""
    rows = select(memories.c.id).where(within(criteria), memories.c.id.in_(_NEWEST_WITH_TOPICS))
    return rows.order_by(unindexed(memories.c.occurred_at).desc(), memories.c.id.desc())


@lru_cache
def _recurred(criteria: Filter) -> Select[int, datetime]:
    """Build the search for recurrences of a period; see `_newest`."""
    row = changes.c
    # No index knows the action, so the search is bounded by the number of rows that it reads.
    latest = (
        select(row.memory_id, row.at, row.action, row.reason)
        .where(
            row.tenant_id == TENANT,
            row.at >= bindparam("since", type_=row.at.type),
            row.at <= bindparam("until", type_=row.at.type),
        )
        .order_by(row.at.desc())
        .limit(PERIOD_CHANGES_SEARCHED)
        .subquery("latest")
        .c
    )
    last = func.max(latest.at, type_=row.at.type)
    return (
        select(latest.memory_id, last)
        .where(
            within(criteria),
            latest.memory_id == memories.c.id,
            latest.action == Action.RECUR,
            # With a reason, the recurrence is a memory of its own.
            latest.reason.is_(None),
        )
        .group_by(latest.memory_id)
        .order_by(last.desc())
        .limit(bindparam("limit"))
    )


_READ: Final = tuple(map(attrgetter, ("headline", "body", "keywords", "occurred_at")))
"""What a reading depends on."""


def _encoded_reading(memory: Memory) -> str | None:
    return None if is_erased(memory) else encode_reading(read_memory(memory))


def _projection(memory: Memory) -> dict[str, Any]:
    return {name: getattr(memory, name) for name in PROJECTED}


def _changed(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in new.items() if value != old[name]}


def _names(memory: Memory) -> list[dict[str, Any]]:
    """List the rows of the names in a memory, and of its speaker."""
    speaker = [(EntityType.PERSON, SPEAKER, memory.speaker.casefold())] if memory.speaker else []
    named = [
        (type_, position, name)
        for field, type_ in NAMED.items()
        for position, name in enumerate(getattr(memory, field), SPEAKER + 1)
        if (type_, SPEAKER, name) not in speaker
    ]
    return [
        {"type": type_, "position": position, "name": name}
        for type_, position, name in (*speaker, *named)
    ]


def due_by(criteria: DueBy, tenant: str) -> Select[int]:
    """Select current memories that may be due for maintenance; the reader decides."""
    row = memories.c
    conditions = [row.expires_at <= criteria.now, _overdue(criteria)]
    conditions += [_too_old(rule, criteria) for rule in criteria.rules]
    is_current = row.state.in_(sorted(CURRENT_STATES))
    return (
        select(row.id).where(row.tenant_id == tenant, is_current, or_(*conditions)).order_by(row.id)
    )


def bodiless(tenant: str) -> Select[int]:
    """Select rows without the detail row of their kind, which holds the body."""
    row = memories.c
    complete = [
        and_(row.kind == kind, exists_in(detail, detail.c.memory_id == row.id, of=memories))
        for kind, detail in DETAILS.items()
    ]
    return select(row.id).where(row.tenant_id == tenant, ~or_(*complete)).order_by(row.id)


def _overdue(criteria: DueBy) -> ColumnElement[bool]:
    task = DETAILS[Kind.TASK].c
    late = select(task.memory_id).where(
        task.tenant_id == memories.c.tenant_id,
        task.status.in_(sorted(OPEN_STATUSES)),
        task.due_at <= criteria.tasks_before,
    )
    return and_(memories.c.kind == Kind.TASK, memories.c.id.in_(late))


def _too_old(rule: Retention, criteria: DueBy) -> ColumnElement[bool]:
    row = memories.c
    conditions = [row.kind == rule.kind, row.recorded_at <= rule.recorded_before(criteria.now)]
    conditions += [row.label == rule.label] if rule.label is not None else []
    conditions += [row.scope == rule.scope] if rule.scope is not None else []
    return and_(*conditions, ~row.pinned)
