"""What guards make of a model: a handful of bad recalls is enough, a comparison takes many."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from commonbrain_learn.outcomes import RecallOutcome, figures_of, outcome_of, riskier
from commonbrain_learn.rollout import (
    CanaryEvidence,
    NoChange,
    NotEnoughTraffic,
    Promote,
    RollBack,
    judge_canary,
)
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.query import FeedbackMark, RankedCandidate, RecallLogEntry

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


def outcome(number: int = 0, **more: Any) -> RecallOutcome:  # noqa: ANN401
    fields: dict[str, Any] = {
        "asked_at": NOON + timedelta(seconds=number),
        "who": f"s{number % 30}",
        "is_failed": False,
        "is_unordered": False,
        "is_unanswered": False,
        "is_marked": True,
        "marks": 1,
        "reciprocal": 1.0,
        "is_slow": False,
        "rerank_ms": 1.0,
        "total_ms": 8.0,
    }
    return RecallOutcome(**(fields | more))


def evidence(
    served: Sequence[RecallOutcome],
    control: Sequence[RecallOutcome] = (),
    **more: Any,  # noqa: ANN401
) -> CanaryEvidence:
    fields: dict[str, Any] = {"risks": [], "is_canary": True}
    newest = [
        sorted(side, key=lambda one: one.asked_at, reverse=True) for side in (served, control)
    ]
    return CanaryEvidence(served=newest[0], control=newest[1], **(fields | more))


def many(count: int, seed: int, helped: float, **more: Any) -> list[RecallOutcome]:  # noqa: ANN401
    """Recalls of which a share helped."""
    random_source = Random(seed)  # noqa: S311 it is meant to be foreseen
    return [
        outcome(number, marks=mark, reciprocal=float(mark), is_marked=True, **more)
        for number in range(count)
        for mark in [int(random_source.random() < helped)]
    ]


def guard_of(decision: object) -> str | None:
    return decision.guard if isinstance(decision, RollBack) else None


def test_five_bad_recalls_of_the_last_twenty_roll_back_a_model(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Mapping[str, bool], str]] = [
        ({"is_failed": True}, "errors"),
        ({"is_slow": True}, "slowness"),
    ]
    for bad, guard in cases:
        with subtests.test(bad=bad, guard=guard):
            fine = [outcome(number) for number in range(15)]
            four = [outcome(20 + number, **bad) for number in range(4)]
            assert guard_of(judge_canary(evidence([*fine, *four]))) is None
            five = [*four, outcome(30, **bad)]
            assert guard_of(judge_canary(evidence([*fine, *five]))) == guard
            later = [outcome(40 + number) for number in range(19)]
            assert guard_of(judge_canary(evidence([*five, *later]))) is None


@given(st.integers(0, 7), st.integers(0, 7))
def test_safety_guard_needs_eight_of_eight_risky_recalls(more: int, fewer: int) -> None:
    risks = [1] * more + [-1] * fewer + [0] * 10
    decision = judge_canary(evidence([outcome()], risks=risks))
    # Eight of eight are needed: a coin shows that once in 256 times.
    assert guard_of(decision) is None
    decision = judge_canary(evidence([outcome()], risks=[1] * 8))
    assert guard_of(decision) == "safety"


def test_guard_compares_no_answers_before_enough_recalls() -> None:
    decision = judge_canary(evidence(many(49, 1, 0.0), many(200, 2, 1.0)))
    assert decision == NotEnoughTraffic(needs=("the model has 49 of 50 recalls",))
    alone = judge_canary(evidence([outcome(n, who="s1", marks=0) for n in range(60)]))
    assert isinstance(alone, NotEnoughTraffic)
    assert "the model has 1 of 10 sessions" in alone.needs
    assert "its control has 0 of 50 recalls" in alone.needs


def test_worse_model_is_rolled_back_after_enough_recalls(subtests: pytest.Subtests) -> None:
    cases: list[tuple[Mapping[str, Any], str]] = [
        ({"marks": 0, "reciprocal": 0.0}, "quality"),
        ({"marks": -1, "reciprocal": 0.0}, "quality"),
        ({"reciprocal": 0.2}, "order"),
        ({"is_unanswered": True}, "abstention"),
        ({"total_ms": 16.0}, "latency"),
    ]
    for worse, guard in cases:
        with subtests.test(worse=worse, guard=guard):
            control = [outcome(number) for number in range(100)]
            decision = judge_canary(evidence([outcome(n, **worse) for n in range(50)], control))
            assert guard_of(decision) == guard
            undecided = judge_canary(evidence([outcome(n) for n in range(50)], control))
            assert isinstance(undecided, NotEnoughTraffic)


def test_repeated_checks_seldom_roll_back_an_equal_model() -> None:
    rollbacks = 0
    for seed in range(12):
        served, control = many(400, 2 * seed, 0.6), many(400, 2 * seed + 1, 0.6)
        checks = (evidence(served[:end], control[:end]) for end in range(50, 401, 70))
        rollbacks += any(guard_of(judge_canary(check)) for check in checks)
    # Four guards of which two look at marks may err in 5% of models each.
    assert rollbacks <= 2


def test_model_is_promoted_once_it_is_not_worse_in_enough_recalls() -> None:
    control = many(400, 1, 0.6)
    early = judge_canary(evidence(many(199, 2, 0.7), control))
    assert isinstance(early, NotEnoughTraffic)
    assert early.needs == ("the model has 199 of 200 recalls",)
    assert isinstance(judge_canary(evidence(many(400, 2, 0.7), control)), Promote)
    unmarked = [outcome(n, is_marked=False, marks=0, reciprocal=0.0) for n in range(400)]
    silent = judge_canary(evidence(unmarked, unmarked))
    assert silent == NotEnoughTraffic(needs=("0 of 30 recalls of each side are marked",))
    # An active model has its place already.
    active = evidence(many(400, 2, 0.7), control, is_canary=False)
    assert isinstance(judge_canary(active), NoChange)


def test_possibly_worse_canary_stays_a_canary() -> None:
    control = many(200, 1, 0.6)
    decision = judge_canary(evidence(many(200, 3, 0.55), control))
    assert isinstance(decision, NoChange)
    assert "may still be worse: marks" in decision.reason


def entry(**more: Any) -> RecallLogEntry:  # noqa: ANN401
    fields: dict[str, Any] = {
        "id": 1,
        "asked_at": NOON,
        "agent": "bo",
        "session": "s1",
        "query": "?",
        "status": "found",
        "ranker": 1,
        "considered": (),
        "packed": (5, 6),
        "degraded": (),
        "stages_ms": {"retrieve": 4.0, "rank": 3.0, "rerank": 1.0, "load": 300.0},
        "marks": {},
    }
    return RecallLogEntry(**(fields | more))


def test_outcome_of_a_recall_is_derived_from_its_feedback() -> None:
    plain = outcome_of(entry())
    assert (plain.who, plain.marks, plain.is_marked, plain.is_failed) == ("s1", 0, False, False)
    # Loading a model is paid once in a process, and not held against a recall.
    assert plain.total_ms == 8.0
    used = outcome_of(entry(marks={6: frozenset({FeedbackMark.USED})}))
    assert (used.marks, used.reciprocal) == (1, 0.5)
    misled = outcome_of(entry(marks={5: frozenset({FeedbackMark.USED, FeedbackMark.WRONG})}))
    assert (misled.marks, misled.reciprocal) == (-1, 0.0)
    figures = figures_of([plain, used, misled])
    assert (figures.recalls, figures.marked, figures.marks) == (3, 2, 0.0)


def test_timeout_on_a_busy_machine_does_not_count_as_a_failure_of_the_model() -> None:
    slow = entry(degraded=("reranker: mdl took over 50 ms",), stages_ms={"rank": 2, "rerank": 51})
    busy = entry(degraded=("reranker: mdl took over 50 ms",), stages_ms={"rank": 90, "rerank": 51})
    broken = entry(degraded=("reranker: mdl failed",), stages_ms={"rank": 90, "rerank": 1})
    assert [outcome_of(one).is_failed for one in (slow, busy, broken)] == [True, False, True]


def test_unresponsive_model_is_rolled_back_even_if_recalls_are_slow() -> None:
    """A remote embedder makes every recall long, so that a machine is never told to be idle."""
    over = entry(
        degraded=("reranker: mdl took over 50 ms",), stages_ms={"retrieve": 400, "rerank": 51}
    )
    answered = entry(stages_ms={"retrieve": 400, "rerank": 2})
    seldom = [outcome_of(one) for one in [over] * 14 + [answered] * 6]
    never = [outcome_of(over)] * 15
    assert isinstance(judge_canary(evidence(seldom)), NotEnoughTraffic)
    judgement = judge_canary(evidence(never))
    assert isinstance(judgement, RollBack)
    assert judgement.guard == "errors"
    assert judgement.reason == "15 of the last 15 recalls got no answer of it in time"


def test_overloaded_machine_does_not_roll_back_a_sound_model() -> None:
    """All of a recall is late together, its order too, and now and then it is late altogether."""
    slow = entry(stages_ms={"retrieve": 70, "weigh": 20, "rerank": 45})
    over = entry(
        degraded=("reranker: mdl took over 50 ms",), stages_ms={"retrieve": 90, "rerank": 51}
    )
    busy = [outcome_of(one) for one in [slow] * 10 + [over] * 10]
    assert isinstance(judge_canary(evidence(busy)), NotEnoughTraffic)


def ranked(id_: int, fixed: float, **output: float) -> RankedCandidate:
    features = {"fixed": fixed, "trust": 0.7, **output}
    return RankedCandidate(memory_id=id_, score=0.5, features=features, left_out=None)


def test_risk_counts_memories_that_fixed_weights_would_not_show() -> None:
    sound, low = ranked(5, 0.9), ranked(6, 0.1, trust=0.35)
    invalid, hidden = ranked(7, 0.2, needs_review=1.0), ranked(8, 0.95, trust=0.35)
    barred = RankedCandidate(
        memory_id=8, score=0.5, features=hidden.features, left_out="not_allowed"
    )
    everything = (low, invalid, sound, barred)
    assert riskier(entry(considered=everything, packed=(6,))) == 1
    assert riskier(entry(considered=everything, packed=(6, 7))) == 1
    assert riskier(entry(considered=everything, packed=(5,))) == 0
    assert riskier(entry(considered=(low,), packed=(6,))) == 0
