"""A store measured on itself: what is asked, who is asked for, and what is left of it."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from commonbrain_evals.self_evaluation import Evaluate, QuestionKind
from commonbrain_evals.self_evaluation_figures import compare_figures, compare_setups, figure

from commonbrain.client import Brain
from commonbrain.jobs.worker import RECHECK_AFTER
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, RejectedError, UnavailableError
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import EVALUATED_MIN, EVALUATION_MEMORIES_MIN
from commonbrain.model.memory import Draft
from commonbrain.model.query import Feedback, FeedbackMark
from commonbrain.model.scope import LOCAL_TENANT, Scope
from commonbrain.storage.interface import EntryFilter
from commonbrain.testing.builders import FakeClock, SeededRandom, WordHashEmbedder, a_brain
from tests.working import a_worker

STORED = 60
COLOURS = ("red", "blue", "green", "white", "black", "brown")
ROOMS = ("kitchen", "cellar", "attic", "garden", "hall")


class Deaf(WordHashEmbedder):
    """Hears no question."""

    def query(self, text: str) -> Any:  # noqa: ANN401 as the stand-in has it
        raise UnavailableError(f"It is down: {text[:1]}", code="embedder_down")


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with enough to ask about, which is closed."""
    path = tmp_path_factory.mktemp("filled") / "brain.db"
    with a_brain(path) as brain:
        brain.remember([a_note(number) for number in range(STORED)])
    return path


@pytest.fixture
def brain(filled: Path, path: Path, clock: FakeClock) -> Iterator[Brain]:
    shutil.copy(filled, path)
    # Other ids than those that are in the store.
    with a_brain(path, clock=clock, random_source=SeededRandom(1)) as brain:
        yield brain


def evaluation_of(brain: Brain) -> Evaluate:
    return Evaluate(brain.services, brain.caller)


def a_note(number: int, *, scope: Scope = Scope.TEAM) -> Draft:
    colour, place = COLOURS[number % len(COLOURS)], ROOMS[number % len(ROOMS)]
    body = f"Somebody put the {colour} vessel{number} of shelf{number} into our {place} cupboard."
    return Draft(body=body, kind=Kind.EVENT, scope=scope)


def test_same_seed_asks_the_same_questions_and_every_figure_has_an_interval(brain: Brain) -> None:
    one, same = (evaluation_of(brain)(questions=EVALUATED_MIN, seed=3) for _ in range(2))
    other = evaluation_of(brain)(questions=EVALUATED_MIN, seed=4)

    assert one.figures == same.figures
    assert one.setup == same.setup
    assert other.setup["seed"] == 4
    assert set(one.figures) == {"hit_1", "hit_5", "hit_10", "mrr", "ndcg", "packed", "abstained"}
    for each in one.figures.values():
        assert 0 <= each.low <= each.mean <= each.high <= 1
        assert each.low < each.high
    assert one.figures["hit_10"].mean > 0.5
    assert [known.id for known in evaluation_of(brain).history()] == sorted(
        (one.id, same.id, other.id), reverse=True
    )


def test_evaluation_counts_no_access_and_leaves_no_trace(brain: Brain, clock: FakeClock) -> None:
    before = contents(brain)
    clock.move(timedelta(days=1))
    evaluation_of(brain)(questions=EVALUATED_MIN)
    brain.services.journal.flush()

    assert contents(brain) == before
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        assert tx.recall_log.entries(EntryFilter(), limit=10) == []


def test_evaluation_asks_nothing_about_private_memories_of_others(brain: Brain) -> None:
    bo = brain.acting_as(agent="bo")
    bo.remember([a_note(number, scope=Scope.PRIVATE) for number in range(100, 140)])
    secret = ids_of(bo) - ids_of(brain)

    exam = evaluation_of(brain).prepare(brain.services.clock.now(), questions=100, seed=0)
    assert len(secret) == 40
    assert not secret.intersection(
        *[frozenset[int]().union(*(question.gold for question in exam.questions))]
    )
    assert not any(
        f"shelf{n}" in question.text for question in exam.questions for n in range(100, 140)
    )
    exam_of_bo = evaluation_of(bo).prepare(brain.services.clock.now(), questions=100, seed=0)
    assert secret.intersection(
        *[frozenset[int]().union(*(question.gold for question in exam_of_bo.questions))]
    )


def test_evaluation_repeats_the_latest_queries_whose_results_were_used(
    brain: Brain, clock: FakeClock
) -> None:
    for number in range(10):
        clock.move(timedelta(seconds=1))
        matches = brain.recall(f"where is vessel{number}", max_items=1)
        brain.services.journal.flush()
        mark(brain, matches.trace_id, matches.items[0].id)

    exam = evaluation_of(brain).prepare(brain.services.clock.now(), questions=EVALUATED_MIN, seed=0)
    again = [question.text for question in exam.questions if question.sort is QuestionKind.ASKED]
    assert sorted(again) == [f"where is vessel{number}" for number in (7, 8, 9)]
    assert evaluation_of(brain)(questions=EVALUATED_MIN).figures["asked_hit_1"].mean == 1.0


def test_store_with_too_few_memories_is_not_evaluated(path: Path) -> None:
    with a_brain(path) as brain:
        brain.remember([a_note(number) for number in range(EVALUATED_MIN - 1)])
        with pytest.raises(RejectedError, match="are suitable: 19;") as refusal:
            evaluation_of(brain)()
        assert refusal.value.code == "too_little"
        with pytest.raises(InvalidInputError):
            evaluation_of(brain)(questions=1)

        job = brain.jobs.run("eval")
        a_worker(brain, kinds=["eval"]).sweep()
        done = brain.jobs.show(job.id)
        assert (done.state, done.attempts) == ("done", 1)
        assert (done.result or {})["outcome"] == "too_little_data"


def test_significant_decline_is_reported_with_the_changed_setup(
    brain: Brain,
) -> None:
    measured = evaluation_of(brain)(questions=EVALUATED_MIN)
    good = figure([1.0] * 50 + [0.0] * 5)
    before = replace(measured, figures=dict.fromkeys(measured.figures, good))
    worse = replace(
        before,
        figures=dict.fromkeys(measured.figures, figure([1.0] * 30 + [0.0] * 25)),
        setup={**before.setup, "reranker": "mdl_1"},
    )

    reply = {one.name: one.is_worse for one in compare_figures(before, worse)}
    assert reply["hit_5"]
    assert not any(one.is_beyond_noise for one in compare_figures(before, before))
    assert compare_setups(before, worse) == {"reranker": ("fixed weights", "mdl_1")}


def test_evaluation_names_retrievers_that_did_not_respond(brain: Brain) -> None:
    without_embedder = Brain(replace(brain.services, embedder=Deaf()), brain.caller)

    assert evaluation_of(without_embedder)(questions=EVALUATED_MIN).setup["lacks"] == ["vector"]


def test_store_with_enough_memories_is_evaluated_every_week(brain: Brain, clock: FakeClock) -> None:
    worker = a_worker(brain)
    worker.schedule()
    assert not brain.jobs(kind="eval").jobs
    for start in range(STORED, EVALUATION_MEMORIES_MIN, 70):
        brain.remember([a_note(number) for number in range(start, start + 70)])
    worker.schedule()
    assert not brain.jobs(kind="eval").jobs, "that there is nothing to do is believed for an hour"
    clock.move(RECHECK_AFTER)
    for _ in range(2):
        worker.schedule()
        (query,) = brain.jobs(kind="eval", state="queued").jobs
        assert query.agent == "upkeep"
        brain.jobs.cancel(query.id)
        worker.schedule()
        assert not brain.jobs(kind="eval", state="queued").jobs
        clock.move(timedelta(days=7))


def ids_of(brain: Brain) -> set[int]:
    matches = brain.recall(max_items=100, max_tokens=32_000, bump=False)
    return {ids.parse(ids.MEMORY, item.id) for item in matches.items}


def contents(brain: Brain) -> list[tuple[int, object, int]]:
    with brain.services.store.snapshot(LOCAL_TENANT) as tx:
        matches = tx.memories.get(tx.memories.page(after=0, limit=1000))
    return [(one.id, one.last_access_at, one.access_count) for one in matches.values()]


def mark(brain: Brain, trace: str, memory: str) -> None:
    with brain.services.store.begin(LOCAL_TENANT) as tx:
        tx.recall_log.mark(
            [
                Feedback(
                    trace_id=ids.parse(ids.TRACE, trace),
                    memory_id=ids.parse(ids.MEMORY, memory),
                    mark=FeedbackMark.USED,
                    agent="ann",
                    session=None,
                    at=brain.services.clock.now(),
                )
            ]
        )
