"""Scheduler of recurring jobs of every tenant."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from commonbrain.jobs.registry import JOBS
from commonbrain.model.jobs import JobError
from commonbrain.model.limits import JOBS_DUE_AT_ONCE
from commonbrain.model.scope import Caller
from commonbrain.services import Services
from commonbrain.storage.interface import Transaction
from commonbrain.storage.job_queue import UPKEEP, enqueue, key_of

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
        return sum(
            tx.jobs.move(job, job.buried(_removed_kind_fault(job.kind), now=now)) for job in due
        )


def _removed_kind_fault(kind: str) -> JobError:
    return JobError.told(
        "kind_gone", f"There is no job {kind} any more; {REMOVED_KINDS[kind]} does its work."
    )


def schedule(services: Services, tenant: str, *, last_idle: LastIdle) -> int:
    """Create the recurring jobs that are due, and return their number.

    Kinds without work are recorded in `last_idle` and skipped for an hour.
    """
    caller = Caller(tenant=tenant, agent=UPKEEP)
    with services.store.snapshot(tenant) as tx:
        due_kinds = _find_due_kinds(tx, services, caller=caller, last_idle=last_idle)
    if not due_kinds:
        return 0
    with services.store.begin(tenant) as tx:
        # Another worker may have created it first.
        due_at = services.clock.now()
        for kind in due_kinds:
            enqueue(tx, services, caller=caller, kind=kind, given={}, due_at=due_at)
    return len(due_kinds)


def _find_due_kinds(
    tx: Transaction, services: Services, *, caller: Caller, last_idle: LastIdle
) -> list[str]:
    now = services.clock.now()
    due_kinds: list[str] = []
    for name, kind in JOBS.items():
        before = last_idle.get((caller.tenant, name))
        if kind.every is None or (before is not None and now < before + RECHECK_AFTER):
            continue
        # Jobs requested with arguments, for one agent or as a preview do not replace the scheduled
        # run.
        last = tx.jobs.newest(name, key=key_of(name, {}))
        is_due = last is None or last + kind.every <= now
        if kind.has_work(tx) if is_due else kind.is_due_early(tx, caller):
            due_kinds.append(name)
        elif is_due:
            last_idle[caller.tenant, name] = now
    return due_kinds
