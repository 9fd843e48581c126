"""The shelf of acknowledgements, and of the action items that still want one."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    ColumnElement,
    Exists,
    Select,
    Table,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    text,
    union_all,
)

from commonbrain.adapters.sql.columns import Instant
from commonbrain.adapters.sql.coordination_tables import acks, sessions
from commonbrain.adapters.sql.many import LISTED
from commonbrain.adapters.sql.tables import DETAILS, memories
from commonbrain.adapters.sql.work import Work
from commonbrain.domain.action_items import OWED, Ack, Decision
from commonbrain.domain.kinds import Kind
from commonbrain.domain.memory import State
from commonbrain.domain.scope import Caller, Scope
from commonbrain.domain.trust import Trust

_TASKS: Final = DETAILS[Kind.TASK]
_RULES: Final = DETAILS[Kind.RULE]
_NOW: Final = bindparam("now", type_=Instant())
_BELIEVED: Final = [one for one in Trust if one.weight >= Trust.USER_CLAIM.weight]


def _acknowledged(items: Table, *whose: ColumnElement[bool]) -> Exists:
    """Say that a decision holds on an item, of those whose decisions count."""
    holds = or_(acks.c.decision != Decision.DEFERRED, acks.c.until > _NOW)
    return (
        select(1)
        .where(acks.c.tenant_id == items.c.tenant_id, acks.c.memory_id == items.c.memory_id)
        .where(holds, *whose)
        .exists()
    )


def _wanting(items: Table, *conditions: ColumnElement[bool]) -> Select[int]:
    # As words, because SQLite uses an index of few rows only for the very condition it has.
    is_item = text(f"{items.name}.must_ack")
    return select(items.c.memory_id).where(
        items.c.tenant_id == bindparam("tenant"), is_item, *conditions
    )


# Nearly every store has none or few of them, in indexes of their own: what is asked before every
# write looks into two empty indexes.
_WANTING: Final = union_all(
    _wanting(_TASKS, _TASKS.c.status.in_(sorted(OWED)), ~_acknowledged(_TASKS)),
    _wanting(
        _RULES,
        ~_acknowledged(
            _RULES, acks.c.agent == bindparam("agent"), acks.c.session == bindparam("session")
        ),
    ),
)
_IS_OWN: Final = and_(
    memories.c.agent == bindparam("agent"),
    func.coalesce(memories.c.session, "") == bindparam("session"),
)
_BINDING: Final = (
    select(memories.c.id)
    .where(
        memories.c.tenant_id == bindparam("tenant"),
        memories.c.id.in_(bindparam("ids", expanding=True)),
        memories.c.state == State.ACTIVE,
        memories.c.trust.in_(_BELIEVED),
        or_(memories.c.scope != Scope.PRIVATE, memories.c.agent == bindparam("agent")),
        or_(memories.c.expires_at.is_(None), memories.c.expires_at > _NOW),
        ~_IS_OWN,
    )
    .order_by(memories.c.id)
)
_OF_PROJECTS: Final = _BINDING.where(
    or_(
        memories.c.project.is_(None),
        memories.c.project.in_(bindparam("projects", expanding=True)),
    )
)
_OWED_AMONG: Final = _wanting(
    _TASKS, _TASKS.c.status.in_(sorted(OWED)), _TASKS.c.memory_id.in_(LISTED)
)
_AT_ONCE: Final = 500
"""Ids looked up together; an engine takes only so many parameters."""
_OF: Final = (
    select(*(acks.c[field.name] for field in fields(Ack)))
    .where(
        acks.c.tenant_id == bindparam("tenant"),
        acks.c.memory_id.in_(bindparam("ids", expanding=True)),
    )
    .order_by(acks.c.at, acks.c.agent, acks.c.session)
)


@dataclass(frozen=True, slots=True)
class DutyShelf:
    """Acknowledgements of one tenant in one transaction."""

    work: Work

    def pending(
        self, caller: Caller, *, projects: Collection[str] | None, now: datetime
    ) -> list[int]:
        """List the action items that bind a caller, oldest first."""
        given: dict[str, Any] = {
            "tenant": self.work.tenant,
            "agent": caller.agent,
            "session": caller.session or "",
            "now": now,
        }
        wanting = sorted(id_ for (id_,) in self.work.rows(_WANTING, given))
        statement = _BINDING
        if projects is not None:
            statement, given = _OF_PROJECTS, given | {"projects": sorted(projects)}
        binding: list[int] = []
        for start in range(0, len(wanting), _AT_ONCE):
            asked = given | {"ids": wanting[start : start + _AT_ONCE]}
            binding += self.work.connection.execute(statement, asked).scalars()
        return binding

    def owed(self, ids: Sequence[int]) -> set[int]:
        """Give of memories the tasks that must be acknowledged and are still to be done."""
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        return set(self.work.connection.execute(_OWED_AMONG, given).scalars())

    def has_ended(self, session: str) -> bool:
        """Say whether sessions of this key are known and all over."""
        here = sessions.c.tenant_id == self.work.tenant, sessions.c.key == session
        ends = self.work.connection.execute(select(sessions.c.ended_at).where(*here)).scalars()
        known = list(ends)
        return bool(known) and None not in known

    def put(self, ack: Ack) -> None:
        """Keep a decision in the place of the one of the same agent and session."""
        self.drop(ack)
        row = {"tenant_id": self.work.tenant, **asdict(ack)}
        self.work.connection.execute(insert(acks), row)

    def drop(self, ack: Ack) -> None:
        """Take the decision of that agent and session on that memory away."""
        here = (
            acks.c.tenant_id == self.work.tenant,
            acks.c.memory_id == ack.memory_id,
            acks.c.agent == ack.agent,
            acks.c.session == ack.session,
        )
        self.work.connection.execute(delete(acks).where(*here))

    def of(self, ids: Sequence[int]) -> dict[int, list[Ack]]:
        """Give the decisions on memories, oldest first."""
        if not ids:
            return {}
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        found: defaultdict[int, list[Ack]] = defaultdict(list)
        for row in self.work.connection.execute(_OF, given).mappings():
            found[row["memory_id"]].append(Ack(**row))
        return dict(found)
