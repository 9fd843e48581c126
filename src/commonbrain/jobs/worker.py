"""Workers claim due jobs and run one at a time, of each tenant in turn.

The rows in the store are authoritative. A queue message only says where to look first; workers poll
the rows every few seconds anyway, so the queue may lose messages. A worker owns a job while its
lease lasts, which a thread renews; the lease of a dead worker expires.

A long job returns to the queue after a time slice if others wait, and continues behind them. A
worker has one thread more than a tenant may use at once, because a step may take long as well.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from threading import Event, Lock, Thread, Timer
from typing import TYPE_CHECKING, Final

from commonbrain.jobs.registry import JOBS
from commonbrain.model import ids
from commonbrain.model.errors import (
    CommonbrainError,
    InvalidInputError,
    StoreCorruptError,
    UnavailableError,
)
from commonbrain.model.jobs import Job, JobError, JobState, QueueMessage, backoff
from commonbrain.model.limits import JOB_LEASE_S, JOBS_DUE_AT_ONCE, MODELS_SHOWN_MAX
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.scope import Caller
from commonbrain.observability.interface import GaugeSnapshot
from commonbrain.services import Services
from commonbrain.storage import job_queue

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

REMOVED_KINDS: Final[Mapping[str, str]] = {"retention": "maintain"}
"""Removed kinds of older versions, and the kinds that replace them.

Listed by name: an unknown kind may belong to a newer version that runs on the same store.
"""

LastIdle = dict[tuple[str, str], datetime]
"""By tenant and kind, when there was last no work."""
RECHECK_AFTER: Final = timedelta(hours=1)
"""How long that is cached: the check reads every memory of a tenant."""


def dead_letter_removed_kinds(services: Services, tenant: str) -> int:
    """Turn due jobs of removed kinds into dead letters and return their number.

    Handles a few per call: an older version creates one a day.
    """
    now = services.clock.now()
    with services.store.snapshot(tenant) as tx:
        due = tx.jobs.due(REMOVED_KINDS, now=now, limit=JOBS_DUE_AT_ONCE)
    if not due:
        return 0
    with services.store.begin(tenant) as tx:
        moved = 0
        for job in due:
            reason = (
                f"There is no job {job.kind} any more; {REMOVED_KINDS[job.kind]} does its work."
            )
            moved += tx.jobs.move(job, job.buried(JobError.of("kind_gone", reason), now=now))
        return moved


def schedule(services: Services, tenant: str, *, last_idle: LastIdle) -> int:
    """Create the recurring jobs that are due, and return their number.

    Kinds without work are recorded in `last_idle` and skipped for an hour.
    """
    caller = Caller(tenant=tenant, agent=job_queue.UPKEEP)
    with services.store.snapshot(tenant) as tx:
        due_kinds = _find_due_kinds(tx, services, caller=caller, last_idle=last_idle)
    if not due_kinds:
        return 0
    created = 0
    with services.store.begin(tenant) as tx:
        due_at = services.clock.now()
        for kind, last in due_kinds.items():
            # Another worker may have created the job meanwhile, and even have finished it.
            if _last_scheduled(tx, kind) == last:
                job_queue.enqueue(tx, services, caller=caller, kind=kind, given={}, due_at=due_at)
                created += 1
    return created


def _find_due_kinds(
    tx: Transaction, services: Services, *, caller: Caller, last_idle: LastIdle
) -> dict[str, datetime | None]:
    """Return the kinds that are due, with the time of their last scheduled run."""
    now = services.clock.now()
    due_kinds: dict[str, datetime | None] = {}
    for name, kind in JOBS.items():
        before = last_idle.get((caller.tenant, name))
        if name == job_queue.REFLECT and not services.schedules_reflection:
            continue
        if kind.every is None or (before is not None and now < before + RECHECK_AFTER):
            continue
        last = _last_scheduled(tx, name)
        is_due = last is None or last + kind.every <= now
        if kind.has_work(tx) if is_due else kind.is_due_early(tx, caller):
            due_kinds[name] = last
        elif is_due:
            last_idle[caller.tenant, name] = now
    return due_kinds


def _last_scheduled(tx: Transaction, kind: str) -> datetime | None:
    """Return when the last scheduled run was created or finished.

    Jobs requested with arguments, for one agent or as a preview do not replace a scheduled run.
    """
    return tx.jobs.newest(kind, key=job_queue.key_of(kind, {}))


_LOG: Final = logging.getLogger(__name__)
SWEEP_MS: Final = 5_000
"""Polling interval, the longest delay of a job without a queue message."""
SCHEDULE_MS: Final = 60_000
_RENEW_S: Final = JOB_LEASE_S / 3
"""Two renewals may fail before the lease expires."""
_HOST_CHARS: Final = 64
_NAME_BITS: Final = 32
_DOWN_S: Final = 1.0
"""Pause after the queue or the store failed to answer."""


class JobEvent(StrEnum):
    """Events of a job in a worker."""

    TAKEN = "taken"
    MOVED = "moved"
    DONE = "done"
    FAILED = "failed"
    DEAD = "dead"
    GIVEN_BACK = "given_back"
    LOST = "lost"


Listener = Callable[[JobEvent, Job], None]


def _ignore(_what: JobEvent, _job: Job) -> None:
    """Ignore job events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One of any number of workers of a store."""

    services: Services
    name: str
    """Unique name, stored in the rows of claimed jobs."""
    kinds: Collection[str] = frozenset(JOBS)
    """The kinds of jobs to claim."""
    stop: Event = field(default_factory=Event)
    """When set, the worker releases its job at the next step and returns."""
    on_event: Listener = _ignore
    sweep_ms: int = SWEEP_MS
    tenant_jobs_max: int = 1
    """Jobs of one tenant that the threads of this worker run at once."""
    _last_idle: LastIdle = field(default_factory=LastIdle)
    _running: Counter[str] = field(default_factory=Counter[str])
    """Running jobs of this worker by tenant."""
    _lock: Lock = field(default_factory=Lock)
    _skipped: set[str] = field(default_factory=set[str])
    """Tenants of which a due job was skipped because others of theirs run."""
    _must_sweep: Event = field(default_factory=Event)
    """Set when jobs that waited for another one can run."""

    def run(self) -> None:
        """Run jobs until stopped; unavailable services are retried."""
        last_sweep = last_schedule = float("-inf")
        last_error = ""
        while not self.stop.is_set():
            now_ms = self.services.clock.elapsed_ms()
            try:
                if now_ms - last_schedule >= SCHEDULE_MS:
                    self.schedule()
                    last_schedule = now_ms
                if now_ms - last_sweep >= self.sweep_ms or self._must_sweep.is_set():
                    self._must_sweep.clear()
                    if self._take_turns():
                        # There may be more. Messages can wait: the rows show what they announce.
                        last_sweep, last_error = float("-inf"), ""
                        continue
                    last_sweep = self.services.clock.elapsed_ms()
                ticket = self.services.queue.take()
                if ticket is not None:
                    self.handle_ticket(ticket, yields=True)
                last_error = ""
            except UnavailableError as error:
                # Log once per outage.
                if error.code != last_error and not self.stop.is_set():
                    _LOG.warning("%s: %s", error.code, error)
                last_error = error.code
                self.stop.wait(_DOWN_S)
            except Exception as error:  # noqa: BLE001 a worker survives any error
                if type(error).__name__ != last_error:
                    _LOG.exception("unexpected error in a worker")
                last_error = type(error).__name__
                self.stop.wait(_DOWN_S)

    def schedule(self) -> None:
        """Create due recurring jobs of every tenant, and end jobs of removed kinds."""
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
        """Run jobs until none is due, one of each tenant in turn; return their number."""
        worked = 0
        while count := self._take_turns():
            worked += count
        return worked

    def _take_turns(self) -> int:
        """Run one job of each tenant in turn, for some seconds at least; return their number.

        Tenants without due jobs are skipped. They are asked again in the next call, so that the
        many jobs of one tenant do not delay the first job of another.
        """
        began_ms = self.services.clock.elapsed_ms()
        tenants, worked = self.services.store.tenants(), 0
        while tenants and not self.stop.is_set():
            tenants = [tenant for tenant in tenants if self._run_one(tenant)]
            worked += len(tenants)
            if self.services.clock.elapsed_ms() - began_ms >= SWEEP_MS:
                break
        return worked

    def handle_ticket(self, ticket: QueueMessage, *, yields: bool = False) -> bool:
        """Run the job of a message, unless it is done, claimed, or of a kind excluded here.

        Args:
            ticket: the message.
            yields: whether the job returns to the queue after a time slice if others are due.

        Returns:
            Whether the job was run.

        """
        with self.services.store.snapshot(ticket.tenant) as tx:
            job = tx.jobs.get(ticket.job)
        if (
            job is None
            or job.kind not in self._runnable_kinds
            or not job.is_due(self.services.clock.now())
        ):
            return False
        with self._thread_for(ticket.tenant) as is_free:
            return is_free and self._run_job(job, yields=yields)

    @property
    def _runnable_kinds(self) -> Collection[str]:
        """Kinds that this program can run: it cannot embed for an unknown embedding space."""
        if self.services.store.moved_to is None:
            return self.kinds
        return [kind for kind in self.kinds if not JOBS[kind].is_of_space]

    def _run_one(self, tenant: str) -> bool:
        """Run one due job of a tenant; return whether there was one."""
        if self.stop.is_set():
            return False
        now = self.services.clock.now()
        with self.services.store.snapshot(tenant) as tx:
            due = tx.jobs.due(self._runnable_kinds, now=now, limit=JOBS_DUE_AT_ONCE)
        if not due:
            return False
        with self._thread_for(tenant) as is_free:
            return is_free and any(self._run_job(job, yields=True) for job in due)

    def _others_wait(self, job: Job) -> bool:
        """Return whether a job of another tenant is due, or one of the same but another kind."""
        now, kinds = self.services.clock.now(), self._runnable_kinds
        for tenant in self.services.store.tenants():
            is_own = tenant == job.caller.tenant
            those = [one for one in kinds if one != job.kind] if is_own else kinds
            with self.services.store.snapshot(tenant) as tx:
                if tx.jobs.due(those, now=now, limit=1):
                    return True
        return False

    @contextmanager
    def _thread_for(self, tenant: str) -> Generator[bool]:
        """Take a thread for a job of a tenant; False if the others are left to other tenants."""
        with self._lock:
            is_free = self._running[tenant] < self.tenant_jobs_max
            if not is_free:
                self._skipped.add(tenant)
            self._running[tenant] += is_free
        try:
            yield is_free
        finally:
            with self._lock:
                self._running[tenant] -= is_free
                if is_free and tenant in self._skipped:
                    self._skipped.discard(tenant)
                    self._must_sweep.set()

    def _run_job(self, job: Job, *, yields: bool) -> bool:
        """Claim and run a job; return whether the claim succeeded.

        Args:
            job: a due job.
            yields: whether it returns to the queue after a time slice if other jobs are due.

        """
        now, kind = self.services.clock.now(), JOBS[job.kind]
        is_exhausted = job.attempts >= kind.attempts
        lost_fault = JobError(code="worker_lost", message="The worker died before the job ended.")
        held = (
            job.buried(lost_fault, now=now)
            if is_exhausted
            else job.claimed(self.name, until=now + job_queue.LEASE, now=now)
        )
        with self.services.store.begin(job.caller.tenant) as tx:
            if not tx.jobs.move(job, held):
                return False
        if is_exhausted:
            self._ended(JobEvent.DEAD, held)
        else:
            self.on_event(JobEvent.TAKEN, held)
            self._attempt(held, yields=yields)
        return True

    def _attempt(self, held: Job, *, yields: bool) -> None:
        kind = JOBS[held.kind]
        can_yield = yields and kind.is_resumable and not held.given.get("dry_run")
        task = job_queue.JobContext(
            services=self.services.in_background(),
            job=held,
            stop=self.stop,
            limit=kind.limit,
            on_move=lambda job: self.on_event(JobEvent.MOVED, job),
            others_wait=partial(self._others_wait, held) if can_yield else lambda: False,
        )
        try:
            shown = f"shown by {held.kind}"
            run = partial(kind.handler(held.kind), task)
            with _renewing(task):
                self.services.audited(held.caller, action=shown, read=run)
        except job_queue.WorkerStoppedError as error:
            if isinstance(error, job_queue.JobYieldedError):
                self._must_sweep.set()
            self._end(
                task, JobEvent.GIVEN_BACK, after=task.job.given_back(self.services.clock.now())
            )
        except job_queue.LeaseLostError:
            self._ended(JobEvent.LOST, task.job)
        except CommonbrainError as error:
            hint = f" {error.hint}" if error.code == "extra_missing" else ""
            self._fail(task, JobError.of(error.code, f"{error.message}{hint}"), error=error)
        except Exception as error:  # noqa: BLE001 a worker outlives whatever one job meets
            _LOG.exception("job %s failed", ids.show(ids.JOB, held.id))
            self._fail(task, JobError.of("internal", type(error).__name__), error=error)
        else:
            self._ended(JobEvent.DONE, task.job)

    def _fail(self, task: job_queue.JobContext, fault: JobError, *, error: Exception) -> None:
        """Schedule a retry, or make a dead letter of a job that failed permanently or too often."""
        now, kind = self.services.clock.now(), JOBS[task.job.kind]
        # Another worker may have the package that this one lacks.
        is_final = (
            isinstance(error, InvalidInputError | StoreCorruptError)
            and fault.code != "extra_missing"
        )
        if is_final or task.job.attempts >= kind.attempts:
            self._end(task, JobEvent.DEAD, after=task.job.buried(fault, now=now))
            return
        again_at = now + backoff(kind.backoff, task.job.attempts)
        self._end(task, JobEvent.FAILED, after=task.job.failed(fault, again_at=again_at))

    def _end(self, task: job_queue.JobContext, what: JobEvent, *, after: Job) -> None:
        """Record the end of an attempt; if that fails, the lease expires by itself."""
        with suppress(UnavailableError):
            with self.services.store.begin(task.caller.tenant) as tx:
                is_ours = tx.jobs.move(task.job, after)
            self._ended(what if is_ours else JobEvent.LOST, after)

    def _ended(self, what: JobEvent, job: Job) -> None:
        """Report the end of an attempt."""
        self.services.telemetry.worked(job.kind, what, at=self.services.clock.now())
        self.on_event(what, job)


def _count_models(cards: Sequence[ModelCard]) -> list[GaugeSnapshot]:
    """Count models by role and state, including zeros."""
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
def _renewing(task: job_queue.JobContext) -> Generator[None]:
    """Renew the lease in a thread while the job runs."""
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
    """Create a unique name from the machine and the process."""
    own = services.processes.own()
    return f"{own.host[:_HOST_CHARS]}:{own.pid}:{services.random_source.bits(_NAME_BITS):08x}"


START_DELAY_S: Final = 10.0
"""Leaves the machine to a client that has just connected."""
_SWEEP_MS: Final = 60_000
"""Polling interval; jobs of this process are announced, the others can wait."""
_CLOSE_TIMEOUT_S: Final = 1.0
"""How long closing waits for the current step; afterwards the lease expires within a minute."""


@dataclass(slots=True)
class EmbeddedWorker:
    """Runs jobs in a thread of the client's process, if the services enable it."""

    services: Services
    start_delay_s: float = START_DELAY_S
    _stop: Event = field(default_factory=Event)
    _thread: Thread | None = None

    def start(self) -> None:
        """Start after a delay."""
        if self.services.has_embedded_worker:
            self._thread = Thread(target=self._work, daemon=True, name="worker")
            self._thread.start()

    def close(self) -> None:
        """Release the current job and stop; waits briefly for the current step."""
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
        # Failures are reported to the callers and requesters of the jobs.
        with suppress(CommonbrainError):
            worker.run()


def run_maintenance_slice(services: Services, *, seconds: float) -> None:
    """Run due maintenance for a limited time where no worker may exist.

    Progress is stored, and the next call continues.
    """
    if not services.has_embedded_worker or seconds <= 0:
        return
    worker = Worker(services=services, name=make_worker_name(services), kinds=(job_queue.MAINTAIN,))
    over = Timer(seconds, worker.stop.set)
    over.daemon = True
    over.start()
    with suppress(CommonbrainError):
        worker.schedule()
        worker.sweep()
    over.cancel()
