"""Enqueuing of jobs, and the context of a running job."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from hashlib import sha256
from threading import Event
from typing import TYPE_CHECKING, Final

from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, InvalidInputError, UnavailableError
from commonbrain.model.jobs import LIVE, Job, JobState, QueueMessage
from commonbrain.model.limits import JOB_LEASE_S, JOB_REACHED_BYTES_MAX, JOB_SLICE_S
from commonbrain.model.scope import Caller
from commonbrain.model.values import dataclass, field
from commonbrain.services import Services
from commonbrain.storage.interface import JobFilter

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction


EMBED: Final = "embed"
"""The kind of job that embeds memories stored without vectors."""
REFLECT: Final = "reflect"
"""The kind that summarises events as episodes."""
EXPORT: Final = "export"
"""The kind that writes an archive of the store, which is kept for a day."""
DISCARD: Final = "discard"
"""The kind that deletes uploads and archives."""
_EMBED_AFTER: Final = timedelta(seconds=30)
"""Delay before an embedder that failed is called again."""


def key_of(kind: str, given: Mapping[str, object]) -> str:
    """Return the key of a job; two unfinished jobs with equal kind and input are one."""
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
    """Insert a job in a transaction; return it, or the unfinished job with the same key.

    A dead letter with the same key is retried instead, with the lower authority of both callers.
    """
    now, key = services.clock.now(), key_of(kind, given)
    known = tx.jobs.keyed(key) or _revived(tx, key, due_at=due_at, by=caller)
    while known is None:
        drawn = ids.make_id(now, services.random_source.bits(ids.RANDOM_BITS))
        made = Job(
            id=drawn, kind=kind, caller=caller, given=given, key=key,
            due_at=due_at, reached={}, created_at=now,
        )  # fmt: skip
        known = made if tx.jobs.add(made) else tx.jobs.keyed(key)
    return known


def _revived(tx: Transaction, key: str, *, due_at: datetime, by: Caller) -> Job | None:
    criteria = JobFilter(state=JobState.DEAD, key=key)
    for dead in tx.jobs.listed(criteria, before=None, limit=1):
        again = dead.retried(due_at, by=by)
        return again if tx.jobs.move(dead, again) else None
    return None


def enqueue_embedding(
    tx: Transaction, services: Services, *, caller: Caller, is_down: bool = True
) -> Job:
    """Enqueue embedding of the memories that this transaction stores without vectors.

    No worker is notified. If the embedder is down, polling finds the job later; otherwise this
    process embeds them itself unless it stops, and then polling finds the job.
    """
    due_at = services.clock.now() + (_EMBED_AFTER if is_down else timedelta())
    return enqueue(tx, services, caller=caller, kind=EMBED, given={}, due_at=due_at)


def notify_worker(services: Services, job: Job) -> None:
    """Notify a worker of a committed job; if the queue is down, polling finds it later."""
    with suppress(UnavailableError):
        services.queue.put(QueueMessage(tenant=job.caller.tenant, job=job.id))


_MILLISECOND: Final = timedelta(milliseconds=1)
LEASE: Final = timedelta(seconds=JOB_LEASE_S)
MAINTAIN: Final = "maintain"
"""The kind of job that maintains the store."""
UPKEEP: Final = "upkeep"
"""The agent that maintenance runs as."""


class WorkerStoppedError(Exception):
    """The worker is stopping: the job returns to the queue as it is."""


class JobYieldedError(WorkerStoppedError):
    """Other jobs wait: the job returns to the queue as it is, behind them."""


class LeaseLostError(Exception):
    """The job went to another worker or was cancelled: nothing more is written."""


class JobTimeoutError(CommonbrainError):
    """A job ran longer than the limit of its kind."""

    default_code = "took_too_long"


@dataclass(slots=True, kw_only=True)
class JobContext:
    """Passed to the handler of a job, which ends with `finish`."""

    services: Services
    job: Job
    """The state last written by this worker."""
    stop: Event
    """Set when the worker must stop."""
    limit: timedelta
    on_move: Callable[[Job], None]
    others_wait: Callable[[], bool] = lambda: False
    """Whether other jobs wait for this worker; asked at the end of each time slice."""
    lost: Event = field(default_factory=Event)
    _held: Job = field(init=False)
    _began_ms: float = field(init=False)
    _slice_ms: float = field(init=False, default=0.0)
    """Length of a time slice; 0 before the first step."""
    _slice_end_ms: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        """Start the clock."""
        self._held = self.job
        self._began_ms = self.services.clock.elapsed_ms()

    @property
    def caller(self) -> Caller:
        """The caller that the job runs for."""
        return self.job.caller

    @property
    def is_live(self) -> bool:
        """Whether the job is unfinished."""
        return self.job.state in LIVE

    @property
    def is_overdue(self) -> bool:
        """Whether the job exceeded its time limit."""
        return self.services.clock.elapsed_ms() - self._began_ms > self.limit / _MILLISECOND

    def pause(self) -> None:
        """Check between two steps whether the job may continue; finished steps stay.

        Raises:
            WorkerStoppedError: the worker must stop, or other jobs wait for it.
            LeaseLostError: the job is no longer this worker's.
            JobTimeoutError: the time limit is exceeded.

        """
        if self.is_overdue:
            raise JobTimeoutError(
                f"The job ran for more than {round(self.limit.total_seconds())} s.",
                hint="Its progress is saved; the next attempt continues from there.",
            )
        if self.lost.is_set():
            raise LeaseLostError
        if self.stop.is_set():
            raise WorkerStoppedError
        if self._is_slice_over() and self.others_wait():
            raise JobYieldedError

    def _is_slice_over(self) -> bool:
        """Return whether a time slice has passed since the first step or the last such answer."""
        now_ms = self.services.clock.elapsed_ms()
        is_first = not self._slice_ms
        if is_first:
            # What a job repeats for each slice, such as unpacking a file, takes half its time at
            # most.
            self._slice_ms = max(1000 * JOB_SLICE_S, now_ms - self._began_ms)
        is_over = not is_first and now_ms >= self._slice_end_ms
        if is_first or is_over:
            self._slice_end_ms = now_ms + self._slice_ms
        return is_over

    def save_progress(
        self, tx: Transaction, progress: float, *, reached: Mapping[str, object]
    ) -> None:
        """Save in a step's transaction the progress, 0..1, and the state to continue from.

        Raises:
            InvalidInputError: the state is too large; the step must be rolled back.
            LeaseLostError: the job is no longer this worker's; the step must be rolled back.

        """
        size = len(json.dumps(dict(reached), ensure_ascii=False).encode())
        if size > JOB_REACHED_BYTES_MAX:
            raise InvalidInputError(
                f"The saved state has {size:,} bytes; {JOB_REACHED_BYTES_MAX:,} are allowed.",
                code="limit_exceeded",
                hint="Split the job: one project, fewer questions, a smaller file.",
            )
        self._write(tx, self.job.moved(progress, reached))

    def finish(self, tx: Transaction, result: Mapping[str, object]) -> None:
        """Finish the job in the transaction of the last step.

        Raises:
            LeaseLostError: the job is no longer this worker's; the step must be rolled back.

        """
        self._write(tx, self.job.done(result, now=self.services.clock.now()))

    @contextmanager
    def step(self) -> Generator[Transaction]:
        """Check whether the job may continue, then open a transaction of its tenant."""
        with self.fenced(), self.services.store.begin(self.caller.tenant) as tx:
            yield tx

    @contextmanager
    def fenced(self) -> Generator[None]:
        """Check whether the job may continue, then run a step with its own transaction.

        If the step fails, its saved progress is discarded with it.
        """
        self.pause()
        before, is_done = self.job, False
        try:
            yield
            is_done = True
        finally:
            self.job = self.job if is_done else before
        if self.job is not before and self.is_live:
            self.on_move(self.job)

    def renew(self) -> None:
        """Renew the lease; set `lost` if it was too late."""
        if self.is_overdue:
            # A handler that hangs gives up its lease, and another worker claims the job.
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
