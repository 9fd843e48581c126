"""`brain job run --wait`: follows a job until it has ended, and runs it if no worker does."""

from dataclasses import replace
from threading import Event
from typing import Final

from rich.console import Console
from rich.text import Text

from commonbrain.cli.terminal import Sanitized, progress_bar
from commonbrain.cli.worker import stopped_by_signals
from commonbrain.client import Brain
from commonbrain.jobs.service import JobsReply
from commonbrain.jobs.worker import Worker, make_worker_name
from commonbrain.model import ids
from commonbrain.model.errors import RejectedError
from commonbrain.model.jobs import FAILED, LIVE
from commonbrain.storage.job_queue import QueueMessage

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
