"""The job that drops artifacts: it is there before they are, or with what says they are over."""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime

from commonbrain.domain.job import JobState
from commonbrain.domain.limits import DISCARDS_AT_ONCE
from commonbrain.domain.scope import Caller
from commonbrain.flows.exporting import read_parcel
from commonbrain.flows.house import House
from commonbrain.flows.jobbing import DISCARD, add_job
from commonbrain.flows.upkeep.task import Task
from commonbrain.ports.jobs import JobFilter
from commonbrain.ports.staging import Parcel
from commonbrain.ports.store import Transaction


def discard_later(
    tx: Transaction, house: House, *, caller: Caller, parcel: Parcel, due_at: datetime
) -> None:
    """See to it that a parcel does not stay for ever, whatever becomes of it."""
    given = {"parcel": asdict(parcel)}
    add_job(tx, house, caller=caller, kind=DISCARD, given=given, due_at=due_at)


def discard(task: Task) -> None:
    """Drop a parcel part by part; there may be nothing left of it."""
    parcel = read_parcel(task.job.given["parcel"])
    for done, part in enumerate(parcel.parts, 1):
        task.pause()
        with task.house.store.snapshot(task.caller.tenant) as tx:
            # Who learns from what was learnt from before may have made the same model again.
            is_held = tx.registry.is_held(part)
        if not is_held:
            task.house.staging.drop(replace(parcel, parts=(part,)))
        with task.step() as tx:
            task.reach(tx, done / len(parcel.parts), reached={})
    with task.step() as tx:
        task.finish(tx, {"bytes": parcel.size})


def discard_again(tx: Transaction, house: House) -> int:
    """Give those that were given up their attempts again, a page of them; count them."""
    given_up = JobFilter(state=JobState.DEAD, kind=DISCARD)
    dead = tx.jobs.listed(given_up, before=None, limit=DISCARDS_AT_ONCE)
    for job in dead:
        now = house.clock.now()
        add_job(tx, house, caller=job.caller, kind=DISCARD, given=job.given, due_at=now)
    return len(dead)
