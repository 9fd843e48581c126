"""A worker: takes up what is due, whoever told of it, and does one job at a time.

The store's rows are the truth. A ticket from the queue only says where to look first; every few
seconds the rows are looked through all the same, so that a queue may lose everything. A job is a
worker's own while its lease lasts, which a thread renews; whoever dies loses it by that alone.
"""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from threading import Event, Thread, Timer
from typing import Final

from commonbrain.jobs.registry import JOBS
from commonbrain.jobs.scheduler import LastIdle, dead_letter_removed_kinds, schedule
from commonbrain.model import ids
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    StoreCorruptError,
    UnavailableError,
)
from commonbrain.model.jobs import Job, JobError, JobState, backoff
from commonbrain.model.limits import JOB_LEASE_S, JOBS_DUE_AT_ONCE, MODELS_SHOWN_MAX
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.observability.interface import GaugeSnapshot
from commonbrain.services import Services
from commonbrain.storage.job_queue import (
    LEASE,
    MAINTAIN,
    JobContext,
    LeaseLostError,
    QueueMessage,
    WorkerStoppedError,
)

_LOG: Final = logging.getLogger(__name__)
SWEEP_MS: Final = 5_000
"""How long a job may wait that no queue told of."""
SCHEDULE_MS: Final = 60_000
_RENEW_S: Final = JOB_LEASE_S / 3
"""A renewal may fail twice before the lease ends."""
_HOST_CHARS: Final = 64
_NAME_BITS: Final = 32
_DOWN_S: Final = 1.0
"""How long a queue or store that does not answer is left alone."""


class JobEvent(StrEnum):
    """What can be told of a job in a worker's hands."""

    TAKEN = "taken"
    MOVED = "moved"
    DONE = "done"
    FAILED = "failed"
    DEAD = "dead"
    GIVEN_BACK = "given_back"
    LOST = "lost"


Listener = Callable[[JobEvent, Job], None]


def _ignore(_what: JobEvent, _job: Job) -> None:
    """Listen to nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One of any number that work on the jobs of a store."""

    services: Services
    name: str
    """Tells it apart from every other; it stands in the rows."""
    kinds: Collection[str] = frozenset(JOBS)
    """What it takes up."""
    stop: Event = field(default_factory=Event)
    """Set it to have this worker give back its job at the next step, and end."""
    tell: Listener = _ignore
    sweep_ms: int = SWEEP_MS
    _last_idle: LastIdle = field(default_factory=LastIdle)

    def run(self) -> None:
        """Work until told to stop; what does not answer is asked again a little later."""
        last_sweep = last_schedule = float("-inf")
        last_error = ""
        while not self.stop.is_set():
            now_ms = self.services.clock.elapsed_ms()
            try:
                if now_ms - last_schedule >= SCHEDULE_MS:
                    self.schedule()
                    last_schedule = now_ms
                if now_ms - last_sweep >= self.sweep_ms:
                    self.sweep()
                    last_sweep = self.services.clock.elapsed_ms()
                ticket = self.services.queue.take()
                if ticket is not None:
                    self.handle_ticket(ticket)
                last_error = ""
            except UnavailableError as error:
                # Once for each time that something is down, however long that lasts.
                if error.code != last_error and not self.stop.is_set():
                    _LOG.warning("%s: %s", error.code, error)
                last_error = error.code
                self.stop.wait(_DOWN_S)
            except Exception as error:  # noqa: BLE001 a worker outlives what nobody foresaw
                if type(error).__name__ != last_error:
                    _LOG.exception("a worker met what nobody foresaw")
                last_error = type(error).__name__
                self.stop.wait(_DOWN_S)

    def schedule(self) -> None:
        """Ask for what is to be done again, and bury what nobody does, for every tenant."""
        counts: Counter[JobState] = Counter()
        cards: list[ModelCard] = []
        for tenant in self.services.store.tenants():
            dead_letter_removed_kinds(self.services, tenant)
            schedule(self.services, tenant, last_idle=self._last_idle)
            with self.services.store.snapshot(tenant) as tx:
                counts.update(tx.jobs.counts())
                if self.services.telemetry.is_on:
                    cards += tx.models.listed(limit=MODELS_SHOWN_MAX)
        self.services.telemetry.queued(counts[JobState.QUEUED], dead=counts[JobState.DEAD])
        self.services.telemetry.modelled(_count_models(cards))

    def sweep(self) -> int:
        """Work until nothing is due, a job of each tenant in turn; count the jobs."""
        tenants, worked = self.services.store.tenants(), 0
        while tenants and not self.stop.is_set():
            # Who has nothing due now is looked at again by the next sweep.
            tenants = [tenant for tenant in tenants if self._run_one(tenant)]
            worked += len(tenants)
        return worked

    def handle_ticket(self, ticket: QueueMessage) -> bool:
        """Do the job of a ticket, unless it is done, another's, or not for this worker."""
        with self.services.store.snapshot(ticket.tenant) as tx:
            job = tx.jobs.get(ticket.job)
        if (
            job is None
            or job.kind not in self._runnable_kinds
            or not job.is_due(self.services.clock.now())
        ):
            return False
        return self._run_job(job)

    @property
    def _runnable_kinds(self) -> Collection[str]:
        """What this program can do now: vectors of a space that it does not know it cannot make."""
        if self.services.store.moved_to is None:
            return self.kinds
        return [kind for kind in self.kinds if not JOBS[kind].is_of_space]

    def _run_one(self, tenant: str) -> bool:
        """Do one of a tenant's due jobs; say whether there was any to be had."""
        if self.stop.is_set():
            return False
        now = self.services.clock.now()
        with self.services.store.snapshot(tenant) as tx:
            due = tx.jobs.due(self._runnable_kinds, now=now, limit=JOBS_DUE_AT_ONCE)
        return any(self._run_job(job) for job in due)

    def _run_job(self, job: Job) -> bool:
        """Claim a job and do it; say whether it was to be had."""
        now = self.services.clock.now()
        is_exhausted = job.attempts >= JOBS[job.kind].attempts
        lost_fault = JobError(code="worker_lost", message="No worker lived to tell how it ended.")
        held = (
            job.buried(lost_fault, now=now)
            if is_exhausted
            else job.claimed(self.name, until=now + LEASE, now=now)
        )
        with self.services.store.begin(job.caller.tenant) as tx:
            if not tx.jobs.move(job, held):
                return False
        if is_exhausted:
            self._ended(JobEvent.DEAD, held)
        else:
            self.tell(JobEvent.TAKEN, held)
            self._attempt(held)
        return True

    def _attempt(self, held: Job) -> None:
        kind = JOBS[held.kind]
        task = JobContext(
            services=self.services,
            job=held,
            stop=self.stop,
            limit=kind.limit,
            on_move=lambda job: self.tell(JobEvent.MOVED, job),
        )
        try:
            with _renewing(task):
                kind.handle(task)
        except WorkerStoppedError:
            self._end(
                task, JobEvent.GIVEN_BACK, after=task.job.given_back(self.services.clock.now())
            )
        except LeaseLostError:
            self._ended(JobEvent.LOST, task.job)
        except CommonbrainError as error:
            self._fail(task, JobError.told(error.code, error.message), error=error)
        except Exception as error:  # noqa: BLE001 a worker outlives whatever one job meets
            _LOG.exception("job %s failed", ids.show(ids.JOB, held.id))
            self._fail(task, JobError.told("internal", type(error).__name__), error=error)
        else:
            self._ended(JobEvent.DONE, task.job)

    def _fail(self, task: JobContext, fault: JobError, *, error: Exception) -> None:
        """Have it tried again later, or bury what will not get better or has failed too often."""
        now, kind = self.services.clock.now(), JOBS[task.job.kind]
        if (
            isinstance(error, InvalidInputError | StoreCorruptError)
            or task.job.attempts >= kind.attempts
        ):
            self._end(task, JobEvent.DEAD, after=task.job.buried(fault, now=now))
            return
        again_at = now + backoff(kind.backoff, task.job.attempts)
        self._end(task, JobEvent.FAILED, after=task.job.failed(fault, again_at=again_at))

    def _end(self, task: JobContext, what: JobEvent, *, after: Job) -> None:
        """Write how an attempt ended; where even that cannot be, its lease ends by itself."""
        with suppress(UnavailableError):
            with self.services.store.begin(task.caller.tenant) as tx:
                is_ours = tx.jobs.move(task.job, after)
            self._ended(what if is_ours else JobEvent.LOST, after)

    def _ended(self, what: JobEvent, job: Job) -> None:
        """Tell how an attempt ended."""
        self.services.telemetry.worked(job.kind, what, at=self.services.clock.now())
        self.tell(what, job)


def _count_models(cards: Sequence[ModelCard]) -> list[GaugeSnapshot]:
    """Count models of every role in every state: what there is none of is told, too."""
    return [
        GaugeSnapshot(
            role=role,
            state=state,
            count=len(those),
            percent=max((one.percent for one in those), default=0.0),
        )
        for role in ModelRole
        for state in ModelState
        for those in [[one for one in cards if (one.role, one.state) == (role, state)]]
    ]


@contextmanager
def _renewing(task: JobContext) -> Generator[None]:
    """Renew the lease of a task from time to time while it is worked on."""
    is_over = Event()

    def renew() -> None:
        while not is_over.wait(_RENEW_S):
            task.renew()

    thread = Thread(target=renew, daemon=True, name="lease")
    thread.start()
    try:
        yield
    finally:
        is_over.set()


def make_worker_name(services: Services) -> str:
    """Make up a name that tells the machine and the process, and no other worker has."""
    own = services.processes.own()
    return f"{own.host[:_HOST_CHARS]}:{own.pid}:{services.random_source.bits(_NAME_BITS):08x}"


START_DELAY_S: Final = 10.0
"""A client that has just come has the machine to itself."""
_SWEEP_MS: Final = 60_000
"""What this process is asked for it knows at once; the rest is in no hurry."""
_CLOSE_TIMEOUT_S: Final = 1.0
"""How long leaving waits for the step under way; after it, another has the job a minute later."""


@dataclass(slots=True)
class EmbeddedWorker:
    """A thread that works on jobs, where the house says so, until it is closed."""

    services: Services
    start_delay_s: float = START_DELAY_S
    _stop: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def start(self) -> None:
        """Begin in a while."""
        if self.services.has_embedded_worker:
            self._thread = Thread(target=self._work, daemon=True, name="worker")
            self._thread.start()

    def close(self) -> None:
        """Have it give back its job and end; waits for the step under way, but not for long."""
        self._stop.set()
        if self._thread is not None:
            self.services.queue.close()
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _work(self) -> None:
        if self._stop.wait(self.start_delay_s):
            return
        services, stop = self.services, self._stop
        worker = Worker(
            services=services, name=make_worker_name(services), stop=stop, sweep_ms=_SWEEP_MS
        )
        # Whatever keeps it from working is told to who calls, and to who asks for its jobs.
        with suppress(CommonbrainError):
            worker.run()


def run_maintenance_slice(services: Services, *, seconds: float) -> None:
    """Do a slice of the upkeep that is due, where nobody else may ever work; then give it back.

    What it came to is kept, and the next one goes on from there.
    """
    if not services.has_embedded_worker or seconds <= 0:
        return
    worker = Worker(services=services, name=make_worker_name(services), kinds=(MAINTAIN,))
    over = Timer(seconds, worker.stop.set)
    over.daemon = True
    over.start()
    with suppress(CommonbrainError):
        worker.schedule()
        worker.sweep()
    over.cancel()
