"""Asking for jobs: a row beside what caused it, then a ticket to whoever works."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from commonbrain.domain import ids
from commonbrain.domain.errors import Unavailable
from commonbrain.domain.job import Job, JobState
from commonbrain.domain.scope import Caller
from commonbrain.flows.house import House
from commonbrain.ports.jobs import JobFilter
from commonbrain.ports.queue import Ticket
from commonbrain.ports.store import Transaction

EMBED: Final = "embed"
"""The kind of job that gives vectors to what was stored without."""
REFLECT: Final = "reflect"
"""The kind that makes episodes of what happened."""
EXPORT: Final = "export"
"""The kind that writes everything into an archive, which is kept for a day."""
DISCARD: Final = "discard"
"""The kind that drops what was sent or made."""
_EMBED_AFTER: Final = timedelta(seconds=30)
"""An embedder that has just failed is not asked again at once."""


def key_of(kind: str, given: Mapping[str, object]) -> str:
    """Give the key of a job: the same work, asked for twice, is one job while it is unfinished."""
    written = json.dumps(given, sort_keys=True, ensure_ascii=False, default=str)
    return f"{kind}:{sha256(written.encode()).hexdigest()}"


def add_job(
    tx: Transaction,
    house: House,
    *,
    caller: Caller,
    kind: str,
    given: Mapping[str, object],
    due_at: datetime,
) -> Job:
    """Put a job there within a transaction; give it, or the unfinished one that does the same.

    A dead letter that does the same gets its attempts again instead.
    """
    now, key = house.clock.now(), key_of(kind, given)
    known = tx.jobs.keyed(key) or _revived(tx, key, due_at=due_at)
    while known is None:
        drawn = ids.make_id(now, house.chance.bits(ids.RANDOM_BITS))
        made = Job(
            id=drawn, kind=kind, caller=caller, given=given, key=key,
            due_at=due_at, reached={}, created_at=now,
        )  # fmt: skip
        known = made if tx.jobs.add(made) else tx.jobs.keyed(key)
    return known


def _revived(tx: Transaction, key: str, *, due_at: datetime) -> Job | None:
    wanted = JobFilter(state=JobState.DEAD, key=key)
    for dead in tx.jobs.listed(wanted, before=None, limit=1):
        again = dead.retried(due_at)
        return again if tx.jobs.move(dead, again) else None
    return None


def await_vectors(tx: Transaction, house: House, *, caller: Caller) -> None:
    """Let somebody embed later what this transaction stores without vectors in the serving space.

    There is no ticket for it: nobody could do it right now, and the row will be found.
    """
    due_at = house.clock.now() + _EMBED_AFTER
    add_job(tx, house, caller=caller, kind=EMBED, given={}, due_at=due_at)


def announce(house: House, job: Job) -> None:
    """Tell a worker of a job that is committed; without a queue it is found a little later."""
    with suppress(Unavailable):
        house.queue.put(Ticket(tenant=job.caller.tenant, job=job.id))
