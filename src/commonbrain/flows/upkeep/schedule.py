"""What asks for itself: kinds of jobs that are done every so often for every tenant."""

from commonbrain.domain.scope import Caller
from commonbrain.flows.house import House
from commonbrain.flows.jobbing import add_job, key_of
from commonbrain.flows.upkeep.table import JOBS
from commonbrain.flows.upkeep.task import UPKEEP
from commonbrain.ports.store import Transaction


def schedule(house: House, tenant: str) -> int:
    """Ask for whatever is to be done again; count the jobs."""
    caller = Caller(tenant=tenant, agent=UPKEEP)
    with house.store.snapshot(tenant) as tx:
        wanted = _wanted(tx, house, caller=caller)
    if not wanted:
        return 0
    with house.store.begin(tenant) as tx:
        # Another worker may have been faster: what it asked for is found.
        due_at = house.clock.now()
        for kind in wanted:
            add_job(tx, house, caller=caller, kind=kind, given={}, due_at=due_at)
    return len(wanted)


def _wanted(tx: Transaction, house: House, *, caller: Caller) -> list[str]:
    now = house.clock.now()
    wanted: list[str] = []
    for name, kind in JOBS.items():
        if kind.every is not None:
            # What somebody asked for otherwise, for themselves or as a preview, is no day's work.
            last = tx.jobs.newest(name, key=key_of(name, {}))
            is_due = last is None or last + kind.every <= now
            if kind.is_wanted(tx) if is_due else kind.is_soon(tx, caller):
                wanted.append(name)
    return wanted
