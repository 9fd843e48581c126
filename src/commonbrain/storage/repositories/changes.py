"""Before-images of changes; values are stored as the columns of memories write them."""

import secrets
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Column, ColumnElement, RowMapping, bindparam, func, select

from commonbrain.model import ids as ids_
from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.memory import State
from commonbrain.model.revision import TEXT_PRESERVING_ACTIONS, Action, BeliefPeriod, Revision
from commonbrain.model.scope import Authority
from commonbrain.storage.schema.memories import DETAILS, audit, changes, memories
from commonbrain.storage.schema.types import Instant
from commonbrain.storage.sql.context import Repository
from commonbrain.storage.sql.statements import exists_in, in_ids

_ROWS: Final = (
    select(changes, memories.c.kind)
    .join(
        memories,
        (memories.c.tenant_id == changes.c.tenant_id) & (memories.c.id == changes.c.memory_id),
    )
    .where(changes.c.tenant_id == bindparam("tenant"))
)
_AMONG: Final = _ROWS.where(changes.c.memory_id.in_(bindparam("ids", expanding=True))).order_by(
    changes.c.id
)
_LAST: Final = select(func.max(changes.c.id)).where(changes.c.tenant_id == bindparam("tenant"))
_LATEST: Final = (
    select(changes.c.memory_id, func.max(changes.c.id))
    .where(in_ids(changes.c.memory_id))
    .group_by(changes.c.memory_id)
)
_VERSIONS: Final = (
    select(changes.c.memory_id, func.count())
    .where(
        in_ids(changes.c.memory_id),
        changes.c.action.not_in(sorted(TEXT_PRESERVING_ACTIONS)),
    )
    .group_by(changes.c.memory_id)
)
_ENDED: Final = select(changes.c.memory_id, changes.c.after).where(
    changes.c.tenant_id == bindparam("tenant"),
    changes.c.agent == bindparam("agent"),
    changes.c.at >= bindparam("since", type_=Instant()),
    changes.c.action.in_(
        [Action.FORGET, Action.UNDO, Action.SET_EXPIRY, Action.PRUNE, Action.CASCADE]
    ),
    changes.c.authority != Authority.PERSON,
)
_KIND: Final = select(memories.c.kind).where(
    memories.c.tenant_id == bindparam("tenant"), memories.c.id == bindparam("memory")
)
_BELIEVED: Final = (
    select(changes.c.memory_id, changes.c.believed_since, changes.c.believed_until)
    .where(
        in_ids(changes.c.memory_id),
        changes.c.believed_since.is_not(None),
    )
    .order_by(changes.c.believed_since)
)
_NAMES: Final = frozenset({"tags", "people", "topics", "references"})
"""Fields that stand in rows of their own: plain lists of names."""
_PLAIN: Final = ("memory_id", "action", "agent", "session", "authority", "reason", "at")
"""What a change and its row have alike."""


class ChangeRepository(Repository):
    """Before-images of changes, which undo, restore and `as_of` queries read."""

    def add(self, change: Revision) -> None:
        """Append one change; the repository assigns its id."""
        row, id_ = self._row(change), self._next(change.at)
        while not self.work.add(changes, row | {"id": id_}):
            id_ = self._next(change.at)
        self.work.highest[changes] = id_

    def add_alike(self, change: Revision, ids: Sequence[int]) -> None:
        """Append the same change for many memories, in their order; it has no `detail`."""
        first = self._next(change.at)
        shared = self._plain(change, Kind.FACT)
        del shared["tenant_id"], shared["memory_id"]
        each = {"memory_id": ids, "id": range(first, first + len(ids))}
        self.work.bulk_insert(changes, shared=shared, each=each)
        self.work.highest.pop(changes, None)

    def merge(self, change: Revision) -> bool:
        """Add a change of another store under its own id; return False if it is known."""
        self.work.highest.pop(changes, None)
        return self.work.add(changes, self._row(change) | {"id": change.id})

    def latest(self, ids: Sequence[int]) -> dict[int, int]:
        """Map memories to the id of their latest change; unchanged ones are absent."""
        if not ids:
            return {}
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        rows = self.work.connection.execute(_LATEST, given)
        return {memory_id: latest for memory_id, latest in rows}  # noqa: C416 rows are no pairs

    def versions(self, ids: Sequence[int]) -> dict[int, int]:
        """Count the changes to each memory itself; unchanged ones are absent."""
        if not ids:
            return {}
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        rows = self.work.connection.execute(_VERSIONS, given)
        return {memory_id: count for memory_id, count in rows}  # noqa: C416 rows are no pairs

    def of(self, ids: Sequence[int]) -> list[Revision]:
        """List the changes of memories, oldest first."""
        if not ids:
            return []
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        return [_change(row) for row in self.work.connection.execute(_AMONG, given).mappings()]

    def by(
        self,
        *,
        agent: str | None,
        session: str | None,
        since: datetime | None,
        until: datetime | None,
        request_id: str | None = None,
        limit: int,
    ) -> list[Revision]:
        """List the changes of an agent, session or call in a period, newest first; None means any.

        Changes that only followed from another change are left out.
        """
        conditions: list[ColumnElement[bool]] = [changes.c.action != Action.CASCADE]
        if agent is not None:
            conditions.append(changes.c.agent == agent)
        if session is not None:
            conditions.append(changes.c.session == session)
        if request_id is not None:
            # The audit has a line for each change, of the same time, which names its call.
            line = audit.c
            is_its = line.memory_id == changes.c.memory_id, line.at == changes.c.at
            conditions.append(exists_in(audit, line.request_id == request_id, *is_its, of=changes))
        if since is not None:
            conditions.append(changes.c.at >= since)
        if until is not None:
            conditions.append(changes.c.at <= until)
        statement = _ROWS.where(*conditions).order_by(changes.c.id.desc()).limit(limit)
        rows = self.work.connection.execute(statement, {"tenant": self.work.tenant}).mappings()
        return [_change(row) for row in rows]

    def ended_by(self, agent: str, *, since: datetime) -> list[int]:
        """List the memories that a model forgot or archived since, or let expire.

        Those that lost their support by what it did are among them.
        """
        rows = self.work.rows(_ENDED, {"agent": agent, "since": since})
        return [
            id_
            for id_, after in rows
            if after.get("state") in {State.FORGOTTEN, State.ARCHIVED} or after.get("expires_at")
        ]

    def believed(self, ids: Sequence[int]) -> dict[int, list[BeliefPeriod]]:
        """Map memories to the ended periods in which they were believed, oldest first."""
        if not ids:
            return {}
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        spans: defaultdict[int, list[BeliefPeriod]] = defaultdict(list)
        for memory_id, since, until in self.work.connection.execute(_BELIEVED, given):
            spans[memory_id].append(BeliefPeriod(since=since, until=until))
        return dict(spans)

    def _row(self, change: Revision) -> dict[str, Any]:
        kind = self._kind(change.memory_id) if change.before or change.after else Kind.FACT
        return self._plain(change, kind)

    def _plain(self, change: Revision, kind: Kind) -> dict[str, Any]:
        return {
            "tenant_id": self.work.tenant,
            **{name: getattr(change, name) for name in _PLAIN},
            "before": _written(change.before, kind),
            "after": _written(change.after, kind),
            "believed_since": change.believed.since if change.believed else None,
            "believed_until": change.believed.until if change.believed else None,
        }

    def _next(self, at: datetime) -> int:
        """Assign an id above every other: undo follows their order, whatever the clock does."""
        last = self.work.highest.get(changes)
        if last is None:
            [(last,)] = self.work.rows(_LAST, {})
        return max(ids_.make_id(at, secrets.randbits(ids_.RANDOM_BITS)), (last or 0) + 1)

    def _kind(self, memory_id: int) -> Kind:
        [(kind,)] = self.work.rows(_KIND, {"memory": memory_id})
        return kind


def _change(row: RowMapping) -> Revision:
    since, until = row["believed_since"], row["believed_until"]
    return Revision(
        id=row["id"],
        **{name: row[name] for name in _PLAIN},
        before=_read(row["before"], row["kind"]),
        after=_read(row["after"], row["kind"]),
        believed=BeliefPeriod(since=since, until=until) if since else None,
    )


def _written(image: Mapping[str, object], kind: Kind) -> dict[str, Any]:
    """Write an image as JSON values."""
    return {name: _write(name, value, kind=kind) for name, value in image.items()}


def _write(name: str, value: Any, *, kind: Kind) -> Any:  # noqa: ANN401 columns hold anything
    if name == "detail":
        columns = DETAILS[kind].c
        return {one: _bound(columns[one], given) for one, given in asdict(value).items()}
    if name in _NAMES:
        return list(value)
    return _bound(memories.c[name], value) if name in memories.c else value


def _read(image: Mapping[str, Any], kind: Kind) -> dict[str, object]:
    """Read an image back into the values that a `Memory` holds."""
    return {name: _value(name, value, kind=kind) for name, value in image.items()}


def _value(name: str, value: Any, *, kind: Kind) -> object:  # noqa: ANN401 columns hold anything
    if name == "detail":
        own, columns = KINDS[kind].columns, DETAILS[kind].c
        known = {one: _result(columns[one], value[one]) for one in own if one in value}
        return KINDS[kind].detail(**known)
    if name in _NAMES:
        return tuple(value)
    return _result(memories.c[name], value) if name in memories.c else value


def _bound(column: Column[Any], value: Any) -> Any:  # noqa: ANN401 columns hold anything
    bind = getattr(column.type, "process_bind_param", None)
    return bind(value, None) if bind else value


def _result(column: Column[Any], value: Any) -> Any:  # noqa: ANN401 columns hold anything
    read = getattr(column.type, "process_result_value", None)
    return read(value, None) if read else value
