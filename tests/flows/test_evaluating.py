"""A store measured on itself: what is asked, who is asked for, and what is left of it."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.brain import Brain
from commonbrain.domain import ids
from commonbrain.domain.errors import Invalid, Refused
from commonbrain.domain.evaluation import changed, moved
from commonbrain.domain.kinds import Kind
from commonbrain.domain.ledger import Feedback, Mark
from commonbrain.domain.limits import EVALUATED_FROM, EVALUATED_MIN
from commonbrain.domain.memory import Draft
from commonbrain.domain.scope import LOCAL_TENANT, Scope
from commonbrain.flows.evaluating.questions import Sort
from commonbrain.ports.ledger import EntryFilter
from commonbrain.testing.builders import a_brain
from commonbrain.testing.clock import FakeClock
from tests.flows.working import Fragile, a_worker

STORED = 60
COLOURS = ("red", "blue", "green", "white", "black", "brown")
ROOMS = ("kitchen", "cellar", "attic", "garden", "hall")


@pytest.fixture
def embedder() -> Fragile:
    return Fragile()


@pytest.fixture
def brain(path: Path, clock: FakeClock, embedder: Fragile) -> Iterator[Brain]:
    with a_brain(path, clock=clock, embedder=embedder) as brain:
        brain.remember([a_note(number) for number in range(STORED)])
        yield brain


def a_note(number: int, *, scope: Scope = Scope.TEAM) -> Draft:
    colour, room = COLOURS[number % len(COLOURS)], ROOMS[number % len(ROOMS)]
    body = f"Somebody put the {colour} vessel{number} of shelf{number} into our {room} cupboard."
    return Draft(body=body, kind=Kind.EVENT, scope=scope)


@pytest.mark.requirement("EV-06")
def test_the_same_seed_asks_the_same_and_every_figure_has_its_interval(brain: Brain) -> None:
    one, same = (brain.evaluate(questions=EVALUATED_MIN, seed=3) for _ in range(2))
    other = brain.evaluate(questions=EVALUATED_MIN, seed=4)

    assert one.figures == same.figures
    assert one.setup == same.setup
    assert other.setup["seed"] == 4
    assert set(one.figures) == {"hit_1", "hit_5", "hit_10", "mrr", "ndcg", "packed", "abstained"}
    for figure in one.figures.values():
        assert 0 <= figure.low <= figure.mean <= figure.high <= 1
        assert figure.low < figure.high
    assert one.figures["hit_10"].mean > 0.9
    assert [known.id for known in brain.evaluate.history()] == sorted(
        (one.id, same.id, other.id), reverse=True
    )


def test_asking_counts_no_access_and_leaves_no_trace(brain: Brain, clock: FakeClock) -> None:
    before = contents(brain)
    clock.move(timedelta(days=1))
    brain.evaluate(questions=EVALUATED_MIN)
    brain.house.journal.flush()

    assert contents(brain) == before
    with brain.house.store.snapshot(LOCAL_TENANT) as tx:
        assert tx.ledger.entries(EntryFilter(), limit=10) == []


def test_nobody_is_asked_about_what_only_others_may_see(brain: Brain) -> None:
    bo = brain.acting_as(agent="bo")
    bo.remember([a_note(number, scope=Scope.PRIVATE) for number in range(100, 140)])
    secret = ids_of(bo) - ids_of(brain)

    exam = brain.evaluate.prepare(brain.house.clock.now(), questions=100, seed=0)
    assert len(secret) == 40
    assert not secret.intersection(*[frozenset[int]().union(*(one.gold for one in exam.questions))])
    assert not any(f"shelf{n}" in one.text for one in exam.questions for n in range(100, 140))
    own = bo.evaluate.prepare(brain.house.clock.now(), questions=100, seed=0)
    assert secret.intersection(*[frozenset[int]().union(*(one.gold for one in own.questions))])


def test_what_agents_asked_and_used_is_asked_again_from_the_latest_on(brain: Brain) -> None:
    for number in range(10):
        found = brain.recall(f"where is vessel{number}", max_items=1)
        brain.house.journal.flush()
        mark(brain, found.trace_id, found.items[0].id)

    exam = brain.evaluate.prepare(brain.house.clock.now(), questions=EVALUATED_MIN, seed=0)
    again = [one.text for one in exam.questions if one.sort is Sort.ASKED]
    assert sorted(again) == [f"where is vessel{number}" for number in (7, 8, 9)]
    assert brain.evaluate(questions=EVALUATED_MIN).figures["asked_hit_1"].mean == 1.0


def test_too_little_is_said_to_be_so(path: Path) -> None:
    with a_brain(path) as brain:
        brain.remember([a_note(number) for number in range(EVALUATED_MIN - 1)])
        with pytest.raises(Refused, match="19 memories can be asked about") as refusal:
            brain.evaluate()
        assert refusal.value.code == "too_little"
        with pytest.raises(Invalid):
            brain.evaluate(questions=1)


def test_what_got_worse_beyond_chance_is_told_with_what_changed(
    brain: Brain, embedder: Fragile
) -> None:
    before = brain.evaluate(questions=EVALUATED_MIN)
    brain.forget(
        ids=[*(f"{ids.show(ids.MEMORY, one)}" for one in sorted(ids_of(brain))[:1])], reason="Old."
    )
    worse = replace(
        before,
        figures={
            name: replace(one, mean=0.2, low=0.1, high=0.3) for name, one in before.figures.items()
        },
        setup={**before.setup, "reranker": "mdl_1"},
    )

    told = {one.name: one.is_worse for one in moved(before, worse)}
    assert told["hit_5"]
    assert not any(one.is_beyond_noise for one in moved(before, before))
    assert changed(before, worse) == {"reranker": ("fixed weights", "mdl_1")}


def test_a_part_of_recall_that_did_not_answer_is_told(brain: Brain, embedder: Fragile) -> None:
    embedder.is_down = True

    assert brain.evaluate(questions=EVALUATED_MIN).setup["lacks"] == ["vector"]


@pytest.mark.requirement("JB-05")
def test_a_store_with_enough_is_measured_every_week(brain: Brain, clock: FakeClock) -> None:
    worker = a_worker(brain)
    worker.schedule()
    assert not brain.jobs(kind="eval").jobs
    for start in range(STORED, EVALUATED_FROM, 70):
        brain.remember([a_note(number) for number in range(start, start + 70)])
    for _ in range(2):
        clock.move(timedelta(days=7))
        worker.schedule()
        worker.sweep()

    assert len(brain.jobs(kind="eval", state="done").jobs) == 2
    assert [one.agent for one in brain.evaluate.history()] == ["upkeep", "upkeep"]


def ids_of(brain: Brain) -> set[int]:
    found = brain.recall(max_items=100, max_tokens=32_000, bump=False)
    return {ids.parse(ids.MEMORY, one.id) for one in found.items}


def contents(brain: Brain) -> list[tuple[int, object, int]]:
    with brain.house.store.snapshot(LOCAL_TENANT) as tx:
        found = tx.memories.get(tx.memories.page(after=0, limit=1000))
    return [(one.id, one.accessed_at, one.access_count) for one in found.values()]


def mark(brain: Brain, trace: str, memory: str) -> None:
    with brain.house.store.begin(LOCAL_TENANT) as tx:
        tx.ledger.mark(
            [
                Feedback(
                    trace_id=ids.parse(ids.TRACE, trace),
                    memory_id=ids.parse(ids.MEMORY, memory),
                    mark=Mark.USED,
                    agent="ann",
                    session=None,
                    at=brain.house.clock.now(),
                )
            ]
        )
