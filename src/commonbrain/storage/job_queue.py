"""A queue of tickets: who works on jobs need not look for them."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import sha256
from threading import Event
from typing import TYPE_CHECKING, Final, Protocol

from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, InvalidInputError, UnavailableError
from commonbrain.model.jobs import LIVE, Job, JobState
from commonbrain.model.limits import JOB_LEASE_S, JOB_REACHED_BYTES_MAX
from commonbrain.model.scope import Caller
from commonbrain.services import Services
from commonbrain.storage.interface import JobFilter

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMessage:
    """What a queue carries: whose job, and which."""

    tenant: str
    job: int


class Queue(Protocol):
    """Tickets in, tickets out: it makes workers quick, and may lose all it holds."""

    def put(self, ticket: QueueMessage) -> None:
        """Tell some worker of a job that is committed.

        Raises:
            UnavailableError: `queue_down`; the job's row is found without it.

        """
        ...

    def take(self) -> QueueMessage | None:
        """Give a ticket to one of those who ask; None when there was none for about a second.

        Raises:
            UnavailableError: `queue_down`.

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


def enqueue(
    tx: Transaction,
    services: Services,
    *,
    caller: Caller,
    kind: str,
    given: Mapping[str, object],
    due_at: datetime,
) -> Job:
    """Put a job there within a transaction; give it, or the unfinished one that does the same.

    A dead letter that does the same gets its attempts again instead.
    """
    now, key = services.clock.now(), key_of(kind, given)
    known = tx.jobs.keyed(key) or _revived(tx, key, due_at=due_at)
    while known is None:
        drawn = ids.make_id(now, services.random_source.bits(ids.RANDOM_BITS))
        made = Job(
            id=drawn, kind=kind, caller=caller, given=given, key=key,
            due_at=due_at, reached={}, created_at=now,
        )  # fmt: skip
        known = made if tx.jobs.add(made) else tx.jobs.keyed(key)
    return known


def _revived(tx: Transaction, key: str, *, due_at: datetime) -> Job | None:
    criteria = JobFilter(state=JobState.DEAD, key=key)
    for dead in tx.jobs.listed(criteria, before=None, limit=1):
        again = dead.retried(due_at)
        return again if tx.jobs.move(dead, again) else None
    return None


def enqueue_embedding(tx: Transaction, services: Services, *, caller: Caller) -> None:
    """Let somebody embed later what this transaction stores without vectors in the serving space.

    There is no ticket for it: nobody could do it right now, and the row will be found.
    """
    due_at = services.clock.now() + _EMBED_AFTER
    enqueue(tx, services, caller=caller, kind=EMBED, given={}, due_at=due_at)


def notify_worker(services: Services, job: Job) -> None:
    """Tell a worker of a job that is committed; without a queue it is found a little later."""
    with suppress(UnavailableError):
        services.queue.put(QueueMessage(tenant=job.caller.tenant, job=job.id))


_MILLISECOND: Final = timedelta(milliseconds=1)
LEASE: Final = timedelta(seconds=JOB_LEASE_S)
MAINTAIN: Final = "maintain"
"""The kind of job that keeps the store."""
UPKEEP: Final = "upkeep"
"""The agent for whom the brain keeps itself."""


class WorkerStoppedError(Exception):
    """The worker was told to stop: the job goes back as it is."""


class LeaseLostError(Exception):
    """The job is another worker's, or was cancelled: nothing more is written."""


class JobTimeoutError(CommonbrainError):
    """A job ran for longer than its kind may."""

    default_code = "took_too_long"


@dataclass(slots=True, kw_only=True)
class JobContext:
    """What a kind's handler works with; it ends by `finish`."""

    services: Services
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
        self._began_ms = self.services.clock.elapsed_ms()

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
        return self.services.clock.elapsed_ms() - self._began_ms > self.limit / _MILLISECOND

    def pause(self) -> None:
        """Give way between two steps, where everything so far is kept.

        Raises:
            Stopped: the worker is to stop.
            Lost: the job is no longer this worker's.
            TookTooLong: its time is over.

        """
        if self.is_overdue:
            raise JobTimeoutError(
                f"It ran for more than {round(self.limit.total_seconds())} s.",
                hint="What it reached is kept; another attempt goes on from there.",
            )
        if self.lost.is_set():
            raise LeaseLostError
        if self.stop.is_set():
            raise WorkerStoppedError

    def save_progress(
        self, tx: Transaction, progress: float, *, reached: Mapping[str, object]
    ) -> None:
        """Tell within a step's transaction how far it has come and where to go on.

        Raises:
            InvalidInputError: that is more than a job may carry; the step must be rolled back.
            Lost: the job is no longer this worker's; the step must be rolled back.

        """
        size = len(json.dumps(dict(reached), ensure_ascii=False).encode())
        if size > JOB_REACHED_BYTES_MAX:
            raise InvalidInputError(
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
        self._write(tx, self.job.done(result, now=self.services.clock.now()))

    @contextmanager
    def step(self) -> Generator[Transaction]:
        """Open a transaction of the job's tenant, after giving way."""
        with self.fenced(), self.services.store.begin(self.caller.tenant) as tx:
            yield tx

    @contextmanager
    def fenced(self) -> Generator[None]:
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
        until = self.services.clock.now() + LEASE
        try:
            with self.services.store.begin(self.caller.tenant) as tx:
                is_ours = tx.jobs.move(self._held, self._held.renewed(until))
        except UnavailableError:
            return
        if not is_ours:
            self.lost.set()

    def _write(self, tx: Transaction, after: Job) -> None:
        if not tx.jobs.move(self.job, after):
            self.lost.set()
            raise LeaseLostError
        self.job = after
