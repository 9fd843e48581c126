"""What asks for itself: kinds of jobs that are done every so often for every tenant."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from commonbrain.jobs.registry import JOBS
from commonbrain.model.jobs import JobError
from commonbrain.model.limits import JOBS_DUE_AT_ONCE
from commonbrain.model.scope import Caller
from commonbrain.services import Services
from commonbrain.storage.job_queue import UPKEEP, enqueue, key_of

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

REMOVED_KINDS: Final[Mapping[str, str]] = {"retention": "maintain"}
"""Kinds that older programs asked for, and what does their work now.

Told by name: a kind that is merely unknown may be one of a newer program that works beside.
"""

LastIdle = dict[tuple[str, str], datetime]
"""When there was last nothing to do, by tenant and kind of job."""
RECHECK_AFTER: Final = timedelta(hours=1)
"""How long that is believed: to ask is a look at every memory of a tenant, each minute."""


def dead_letter_removed_kinds(services: Services, tenant: str) -> int:
    """Make dead letters of due jobs whose kind is gone, which nobody would take; count them.

    A few at a time, for an older program asks for one a day: the next call takes the next ones.
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
    """Ask for whatever is to be done again; count the jobs.

    What there is nothing to do of is noted in `declined`, and left alone for an hour.
    """
    caller = Caller(tenant=tenant, agent=UPKEEP)
    with services.store.snapshot(tenant) as tx:
        due_kinds = _find_due_kinds(tx, services, caller=caller, last_idle=last_idle)
    if not due_kinds:
        return 0
    with services.store.begin(tenant) as tx:
        # Another worker may have been faster: what it asked for is found.
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
        # What somebody asked for otherwise, for themselves or as a preview, is no day's work.
        last = tx.jobs.newest(name, key=key_of(name, {}))
        is_due = last is None or last + kind.every <= now
        if kind.has_work(tx) if is_due else kind.is_due_early(tx, caller):
            due_kinds.append(name)
        elif is_due:
            last_idle[caller.tenant, name] = now
    return due_kinds
