"""What jobs do: each goes on where it was, and done twice leaves what once leaves."""

from collections.abc import Mapping
from typing import Any, cast

from commonbrain.flows.atomizing import Atomize
from commonbrain.flows.embedding import Embedded, EmbedPending
from commonbrain.flows.upkeep.task import Task
from commonbrain.ports.store import Transaction


def embed(task: Task) -> None:
    """Give vectors to what was stored while the embedder was down, batch by batch."""
    made = _count(task, "embedded")

    def tell(tx: Transaction, done: Embedded) -> None:
        """Count in the very transaction that keeps the vectors: no death counts them twice."""
        nonlocal made
        made += done.count
        counts = {"embedded": made}
        if done.left and done.count:
            task.reach(tx, made / (made + done.left), reached=counts)
        else:
            # What is stored from here on without a vector asks for a job of its own.
            task.finish(tx, counts)

    pending = EmbedPending(task.house, task.caller)
    while task.is_live:
        with task.kept():
            pending(beside=tell)


def atomize(task: Task) -> None:
    """Find in memories what caused what, page by page from the newest."""
    given, house = task.job.given, task.house
    counts = {name: _count(task, name) for name in ("read", "atoms", "rejected")}
    before = cast("str | None", task.job.reached.get("before"))
    find = Atomize(house, task.caller)
    with house.store.snapshot(task.caller.tenant) as tx:
        total = sum(tx.memories.counts().values())
    while task.is_live:
        task.pause()
        page = find(**_wanted(given), before=before)
        counts["read"] += page.read
        # One that is found again was stored by an attempt that did not come to tell of it.
        counts["atoms"] += page.stored + page.known
        counts["rejected"] += page.rejected
        before = page.next
        with task.step() as tx:
            if before is None:
                task.finish(tx, counts)
            else:
                share = counts["read"] / max(total, counts["read"], 1)
                task.reach(tx, share, reached={**counts, "before": before})


def reword(task: Task) -> None:
    """Write the full text of the store anew from its rows."""

    def tell(progress: float) -> None:
        with task.step() as tx:
            task.reach(tx, progress, reached={})

    words = task.house.store.rebuild_text(tell)
    with task.step() as tx:
        task.finish(tx, {"reworded": words})


def _count(task: Task, name: str) -> int:
    """Give what was counted before this attempt."""
    return cast("int", task.job.reached.get(name, 0))


def _wanted(given: Mapping[str, object]) -> dict[str, Any]:
    """Give what atomize is asked with, as its table of fields has checked it."""
    return {name: given[name] for name in ("kinds", "project") if name in given}
