"""What asks for itself: kinds of jobs that are done every so often for every tenant."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from commonbrain.jobs.registry import JOBS
from commonbrain.model.jobs import Fault
from commonbrain.model.limits import JOBS_DUE_AT_ONCE
from commonbrain.model.scope import Caller
from commonbrain.services import House
from commonbrain.storage.interface import Transaction
from commonbrain.storage.job_queue import UPKEEP, add_job, key_of

GONE: Final[Mapping[str, str]] = {"retention": "maintain"}
"""Kinds that older programs asked for, and what does their work now.

Told by name: a kind that is merely unknown may be one of a newer program that works beside.
"""

Declined = dict[tuple[str, str], datetime]
"""When there was last nothing to do, by tenant and kind of job."""
ASKED_AGAIN: Final = timedelta(hours=1)
"""How long that is believed: to ask is a look at every memory of a tenant, each minute."""


def bury_gone(house: House, tenant: str) -> int:
    """Make dead letters of due jobs whose kind is gone, which nobody would take; count them.

    A few at a time, for an older program asks for one a day: the next call takes the next ones.
    """
    now = house.clock.now()
    with house.store.snapshot(tenant) as tx:
        due = tx.jobs.due(GONE, now=now, limit=JOBS_DUE_AT_ONCE)
    if not due:
        return 0
    with house.store.begin(tenant) as tx:
        return sum(tx.jobs.move(job, job.buried(_gone(job.kind), now=now)) for job in due)


def _gone(kind: str) -> Fault:
    return Fault.told("kind_gone", f"There is no job {kind} any more; {GONE[kind]} does its work.")


def schedule(house: House, tenant: str, *, declined: Declined) -> int:
    """Ask for whatever is to be done again; count the jobs.

    What there is nothing to do of is noted in `declined`, and left alone for an hour.
    """
    caller = Caller(tenant=tenant, agent=UPKEEP)
    with house.store.snapshot(tenant) as tx:
        wanted = _wanted(tx, house, caller=caller, declined=declined)
    if not wanted:
        return 0
    with house.store.begin(tenant) as tx:
        # Another worker may have been faster: what it asked for is found.
        due_at = house.clock.now()
        for kind in wanted:
            add_job(tx, house, caller=caller, kind=kind, given={}, due_at=due_at)
    return len(wanted)


def _wanted(tx: Transaction, house: House, *, caller: Caller, declined: Declined) -> list[str]:
    now = house.clock.now()
    wanted: list[str] = []
    for name, kind in JOBS.items():
        before = declined.get((caller.tenant, name))
        if kind.every is None or (before is not None and now < before + ASKED_AGAIN):
            continue
        # What somebody asked for otherwise, for themselves or as a preview, is no day's work.
        last = tx.jobs.newest(name, key=key_of(name, {}))
        is_due = last is None or last + kind.every <= now
        if kind.is_wanted(tx) if is_due else kind.is_soon(tx, caller):
            wanted.append(name)
        elif is_due:
            declined[caller.tenant, name] = now
    return wanted
