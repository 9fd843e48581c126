"""Copies of the database that recalls are answered from, as long as they keep up.

What anybody was told is kept is seen: before each read the primary is asked how far its log is on
disk, and a replica answers only when it has replayed that much. One that lags, is away or fails
under way is passed over, and the primary answers instead.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, LiteralString, TypeVar

from sqlalchemy import Connection, Engine, exc, text

from commonbrain.model.errors import RejectedError
from commonbrain.observability.health import ReplicaReads, ReplicaTrouble
from commonbrain.storage.postgres.cancellation import as_alchemy_s
from commonbrain.storage.postgres.citus import MARK
from commonbrain.storage.postgres.roles import role_of, unconfined
from commonbrain.storage.sql.errors import cause_of

_Told = TypeVar("_Told")
REST_S: Final = 5.0
"""How long a replica that failed is left alone."""
# Who acknowledges before the log is on disk has acknowledged what is not in its flushed part. The
# name of a file of the log begins with its timeline. A server in recovery has neither.
_POSITION: Final = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN NULL "
    "WHEN current_setting('synchronous_commit') = 'off' THEN pg_current_wal_insert_lsn() "
    "ELSE pg_current_wal_flush_lsn() END::text, "
    "CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_flush_lsn()) END"
)
_TIMELINE_DIGITS: Final = 8
# How far it has come is asked in a transaction of its own, before the moment that the next one
# sees: asked within it, more might be replayed by then than it sees. Which timeline it receives is
# told to nobody without pg_read_all_stats; that of its control file may be an older one, which
# leaves a read to the primary, and never a newer one.
_BEGIN: Final[LiteralString] = (
    "BEGIN READ ONLY; SELECT CASE WHEN pg_is_in_recovery() THEN "  # noqa: S608 our own
    "pg_wal_lsn_diff({since}::pg_lsn, pg_last_wal_replay_lsn())::bigint END, "
    "greatest(c.timeline_id, r.min_recovery_end_timeline, w.received_tli) "
    "FROM pg_control_checkpoint() c, pg_control_recovery() r, pg_stat_get_wal_receiver() w; "
    "COMMIT; "
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; "
    f"SELECT set_config('commonbrain.tenant', {{tenant}}, true), {MARK}"
)
"""Tells how many bytes are missing, none where it is no replica, and of which timeline those are
that it has; then as every reader."""
FOUND: Final = "found"
"""Under which name a connection keeps both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far the log of a primary is, and of which timeline: a promotion begins another."""

    lsn: str
    timeline: int


_IS_OURS: Final = "is_ours"
_CLUSTER: Final = text(
    "SELECT system_identifier::text, current_database() FROM pg_control_system()"
)
Cluster = tuple[str, str]
"""What a database and its copies have in common, and no other: the number it was made with."""


@dataclass(slots=True, kw_only=True)
class Replica:
    """One copy: where it is, and how it fared so far in this process."""

    engine: Engine
    cluster: Cluster
    reads: ReplicaReads
    elapsed_s: Callable[[], float] = time.monotonic
    _asked_from: float = 0.0
    _has_failed: bool = False
    """Whether it gave no answer since it last failed."""
    _trial: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_resting(self) -> bool:
        """Whether it failed a moment ago, or somebody tries just now whether it still does."""
        return self.elapsed_s() < self._asked_from or (self._has_failed and self._trial.locked())

    def lend(self, tenant: str, *, since: str) -> Connection:
        """Open a connection whose transaction tells how much is missing since a position.

        Raises:
            RejectedError: it is a copy of something else, or row-level security would not hold
                there.

        """
        connection = self.engine.connect()
        with ExitStack() as unless_ours:
            unless_ours.callback(connection.close)
            if _IS_OURS not in connection.info:
                self._admit(connection)
            unless_ours.pop_all()
        return connection.execution_options(tenant=tenant, begin=_BEGIN, since=since)

    def check(self) -> None:
        """Connect to it, so that whoever starts a program is told what can never work.

        Raises:
            RejectedError: it is a copy of something else, or row-level security would not hold
                there.

        """
        try:
            self.lend("", since="0/0").close()
        except exc.SQLAlchemyError as error:
            # It may come later; until then the primary answers.
            self._failed(error)

    def _admit(self, connection: Connection) -> None:
        with connection.begin():
            found, role = cluster_of(connection), role_of(connection)
        if found != self.cluster:
            raise RejectedError(
                f"{self.reads.replica} is no copy of the store's database.",
                code="replica_foreign",
                hint="A replica is made by pg_basebackup or by your provider, and its URL names "
                "the same database.",
            )
        if not role.is_confined:
            raise unconfined(self.reads.replica, role)
        connection.info[_IS_OURS] = True

    def ask(
        self, tenant: str, ask: Callable[[Connection], _Told], *, since: Position
    ) -> tuple[_Told] | None:
        """Ask it if it has replayed all up to a position; None when it has not, or fails."""
        with self._turned_to() as may_ask:
            return self._ask(tenant, ask, since=since) if may_ask else None

    @contextmanager
    def _turned_to(self) -> Generator[bool]:
        """Say whether to ask it: after a rest one tries alone whether it answers again."""
        if not self._has_failed:
            yield not self.is_resting
            return
        is_alone = self._trial.acquire(blocking=False)
        try:
            yield is_alone and self.elapsed_s() >= self._asked_from
        finally:
            if is_alone:
                self._trial.release()

    def _ask(
        self, tenant: str, ask: Callable[[Connection], _Told], *, since: Position
    ) -> tuple[_Told] | None:
        try:
            connection = self.lend(tenant, since=since.lsn)
        except (exc.SQLAlchemyError, RejectedError) as error:
            self._failed(error)
            return None
        try:
            with connection, connection.begin():
                if not self._keeps_up(*connection.info[FOUND], since=since):
                    return None
                told = ask(connection)
        except exc.SQLAlchemyError as error:
            self._failed(error)
            return None
        with self._lock:
            self._has_failed = False
            answered = self.reads.answered + 1
            self.reads = replace(
                self.reads, answered=answered, behind_bytes=0, trouble=None, sort=None
            )
        return (told,)

    def _keeps_up(self, missing: int | None, timeline: int, *, since: Position) -> bool:
        """Say whether nothing is missing, and count it otherwise; None where it replays nothing."""
        sort = ReplicaTrouble.NO_REPLICA if missing is None else None
        if missing is not None and timeline != since.timeline:
            # How much is missing means nothing then: it counts what another primary wrote.
            missing, sort = None, ReplicaTrouble.TIMELINE
        if missing is not None and missing <= 0:
            return True
        with self._lock:
            self._has_failed = False
            self.reads = replace(
                self.reads,
                lagged=self.reads.lagged + 1,
                behind_bytes=missing,
                trouble=sort and sort.value,
                sort=sort,
            )
        return False

    def _failed(self, error: exc.SQLAlchemyError | RejectedError) -> None:
        """Count a failure, and leave it alone for a while."""
        is_refused = isinstance(error, RejectedError)
        with self._lock:
            self._asked_from, self._has_failed = self.elapsed_s() + REST_S, True
            self.reads = replace(
                self.reads,
                failed=self.reads.failed + 1,
                behind_bytes=None,
                trouble=error.message if isinstance(error, RejectedError) else cause_of(error),
                sort=ReplicaTrouble.UNFIT if is_refused else ReplicaTrouble.FAILED,
            )
        if isinstance(error, exc.DBAPIError) and not getattr(error.orig, "sqlstate", None):
            # It did not say so itself: nothing will come by its other connections either.
            self.engine.dispose()


@dataclass(slots=True, kw_only=True)
class Replicas:
    """All copies of one primary; each is asked in its turn."""

    all: Sequence[Replica] = ()
    _turn: int = 0

    def ask(
        self, primary: Engine, tenant: str, *, ask: Callable[[Connection], _Told]
    ) -> tuple[_Told] | None:
        """Ask the first that has kept up; None when none has, and the primary is to be asked."""
        awake = self._awake()
        if not awake:
            return None
        since = position_of(primary)
        if since is None:
            # It is in recovery itself, and has what it has: it is read as any store.
            return None
        for replica in awake:
            told = replica.ask(tenant, ask, since=since)
            if told is not None:
                return told
        return None

    def _awake(self) -> list[Replica]:
        """Give those that may be asked, another one first each time."""
        self._turn += 1
        count = len(self.all)
        ordered = [self.all[(self._turn + at) % count] for at in range(count)]
        return [one for one in ordered if not one.is_resting]


def cluster_of(connection: Connection) -> Cluster:
    """Say which database this is, or is a copy of."""
    system, database = connection.execute(_CLUSTER).one()
    return system, database


def position_of(primary: Engine) -> Position | None:
    """Ask the primary how far its log is, as far as anybody was told that something is kept.

    Raises:
        exc.DBAPIError: it does not answer.

    """
    # Outside of any transaction: there is nothing to begin and nothing to end.
    with primary.connect() as connection, as_alchemy_s(connection, "position") as cursor:
        cursor.execute(_POSITION)
        lsn, file = cursor.fetchone()
    if lsn is None:
        return None
    return Position(lsn=lsn, timeline=int(file[:_TIMELINE_DIGITS], 16))
