"""Delivery of messages: receipts and mailboxes."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final

import sqlalchemy as sa

from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import CURRENT_STATES
from commonbrain.model.messages import Mailbox, Reader, Receipt, floor_of, merged
from commonbrain.model.scope import EVERYBODY
from commonbrain.storage.schema.activity import mailboxes, receipts, sessions
from commonbrain.storage.schema.memories import DETAILS, memories
from commonbrain.storage.schema.types import Instant
from commonbrain.storage.sql.context import OptionalRows, Repository
from commonbrain.storage.sql.statements import exists_in, in_ids

_TAKEN_AT_ONCE: Final = 2000
"""Broadcasts that a mailbox takes over in one transaction: about 20 ms of others' waiting."""
_NAMES: Final = tuple(field.name for field in fields(Receipt))
_TENANT: Final = receipts.c.tenant_id == sa.bindparam("tenant")
_IS_MINE: Final = receipts.c.agent == sa.bindparam("reader")
_IS_FOR_ALL: Final = receipts.c.agent == EVERYBODY
_MEMORY: Final = sa.and_(
    memories.c.tenant_id == receipts.c.tenant_id, memories.c.id == receipts.c.message_id
)
_IS_CURRENT: Final = sa.and_(
    memories.c.state.in_(sorted(CURRENT_STATES)),
    sa.or_(
        memories.c.expires_at.is_(None),
        memories.c.expires_at > sa.bindparam("now", type_=Instant()),
    ),
)
_MINE: Final = receipts.alias("mine")
_HAS_OWN: Final = exists_in(
    _MINE,
    _MINE.c.agent == sa.bindparam("reader"),
    _MINE.c.message_id == receipts.c.message_id,
    of=receipts,
)
# Broadcasts that the mailbox has no row of its own for: the newest ones, as a rule none.
_IS_UNTAKEN: Final = sa.and_(
    _IS_FOR_ALL,
    receipts.c.message_id > sa.bindparam("taken", type_=sa.BigInteger),
    receipts.c.sender != sa.bindparam("reader"),
)
_BELOW: Final = sa.tuple_(receipts.c.is_urgent, receipts.c.message_id) < sa.tuple_(
    sa.bindparam("is_urgent", type_=sa.Boolean), sa.bindparam("below", type_=sa.BigInteger)
)
_TAKEN: Final = sa.select(mailboxes.c.taken_until).where(
    mailboxes.c.tenant_id == sa.bindparam("tenant"), mailboxes.c.agent == sa.bindparam("reader")
)
_BEGAN: Final = sa.select(sa.func.min(sessions.c.started_at)).where(
    sessions.c.tenant_id == sa.bindparam("tenant"), sessions.c.agent == sa.bindparam("reader")
)
_NEXT: Final = (
    sa.select(receipts.c.message_id)
    .where(_TENANT, _IS_FOR_ALL, receipts.c.message_id > sa.bindparam("taken"))
    .order_by(receipts.c.message_id)
    .limit(_TAKEN_AT_ONCE)
)
_TAKE: Final = (
    sa.update(mailboxes)
    .where(
        mailboxes.c.tenant_id == sa.bindparam("tenant"), mailboxes.c.agent == sa.bindparam("reader")
    )
    .values(taken_until=sa.bindparam("until"))
)
_UNREAD_OF: Final[sa.Select[int]] = sa.select(receipts.c.message_id).where(
    in_ids(receipts.c.message_id), receipts.c.read_at.is_(None)
)
_AMONG: Final = sa.union_all(_UNREAD_OF.where(_IS_MINE), _UNREAD_OF.where(_IS_UNTAKEN, ~_HAS_OWN))
_WAITING: Final[sa.Select[int, bool]] = (
    sa.select(receipts.c.message_id, receipts.c.is_urgent)
    .join(memories, _MEMORY)
    .where(_TENANT, receipts.c.read_at.is_(None), _IS_CURRENT)
)
_READ: Final = (
    sa.select(receipts.c.message_id)
    .join(memories, _MEMORY)
    .where(_TENANT, _IS_MINE, receipts.c.read_at.is_not(None), _IS_CURRENT)
    .where(memories.c.kind == Kind.MESSAGE, receipts.c.message_id < sa.bindparam("below"))
    .order_by(receipts.c.message_id.desc())
    .limit(sa.bindparam("limit"))
)
_MARK: Final = (
    sa.update(receipts)
    .where(in_ids(receipts.c.message_id), _IS_MINE, receipts.c.read_at.is_(None))
    .values(read_at=sa.bindparam("now", type_=Instant()))
)
_OF: Final = sa.select(*(receipts.c[name] for name in _NAMES)).where(in_ids(receipts.c.message_id))
_ACKED: Final = _OF.where(receipts.c.acked_at.is_not(None))
_WAS_SAID: Final = sa.or_(
    sa.and_(
        receipts.c.agent.in_([sa.bindparam("reader"), EVERYBODY]),
        receipts.c.sender == sa.bindparam("other"),
    ),
    sa.and_(receipts.c.agent == sa.bindparam("other"), receipts.c.sender == sa.bindparam("reader")),
)
_BETWEEN: Final = (
    sa.select(receipts.c.message_id)
    .join(memories, _MEMORY)
    .where(_TENANT, _WAS_SAID, _IS_CURRENT, memories.c.kind == Kind.MESSAGE)
    .where(receipts.c.message_id < sa.bindparam("below"))
    .distinct()
    .order_by(receipts.c.message_id.desc())
    .limit(sa.bindparam("limit"))
)
_TASKS: Final = DETAILS[Kind.TASK]
_REQUESTER: Final = memories.alias("asked")
_IS_ASKED_BY: Final = exists_in(
    _REQUESTER,
    _REQUESTER.c.id == memories.c.source_message_id,
    _REQUESTER.c.agent == sa.bindparam("reader"),
    of=memories,
)
_DELEGATED: Final = (
    sa.select(memories.c.id)
    .join(
        _TASKS,
        sa.and_(_TASKS.c.tenant_id == memories.c.tenant_id, _TASKS.c.memory_id == memories.c.id),
    )
    .where(
        memories.c.tenant_id == sa.bindparam("tenant"),
        _TASKS.c.assignee.is_not(None),
        # The author of a task is its last editor; the message names the agent that assigned it.
        sa.or_(_IS_ASKED_BY, _TASKS.c.assignee == sa.bindparam("reader")),
        memories.c.source_message_id.is_not(None),
        memories.c.state.in_(sorted(CURRENT_STATES)),
        _TASKS.c.memory_id < sa.bindparam("below"),
    )
    .order_by(_TASKS.c.memory_id.desc())
    .limit(sa.bindparam("limit"))
)

_DERIVED: Final = (
    sa.select(memories.c.id).where(in_ids(memories.c.source_message_id)).order_by(memories.c.id)
)


class MessageRepository(Repository):
    """Receipts of messages.

    A broadcast reaches every reader of its project except its sender, from seven days before the
    first session of the reader on.
    """

    def post(self, deliveries: Sequence[Receipt]) -> None:
        """Deliver messages, to every agent with `EVERYBODY`; or share memories, marked as read."""
        rows = [self.work.row_of(one) for one in deliveries]
        self.work.change_by_each(self.work.dialect.insert_or_skip(receipts), rows)

    def open(self, reader: Reader) -> None:
        """Create the reader's mailbox if it has none; later broadcasts wait in it."""
        if not self.work.rows(_TAKEN, self._own(reader)):
            floor = self._floor(reader)
            row = {"tenant_id": self.work.tenant, "agent": reader.agent, "taken_until": floor}
            self.work.add(mailboxes, row)

    def unread(self, reader: Reader, *, below: Mailbox, limit: int) -> list[Mailbox]:
        """List current unread messages below a position: urgent first, then newest first."""
        if not self.work.may_have(OptionalRows.MESSAGES):
            return []
        given = self._given(reader) | _place(below) | {"limit": limit}
        rows = self.work.rows(_unread(reader.project is not None), given)
        return [Mailbox(message_id=id_, is_urgent=bool(urgent)) for id_, urgent in rows]

    def count_unread(self, reader: Reader, *, limit: int) -> int:
        """Count unread messages, up to a limit."""
        given = self._given(reader) | {"limit": limit}
        [(count,)] = self.work.rows(_count(reader.project is not None), given)
        return count

    def unread_among(self, reader: Reader, ids: Sequence[int]) -> set[int]:
        """Select the messages that are addressed to the reader and unread."""
        if not ids:
            return set()
        rows = self.work.rows(_AMONG, self._given(reader) | {"ids": list(ids)})
        return {id_ for (id_,) in rows}

    def read(self, reader: Reader, *, below: int, limit: int) -> list[int]:
        """List current messages that were read, below an id, newest first."""
        given = self._own(reader) | {"now": reader.now, "below": below, "limit": limit}
        return list(self.work.connection.execute(_READ, given).scalars())

    def take(self, reader: Reader) -> None:
        """Insert receipts of the reader for the next broadcasts without one."""
        self.open(reader)
        given = self._own(reader) | {"taken": self._taken(reader)}
        until = max(self.work.connection.execute(_NEXT, given).scalars(), default=None)
        if until is not None:
            span = receipts.c.message_id > given["taken"], receipts.c.message_id <= until
            # Broadcasts that were imported are read: they wait in no mailbox.
            self._copy(reader, sa.and_(*span, receipts.c.read_at.is_(None)), read_at=None)
            self.work.connection.execute(_TAKE, given | {"until": until})

    def mark(self, reader: Reader, ids: Sequence[int]) -> None:
        """Mark messages as read; the first time stands, messages to other agents are skipped."""
        given = self._own(reader) | {"ids": list(ids), "now": reader.now}
        marked = self.work.connection.execute(_MARK, given).rowcount
        if marked < len(ids):
            self._copy(reader, receipts.c.message_id.in_(list(ids)), read_at=reader.now)

    def acknowledge(self, reader: Reader, message_id: int, *, answer: str | None) -> bool:
        """Store an acknowledgement of a read message; return False if it was not delivered."""
        here = self.work.here(receipts, agent=reader.agent, message_id=message_id)
        statement = sa.update(receipts).where(here).values(acked_at=reader.now, answer=answer)
        return self.work.connection.execute(statement).rowcount > 0

    def of(self, ids: Sequence[int]) -> Mapping[int, tuple[Receipt, ...]]:
        """Map messages to their receipts, by agent."""
        return self._receipts(_OF, ids)

    def _receipts(
        self, statement: sa.Executable, ids: Sequence[int]
    ) -> Mapping[int, tuple[Receipt, ...]]:
        given = {"tenant": self.work.tenant, "ids": list(ids)}
        receipts_by_id: defaultdict[int, list[Receipt]] = defaultdict(list)
        for row in self.work.connection.execute(statement, given).mappings():
            receipts_by_id[row["message_id"]].append(Receipt(**row))
        # Sorted here: the planner would walk all receipts to have them in this order.
        return {
            id_: tuple(sorted(rows, key=attrgetter("agent")))
            for id_, rows in receipts_by_id.items()
        }

    def acks(self, ids: Sequence[int]) -> Mapping[int, tuple[Receipt, ...]]:
        """Map messages to the receipts with an acknowledgement, by agent."""
        return self._receipts(_ACKED, ids)

    def between(self, reader: Reader, other: str, *, below: int, limit: int) -> list[int]:
        """List messages between two agents, and broadcasts of the other, newest first."""
        given = {"other": other, "now": reader.now, "below": below, "limit": limit}
        return self.work.scalars(_BETWEEN, self._own(reader) | given)

    def delegated(self, agent: str, *, below: int, limit: int) -> list[int]:
        """List tasks that a message assigned, by the agent or to it, newest first."""
        return self.work.scalars(_DELEGATED, {"reader": agent, "below": below, "limit": limit})

    def derived(self, messages: Sequence[int]) -> list[int]:
        """List the memories of any state that name one of these messages as their source."""
        return self.work.scalars(_DERIVED, {"ids": list(messages)})

    def merge(self, receipt: Receipt) -> bool:
        """Merge the delivery state of another store; return whether the receipt is new."""
        there = self.of([receipt.message_id]).get(receipt.message_id, ())
        known = next((one for one in there if one.agent == receipt.agent), None)
        both = receipt if known is None else merged(known, receipt)
        if both != known:
            self.put(both)
        return both != known

    def put(self, receipt: Receipt) -> None:
        """Store a receipt, in place of the one that its agent has."""
        row = self.work.row_of(receipt)
        if not self.work.add(receipts, row):
            # Citus refuses to set the column that it distributes by.
            del row["tenant_id"]
            here = self.work.here(receipts, agent=receipt.agent, message_id=receipt.message_id)
            self.work.connection.execute(sa.update(receipts).where(here).values(**row))

    def _copy(
        self, reader: Reader, which: sa.ColumnElement[bool], *, read_at: datetime | None
    ) -> None:
        """Insert receipts of the reader for broadcasts without one."""
        row = receipts.c
        own = sa.select(
            row.tenant_id,
            sa.literal(reader.agent),
            row.message_id,
            row.sender,
            row.project,
            row.is_urgent,
            sa.literal(read_at, Instant()),
        ).where(row.tenant_id == self.work.tenant, _IS_FOR_ALL, row.sender != reader.agent, which)
        names = ["tenant_id", "agent", "message_id", "sender", "project", "is_urgent", "read_at"]
        insert = self.work.dialect.insert_or_skip(receipts).from_select(names, own)
        self.work.connection.execute(insert)

    def _taken(self, reader: Reader) -> int:
        """Return the last broadcast that the reader's own receipts cover, or would cover."""
        rows = self.work.rows(_TAKEN, self._own(reader))
        return rows[0][0] if rows else self._floor(reader)

    def _floor(self, reader: Reader) -> int:
        """Return the id below which broadcasts are too old for the reader."""
        [(began,)] = self.work.rows(_BEGAN, self._own(reader))
        return floor_of(began or reader.now)

    def _own(self, reader: Reader) -> dict[str, Any]:
        return {"tenant": self.work.tenant, "reader": reader.agent}

    def _given(self, reader: Reader) -> dict[str, Any]:
        own = {"project": reader.project} if reader.project is not None else {}
        return self._own(reader) | {"now": reader.now, "taken": self._taken(reader)} | own


def _place(place: Mailbox) -> dict[str, int | bool]:
    """Write a position as bounds of all parts: below a normal message no urgent one is left."""
    loud, quiet = (place.message_id, ids.LAST) if place.is_urgent else (0, place.message_id)
    own = {"is_urgent": place.is_urgent, "below": place.message_id}
    return own | {"below_loud": loud, "below_quiet": quiet}


@lru_cache
def _unread(in_project: bool) -> sa.CompoundSelect[int, bool]:  # noqa: FBT001 a key of the cache
    """Select unread messages: each part in index order, so that a page ends the scan."""
    row = receipts.c
    both = row.is_urgent.desc(), row.message_id.desc()
    parts = [one.where(_BELOW).order_by(*both) for one in _own(in_project=in_project)]
    for is_loud, below in ((True, "below_loud"), (False, "below_quiet")):
        end = row.message_id < sa.bindparam(below, type_=sa.BigInteger)
        for one in _untaken(in_project=in_project, is_loud=is_loud):
            parts.append(one.where(end).order_by(row.message_id.desc()))  # noqa: PERF401 two loops
    pages = [one.limit(sa.bindparam("limit")).subquery() for one in parts]
    each: list[sa.Select[int, bool]] = [
        sa.select(one.c.message_id, one.c.is_urgent) for one in pages
    ]
    order = (sa.literal_column(name, sa.Integer).desc() for name in ("is_urgent", "message_id"))
    return sa.union_all(*each).order_by(*order).limit(sa.bindparam("limit"))


@lru_cache
def _count(in_project: bool) -> sa.Select[int]:  # noqa: FBT001 a key of the cache
    parts = _own(in_project=in_project)
    for is_loud in (True, False):
        parts += _untaken(in_project=in_project, is_loud=is_loud)
    pages = [one.limit(sa.bindparam("limit")).subquery() for one in parts]
    each: list[sa.Select[int]] = [sa.select(one.c.message_id) for one in pages]
    receipts_by_id = sa.union_all(*each).limit(sa.bindparam("limit")).subquery()
    return sa.select(sa.func.count()).select_from(receipts_by_id)


def _own(*, in_project: bool) -> list[sa.Select[int, bool]]:
    """Select unread receipts of the reader, by project."""
    return [_WAITING.where(_IS_MINE, project) for project in _projects(in_project=in_project)]


def _untaken(*, in_project: bool, is_loud: bool) -> list[sa.Select[int, bool]]:
    """Select unread broadcasts without a receipt of the reader, by project.

    Urgent and other messages apart: with equal urgency the index knows where an id begins.
    """
    how = receipts.c.is_urgent.is_(sa.true() if is_loud else sa.false())
    return [
        _WAITING.where(_IS_UNTAKEN, how, ~_HAS_OWN, project)
        for project in _projects(in_project=in_project)
    ]


def _projects(*, in_project: bool) -> list[sa.ColumnElement[bool]]:
    projects: list[sa.ColumnElement[bool]] = [receipts.c.project.is_(None)]
    if in_project:
        projects.append(receipts.c.project == sa.bindparam("project"))
    return projects
