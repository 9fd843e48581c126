"""`brain worker`: runs background jobs, and reports each of them."""

import json
import logging
import signal
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from threading import Event, Lock
from types import FrameType
from typing import Final

import typer
from rich.console import Console, Group, RenderableType
from rich.progress import Progress, TaskID
from rich.text import Text

from commonbrain.api.operations.job import describe_result
from commonbrain.cli.context import GlobalOptions
from commonbrain.cli.terminal import (
    Sanitized,
    make_table,
    print_line,
    print_value,
    progress,
    progress_bar,
)
from commonbrain.client import Brain
from commonbrain.consolidation.maintenance import MaintenancePreview
from commonbrain.jobs.registry import JOBS, kind_of
from commonbrain.jobs.service import JobsReply, JobView
from commonbrain.jobs.worker import JobEvent, Worker, make_worker_name
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError
from commonbrain.model.escaping import escaped, inert
from commonbrain.model.jobs import FAILED, LIVE, Job, JobState, QueueMessage
from commonbrain.model.limits import WORKERS_MAX
from commonbrain.model.timestamps import show_instant
from commonbrain.storage.job_queue import MAINTAIN

_POLL_S: Final = 0.5
_FINAL_EVENTS: Final = frozenset(
    {JobEvent.DONE, JobEvent.FAILED, JobEvent.DEAD, JobEvent.GIVEN_BACK, JobEvent.LOST}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """The options of a worker."""

    is_once: bool
    concurrency: int
    kinds: tuple[str, ...]

    def checked(self) -> "WorkerOptions":
        """Return the options if they are valid.

        Raises:
            InvalidInputError: there is no such kind, or the concurrency is too high.

        """
        for name in self.kinds:
            kind_of(name)
        if not 1 <= self.concurrency <= WORKERS_MAX:
            raise InvalidInputError(
                f"concurrency is {self.concurrency}; 1 to {WORKERS_MAX} are allowed.",
                hint="Start more processes for more.",
            )
        return self


def run_worker(state: GlobalOptions, options: WorkerOptions, *, as_json: bool) -> None:
    """Run jobs until stopped, or once until none is due; return the last job."""
    options.checked()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    stop = Event()
    with (
        stopped_by_signals(stop),
        state.open(server_name="worker") as brain,
        progress(is_shown=options.is_once and not as_json) as shown,
    ):
        reporter = _JobReporter(as_json=as_json, shown=shown, of=brain)
        worker = Worker(
            services=brain.services,
            name=make_worker_name(brain.services),
            kinds=frozenset(options.kinds or JOBS),
            stop=stop,
            on_event=reporter.on_event,
            tenant_jobs_max=options.concurrency,
        )
        if options.is_once:
            worker.schedule()
            _run_in_threads(worker.sweep, count=options.concurrency, stop=stop)
        else:
            reporter.print_line(f"{worker.name} works on {brain.services.store.location}")
            # One more, in which no job waits for the long step of another tenant's.
            _run_in_threads(worker.run, count=options.concurrency + 1, stop=stop)


class _JobReporter:
    """Reports jobs: a line each, with a progress bar, or JSON."""

    def __init__(self, *, as_json: bool, shown: Progress, of: Brain) -> None:
        self._as_json = as_json
        self._shown = shown
        self._clock = of.services.clock
        self._bars: dict[int, TaskID] = {}
        self._lock = Lock()

    def print_line(self, line: str) -> None:
        """Print a line that is not about one job."""
        if not self._as_json:
            Console(stderr=True).print(Sanitized(line), soft_wrap=True)

    def on_event(self, event_type: JobEvent, job: Job) -> None:
        """Report an event of a job; called from several threads."""
        with self._lock:
            self._move(event_type, job)
            if self._as_json:
                event = _as_json(event_type, job, at=self._clock.now())
                typer.echo(escaped(json.dumps(event, ensure_ascii=False)))
            elif event_type is not JobEvent.MOVED:
                # Printing goes through the progress bar's display while it is shown.
                typer.echo(inert(_line(event_type, job)))

    def _move(self, event_type: JobEvent, job: Job) -> None:
        if event_type is JobEvent.TAKEN:
            self._bars[job.id] = self._shown.add_task(job.kind, total=1.0)
        bar = self._bars.get(job.id)
        if bar is None:
            return
        self._shown.update(bar, completed=job.progress)
        if event_type in _FINAL_EVENTS:
            self._shown.remove_task(bar)
            del self._bars[job.id]


def _as_json(event_type: JobEvent, job: Job, *, at: datetime) -> dict[str, object]:
    event: dict[str, object] = {
        "at": show_instant(at),
        "event": event_type,
        "tenant": job.caller.tenant,
        "job": ids.show(ids.JOB, job.id),
        "kind": job.kind,
        "attempt": job.attempts,
        "progress": round(job.progress, 3),
    }
    if event_type is JobEvent.DONE:
        event["result"] = job.result
    if event_type in {JobEvent.FAILED, JobEvent.DEAD} and job.fault:
        event["error"] = {"code": job.fault.code, "message": job.fault.message}
    return event


def _line(event_type: JobEvent, job: Job) -> str:
    parts = [ids.show(ids.JOB, job.id), job.kind, str(event_type).replace("_", " ")]
    if event_type is JobEvent.DONE and job.result is not None:
        is_preview = bool(job.given.get("dry_run"))
        parts.append(describe_result(job.kind, job.result, is_preview=is_preview))
    if event_type in {JobEvent.FAILED, JobEvent.DEAD} and job.fault:
        parts.append(f"attempt {job.attempts}, {job.fault.code}: {job.fault.message}")
    return "  ".join(parts)


def _run_in_threads(function: Callable[[], object], *, count: int, stop: Event) -> None:
    """Run the function in several threads; if one fails, stop all and raise its error."""
    with ThreadPoolExecutor(count, "worker") as threads:
        done = [threads.submit(function) for _ in range(count)]
        pending = set(done)
        while pending:
            # A signal may reach another thread, while this one, which handles it, would sleep on.
            finished, pending = wait(pending, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            if any(one.exception() is not None for one in finished):
                stop.set()
    for one in done:
        one.result()


@contextmanager
def stopped_by_signals(stop: Event) -> Generator[None]:
    """Set an event when the process is asked to stop, instead of ending it."""

    def request_stop(_signal: int, _frame: FrameType | None) -> None:
        stop.set()

    previous = {one: signal.signal(one, request_stop) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in previous.items():
            signal.signal(one, handler)


def run_maintain(state: GlobalOptions, *, dry_run: bool, as_json: bool) -> None:
    """Run maintenance and print what was done, or would be done.

    Raises:
        RejectedError: the caller is not an admin.
        UnavailableError: `job_unfinished`, another worker runs it, or it failed and will be
            retried.

    """
    if dry_run:
        with state.open() as brain:
            preview = brain.maintain.preview()
        if as_json:
            print_value(preview)
        else:
            Console().print(Sanitized(_preview(preview)))
        return
    done = _run_maintenance(state, is_shown=not as_json)
    if as_json:
        print_value(done)
    else:
        print_line(describe_result(MAINTAIN, done.result or {}))


def _run_maintenance(state: GlobalOptions, *, is_shown: bool) -> JobView:
    with state.open() as brain, progress_bar("keeping", is_shown=is_shown) as move:
        queued = brain.jobs.run(MAINTAIN)

        def report(_what: JobEvent, job: Job) -> None:
            move(job.progress)

        worker = Worker(
            services=brain.services,
            name=make_worker_name(brain.services),
            kinds=(MAINTAIN,),
            on_event=report,
        )
        ticket = QueueMessage(tenant=brain.caller.tenant, job=ids.parse(ids.JOB, queued.id))
        is_ours = worker.handle_ticket(ticket)
        done = brain.jobs.show(queued.id)
    if done.state is JobState.DONE:
        return done
    reason = f"it is {done.state}: {done.reason}" if is_ours else "another worker is at it"
    raise UnavailableError(
        f"{done.id} has not ended, {reason}.",
        code="job_unfinished",
        hint="What it did so far stays; brain job list --kind maintain shows how it goes on.",
    )


def _preview(preview: MaintenancePreview) -> RenderableType:
    if not preview.counts:
        return Text("Nothing is due.")
    table = make_table(*("becomes", "count", "such as", "because"), rows=_preview_rows(preview))
    return Group(table, Text("Nothing was changed. Run it without --dry-run."))


def _preview_rows(preview: MaintenancePreview) -> Iterator[tuple[str, ...]]:
    """Yield a row for each change, with its first example, and one for each further example."""
    for name, count in preview.counts.items():
        head = (name, f"{count:,}")
        for example in preview.examples.get(name, ()):
            yield *head, f"{example.id} {example.headline}", example.reason
            head = ("", "")
        if head[0]:
            yield *head, "", ""


_CHECK_INTERVAL_S: Final = 0.5
"""Seconds between checks of a job that another worker runs."""


def follow_job(brain: Brain, reply: JobsReply, *, is_shown: bool) -> JobsReply:
    """Follow the job of a reply to its end, or until Ctrl-C; return its last state.

    If no worker is known, this process runs the job.

    Raises:
        RejectedError: `job_failed`, it is a dead letter or was cancelled.

    """
    job, services, stop = reply.jobs[0], brain.services, Event()
    ticket = QueueMessage(tenant=brain.caller.tenant, job=ids.parse(ids.JOB, job.id))
    with stopped_by_signals(stop), progress_bar(job.kind, is_shown=is_shown) as move:
        worker = Worker(
            services=services,
            name=make_worker_name(services),
            stop=stop,
            on_event=lambda _what, updated_job: move(updated_job.progress),
        )
        while job.state in LIVE and not stop.is_set():
            if services.has_embedded_worker:
                worker.handle_ticket(ticket)
            job = brain.jobs.show(job.id)
            move(job.progress)
            if job.state in LIVE:
                stop.wait(_CHECK_INTERVAL_S)
    if job.state in FAILED:
        raise RejectedError(
            f"{job.id} is {job.state}: {job.reason or 'it was cancelled'}",
            code="job_failed",
            hint=f"Once that is fixed: brain job retry {job.id}",
        )
    if job.state in LIVE:
        message = (
            f"{job.id} is left to a worker, such as brain worker; see brain job show {job.id}."
        )
        Console(stderr=True).print(Sanitized(Text(message)), soft_wrap=True)
    return replace(reply, jobs=(job,))
