"""Two orders of the same recalls held against each other, on what was shown and marked.

An order is judged by the memories that were shown alone, as condensed lists are (Sakai 2007,
SIGIR): what was never shown was never judged, and to take it for bad would favour the order that
left it out. Sessions are drawn, not recalls: those of one session are about one thing.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pytrec_eval

from commonbrain.adapters.extra import needed
from commonbrain.domain.lessons import GOOD_FROM, Lesson
from commonbrain.ports.learning import Margin
from commonbrain.ports.models import Matrix

_STATS: Final[Any] = needed("scipy.stats", extra="learn")
_METRICS: Final = {"nDCG@10": "ndcg_cut_10", "MRR": "recip_rank", "R@5": "recall_5"}
"""By the name that is told, trec_eval's; R@5 is the share of what was marked."""
_ASKED: Final = {"ndcg_cut.10", "recip_rank", "recall.5"}
_RESAMPLES: Final = 2000
"""Enough for the ends of a 95% interval to stand still in the second digit (Efron 1993)."""
_SESSIONS_MIN: Final = 2
"""One session has no spread: a difference of what is 0..1 may be anything from -1 to 1."""

_ByMetric = Mapping[str, float]


def judge(
    lessons: Sequence[Lesson],
    *,
    before: Sequence[Matrix],
    after: Sequence[Matrix],
    seed: int,
) -> Mapping[str, Margin]:
    """Give each metric before and after, with the interval of the difference over sessions."""
    first, second = (_measured(lessons, scores) for scores in (before, after))
    pairs = [
        (lesson.group, first[key], second[key])
        for lesson in lessons
        if (key := _key(lesson)) in first
    ]
    return {name: _margin(pairs, metric=key, seed=seed) for name, key in _METRICS.items()}


def _key(lesson: Lesson) -> str:
    return str(lesson.trace_id)


def _measured(lessons: Sequence[Lesson], scores: Sequence[Matrix]) -> Mapping[str, _ByMetric]:
    gold: dict[str, dict[str, int]] = {}
    ranked: dict[str, dict[str, float]] = {}
    for lesson, given in zip(lessons, scores, strict=True):
        if lesson.has_good:
            # trec_eval wants names, and grades above 0 for what is good.
            each = list(zip(lesson.shown, given.tolist(), strict=True))
            gold[_key(lesson)] = {
                str(one.memory_id): max(0, one.grade + 1 - GOOD_FROM) for one, _ in each
            }
            ranked[_key(lesson)] = {str(one.memory_id): score for one, score in each}
    judged: Mapping[str, _ByMetric] = pytrec_eval.RelevanceEvaluator(gold, _ASKED).evaluate(ranked)
    return judged


def _margin(pairs: Sequence[tuple[str, _ByMetric, _ByMetric]], *, metric: str, seed: int) -> Margin:
    if not pairs:
        return Margin(before=0.0, after=0.0, low=0.0, high=0.0)
    sums: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, int] = defaultdict(int)
    for group, first, second in pairs:
        sums[group] += second[metric] - first[metric]
        counts[group] += 1
    low, high = _interval(list(sums.values()), list(counts.values()), seed=seed)
    return Margin(
        before=round(float(np.mean([first[metric] for _, first, _ in pairs])), 5),
        after=round(float(np.mean([second[metric] for _, _, second in pairs])), 5),
        low=round(low, 5),
        high=round(high, 5),
    )


def _interval(sums: Sequence[float], counts: Sequence[int], *, seed: int) -> tuple[float, float]:
    """Give the ends of the 95% interval of a mean over recalls, drawn session by session."""
    if len(sums) < _SESSIONS_MIN:
        return -1.0, 1.0

    def mean(of: Any, over: Any, *, axis: int) -> Any:  # noqa: ANN401 arrays
        return of.sum(axis=axis) / over.sum(axis=axis)

    told = _STATS.bootstrap(
        (np.array(sums), np.array(counts)),
        mean,
        paired=True,
        vectorized=True,
        n_resamples=_RESAMPLES,
        method="percentile",
        rng=np.random.default_rng(seed),
    )
    return float(told.confidence_interval.low), float(told.confidence_interval.high)
