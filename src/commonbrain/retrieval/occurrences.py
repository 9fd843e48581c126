"""Occurrences: the times at which the same thing happened.

An event that is remembered again in the same words is one memory, which counts its recurrences. A
timeline shows each of them, and a question about a time finds the event by any of its times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from commonbrain.model.kinds import KINDS, EventDetail
from commonbrain.model.recall_result import Order
from commonbrain.model.revision import Action, BeliefPeriod
from commonbrain.model.timestamps import from_millis

if TYPE_CHECKING:
    from datetime import datetime

    from commonbrain.model.memory import Memory
    from commonbrain.retrieval.plan import QueryPlan
    from commonbrain.storage.store import Transaction

Times = Mapping[int, Sequence["datetime"]]
"""All times of events that came again in the same words, by memory id, earliest first."""


def time_of_occurrence(memory: Memory, *, order: Order) -> datetime | None:
    """Return the time that distinguishes a memory from others of the same words, if any does.

    Only a timeline tells them apart, and only what happened or was said.
    """
    is_dated = order is Order.TIMELINE and KINDS[memory.kind].reports_events
    return memory.occurred_at if is_dated else None


def mentioned_times(
    memories: Iterable[Memory], *, period: BeliefPeriod, coming: BeliefPeriod | None
) -> Mapping[int, datetime]:
    """Map memories that occurred at another time to a date that they mention of a period.

    A date of the next such period ("on Friday", "in March") counts as the first of this one.
    """
    times: dict[int, datetime] = {}
    for one in memories:
        if not period.holds(one.occurred_at):
            spans = [
                BeliefPeriod(since=from_millis(since), until=from_millis(until))
                for since, until in one.reading.times
            ]
            if inside := [span.since for span in spans if _is_within(span, period)]:
                times[one.id] = max(inside[0], period.since)
            elif coming and any(_is_within(span, coming) for span in spans):
                times[one.id] = period.since
    return times


def _is_within(span: BeliefPeriod, period: BeliefPeriod) -> bool:
    return period.since <= span.since and span.until <= period.until


def times_of(tx: Transaction, memories: Iterable[Memory], *, until: datetime) -> Times:
    """Read when events came again in the same words.

    Recurrences that were undone, or stored as memories of their own, do not count.
    """
    counts = {
        one.id: (one, one.detail.recurrences)
        for one in memories
        if isinstance(one.detail, EventDetail) and one.detail.recurrences
    }
    nth: defaultdict[int, dict[int, datetime | None]] = defaultdict(dict)
    for change in tx.changes.of(list(counts)):
        detail = change.after.get("detail")
        if change.action is Action.RECUR and isinstance(detail, EventDetail):
            # After an undo, the next recurrence takes the number.
            nth[change.memory_id][detail.recurrences] = None if change.reason else change.at
    return {
        id_: (
            one.occurred_at,
            *(
                at
                for number, at in sorted(nth[id_].items())
                if number <= count and at is not None and at <= until
            ),
        )
        for id_, (one, count) in counts.items()
    }


def at_each_time(memories: Iterable[Memory], times: Times) -> list[Memory]:
    """Repeat each memory for all of its times, earliest first."""
    return [
        replace(one, occurred_at=at)
        for one in memories
        for at in times.get(one.id, (one.occurred_at,))
    ]


def at_latest(plan: QueryPlan, memory: Memory, *, times: Times) -> Memory:
    """Date a memory by its latest time in the asked period; others are as they were."""
    for scope in (plan.time_scoped, plan.query_scope):
        if scope is None or not scope.filter.has_period:
            continue
        since, until = scope.filter.since, scope.filter.until
        inside = [
            at
            for at in times.get(memory.id, ())
            if (since is None or at >= since) and (until is None or at <= until)
        ]
        if inside:
            return replace(memory, occurred_at=inside[-1])
    return memory
