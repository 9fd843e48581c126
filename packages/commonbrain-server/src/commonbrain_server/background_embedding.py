"""Embedding on a shared server: tenants take turns, and long texts are embedded after the reply."""

from __future__ import annotations

import logging
from collections import Counter
from concurrent.futures import Future, wait
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Event, Lock
from typing import Final

from commonbrain.embeddings.interface import Embedder, WindowEmbedder, unwrapped
from commonbrain.executors import DetachedExecutor
from commonbrain.jobs.worker import JobEvent, Worker, make_worker_name
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.jobs import JobState
from commonbrain.model.scope import Caller
from commonbrain.services import Services
from commonbrain.storage.job_queue import EMBED, QueueMessage, enqueue_embedding
from commonbrain_server.fair_queue import FairQueue, Lane, QueuedEmbedder

_LOG: Final = logging.getLogger(__name__)
_TENANTS_AT_ONCE: Final = 4
"""Tenants whose texts take turns in the background; those of others wait for one to finish."""
_CLOSE_TIMEOUT_S: Final = 1.0
"""How long closing waits for the current batch; afterwards another process continues the job."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """What a tenant had pending before a run."""

    oldest: int
    starts: int
    """How often embedding had been started for it by then; each time more was stored."""


@dataclass(slots=True)
class BackgroundEmbedding:
    """Embeds in this process what it stored without vectors, by the job that covers it.

    The job is in the store before the reply is sent. If this process stops, any worker runs it.
    """

    services: Services
    threads: DetachedExecutor = field(
        default_factory=lambda: DetachedExecutor(_TENANTS_AT_ONCE, name="embedding")
    )
    """Run the jobs, one of each tenant in turn."""
    _stop: Event = field(default_factory=Event)
    _lock: Lock = field(default_factory=Lock)
    _scheduled: dict[str, Future[None]] = field(default_factory=dict[str, Future[None]])
    """The next run of each tenant; a run that has started is not among them."""
    _starts: Counter[str] = field(default_factory=Counter[str])
    """How often each tenant was started."""
    _running: set[Future[None]] = field(default_factory=set[Future[None]])

    def start(self, caller: Caller) -> None:
        """Start to embed what the caller's tenant stored; returns at once."""
        with self._lock:
            self._starts[caller.tenant] += 1
        self._schedule(caller)

    def close(self) -> None:
        """Give the current jobs back; waits briefly for the batches in progress.

        It may be called several times. What is started later is left to other processes.
        """
        with self._lock:
            self._stop.set()
            self.threads.close()
            running = [*self._running]
        wait(running, _CLOSE_TIMEOUT_S)

    def _schedule(self, caller: Caller, *, last: _Pending | None = None) -> None:
        """Have the tenant's job run behind those of the tenants that wait."""
        with self._lock:
            if self._stop.is_set() or caller.tenant in self._scheduled:
                return
            future = self.threads.submit(partial(self._run, caller, last=last))
            future.add_done_callback(_log_error)
            self._scheduled[caller.tenant] = future

    def _run(self, caller: Caller, *, last: _Pending | None) -> None:
        with self._lock:
            # What is stored from here on needs another run.
            future = self._scheduled.pop(caller.tenant)
            self._running.add(future)
        try:
            self._embed(caller, last=last)
        except CommonbrainError as error:
            # The job stays in the store, and is retried by a worker or after the next long text.
            if not self._stop.is_set():
                _LOG.warning("%s: %s", error.code, error)
        finally:
            with self._lock:
                self._running.discard(future)

    def _embed(self, caller: Caller, *, last: _Pending | None) -> None:
        """Run the tenant's job, unless another process does, for a time slice if others wait.

        It is scheduled again until nothing more can be embedded: what is pending is as it was
        before the last run.
        """
        if self._stop.is_set():
            return
        store, services = self.services.store, self.services
        events: list[JobEvent] = []
        worker = Worker(
            services=services,
            name=make_worker_name(services),
            kinds=(EMBED,),
            stop=self._stop,
            on_event=lambda what, _job: events.append(what),
        )
        with self._lock:
            starts = self._starts[caller.tenant]
        with store.snapshot(caller.tenant) as tx:
            oldest = next(iter(tx.missing_embeddings.oldest(limit=1)), None)
        if oldest is None or _Pending(oldest, starts) == last:
            return
        with store.begin(caller.tenant) as tx:
            job = enqueue_embedding(tx, services, caller=caller, is_down=False)
        ticket = QueueMessage(tenant=caller.tenant, job=job.id)
        if worker.handle_ticket(ticket, yields=True):
            has_yielded = JobEvent.GIVEN_BACK in events
            self._schedule(caller, last=None if has_yielded else _Pending(oldest, starts))
        elif job.state is JobState.QUEUED:
            # It is due later, since the embedder failed: a later write tries again.
            services.unembedded.add(caller.tenant)


def _log_error(future: Future[None]) -> None:
    if not future.cancelled() and (error := future.exception()) is not None:
        _LOG.error("embedding in the background failed", exc_info=error)


def share_embedder(services: Services) -> tuple[Services, BackgroundEmbedding]:
    """Return the services of a shared server, and its background embedding to close at the end."""
    model = unwrapped(services.embedder)
    if isinstance(model, WindowEmbedder):
        queue = FairQueue(model.windows_at_once)

        def queued_embedder(caller: Caller, is_background: bool) -> Embedder:  # noqa: FBT001 a port
            lane = Lane(tenant=caller.tenant, is_background=is_background)
            return QueuedEmbedder(embedder=services.embedder, queue=queue, lane=lane)

        services = replace(services, queued_embedder=queued_embedder)
    background = BackgroundEmbedding(services)
    return replace(services, embed_later=background.start), background
