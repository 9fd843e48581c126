"""A queue of tickets: who works on jobs need not look for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from threading import Event
from typing import Final, Protocol

from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, Invalid, Unavailable
from commonbrain.model.jobs import LIVE, Job, JobState
from commonbrain.model.limits import JOB_LEASE_S, JOB_REACHED_BYTES_MAX
from commonbrain.model.scope import Caller
from commonbrain.services import House
from commonbrain.storage.administration import JobFilter
from commonbrain.storage.interface import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """What a queue carries: whose job, and which."""

    tenant: str
    job: int


class Queue(Protocol):
    """Tickets in, tickets out: it makes workers quick, and may lose all it holds."""

    def put(self, ticket: Ticket) -> None:
        """Tell some worker of a job that is committed.

        Raises:
            Unavailable: `queue_down`; the job's row is found without it.

        """
        ...

    def take(self) -> Ticket | None:
        """Give a ticket to one of those who ask; None when there was none for about a second.

        Raises:
            Unavailable: `queue_down`.

        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...


EMBED: Final = "embed"
"""The kind of job that gives vectors to what was stored without."""
REFLECT: Final = "reflect"
"""The kind that makes episodes of what happened."""
EXPORT: Final = "export"
"""The kind that writes everything into an archive, which is kept for a day."""
DISCARD: Final = "discard"
"""The kind that drops what was sent or made."""
_EMBED_AFTER: Final = timedelta(seconds=30)
"""An embedder that has just failed is not asked again at once."""


def key_of(kind: str, given: Mapping[str, object]) -> str:
    """Give the key of a job: the same work, asked for twice, is one job while it is unfinished."""
    written = json.dumps(given, sort_keys=True, ensure_ascii=False, default=str)
    return f"{kind}:{sha256(written.encode()).hexdigest()}"


def add_job(
    tx: Transaction,
    house: House,
    *,
    caller: Caller,
    kind: str,
    given: Mapping[str, object],
    due_at: datetime,
) -> Job:
    """Put a job there within a transaction; give it, or the unfinished one that does the same.

    A dead letter that does the same gets its attempts again instead.
    """
    now, key = house.clock.now(), key_of(kind, given)
    known = tx.jobs.keyed(key) or _revived(tx, key, due_at=due_at)
    while known is None:
        drawn = ids.make_id(now, house.chance.bits(ids.RANDOM_BITS))
        made = Job(
            id=drawn, kind=kind, caller=caller, given=given, key=key,
            due_at=due_at, reached={}, created_at=now,
        )  # fmt: skip
        known = made if tx.jobs.add(made) else tx.jobs.keyed(key)
    return known


def _revived(tx: Transaction, key: str, *, due_at: datetime) -> Job | None:
    wanted = JobFilter(state=JobState.DEAD, key=key)
    for dead in tx.jobs.listed(wanted, before=None, limit=1):
        again = dead.retried(due_at)
        return again if tx.jobs.move(dead, again) else None
    return None


def await_vectors(tx: Transaction, house: House, *, caller: Caller) -> None:
    """Let somebody embed later what this transaction stores without vectors in the serving space.

    There is no ticket for it: nobody could do it right now, and the row will be found.
    """
    due_at = house.clock.now() + _EMBED_AFTER
    add_job(tx, house, caller=caller, kind=EMBED, given={}, due_at=due_at)


def announce(house: House, job: Job) -> None:
    """Tell a worker of a job that is committed; without a queue it is found a little later."""
    with suppress(Unavailable):
        house.queue.put(Ticket(tenant=job.caller.tenant, job=job.id))


_MILLISECOND: Final = timedelta(milliseconds=1)
LEASE: Final = timedelta(seconds=JOB_LEASE_S)
MAINTAIN: Final = "maintain"
"""The kind of job that keeps the store."""
UPKEEP: Final = "upkeep"
"""The agent for whom the brain keeps itself."""


class Stopped(Exception):
    """The worker was told to stop: the job goes back as it is."""


class Lost(Exception):
    """The job is another worker's, or was cancelled: nothing more is written."""


class TookTooLong(CommonbrainError):
    """A job ran for longer than its kind may."""

    default_code = "took_too_long"


@dataclass(slots=True, kw_only=True)
class Task:
    """What a kind's handler works with; it ends by `finish`."""

    house: House
    job: Job
    """As it was last written by this worker."""
    stop: Event
    """Set when the worker is to stop."""
    limit: timedelta
    on_move: Callable[[Job], None]
    lost: Event = field(default_factory=Event)
    _held: Job = field(init=False)
    _began_ms: float = field(init=False)

    def __post_init__(self) -> None:
        """Begin to measure."""
        self._held = self.job
        self._began_ms = self.house.clock.elapsed_ms()

    @property
    def caller(self) -> Caller:
        """For whom it is done."""
        return self.job.caller

    @property
    def is_live(self) -> bool:
        """Say whether it has not been finished yet."""
        return self.job.state in LIVE

    @property
    def is_overdue(self) -> bool:
        """Say whether it has run for longer than it may."""
        return self.house.clock.elapsed_ms() - self._began_ms > self.limit / _MILLISECOND

    def pause(self) -> None:
        """Give way between two steps, where everything so far is kept.

        Raises:
            Stopped: the worker is to stop.
            Lost: the job is no longer this worker's.
            TookTooLong: its time is over.

        """
        if self.is_overdue:
            raise TookTooLong(
                f"It ran for more than {round(self.limit.total_seconds())} s.",
                hint="What it reached is kept; another attempt goes on from there.",
            )
        if self.lost.is_set():
            raise Lost
        if self.stop.is_set():
            raise Stopped

    def reach(self, tx: Transaction, progress: float, *, reached: Mapping[str, object]) -> None:
        """Tell within a step's transaction how far it has come and where to go on.

        Raises:
            Invalid: that is more than a job may carry; the step must be rolled back.
            Lost: the job is no longer this worker's; the step must be rolled back.

        """
        size = len(json.dumps(dict(reached), ensure_ascii=False).encode())
        if size > JOB_REACHED_BYTES_MAX:
            raise Invalid(
                f"It would carry {size:,} bytes on; {JOB_REACHED_BYTES_MAX:,} are allowed.",
                code="limit_exceeded",
                hint="Ask for less at once: a project, fewer questions, a smaller file.",
            )
        self._write(tx, self.job.moved(progress, reached))

    def finish(self, tx: Transaction, result: Mapping[str, object]) -> None:
        """End it well, within the transaction of the last step.

        Raises:
            Lost: the job is no longer this worker's; the step must be rolled back.

        """
        self._write(tx, self.job.done(result, now=self.house.clock.now()))

    @contextmanager
    def step(self) -> Generator[Transaction]:
        """Open a transaction of the job's tenant, after giving way."""
        with self.kept(), self.house.store.begin(self.caller.tenant) as tx:
            yield tx

    @contextmanager
    def kept(self) -> Generator[None]:
        """Give way, then do a step that opens its own transaction: what it told holds with it."""
        self.pause()
        before, is_kept = self.job, False
        try:
            yield
            is_kept = True
        finally:
            self.job = self.job if is_kept else before
        if self.job is not before and self.is_live:
            self.on_move(self.job)

    def renew(self) -> None:
        """Prolong the lease; remember when that came too late."""
        if self.is_overdue:
            # Whoever hangs for so long is given up: its lease ends, and another takes the job.
            self.lost.set()
            return
        until = self.house.clock.now() + LEASE
        try:
            with self.house.store.begin(self.caller.tenant) as tx:
                is_ours = tx.jobs.move(self._held, self._held.renewed(until))
        except Unavailable:
            return
        if not is_ours:
            self.lost.set()

    def _write(self, tx: Transaction, after: Job) -> None:
        if not tx.jobs.move(self.job, after):
            self.lost.set()
            raise Lost
        self.job = after
