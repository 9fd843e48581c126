"""The job `reflect`: one episode per step, each stored with the progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, cast

from commonbrain.consolidation.episodes import CLUSTER_MIN, RAW_KINDS, EventPage
from commonbrain.consolidation.reflection import (
    AlreadySummarizedError,
    Reflect,
    ReflectOptions,
    TokenBudget,
)
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.model import ids, limits
from commonbrain.model.jobs import JobState
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import Memory, State
from commonbrain.model.query import Filter
from commonbrain.model.scope import Caller
from commonbrain.storage.interface import JobFilter, QueryScope
from commonbrain.storage.job_queue import REFLECT, JobContext, key_of
from commonbrain.text.summaries import TokenCost

if TYPE_CHECKING:
    from commonbrain.storage.store import Transaction

_COUNTED = ("read", "episodes", "candidates", "known", "rejected", "fallbacks")
_SPENT = ("calls", "tokens_in", "tokens_out")
_TRIES = 3
"""Attempts to summarize a group again after others summarized a part of it."""
_STORED = frozenset({ItemStatus.STORED, ItemStatus.QUARANTINED})


def reflect(task: JobContext) -> None:
    """Summarize events as episodes, and propose facts and rules."""
    options = ReflectOptions.of(task.job.given)
    flow = Reflect(task.services, task.caller)
    if "until" not in task.job.reached:
        with task.step() as tx:
            since, until = _span(tx, task, options=options)
            none = dict.fromkeys((*_COUNTED, *_SPENT), 0)
            task.save_progress(
                tx, 0.0, reached={**none, "since": since, "after": since, "until": until}
            )
    for _ in range(limits.REFLECT_MEMORIES_MAX // limits.REFLECT_PAGE):
        task.pause()
        page = flow.page(options, after=_count(task, "after"), until=_count(task, "until"))
        _store_clusters(task, flow, options=options, page=page)
        with task.step() as tx:
            last = _count(task, "until") if page.last is None else page.last
            read = _count(task, "read") + page.read
            task.save_progress(tx, _share(task, last), reached=_with(task, after=last, read=read))
        if page.last is None:
            break
    _propose(task, flow, options=options)


def has_work(tx: Transaction) -> bool:
    """Return whether there is anything to summarize."""
    raw = sum(tx.memories.counts().get((kind, State.ACTIVE), 0) for kind in RAW_KINDS)
    return raw >= CLUSTER_MIN


def is_due_early(tx: Transaction, caller: Caller) -> bool:
    """Return whether enough has happened to run before the daily schedule."""
    last = tx.jobs.newest(REFLECT, key=key_of(REFLECT, {}))
    if last is None:
        return False
    since = last + timedelta(milliseconds=1)
    happened = Filter(kinds=RAW_KINDS, since=since, trust_min=0.0)
    query_scope = QueryScope(caller=caller, filter=happened, now=since)
    return len(tx.memories.newest(query_scope, limit=limits.REFLECT_SOON)) >= limits.REFLECT_SOON


def _span(tx: Transaction, task: JobContext, *, options: ReflectOptions) -> tuple[int, int]:
    """Return the range of ids: the window, and what the last run left before it.

    Ids follow the time of recording, so late reports are included.
    """
    now = task.services.clock.now()
    window = ids.make_id(now - timedelta(hours=options.window_hours), 0) - 1
    before = JobFilter(kind=REFLECT, state=JobState.DONE, agent=task.caller.agent)
    last = tx.jobs.listed(before, before=None, limit=limits.JOBS_PAGE_DEFAULT)
    # A run for one project left the others unread.
    whole = [one for one in last if "project" not in one.given][:1]
    ended = [cast("int", one.reached.get("after", window)) for one in whole]
    until = ids.make_id(now + timedelta(milliseconds=1), 0) - 1
    return min([window, *ended]), until


def _store_clusters(
    task: JobContext, flow: Reflect, *, options: ReflectOptions, page: EventPage
) -> None:
    """Store an episode for each group of a page, each in its own step."""
    budget = TokenBudget(
        tokens_max=task.services.reflector_tokens,
        spent=TokenCost(**{name: _count(task, name) for name in _SPENT}),
        fallbacks=_count(task, "fallbacks"),
    )
    for cluster in page.clusters:
        for _ in range(_TRIES):
            task.pause()
            # Another agent's reflection may be working on the same memories.
            left = flow.unsummarized(cluster)
            if len(left) < CLUSTER_MIN or _store_cluster(
                task, flow, options=options, of=left, budget=budget
            ):
                break


def _store_cluster(
    task: JobContext,
    flow: Reflect,
    *,
    options: ReflectOptions,
    of: tuple[Memory, ...],
    budget: TokenBudget,
) -> bool:
    """Store an episode; return False if another has summarized one of the memories."""
    left = options.max_candidates - _count(task, "candidates")
    made = flow.make(of, budget=budget, claims_max=max(left, 0))
    if made is None:
        return True

    def count(tx: Transaction, outcomes: Sequence[ItemResult]) -> None:
        """Count in the transaction that stores, so that a crash counts no episode twice."""
        counts = _counts(task, outcomes)
        more = {**counts, "fallbacks": budget.fallbacks, **asdict(budget.spent)}
        task.save_progress(tx, task.job.progress, reached=_with(task, **more))

    try:
        with task.fenced():
            flow.store_episode(made, of=of, on_commit=count)
    except AlreadySummarizedError:
        return False
    return True


def _propose(task: JobContext, flow: Reflect, *, options: ReflectOptions) -> None:
    """Propose rules from repeated corrections, and finish."""
    left = options.max_candidates - _count(task, "candidates")
    proposed = flow.corrections(options)[: max(left, 0)]

    def end(tx: Transaction, outcomes: Sequence[ItemResult]) -> None:
        reached = _with(task, **_counts(task, outcomes))
        hidden = {"since", "after", "until"}
        counts = {name: value for name, value in reached.items() if name not in hidden}
        task.finish(tx, {"reflector": task.services.reflector.name, **counts})

    with task.fenced():
        flow.write(proposed, on_commit=end)


def _counts(task: JobContext, outcomes: Sequence[ItemResult]) -> dict[str, int]:
    counts = {name: _count(task, name) for name in ("episodes", "candidates", "known", "rejected")}
    for one in outcomes:
        if one.status in _STORED:
            counts["episodes" if one.kind is Kind.EPISODE else "candidates"] += 1
        else:
            is_known = one.status in {ItemStatus.EXISTS, ItemStatus.DUPLICATE}
            counts["known" if is_known else "rejected"] += 1
    return counts


def _share(task: JobContext, last: int) -> float:
    since, until = _count(task, "since"), _count(task, "until")
    return (last - since) / max(until - since, 1)


def _with(task: JobContext, **more: int) -> dict[str, object]:
    return {**task.job.reached, **more}


def _count(task: JobContext, name: str) -> int:
    """Return a counter of the progress."""
    return cast("int", task.job.reached.get(name, 0))
