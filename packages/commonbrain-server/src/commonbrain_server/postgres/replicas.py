"""Read replicas: answer recalls as long as they keep up.

Everything that was acknowledged is visible: before each read the primary is asked how far its log
is on disk, and a replica answers only after replaying that much. A replica that lags or fails is
skipped, and the primary answers.
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
from commonbrain.storage.sql.context import cause_of
from commonbrain_server.postgres.cancellation import as_alchemy_s
from commonbrain_server.postgres.citus import MARK
from commonbrain_server.postgres.roles import role_of, unconfined

_Result = TypeVar("_Result")
REST_S: Final = 5.0
"""Seconds for which a replica that failed is not used."""
# A server that acknowledges commits before its log is on disk has acknowledged more than the
# flushed part. The name of a log file begins with its timeline. A server in recovery has neither.
_POSITION: Final = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN NULL "
    "WHEN current_setting('synchronous_commit') = 'off' THEN pg_current_wal_insert_lsn() "
    "ELSE pg_current_wal_flush_lsn() END::text, "
    "CASE WHEN NOT pg_is_in_recovery() THEN pg_walfile_name(pg_current_wal_flush_lsn()) END"
)
_TIMELINE_DIGITS: Final = 8
# The position is read in a transaction of its own, before the snapshot of the next one: within it,
# more might be replayed than it sees. The received timeline is visible only with pg_read_all_stats;
# the control file's may be older, in which case the primary answers, but never newer.
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
"""The key under which a connection stores both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The position of a primary's log, and its timeline: a promotion starts another."""

    lsn: str
    timeline: int


_IS_OURS: Final = "is_ours"
_CLUSTER: Final = text(
    "SELECT system_identifier::text, current_database() FROM pg_control_system()"
)
Cluster = tuple[str, str]
"""Identifies a database and its replicas by the system identifier."""


@dataclass(slots=True, kw_only=True)
class Replica:
    """One replica, and its status in this process."""

    engine: Engine
    cluster: Cluster
    reads: ReplicaReads
    elapsed_s: Callable[[], float] = time.monotonic
    _asked_from: float = 0.0
    _has_failed: bool = False
    """Whether it has not answered since it last failed."""
    _trial: threading.Lock = field(default_factory=threading.Lock)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_resting(self) -> bool:
        """Whether it failed recently, or another thread is just trying it."""
        return self.elapsed_s() < self._asked_from or (self._has_failed and self._trial.locked())

    def lend(self, tenant: str, *, since: str) -> Connection:
        """Open a connection whose transaction reports how much is missing since a position.

        Raises:
            RejectedError: it is a replica of something else, or row-level security would not apply.

        """
        connection = self.engine.connect()
        with ExitStack() as unless_ours:
            unless_ours.callback(connection.close)
            if _IS_OURS not in connection.info:
                self._admit(connection)
            unless_ours.pop_all()
        return connection.execution_options(tenant=tenant, begin=_BEGIN, since=since)

    def check(self) -> None:
        """Connect to it, to report errors in the configuration at start-up.

        Raises:
            RejectedError: it is a replica of something else, or row-level security would not apply.

        """
        try:
            self.lend("", since="0/0").close()
        except exc.SQLAlchemyError as error:
            # It may come later; until then the primary answers.
            self._failed(error)

    def _admit(self, connection: Connection) -> None:
        with connection.begin():
            cluster, role = cluster_of(connection), role_of(connection)
        if cluster != self.cluster:
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
        self, tenant: str, ask: Callable[[Connection], _Result], *, since: Position
    ) -> tuple[_Result] | None:
        """Query it if it has replayed everything up to a position; None if not, or if it fails."""
        with self._turned_to() as may_ask:
            return self._ask(tenant, ask, since=since) if may_ask else None

    @contextmanager
    def _turned_to(self) -> Generator[bool]:
        """Yield whether to query it: after a pause one thread tries alone."""
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
        self, tenant: str, ask: Callable[[Connection], _Result], *, since: Position
    ) -> tuple[_Result] | None:
        try:
            connection = self.lend(tenant, since=since.lsn)
        except (exc.SQLAlchemyError, RejectedError) as error:
            self._failed(error)
            return None
        try:
            with connection, connection.begin():
                if not self._is_current(*connection.info[FOUND], since=since):
                    return None
                result = ask(connection)
        except exc.SQLAlchemyError as error:
            self._failed(error)
            return None
        with self._lock:
            self._has_failed = False
            answered = self.reads.answered + 1
            self.reads = replace(
                self.reads, answered=answered, behind_bytes=0, trouble=None, sort=None
            )
        return (result,)

    def _is_current(self, missing: int | None, timeline: int, *, since: Position) -> bool:
        """Return whether nothing is missing, counting lags; None if it replays nothing."""
        sort = ReplicaTrouble.NO_REPLICA if missing is None else None
        if missing is not None and timeline != since.timeline:
            # The amount is meaningless then: it counts what another primary wrote.
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
        """Count a failure, and pause it."""
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
            # It did not report an error itself, so its other connections will not reply either.
            self.engine.dispose()


@dataclass(slots=True, kw_only=True)
class Replicas:
    """All replicas of one primary, used in turn."""

    all: Sequence[Replica] = ()
    report: Callable[[Sequence[ReplicaReads]], None] | None = None
    """Called with their statistics after each read; a server sets it."""
    _turn: int = 0

    def ask(
        self, primary: Engine, tenant: str, *, ask: Callable[[Connection], _Result]
    ) -> tuple[_Result] | None:
        """Query the first replica that has kept up; None if the primary has to answer."""
        try:
            return self._ask(primary, tenant, ask=ask)
        finally:
            if self.report is not None:
                self.report([replica.reads for replica in self.all])

    def _ask(
        self, primary: Engine, tenant: str, *, ask: Callable[[Connection], _Result]
    ) -> tuple[_Result] | None:
        awake = self._awake()
        if not awake:
            return None
        since = position_of(primary)
        if since is None:
            # It is in recovery itself, and is read as it is.
            return None
        for replica in awake:
            result = replica.ask(tenant, ask, since=since)
            if result is not None:
                return result
        return None

    def _awake(self) -> list[Replica]:
        """Return the replicas that may be used, in rotation."""
        self._turn += 1
        count = len(self.all)
        ordered = [self.all[(self._turn + at) % count] for at in range(count)]
        return [one for one in ordered if not one.is_resting]


def cluster_of(connection: Connection) -> Cluster:
    """Return which database this is, or is a replica of."""
    system, database = connection.execute(_CLUSTER).one()
    return system, database


def position_of(primary: Engine) -> Position | None:
    """Return the position of the primary's log up to which commits were acknowledged.

    Raises:
        exc.DBAPIError: it does not reply.

    """
    # Outside a transaction: nothing to begin or end.
    with primary.connect() as connection, as_alchemy_s(connection, "position") as cursor:
        cursor.execute(_POSITION)
        lsn, file = cursor.fetchone()
    if lsn is None:
        return None
    return Position(lsn=lsn, timeline=int(file[:_TIMELINE_DIGITS], 16))
