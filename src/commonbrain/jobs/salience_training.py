"""The job that trains a salience model from the use of memories and stores its model card.

A retry repeats the work as of the time of the request: the same store gives the same artifact,
which is stored under its digest; the transaction that ends the job stores the card.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, cast

from commonbrain.learning.usefulness import (
    FEATURES,
    KINDS_SCORED,
    SETTLED_AFTER,
    Authors,
    Sample,
    SampleSplit,
    sample,
    split_samples,
    use_of,
)
from commonbrain.model import ids
from commonbrain.model.limits import (
    AUTHORS_MAX,
    LEARNING_PAGE,
    LOOKBACK_DAYS_DEFAULT,
    SAMPLES_MAX,
    SETTLED_MIN,
    USEFUL_MIN,
)
from commonbrain.model.memory import Memory, State, is_erased
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.query import FeedbackMark
from commonbrain.storage.job_queue import JobContext
from commonbrain.storage.records import EntryFilter

_SEED: Final = 0
"""The same store gives the same model."""
_READ: Final = 0.8
"""Approximate share of the time spent reading."""
_HELD_OUT_MIN: Final = 5
"""Useful and useless memories required for evaluation, each."""
_UNREVIEWED_STATES: Final = frozenset({State.QUARANTINED, State.CANDIDATE})
"""Memories in these states were never recalled."""

_Marks = Mapping[int, Sequence[tuple[datetime, FeedbackMark]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """Training data of a store."""

    samples: Sequence[Sample]
    authors: Mapping[str, float]
    since: datetime
    until: datetime


def train_salience(task: JobContext) -> None:
    """Train on the past use of memories, compare with the fixed rule, and store the card."""
    days = cast("int", task.job.given.get("lookback_days", LOOKBACK_DAYS_DEFAULT))
    read = _read(task, since=task.job.created_at - timedelta(days=days))
    useful = sum(one.is_useful for one in read.samples)
    counts = {"settled": len(read.samples), "useful": useful}
    parts = split_samples(read.samples)
    if not _is_enough(read.samples, parts):
        needed = {"settled_needed": SETTLED_MIN, "useful_needed": USEFUL_MIN}
        why = _shortfall(len(read.samples), useful=useful)
        with task.step() as tx:
            task.finish(tx, {"outcome": "too_little_data", "why": why, **counts, **needed})
        return
    task.pause()
    fitted = task.services.salience_trainer().fit(
        parts, authors=read.authors, seed=_SEED, tenant=task.caller.tenant
    )
    outcome = "better" if fitted.is_better else "not_better"
    description = {
        "outcome": outcome,
        "window": {"since": read.since.isoformat(), "until": read.until.isoformat()},
        **counts,
        "split": {"learnt": len(parts.learnt), "held": len(parts.held)},
        "bytes": len(fitted.artifact),
        **fitted.told,
    }
    card = _card(task, digest=task.services.blobs().put(fitted.artifact), description=description)
    auc = cast("Mapping[str, Mapping[str, float]]", fitted.told["metrics"])["auc"]
    with task.step() as tx:
        tx.registry.add(card)
        result = {
            "outcome": outcome,
            "model": ids.show(ids.MODEL, card.id),
            **counts,
            "auc": f"{auc['rule']:.3f} to {auc['learnt']:.3f}",
            "gain": f"{auc['low']:+.3f} to {auc['high']:+.3f}",
        }
        task.finish(tx, result)


def _shortfall(settled: int, *, useful: int) -> str:
    """Describe what is missing for training."""
    others = settled - useful
    return (
        f"has {settled} memories a month old, {useful} of use and {others} not, needs {SETTLED_MIN}"
        f" with {USEFUL_MIN} of either, {USEFUL_MIN // 2} of either early and {_HELD_OUT_MIN} late"
    )


def _is_enough(samples: Sequence[Sample], parts: SampleSplit) -> bool:
    """Whether both parts hold enough useful and useless memories."""
    enough = [(samples, USEFUL_MIN), (parts.learnt, USEFUL_MIN // 2), (parts.held, _HELD_OUT_MIN)]
    return len(samples) >= SETTLED_MIN and all(
        least <= sum(one.is_useful for one in some) <= len(some) - least for some, least in enough
    )


def _read(task: JobContext, *, since: datetime) -> _Read:
    """Read settled memories since a time, with their use."""
    until = task.job.created_at - SETTLED_AFTER
    marks = _marks(task, since=since)
    authors = Authors()
    samples: deque[Sample] = deque(maxlen=SAMPLES_MAX)
    for memory in _memories(task, since=since, until=until):
        use = use_of(memory, marks.get(memory.id, ()))
        samples.append(sample(memory, authors, use=use))
    shares = authors.shares(at=task.job.created_at, most=AUTHORS_MAX)
    return _Read(samples=samples, authors=shares, since=since, until=until)


def _marks(task: JobContext, *, since: datetime) -> _Marks:
    """Return feedback by memory, with the time of each recall."""
    by_memory: defaultdict[int, list[tuple[datetime, FeedbackMark]]] = defaultdict(list)
    criteria = EntryFilter(since=since, until=task.job.created_at, is_marked=True)
    after, is_more = 0, True
    while is_more:
        task.pause()
        with task.services.store.snapshot(task.caller.tenant) as tx:
            page = tx.ledger.entries(criteria, after=after, limit=LEARNING_PAGE)
        for entry in page:
            for memory, marks in entry.marks.items():
                by_memory[memory] += [(entry.asked_at, mark) for mark in sorted(marks)]
        after, is_more = page[-1].id if page else after, len(page) == LEARNING_PAGE
    return by_memory


def _memories(task: JobContext, *, since: datetime, until: datetime) -> Iterator[Memory]:
    """Yield memories in order of creation, page by page."""
    after, last = ids.make_id(since, 0) - 1, ids.make_id(until, 0)
    read, is_more = 0, True
    while is_more:
        with task.step() as tx:
            page = [one for one in tx.memories.page(after=after, limit=LEARNING_PAGE) if one < last]
            memories = tx.memories.get(page)
            is_more, read = len(page) == LEARNING_PAGE, read + len(page)
            after = page[-1] if page else after
            # The number is known only after reading.
            task.save_progress(tx, _READ, reached={"read": read})
        yield from (
            one
            for one in map(memories.__getitem__, page)
            if one.kind in KINDS_SCORED
            and one.state not in _UNREVIEWED_STATES
            and not is_erased(one)
        )


def _card(task: JobContext, *, digest: str, description: Mapping[str, object]) -> ModelCard:
    """Create the card; a model that is not better is stored but not offered."""
    services, is_better = task.services, description["outcome"] == "better"
    with services.store.snapshot(task.caller.tenant) as tx:
        serving = tx.registry.serving(ModelRole.SALIENCE)
    parent = next((one.id for one in serving if one.state is ModelState.ACTIVE), None)
    now = services.clock.now()
    return ModelCard(
        id=ids.make_id(now, services.random_source.bits(ids.RANDOM_BITS)),
        role=ModelRole.SALIENCE,
        state=ModelState.CANDIDATE if is_better else ModelState.RETIRED,
        digest=digest,
        features=FEATURES,
        told=description,
        parent=parent,
        made_at=now,
        moved_at=now,
        reason=None if is_better else str(description["outcome"]),
    )
