"""Filling another vector space as a job: tenant by tenant, from where it was."""

from typing import cast

from commonbrain.flows.spaces.beside import house_beside
from commonbrain.flows.spaces.building import Place, fill, places
from commonbrain.flows.upkeep.task import Task


def respace(task: Task) -> None:
    """Give every memory vectors in another space, beside those it has; people switch.

    A memory that has them is passed over, so that a batch that nobody came to tell of is not lost.
    """
    other = house_beside(task.house, cast("str | None", task.job.given.get("space")))
    spaces, space_id = other.store.spaces, other.store.spaces.add(other.store.space).id
    total = max(sum(spaces.lacking(space_id).values()), 1)
    made = 0
    reached = _reached(task)
    for start in places(other, since=reached.tenant):
        place = reached if start.tenant == reached.tenant else start
        while place is not None:
            task.pause()
            done = fill(other, place)
            made, place = made + done.count, done.next
            at = place or start
            with task.step() as tx:
                where = {"tenant": at.tenant, "after": at.after, "passes": at.passes}
                task.reach(tx, min(made / total, 1.0), reached=where)
    left = sum(spaces.lacking(space_id).values())
    with task.step() as tx:
        task.finish(tx, {"space": other.store.space.name, "lacking": left})


def _reached(task: Task) -> Place:
    """Give where an earlier attempt was."""
    known = task.job.reached
    return Place(
        tenant=cast("str", known.get("tenant", "")),
        after=cast("int", known.get("after", 0)),
        passes=cast("int", known.get("passes", 0)),
    )
