"""From answers to figures: means with intervals by system, category, budget and part."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

import numpy as np

from commonbrain_evals.measures import Estimate, Values, agreement, estimate_mean, estimate_means
from commonbrain_evals.retrieval.baselines import RECALL
from commonbrain_evals.retrieval.eval_store import EvalStore
from commonbrain_evals.retrieval.metrics import METRICS, Gold, Rankings, measure
from commonbrain_evals.retrieval.question_runner import QuestionRun
from commonbrain_evals.retrieval.record import (
    ALL,
    TESTED,
    Abstention,
    ByMetric,
    Latency,
    TokenValue,
)

NO_MEMORY = "no memory"
WHOLE_HISTORY = "whole history"
LAST_SESSION = "last session"
_RECORDED_RANKS = 10
"""Of each ranking, in the record."""


@dataclass(slots=True, kw_only=True)
class Harvest:
    """What was gathered so far."""

    answers: list[QuestionRun] = field(default_factory=list[QuestionRun])
    foreign: list[bool] = field(default_factory=list[bool])
    """Whether each question about another corpus was left unanswered."""
    memories: int = 0
    refused: int = 0
    seconds: float = 0.0

    def take(self, eval_store: EvalStore) -> None:
        """Count what was remembered."""
        self.memories += eval_store.stored
        self.refused += eval_store.refused
        self.seconds += eval_store.seconds


class RunFigures(TypedDict):
    """The figures of a run, fields of its record."""

    history_tokens: float
    systems: Mapping[str, Mapping[str, ByMetric]]
    sessions: Mapping[str, ByMetric]
    budgets: Mapping[str, Mapping[str, TokenValue]]
    abstention: Mapping[str, Abstention]
    ablation: Mapping[str, ByMetric]
    left_out: Mapping[str, Mapping[str, tuple[float, ...]]]
    categories: Mapping[str, str]
    values: Mapping[str, Mapping[str, tuple[float, ...]]]
    found: Mapping[str, tuple[str, ...]]


def summarize(harvest: Harvest, *, seed: int, parts: Sequence[str]) -> RunFigures:
    """Compute the figures; only questions with evidence have a rank to measure."""
    answers = harvest.answers
    ranked = [answer for answer in answers if answer.question.gold]
    systems = tuple(answers[0].ms)
    values = {name: _values(ranked, name) for name in (*systems, *parts)} if ranked else {}
    categories = {answer.question.id: answer.question.category for answer in ranked}
    changes = {part: values[part] - values[RECALL] for part in parts if part in values}
    return RunFigures(
        history_tokens=round(float(np.mean([answer.history_tokens for answer in answers])), 1),
        systems={
            name: _by_category(values[name], list(categories.values()), seed=seed)
            for name in systems
            if name in values
        },
        sessions=_sessions(ranked, systems, seed=seed),
        budgets=_budgets(ranked, systems, seed=seed),
        abstention=_abstention(answers, harvest.foreign),
        ablation={part: by_metric(change, seed=seed) for part, change in changes.items()},
        left_out={
            part: {metric: row for metric, row in _listed(change).items() if metric in TESTED}
            for part, change in changes.items()
        },
        categories=categories,
        values={name: _listed(values[name]) for name in systems if name in values},
        found={
            answer.question.id: tuple(answer.rankings[RECALL][:_RECORDED_RANKS])
            for answer in ranked
        },
    )


def by_metric(values: Values, *, seed: int) -> ByMetric:
    """Return the figure of each metric; the rows stand in the order of the metrics."""
    return dict(zip(METRICS, estimate_means(values, seed=seed), strict=True))


def latencies(answers: Sequence[QuestionRun]) -> Mapping[str, Latency]:
    """Return how long each system took."""
    return {
        name: Latency(p50=_quantile(answers, name, at=0.5), p95=_quantile(answers, name, at=0.95))
        for name in answers[0].ms
    }


def _quantile(answers: Sequence[QuestionRun], name: str, *, at: float) -> float:
    return round(float(np.quantile([answer.ms[name] for answer in answers], at)), 2)


def _values(answers: Sequence[QuestionRun], system: str) -> Values:
    gold = {answer.question.id: answer.question.gold for answer in answers}
    return _measured(gold, {answer.question.id: answer.rankings[system] for answer in answers})


def _sessions(
    answers: Sequence[QuestionRun], systems: Sequence[str], *, seed: int
) -> Mapping[str, ByMetric]:
    """Measure the ranking of sessions, over the questions with evidence in sessions."""
    spoken = [answer for answer in answers if answer.gold_sessions]
    gold = {one.question.id: one.gold_sessions for one in spoken}
    return {
        name: by_metric(
            _measured(gold, {one.question.id: one.sessions[name] for one in spoken}), seed=seed
        )
        for name in (systems if spoken else ())
    }


def _measured(gold: Gold, rankings: Rankings) -> Values:
    totals = measure(gold, rankings)
    return np.array([[totals[id_][metric] for id_ in gold] for metric in METRICS], dtype=np.float64)


def _listed(values: Values) -> Mapping[str, tuple[float, ...]]:
    return dict(
        zip(
            METRICS, (tuple(round(float(value), 5) for value in row) for row in values), strict=True
        )
    )


def _by_category(values: Values, categories: Sequence[str], *, seed: int) -> Mapping[str, ByMetric]:
    every = {ALL: by_metric(values, seed=seed)}
    names = sorted(set(categories) - {ALL})
    of = np.array(categories)
    return every | {name: by_metric(values[:, of == name], seed=seed) for name in names}


def _budgets(
    answers: Sequence[QuestionRun], systems: Sequence[str], *, seed: int
) -> Mapping[str, Mapping[str, TokenValue]]:
    if not answers:
        return {}
    history = float(np.mean([answer.history_tokens for answer in answers]))
    packed = {
        name: {
            tokens: _spent(answers, name, tokens=tokens, seed=seed)
            for tokens in answers[0].packed[name]
        }
        for name in systems
    }
    nothing, everything = (
        Estimate(mean=fraction, low=fraction, high=fraction) for fraction in (0.0, 1.0)
    )
    return packed | {
        NO_MEMORY: {"0": TokenValue(tokens=0, evidence=nothing, in_part=0.0, saved=1.0)},
        LAST_SESSION: {ALL: _of_last_session(answers, history=history, seed=seed)},
        WHOLE_HISTORY: {
            ALL: TokenValue(tokens=round(history, 1), evidence=everything, in_part=1.0, saved=0.0)
        },
    }


def _of_last_session(answers: Sequence[QuestionRun], *, history: float, seed: int) -> TokenValue:
    tokens = float(np.mean([answer.last_session_tokens for answer in answers]))
    evidence = estimate_mean([float(answer.is_in_last_session) for answer in answers], seed=seed)
    return TokenValue(
        tokens=round(tokens, 1),
        evidence=evidence,
        in_part=evidence.mean,
        saved=round(1 - tokens / history, 4) if history else 0.0,
    )


def _spent(answers: Sequence[QuestionRun], system: str, *, tokens: str, seed: int) -> TokenValue:
    each = [answer.packed[system][tokens] for answer in answers]
    mean = float(np.mean([one.tokens for one in each]))
    history = float(np.mean([answer.history_tokens for answer in answers]))
    return TokenValue(
        tokens=round(mean, 1),
        evidence=estimate_mean([float(one.is_whole) for one in each], seed=seed),
        in_part=round(float(np.mean([one.is_in_part for one in each])), 4),
        saved=round(1 - mean / history, 4) if history else 0.0,
    )


def _abstention(
    answers: Sequence[QuestionRun], foreign: Sequence[bool]
) -> Mapping[str, Abstention]:
    """Compare questions without an answer, of the data and of other corpora, with the rest."""
    answerable = [answer.has_abstained for answer in answers if answer.question.is_answerable]
    unanswerable = [answer.has_abstained for answer in answers if not answer.question.is_answerable]
    by_origin = {"unanswerable": unanswerable, "of another corpus": foreign}
    return {name: _agreement(silent, answerable) for name, silent in by_origin.items() if silent}


def _agreement(silent: Sequence[bool], answerable: Sequence[bool]) -> Abstention:
    predicted = np.array([*silent, *answerable], dtype=np.bool_)
    expected = np.array([True] * len(silent) + [False] * len(answerable), dtype=np.bool_)
    totals = agreement(predicted, expected)
    return Abstention(
        asked=totals.expected,
        abstained=totals.predicted,
        precision=totals.precision,
        recall=totals.recall,
        wrongly=sum(answerable) / len(answerable) if answerable else 0.0,
    )
