from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.model.kinds import RuleDetail
from commonbrain.model.recall_result import ResultStatus
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import StuckEmbedder, bodies, stored

RULE = "Announce it in the channel and wait for a second pair of eyes"
MAY = datetime(2025, 5, 8, 12, tzinfo=UTC)


class HurriedClock(FakeClock):
    """Moves by a millisecond whenever it is looked at."""

    def elapsed_ms(self) -> float:
        self.move(timedelta(milliseconds=1))
        return super().elapsed_ms()


@pytest.fixture
def stuck(path: Path) -> Iterator[tuple[Brain, StuckEmbedder]]:
    embedder = StuckEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        try:
            yield brain, embedder
        finally:
            embedder.may_go.set()


def a_skill(brain: Brain, *projects: str, name: str = "release", text: str = RULE) -> str:
    trigger = {"name": name, "keywords": ["deploy"], "projects": list(projects)}
    return stored(brain, text, kind="rule", detail=RuleDetail(skill=trigger))


@pytest.mark.requirement("RT-11", "RT-02")
def test_skill_is_listed_before_better_matches_and_is_marked(brain: Brain) -> None:
    stored(brain, "How to deploy the service by hand", kind="fact")
    id_ = a_skill(brain)
    first, *rest = brain.recall("how to redeploy the service").items
    assert (first.id, "skill:release" in first.why, first.notes) == (
        id_,
        True,
        ("skill:release",),
    )
    assert len(rest) == 1
    assert id_ not in {item.id for item in brain.recall("something else").items}


@pytest.mark.requirement("RT-12")
def test_skill_of_a_project_fires_only_there_and_not_once_superseded(brain: Brain) -> None:
    id_ = a_skill(brain, "api")
    assert bodies(brain.acting_as(project="api"), "deploy") == [RULE]
    assert bodies(brain, "deploy", project="api") == [RULE]
    assert bodies(brain, "deploy") == bodies(brain, "deploy", project="web") == []
    brain.revise.supersede(id_, "Ask nobody", reason="we trust each other")
    assert bodies(brain, "deploy", project="api") == []


def test_recall_lists_five_skills_at_most(brain: Brain) -> None:
    for n in range(7):
        a_skill(brain, name=f"skill-{n}", text=f"Rule number {n} of the house: {'abcdefg'[n]}{n}")
    assert len(brain.recall("deploy").items) == 5


def test_time_named_in_a_query_is_a_preference_and_not_a_filter(
    brain: Brain, clock: FakeClock
) -> None:
    for n, days in enumerate((0, 300, 600)):
        at = clock.now() - timedelta(days=days)
        stored(brain, f"Billing review number {n}", kind="event", occurred_at=at)
    matches = bodies(brain, "billing review on 6 May 2025")
    assert matches[0] == "Billing review number 1"
    assert len(matches) == 3
    assert "time" in brain.recall("billing review on 6 May 2025").items[0].why


def test_query_for_a_time_alone_recalls_the_memories_of_that_time(brain: Brain) -> None:
    stored(brain, "Ann joined the team", kind="event", occurred_at=MAY)
    stored(brain, "Ben left the team", kind="event", occurred_at=MAY + timedelta(days=90))
    assert bodies(brain, "what happened in May 2025?") == ["Ann joined the team"]
    answer = brain.recall("what about zebras in May 2025?")
    assert (answer.items, answer.verdict) == ((), ResultStatus.BELOW_THRESHOLD)


def test_embedder_that_does_not_answer_in_time_is_skipped(
    stuck: tuple[Brain, StuckEmbedder],
) -> None:
    brain, embedder = stuck
    stored(brain, "The build has two cores", kind="fact")
    answer = brain.recall("build cores", deadline_ms=20)
    assert [item.body for item in answer.items] == ["The build has two cores"]
    assert answer.degraded == ("vector: deadline, It did not answer in time.",)
    embedder.may_go.set()
    assert brain.recall("build cores", deadline_ms=60_000).degraded == ()


def test_recall_past_its_deadline_skips_and_names_every_retriever(path: Path) -> None:
    with a_brain(path, clock=HurriedClock()) as brain:
        stored(brain, "The build has two cores", kind="fact")
        answer = brain.recall("build cores last week", deadline_ms=1)
    assert answer.items == ()
    assert [reason.partition(":")[0] for reason in answer.degraded[:4]] == [
        "skill",
        "blocker",
        "lexical",
        "time",
    ]


def test_deadline_out_of_bounds_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    for deadline in [0, -1, 10**9]:
        case = subtests.test(deadline=deadline)
        with case, pytest.raises(RejectedError, match="deadline_ms"):
            brain.recall("build", deadline_ms=deadline)
