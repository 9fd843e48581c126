"""Threads of messages, and the passages around memories of a thread or session."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import Any, Final

import sqlalchemy as sa

from commonbrain.model.ids import RANDOM_BITS
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import ThreadRef
from commonbrain.model.messages import Thread, ThreadStatus
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller
from commonbrain.model.values import fields
from commonbrain.storage.interface import Beginning, IdTaken, Passage, QueryScope, ThreadSubject
from commonbrain.storage.schema.memories import DETAILS, memories, threads
from commonbrain.storage.sql.context import OptionalRows, Repository
from commonbrain.storage.sql.filters import TENANT, VIEWER, given, open_to, within
from commonbrain.storage.sql.statements import LISTED, in_ids

_ROW: Final = sa.select(*(threads.c[field.name] for field in fields(Thread)))
_MESSAGES: Final = DETAILS[Kind.MESSAGE]
_FAR: Final = 4
"""How many times as far is looked for neighbours where the nearest may not be seen."""
_ALL: Final = Filter(trust_min=0.0)
"""Passages include messages of any trust, which is shown with them."""
_LAST: Final = sa.select(sa.func.max(threads.c.last_id)).where(
    threads.c.tenant_id == sa.bindparam("tenant")
)
_BY_KEY: Final = sa.select(threads.c.id).where(
    threads.c.tenant_id == sa.bindparam("tenant"), threads.c.key == sa.bindparam("key")
)
_IS_BEGUN: Final = sa.select(threads.c.last_id.is_not(None)).where(
    threads.c.tenant_id == sa.bindparam("tenant"), threads.c.id == sa.bindparam("thread")
)
_BUILT_MAX: Final = 256
SESSION_GAP_MAX: Final = timedelta(hours=1)
"""What a session stored longer before or after is about something else."""
_GAP: Final = int(SESSION_GAP_MAX.total_seconds() * 1000) << RANDOM_BITS
_NOT_IN_SESSIONS: Final = (Kind.MESSAGE, Kind.ATOM)
"""Messages have threads; atoms repeat the memory that they were made from."""
_PARTICIPANTS: Final = sa.select(_MESSAGES.c.sender, _MESSAGES.c.recipients).where(
    in_ids(_MESSAGES.c.memory_id)
)


class ThreadRepository(Repository):
    """Threads, to which messages belong."""

    def subjects(
        self, ids: Sequence[int], caller: Caller, *, now: datetime
    ) -> dict[int, ThreadSubject]:
        """Map threads to their subjects; those whose beginning the caller cannot see are absent."""
        if not ids:
            return {}
        parameters = given(_thread_filters(caller, now), self.work.tenant) | {"ids": list(ids)}
        rows = self.work.rows(_beginnings(), parameters)
        return {
            id_: ThreadSubject(text=subject, message_id=seen)
            for id_, subject, seen, first, _ in rows
            if seen is not None and seen == first
        }

    def beginning(self, thread_id: int, caller: Caller, *, now: datetime) -> Beginning | None:
        """Return the oldest message of a thread that a caller sees; None without any."""
        parameters = given(_thread_filters(caller, now), self.work.tenant) | {"ids": [thread_id]}
        rows = self.work.rows(_beginnings(), parameters)
        for _, _, seen, first, addressed in rows:
            if seen is not None:
                is_first, was_addressed = seen == first, addressed == first
                return Beginning(message_id=seen, is_first=is_first, was_addressed=was_addressed)
        return None

    def open(
        self,
        thread: ThreadRef,
        project: str | None,
        *,
        new_id: int,
        now: datetime,
        agent: str | None = None,
    ) -> int:
        """Return the id of the thread with a key; an agent begins it if there is none.

        Raises:
            IdTaken: another thread has the new id; nothing was stored.

        """
        known = self._id_of(thread.key)
        if known is not None:
            return known
        made = Thread(
            id=new_id,
            key=thread.key,
            subject=thread.subject,
            project=project,
            created_at=now,
            agent=agent,
        )
        if not self._add(made):
            raise IdTaken
        return new_id

    def get(self, ids: Sequence[int]) -> dict[int, Thread]:
        """Map ids to threads, in ascending order; unknown ids are absent."""
        if not ids:
            return {}
        own = threads.c.tenant_id == self.work.tenant, threads.c.id.in_(ids)
        rows = self.work.connection.execute(_ROW.where(*own).order_by(threads.c.id)).mappings()
        return {row["id"]: _thread_of(row) for row in rows}

    def with_key(self, key: str) -> Thread | None:
        """Return the thread with a key; None if there is none."""
        known = self._id_of(key)
        return None if known is None else self.get([known])[known]

    def set_status(
        self, thread_id: int, status: ThreadStatus, *, tags: Sequence[str] | None = None
    ) -> None:
        """Set the status of a thread, and its tags if given."""
        values = {"status": status} | ({} if tags is None else {"tags": tuple(tags)})
        self.work.connection.execute(sa.update(threads).where(self._at(thread_id)).values(values))

    def last(self) -> int:
        """Return the id of the newest message of any thread, visible or not; 0 without any."""
        last = self.work.highest.get(threads)
        if last is None:
            [(last,)] = self.work.rows(_LAST, {})
            self.work.highest[threads] = last or 0
        return last or 0

    def is_begun(self, thread_id: int) -> bool | None:
        """Check whether a thread ever had a message; None if there is no such thread."""
        return next((one for (one,) in self.work.rows(_IS_BEGUN, {"thread": thread_id})), None)

    def recent(
        self,
        caller: Caller,
        *,
        now: datetime,
        below: int,
        limit: int,
        status: ThreadStatus | None = None,
    ) -> list[tuple[int, int]]:
        """List threads with a current message visible to a caller, each with its newest one.

        Only messages below `below` count, and only threads of a status if it is given; threads with
        the newest come first.
        """
        parameters = given(_thread_filters(caller, now), self.work.tenant) | {
            "below": below,
            "limit": limit,
        }
        return [(id_, last) for id_, last in self.work.rows(_recent(status), parameters)]

    def messages(
        self, thread_id: int, caller: Caller, *, now: datetime, below: int, limit: int
    ) -> list[int]:
        """List the current messages of a thread visible to a caller, newest first."""
        here = {"thread": thread_id, "below": below, "limit": limit}
        parameters = given(_thread_filters(caller, now), self.work.tenant) | here
        return [id_ for (id_,) in self.work.rows(_visible_messages(), parameters)]

    def around(
        self, ids: Sequence[int], scope: QueryScope, *, before: int, after: int
    ) -> dict[int, Passage]:
        """Map memories to the passage around each; those without a thread or session are absent.

        The passage of a message is in its thread. That of any other memory is what the same session
        stored just before and after it, within `SESSION_GAP_MAX` of each other; atoms are left out,
        because they repeat the memory that they were made from. A passage holds up to `before` and
        `after` memories in scope, at least 1 each. Hidden and forgotten ones in between are
        skipped, as long as they are few.
        """
        if not ids:
            return {}
        passages, gaps = self._around(ids, scope, before=before, after=after, far=1)
        if gaps:
            farther, _ = self._around(gaps, scope, before=before, after=after, far=_FAR)
            passages |= farther
        return passages

    def participants(self, messages: Sequence[int]) -> set[str]:
        """List the senders and named recipients of messages."""
        rows = self.work.rows(_PARTICIPANTS, {"ids": list(messages)})
        return {
            name
            for sender, recipients in rows
            for name in (sender, *recipients)
            if name is not None
        }

    def page(self, *, after: int, limit: int) -> list[Thread]:
        """List threads above one id, ascending."""
        here = threads.c.tenant_id == self.work.tenant, threads.c.id > after
        statement = _ROW.where(*here).order_by(threads.c.id).limit(limit)
        return [_thread_of(row) for row in self.work.connection.execute(statement).mappings()]

    def merge(self, thread: Thread) -> int:
        """Add a thread of another store; return its id in this one.

        If the key has another id here, the lower id wins, so that two stores that merge with each
        other end alike; the messages here follow.
        """
        known = self._id_of(thread.key)
        if known is None:
            self._add(thread)
            return thread.id
        if known <= thread.id:
            return known
        # The key is unique, so that the old row has to leave its key before the new one comes.
        run = self.work.connection.execute
        left = sa.update(threads).where(self._at(known))
        run(left.values(key=f"{thread.key}\n{known}"))
        self._add(thread)
        here = self.work.here(_MESSAGES, thread_id=known)
        run(sa.update(_MESSAGES).where(here).values(thread_id=thread.id))
        self._follow(thread.id)
        run(sa.delete(threads).where(self._at(known)))
        return thread.id

    def _around(
        self, ids: Sequence[int], scope: QueryScope, *, before: int, after: int, far: int
    ) -> tuple[dict[int, Passage], list[int]]:
        """Return passages, and those with gaps, reading `far` times as many neighbours."""
        reach = far * before, far * after
        has_threads = self.work.may_have(OptionalRows.MESSAGES)
        steps = self.work.rows(_steps(*reach, has_threads=has_threads), {"ids": list(ids)})
        rows = [row for row in steps if row[0] is not None or row[1] is not None]
        near = {id_ for _, _, *passage in rows for id_ in passage if id_}
        if not near:
            return {}, []
        parameters = given(scope, self.work.tenant) | {"ids": [*near]}
        allowed = {id_ for (id_,) in self.work.rows(_allowed_of(scope.filter), parameters)}
        passages: dict[int, Passage] = {}
        gaps: list[int] = []
        for thread, session, *passage in rows:
            source = session if thread is None else thread
            own = passage[far * before]
            earlier = [id_ for id_ in passage[: far * before] if id_ in allowed][-before:]
            later = [id_ for id_ in passage[far * before + 1 :] if id_ in allowed][:after]
            passages[own] = Passage(source=source, ids=(*earlier, own, *later))
            if any(id_ is not None and id_ not in allowed for id_ in passage):
                gaps.append(own)
        return passages, gaps

    def _id_of(self, key: str) -> int | None:
        rows_found = self.work.rows(_BY_KEY, {"key": key})
        return rows_found[0][0] if rows_found else None

    def _add(self, thread: Thread) -> bool:
        return self.work.add(threads, self.work.row_of(thread))

    def _follow(self, id_: int) -> None:
        """Update the newest message of a thread from its messages."""
        self.work.highest.pop(threads, None)
        here = _MESSAGES.c.tenant_id == self.work.tenant, _MESSAGES.c.thread_id == id_
        newest = sa.select(sa.func.max(_MESSAGES.c.memory_id)).where(*here).scalar_subquery()
        self.work.connection.execute(sa.update(threads).where(self._at(id_)).values(last_id=newest))

    def _at(self, id_: int) -> sa.ColumnElement[bool]:
        return self.work.here(threads, id=id_)


def _thread_filters(caller: Caller, now: datetime) -> QueryScope:
    return QueryScope(caller=caller, filter=_ALL, now=now)


def _thread_of(row: Mapping[Any, Any]) -> Thread:
    """Build a thread; a column that an earlier program left out has its default."""
    return Thread(**{str(name): value for name, value in row.items() if value is not None})


@cache
def _beginnings() -> sa.Select[Any]:
    """Select threads with the oldest message that a caller sees, and their first messages.

    The first one counts in any state: otherwise later recipients would see the subject of a
    forgotten, expired or erased one. The last column is the oldest open to the caller in any state.
    """
    oldest = _oldest(within(_ALL)), _oldest(sa.true()), _oldest(open_to(VIEWER))
    columns: sa.Select[Any] = sa.select(threads.c.id, threads.c.subject).add_columns(*oldest)
    return columns.where(threads.c.tenant_id == TENANT, threads.c.id.in_(LISTED))


def _oldest(condition: sa.ColumnElement[bool]) -> sa.ScalarSelect[int]:
    """Select the oldest message of a thread with a condition."""
    return (
        sa.select(_MESSAGES.c.memory_id)
        .join(memories, _memory_of_message())
        .where(_MESSAGES.c.tenant_id == TENANT, _MESSAGES.c.thread_id == threads.c.id, condition)
        .order_by(_MESSAGES.c.memory_id)
        .limit(1)
        .scalar_subquery()
        .correlate(threads)
    )


@cache
def _recent(status: ThreadStatus | None) -> sa.Select[Any, Any]:
    """Select threads with a message visible to a caller at `now`."""
    is_there = _seen().where(_MESSAGES.c.thread_id == threads.c.id)
    known = sa.func.coalesce(threads.c.status, ThreadStatus.OPEN)
    of_status = sa.true() if status is None else known == status
    return (
        sa.select(threads.c.id, threads.c.last_id)
        .where(
            threads.c.tenant_id == sa.bindparam("tenant"), threads.c.last_id < sa.bindparam("below")
        )
        .where(of_status, is_there.correlate(threads).exists())
        .order_by(threads.c.last_id.desc())
        .limit(sa.bindparam("limit"))
    )


@cache
def _visible_messages() -> sa.Select[int]:
    """Select the messages of a thread visible to a caller at `now`."""
    here = (
        _MESSAGES.c.thread_id == sa.bindparam("thread"),
        _MESSAGES.c.memory_id < sa.bindparam("below"),
    )
    newest = _seen().where(*here).order_by(_MESSAGES.c.memory_id.desc())
    return newest.limit(sa.bindparam("limit"))


@lru_cache(_BUILT_MAX)
def _steps(
    before: int, after: int, *, has_threads: bool
) -> sa.Select[Any] | sa.CompoundSelect[Any]:
    """Select the thread or session of each memory, what is before it there, it and what is after.

    Where there are messages, any other memory comes back without a thread as well.
    """
    sessions = _session_steps(before, after)
    return sa.union_all(_thread_steps(before, after), sessions) if has_threads else sessions


def _thread_steps(before: int, after: int) -> sa.Select[Any]:
    """Select the messages before each message in its thread, itself and those after it.

    It takes one index lookup per neighbour, so that neither the length of a thread nor the number
    of messages matters. The outer join alone makes SQLite start with the given ids; an id that is
    no message of a thread comes back without a thread.
    """
    here, given_ids = _MESSAGES.alias(), LISTED.subquery()
    own = here.c.memory_id
    return (
        sa.select(
            here.c.thread_id,
            sa.cast(sa.null(), sa.String),
            *(_thread_step(here, far=far, is_before=True) for far in reversed(range(before))),
            own,
            *(_thread_step(here, far=far, is_before=False) for far in range(after)),
        )
        .select_from(given_ids)
        .outerjoin(
            here, sa.and_(here.c.tenant_id == sa.bindparam("tenant"), own == given_ids.c.value)
        )
    )


def _thread_step(here: sa.FromClause, *, far: int, is_before: bool) -> sa.ScalarSelect[int]:
    """Select the message at a distance from another in its thread; none past its ends."""
    other = _MESSAGES.alias()
    own, its = here.c.memory_id, other.c.memory_id
    return (
        sa.select(its)
        .where(other.c.tenant_id == here.c.tenant_id, other.c.thread_id == here.c.thread_id)
        .where(its < own if is_before else its > own)
        .order_by(its.desc() if is_before else its)
        .limit(1)
        .offset(far)
        .scalar_subquery()
        .correlate(here)
    )


def _session_steps(before: int, after: int) -> sa.Select[Any]:
    """Select the session of each memory, and what the session stored before it, it and after it."""
    here = memories.alias()
    return (
        sa.select(
            sa.cast(sa.null(), sa.BigInteger),
            here.c.session,
            *(_session_step(here, far=far, is_before=True) for far in reversed(range(before))),
            here.c.id,
            *(_session_step(here, far=far, is_before=False) for far in range(after)),
        )
        .where(in_ids(here.c.id))
        .where(here.c.session.is_not(None), here.c.kind.not_in(_NOT_IN_SESSIONS))
    )


def _session_step(here: sa.FromClause, *, far: int, is_before: bool) -> sa.ScalarSelect[int]:
    """Select the memory at a distance from another in its session; none past a long gap.

    Ids begin with the time, so that the gap bounds the range of the index that is read.
    """
    other = memories.alias()
    own, its = here.c.id, other.c.id
    in_reach = (
        sa.and_(its < own, its > own - _GAP) if is_before else sa.and_(its > own, its < own + _GAP)
    )
    return (
        sa.select(its)
        .where(other.c.tenant_id == here.c.tenant_id, other.c.session == here.c.session)
        .where(in_reach, other.c.agent == here.c.agent, other.c.kind.not_in(_NOT_IN_SESSIONS))
        .order_by(its.desc() if is_before else its)
        .limit(1)
        .offset(far)
        .scalar_subquery()
        .correlate(here)
    )


@lru_cache(_BUILT_MAX)
def _allowed_of(filter_: Filter) -> sa.Select[int]:
    """Select the memories that a scope allows at `now`."""
    return sa.select(memories.c.id).where(memories.c.id.in_(LISTED), within(filter_))


def _memory_of_message() -> sa.ColumnElement[bool]:
    return sa.and_(
        memories.c.tenant_id == _MESSAGES.c.tenant_id, memories.c.id == _MESSAGES.c.memory_id
    )


def _seen() -> sa.Select[int]:
    return (
        sa.select(_MESSAGES.c.memory_id)
        .join(memories, _memory_of_message())
        .where(_MESSAGES.c.tenant_id == TENANT, within(_ALL))
    )
