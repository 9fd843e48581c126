"""The job that trains a reranker: its model, its refusals, and its state after a kill."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from commonbrain_learn.boosting import load_reranker
from commonbrain_learn.model_registry import TransitionOptions, models_of

from commonbrain.client import Brain
from commonbrain.jobs.service import JobView
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import JOB_LEASE_S, LESSON_GROUPS_MIN, LESSONS_MIN
from commonbrain.model.model_card import ModelCard, ModelState
from commonbrain.model.query import Candidate, Feedback, FeedbackMark, RecallTrace
from commonbrain.model.recall_result import ResultStatus
from commonbrain.model.scope import LOCAL_TENANT, Caller, Role
from commonbrain.storage.blobs import Blobs
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from tests.jobs.test_jobs_again import Killed
from tests.tenant_rows import add_tenant
from tests.working import a_worker

RECALLS = 66
ENOUGH = {"min_marked": 60}
KIND = "train_reranker"


def use(brain: Brain, *, feature: str | None, count: int = RECALLS) -> None:
    """Let agents recall in sessions of three, and use the one of six that has a feature."""
    random_source = Random(7)  # noqa: S311 it is meant to be foreseen
    traces, marks = list[RecallTrace](), list[Feedback]()
    for number in range(count):
        at = NOON - timedelta(days=10) + number * timedelta(minutes=10)
        caller = Caller(agent="bo", session=f"s{number // 3}")
        good = random_source.randrange(6)
        considered = [
            Candidate(
                memory=a_memory(place + 1, f"Kettle {place}."),
                features={
                    "fused": random_source.random(),
                    feature or "chance": float(place == good),
                },
                score=0.5,
            )
            for place in range(6)
        ]
        used = good if feature else random_source.randrange(6)
        trace = RecallTrace(
            id=ids.make_id(at, number),
            caller=caller,
            asked_at=at,
            query="kettle",
            status=ResultStatus.FOUND,
            considered=tuple(considered),
            packed=tuple(range(1, 7)),
            degraded=(),
            stages_ms={},
        )
        traces.append(trace)
        marks.append(
            Feedback(
                trace_id=trace.id, memory_id=used + 1, mark=FeedbackMark.USEFUL, agent="bo",
                session=caller.session, at=at,
            )
        )  # fmt: skip
    retain_from = NOON - timedelta(days=90)
    brain.services.store.note_reads(
        LOCAL_TENANT, traces=traces, accesses=[], retain_from=retain_from
    )
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        assert tx.recall_log.mark(marks) == count


def trained(brain: Brain, **given: object) -> JobView:
    job = brain.jobs.run(KIND, {**ENOUGH, **given})
    a_worker(brain).sweep()
    return brain.jobs.show(job.id)


def cards(brain: Brain) -> list[ModelCard]:
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        return tx.models.listed(limit=10)


@dataclass(frozen=True)
class Dying:
    """Stores an artifact, and then its process is killed."""

    blobs: Blobs

    @property
    def location(self) -> str:
        return self.blobs.location

    def put(self, content: bytes) -> str:
        raise Killed(self.blobs.put(content))

    def get(self, digest: str) -> bytes:
        return self.blobs.get(digest)

    def drop(self, digest: str) -> None:
        self.blobs.drop(digest)


@pytest.mark.requirement("JB-02")
def test_training_killed_midway_offers_one_model_and_retraining_gives_the_same_bytes(
    brain: Brain, clock: FakeClock
) -> None:
    use(brain, feature="replies")
    job = brain.jobs.run(KIND, ENOUGH)
    # The first worker is killed when the artifact is stored and the card is not.
    blobs: Callable[[], Blobs] = partial(Dying, brain.services.blobs())
    with_dying_blobs = Brain(replace(brain.services, blobs=blobs), brain.caller)
    with pytest.raises(Killed) as caught:
        a_worker(with_dying_blobs).sweep()
    assert cards(brain) == []
    clock.move(timedelta(seconds=JOB_LEASE_S))
    a_worker(brain).sweep()

    done = brain.jobs.show(job.id)
    assert done.result is not None
    (card,) = cards(brain)
    assert (done.state, done.attempts, done.result["outcome"]) == ("done", 2, "better")
    assert caught.value.args == (card.digest,)
    assert done.result["model"] == ids.show(ids.MODEL, card.id)
    assert (card.state, card.parent) == (ModelState.CANDIDATE, None)
    evaluation: Any = card.told
    assert next(iter(evaluation["importances"])) == "replies"
    assert evaluation["metrics"]["nDCG@10"]["low"] > 0
    assert [one["learnt"] + one["held"] <= RECALLS for one in evaluation["judged"]] == [True] * 3
    model = load_reranker(brain.services.blobs().get(card.digest))
    assert model.features == card.features

    # Once it serves, marks of its own recalls show nothing.
    models_of(brain).canary(done.result["model"], percent=100)  # type: ignore[arg-type]
    forced = TransitionOptions(reason="It is tried.", is_forced=True)
    models_of(brain).promote(done.result["model"], move=forced)  # type: ignore[arg-type]
    clock.move(timedelta(minutes=1))
    again = trained(brain)
    assert again.result is not None
    assert again.result["outcome"] == "not_better"
    second = next(one for one in cards(brain) if one.id != card.id)
    assert (second.digest, second.parent) == (card.digest, card.id)
    assert (second.state, second.reason) == (ModelState.RETIRED, "not_better")


@pytest.mark.requirement("JB-02")
def test_model_trained_on_random_marks_is_retired(brain: Brain) -> None:
    use(brain, feature=None)
    done = trained(brain)
    (card,) = cards(brain)
    assert done.result is not None
    assert done.result["outcome"] == "not_better"
    assert (card.state, card.reason) == (ModelState.RETIRED, "not_better")


def test_training_on_too_little_data_reports_what_is_needed(brain: Brain) -> None:
    use(brain, feature="replies", count=30)
    done = trained(brain, min_marked=100)
    assert done.state == "done"
    assert done.result == {
        "outcome": "too_little_data",
        "why": "has 30 of 100 recalls to learn from, in 10 of 20 sessions",
        "recalls": 30,
        "recalls_needed": LESSONS_MIN,
        "sessions": 10,
        "sessions_needed": LESSON_GROUPS_MIN,
    }
    assert cards(brain) == []


def test_training_reads_the_recalls_of_its_own_tenant_only(brain: Brain) -> None:
    use(brain, feature="replies")
    add_tenant(brain, "other")
    other = Brain(brain.services, Caller(tenant="other", agent="bo", role=Role.ADMIN))
    result = trained(other).result
    assert result is not None
    assert (result["outcome"], result["recalls"]) == ("too_little_data", 0)


def test_training_refuses_wrong_arguments_and_callers_who_are_no_admin(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for arguments in (
        {"lookback_days": 13},
        {"lookback_days": 181},
        {"min_marked": True},
        {"days": 20},
    ):
        with subtests.test(arguments=arguments), pytest.raises(InvalidInputError):
            brain.jobs.run(KIND, arguments)
    writer = Brain(brain.services, Caller(agent="bo", role=Role.WRITER))
    with pytest.raises(RejectedError, match="admin"):
        writer.jobs.run(KIND)
