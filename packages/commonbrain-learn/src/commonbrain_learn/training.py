"""The jobs that train a reranker and a salience model, and store their model cards.

A retry repeats the work as of the time of the request: the same recalls give the same artifact,
which is stored under its digest; the transaction that ends the job stores the card.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from statistics import quantiles
from typing import TYPE_CHECKING, Final, cast

from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError, StoreCorruptError
from commonbrain.model.limits import (
    AUTHORS_MAX,
    LEARNING_PAGE,
    LEDGER_PAGE,
    LESSON_GROUPS_MIN,
    LESSONS_MAX,
    LESSONS_MIN,
    LOOKBACK_DAYS_DEFAULT,
    SAMPLES_MAX,
    SCORING_MS_MAX,
    SETTLED_MIN,
    USEFUL_MIN,
)
from commonbrain.model.memory import Memory, State, is_erased
from commonbrain.model.model_card import ModelCard, ModelRole, ModelState
from commonbrain.model.query import FeedbackMark
from commonbrain.retrieval.score import NORMALIZED_WEIGHTS
from commonbrain.storage.interface import EntryFilter
from commonbrain.storage.job_queue import JobContext
from commonbrain_learn.boosting import (
    QualityMargin,
    compare_orders,
    fit_reranker,
    load_reranker,
)
from commonbrain_learn.outcomes import Split, TrainingExample, splits, training_example_of
from commonbrain_learn.salience_model import fit_salience
from commonbrain_learn.usefulness import (
    FEATURES,
    KINDS_SCORED,
    SETTLED_AFTER,
    Authors,
    SampleSplit,
    SettledMemory,
    sample,
    split_samples,
    use_of,
)

if TYPE_CHECKING:
    from commonbrain.embeddings.interface import Matrix
    from commonbrain_learn.serving import Reranker


DECISIVE: Final = "nDCG@10"
"""The metric that decides whether a model is better."""
_SEED: Final = 0
"""The same recalls give the same model."""
_READ: Final = 0.3
"""Approximate share of the time spent reading."""
_FOLD_SESSIONS_MIN: Final = 5
"""Sessions required for training."""
_TIMED: Final = 60
"""Timed scoring runs, each with the maximum number of candidates of a recall."""
_CANDIDATES: Final = 80


@dataclass(frozen=True, slots=True, kw_only=True)
class _HoldoutEvaluation:
    """Evaluation of a model on held-out examples."""

    margins: Mapping[str, QualityMargin]
    scoring_ms: Mapping[str, float]

    @property
    def outcome(self) -> str:
        """The verdict: offered if better beyond noise and fast enough."""
        if self.margins[DECISIVE].low <= 0:
            return "not_better"
        return "too_slow" if self.scoring_ms["p50"] > SCORING_MS_MAX else "better"


def train_reranker(task: JobContext) -> None:
    """Train on past feedback, evaluate on later feedback, and store the card."""
    since = task.job.created_at - timedelta(days=_given(task, "lookback_days"))
    lessons = _read(task, since=since)
    parts = splits(lessons)
    shortfall = _shortfall(lessons, parts, least=_given(task, "min_marked"))
    if shortfall:
        with task.step() as tx:
            task.finish(tx, {"outcome": "too_little_data", **shortfall})
        return
    parent = _active(task)
    margins = _judged(task, parts=_unseen(parts, parent), parent=parent)
    task.pause()
    # The model to serve is trained on all examples, by the procedure that was evaluated.
    fitted = fit_reranker(lessons, base=NORMALIZED_WEIGHTS, seed=_SEED, tenant=task.caller.tenant)
    model = load_reranker(fitted.artifact)
    trial = _HoldoutEvaluation(margins=margins, scoring_ms=_timed(task, model, held=lessons))
    description = {
        "outcome": trial.outcome,
        "window": {"since": since.isoformat(), "until": task.job.created_at.isoformat()},
        "recalls": len(lessons),
        "sessions": _sessions(lessons),
        "judged": [_split_summary(one) for one in parts],
        "metrics": {name: asdict(margin) for name, margin in margins.items()},
        "scoring_ms": trial.scoring_ms,
        "bytes": len(fitted.artifact),
        **fitted.told,
    }
    digest = task.services.blobs().put(fitted.artifact)
    card = _card(
        task, digest=digest, features=model.features, parent=parent, description=description
    )
    with task.step() as tx:
        tx.models.add(card)
        task.finish(tx, _result(card, trial, recalls=len(lessons)))


def _result(card: ModelCard, trial: _HoldoutEvaluation, *, recalls: int) -> Mapping[str, object]:
    margin = trial.margins[DECISIVE]
    return {
        "outcome": trial.outcome,
        "model": ids.show(ids.MODEL, card.id),
        "recalls": recalls,
        DECISIVE: f"{margin.before:.3f} to {margin.after:.3f}",
        "gain": f"{margin.low:+.3f} to {margin.high:+.3f}",
    }


_DEFAULTS: Final = {"lookback_days": LOOKBACK_DAYS_DEFAULT, "min_marked": LESSONS_MIN}


def _given(task: JobContext, name: str) -> int:
    return cast("int", task.job.given.get(name, _DEFAULTS[name]))


def _read(task: JobContext, *, since: datetime) -> Sequence[TrainingExample]:
    """Read recalls page by page; keep the latest examples if there are too many."""
    lessons: deque[TrainingExample] = deque(maxlen=LESSONS_MAX)
    criteria = EntryFilter(since=since, until=task.job.created_at, is_marked=True)
    after, is_more, read = 0, True, 0
    while is_more:
        with task.step() as tx:
            page = tx.recall_log.entries(criteria, after=after, limit=LEDGER_PAGE)
            lessons.extend(one for one in map(training_example_of, page) if one is not None)
            is_more, read = len(page) == LEDGER_PAGE, read + len(page)
            after = page[-1].id if page else after
            # The number is known only after reading.
            task.save_progress(tx, _READ, reached={"read": read})
    return lessons


def _sessions(lessons: Sequence[TrainingExample]) -> int:
    return len({lesson.group for lesson in lessons})


def _shortfall(
    lessons: Sequence[TrainingExample], parts: Sequence[Split], *, least: int
) -> Mapping[str, object]:
    """Return what is missing for training, or an empty text."""
    sessions = _sessions(lessons)
    is_parted = all(_sessions(one.learnt) >= _FOLD_SESSIONS_MIN and one.held for one in parts)
    is_enough = len(lessons) >= least and sessions >= LESSON_GROUPS_MIN
    if is_enough and is_parted:
        return {}
    why = (
        f"needs {_FOLD_SESSIONS_MIN} sessions that end before each time judged, recalls after each"
        if is_enough
        else f"has {len(lessons)} of {least} recalls to learn from, in {sessions} of "
        f"{LESSON_GROUPS_MIN} sessions"
    )
    return {
        "why": why,
        "recalls": len(lessons),
        "recalls_needed": least,
        "sessions": sessions,
        "sessions_needed": LESSON_GROUPS_MIN,
    }


def _active(task: JobContext) -> ModelCard | None:
    with task.services.store.snapshot(task.caller.tenant) as tx:
        serving = tx.models.serving(ModelRole.RERANKER)
    return next((card for card in serving if card.state is ModelState.ACTIVE), None)


def _loaded(task: JobContext, card: ModelCard | None) -> Reranker | None:
    """Load the serving model; if that fails, compare with fixed weights instead."""
    if card is None:
        return None
    try:
        return load_reranker(task.services.blobs().get(card.digest))
    except (StoreCorruptError, NotFoundError):
        return None


def _unseen(parts: Sequence[Split], parent: ModelCard | None) -> Sequence[Split]:
    """Hold out only examples that the serving model was not trained on either."""
    if parent is None:
        return parts
    return [
        replace(part, held=tuple(one for one in part.held if one.asked_at >= parent.made_at))
        for part in parts
    ]


def _judged(
    task: JobContext, *, parts: Sequence[Split], parent: ModelCard | None
) -> Mapping[str, QualityMargin]:
    """Train as of several times and evaluate each on the following examples."""
    before = _loaded(task, parent)
    held: list[TrainingExample] = []
    scores: list[Matrix] = []
    for part in parts:
        task.pause()
        if not part.held:
            continue
        made = fit_reranker(
            part.learnt, base=NORMALIZED_WEIGHTS, seed=_SEED, tenant=task.caller.tenant
        )
        model = load_reranker(made.artifact)
        held += part.held
        scores += [_scored(model, lesson) for lesson in part.held]
    known = [_scored(before, lesson) for lesson in held]
    return compare_orders(held, before=known, after=scores, seed=_SEED)


def _scored(model: Reranker | None, lesson: TrainingExample) -> Matrix:
    """Score the results of a recall by a model or by fixed weights."""
    if model is not None:
        return model.scores(_rows([lesson], model.features))
    return _rows([lesson], tuple(NORMALIZED_WEIGHTS)) @ _array(list(NORMALIZED_WEIGHTS.values()))


def _rows(lessons: Sequence[TrainingExample], features: Sequence[str]) -> Matrix:
    shown = (one for lesson in lessons for one in lesson.shown)
    return _array([[one.features.get(name, 0.0) for name in features] for one in shown])


def _array(numbers: Sequence[float] | Sequence[Sequence[float]]) -> Matrix:
    # Only a worker that trains imports numpy.
    import numpy as np  # noqa: PLC0415

    return np.array(numbers, dtype=np.float32)


def _timed(
    task: JobContext, model: Reranker, *, held: Sequence[TrainingExample]
) -> Mapping[str, float]:
    """Measure the time to score the maximum number of candidates."""
    rows = _rows(held, model.features)[:_CANDIDATES]
    clock, taken_ms = task.services.clock, list[float]()
    for _ in range(_TIMED):
        before_ms = clock.elapsed_ms()
        model.scores(rows)
        taken_ms.append(clock.elapsed_ms() - before_ms)
    cuts = quantiles(taken_ms, n=20)
    return {"p50": round(cuts[9], 3), "p95": round(cuts[18], 3), "candidates": len(rows)}


def _split_summary(parts: Split) -> Mapping[str, object]:
    return {
        "since": parts.since.isoformat(),
        "learnt": len(parts.learnt),
        "learnt_sessions": _sessions(parts.learnt),
        "held": len(parts.held),
        "held_sessions": _sessions(parts.held),
    }


def _card(
    task: JobContext,
    *,
    digest: str,
    features: tuple[str, ...],
    parent: ModelCard | None,
    description: Mapping[str, object],
) -> ModelCard:
    """Create the card; a model that is not better is stored but not offered."""
    services, is_better = task.services, description["outcome"] == "better"
    now = services.clock.now()
    return ModelCard(
        id=ids.make_id(now, services.random_source.bits(ids.RANDOM_BITS)),
        role=ModelRole.RERANKER,
        state=ModelState.CANDIDATE if is_better else ModelState.RETIRED,
        digest=digest,
        features=features,
        told=description,
        parent=parent.id if parent else None,
        made_at=now,
        moved_at=now,
        reason=None if is_better else str(description["outcome"]),
    )


_SALIENCE_SEED: Final = 0
"""The same store gives the same model."""
_SALIENCE_READ: Final = 0.8
"""Approximate share of the time spent reading."""
_HELD_OUT_MIN: Final = 5
"""Useful and useless memories required for evaluation, each."""
_UNREVIEWED_STATES: Final = frozenset({State.QUARANTINED, State.CANDIDATE})
"""Memories in these states were never recalled."""

_Marks = Mapping[int, Sequence[tuple[datetime, FeedbackMark]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrainingData:
    """Training data of a store."""

    samples: Sequence[SettledMemory]
    authors: Mapping[str, float]
    since: datetime
    until: datetime


def train_salience(task: JobContext) -> None:
    """Train on the past use of memories, compare with the fixed rule, and store the card."""
    days = cast("int", task.job.given.get("lookback_days", LOOKBACK_DAYS_DEFAULT))
    read = _read_salience(task, since=task.job.created_at - timedelta(days=days))
    useful = sum(one.is_useful for one in read.samples)
    counts = {"settled": len(read.samples), "useful": useful}
    parts = split_samples(read.samples)
    if not _is_enough(read.samples, parts):
        needed = {"settled_needed": SETTLED_MIN, "useful_needed": USEFUL_MIN}
        why = _salience_shortfall(len(read.samples), useful=useful)
        with task.step() as tx:
            task.finish(tx, {"outcome": "too_little_data", "why": why, **counts, **needed})
        return
    task.pause()
    fitted = fit_salience(
        parts, authors=read.authors, seed=_SALIENCE_SEED, tenant=task.caller.tenant
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
    card = _salience_card(
        task, digest=task.services.blobs().put(fitted.artifact), description=description
    )
    auc = cast("Mapping[str, Mapping[str, float]]", fitted.told["metrics"])["auc"]
    with task.step() as tx:
        tx.models.add(card)
        result = {
            "outcome": outcome,
            "model": ids.show(ids.MODEL, card.id),
            **counts,
            "auc": f"{auc['rule']:.3f} to {auc['learnt']:.3f}",
            "gain": f"{auc['low']:+.3f} to {auc['high']:+.3f}",
        }
        task.finish(tx, result)


def _salience_shortfall(settled: int, *, useful: int) -> str:
    """Describe what is missing for training."""
    others = settled - useful
    return (
        f"has {settled} memories a month old, {useful} of use and {others} not, needs {SETTLED_MIN}"
        f" with {USEFUL_MIN} of either, {USEFUL_MIN // 2} of either early and {_HELD_OUT_MIN} late"
    )


def _is_enough(samples: Sequence[SettledMemory], parts: SampleSplit) -> bool:
    """Whether both parts hold enough useful and useless memories."""
    enough = [(samples, USEFUL_MIN), (parts.learnt, USEFUL_MIN // 2), (parts.held, _HELD_OUT_MIN)]
    return len(samples) >= SETTLED_MIN and all(
        least <= sum(one.is_useful for one in some) <= len(some) - least for some, least in enough
    )


def _read_salience(task: JobContext, *, since: datetime) -> _TrainingData:
    """Read settled memories since a time, with their use."""
    until = task.job.created_at - SETTLED_AFTER
    marks = _marks(task, since=since)
    authors = Authors()
    samples: deque[SettledMemory] = deque(maxlen=SAMPLES_MAX)
    for memory in _memories(task, since=since, until=until):
        use = use_of(memory, marks.get(memory.id, ()))
        samples.append(sample(memory, authors, use=use))
    shares = authors.shares(at=task.job.created_at, most=AUTHORS_MAX)
    return _TrainingData(samples=samples, authors=shares, since=since, until=until)


def _marks(task: JobContext, *, since: datetime) -> _Marks:
    """Return feedback by memory, with the time of each recall."""
    by_memory: defaultdict[int, list[tuple[datetime, FeedbackMark]]] = defaultdict(list)
    criteria = EntryFilter(since=since, until=task.job.created_at, is_marked=True)
    after, is_more = 0, True
    while is_more:
        task.pause()
        with task.services.store.snapshot(task.caller.tenant) as tx:
            page = tx.recall_log.entries(criteria, after=after, limit=LEARNING_PAGE)
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
            task.save_progress(tx, _SALIENCE_READ, reached={"read": read})
        yield from (
            one
            for one in map(memories.__getitem__, page)
            if one.kind in KINDS_SCORED
            and one.state not in _UNREVIEWED_STATES
            and not is_erased(one)
        )


def _salience_card(
    task: JobContext, *, digest: str, description: Mapping[str, object]
) -> ModelCard:
    """Create the card; a model that is not better is stored but not offered."""
    services, is_better = task.services, description["outcome"] == "better"
    with services.store.snapshot(task.caller.tenant) as tx:
        serving = tx.models.serving(ModelRole.SALIENCE)
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
