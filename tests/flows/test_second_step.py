"""Questions whose answer lies in several memories are searched a second time."""

from datetime import UTC, datetime, timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.query import Budget, Candidate, Filter
from commonbrain.model.scope import Scope
from commonbrain.retrieval.query_plan import (
    QueryPlan,
    RetrievalOverrides,
    plan_query,
    words_of,
)
from commonbrain.retrieval.second_step import asks_for_several, search_people, spread
from commonbrain.retrieval.service import Recall
from commonbrain.storage.interface import QueryScope
from commonbrain.testing.builders import a_memory

BEGAN = datetime(2026, 3, 1, 9, tzinfo=UTC)
QUESTION = "Which instruments has Ana played?"


def say(brain: Brain, *texts: str, who: str, thread: str, scope: Scope = Scope.TEAM) -> None:
    """Store messages of one speaker in a thread, a minute apart."""
    brain.remember(
        [
            Draft(
                kind=Kind.MESSAGE,
                body=text,
                scope=scope,
                thread=ThreadRef(key=thread, subject=thread),
                occurred_at=BEGAN + timedelta(minutes=number),
                detail=MessageDetail(sender=who),
            )
            for number, text in enumerate(texts)
        ]
    )


def recalled(brain: Brain, *without: str, query: str = QUESTION) -> list[str]:
    recall = Recall(
        brain.services, brain.caller, RetrievalOverrides(without=frozenset({*without, "verdict"}))
    )
    return [item.body or "" for item in recall(query, max_items=20).items]


def planned(brain: Brain, query: str, **filters: tuple[str, ...]) -> QueryPlan:
    scope = QueryScope(caller=brain.caller, filter=Filter(**filters), now=BEGAN)  # type: ignore[arg-type]
    return plan_query(
        query,
        scope,
        budget=Budget(max_items=12, max_tokens=1400),
        speakers={"ana"} & words_of(query),
    )


def searched(brain: Brain, **filters: tuple[str, ...]) -> set[str]:
    """Give the bodies that the second search finds by itself."""
    plan = planned(brain, QUESTION, **filters)
    vector = brain.services.embedder.query(QUESTION)
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        return {
            one.body
            for one in tx.memories.get(list(search_people(tx, plan, vector=vector))).values()
        }


def spoken(id_: int, score: float, *, thread: int | None) -> Candidate:
    memory = a_memory(id_, "x", kind=Kind.MESSAGE, detail=MessageDetail(thread_id=thread))
    return Candidate(memory=memory, features={"skill": 0.0}, score=score)


def test_candidate_of_another_conversation_outranks_later_ones_of_the_same() -> None:
    ranked = [spoken(n, 0.5 - n / 100, thread=7) for n in range(1, 4)]
    placed = spread([*ranked, spoken(4, 0.455, thread=8), spoken(5, 0.1, thread=None)])

    assert [one.memory.id for one in placed] == [1, 2, 4, 3, 5]
    assert [one.features["crowded"] for one in placed] == [0, 1, 0, 2, 0]
    assert [one.score for one in placed] == sorted((one.score for one in placed), reverse=True)


def test_second_search_recalls_memories_of_the_people_named(brain: Brain) -> None:
    say(brain, "The harp is what I play.", who="Ana", thread="one")
    say(brain, "Which instruments has he played?", who="Bo", thread="two")

    assert searched(brain) == {"The harp is what I play."}


def test_second_search_respects_filter_and_visibility(brain: Brain) -> None:
    say(brain, "The harp is what I play.", who="Ana", thread="one")
    other = brain.acting_as(agent="other")
    say(other, "The drum is what I play.", who="Ana", thread="two", scope=Scope.PRIVATE)

    assert searched(brain) == {"The harp is what I play."}
    assert searched(brain, people=("bo",)) == set()


def test_query_for_several_memories_takes_the_second_step(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    for query in (
        "What books has Ana read?",
        "Where has Ana camped?",
        "How many times did Ana move?",
        "Which of the outdoor activities does Ana enjoy?",
    ):
        with subtests.test(query=query):
            assert asks_for_several(planned(brain, query))


def test_other_queries_take_one_step(brain: Brain, subtests: pytest.Subtests) -> None:
    for query in (
        "What did Ana say about the harp?",
        "When did Ana move?",
        "What fields would Ana study?",
        "Which books were read?",
        "What has Ana played at the concert of the school in the village by the lake?",
        "What is the process that Ana follows?",
    ):
        with subtests.test(query=query):
            assert not asks_for_several(planned(brain, query))


def test_other_queries_are_ranked_as_without_the_second_step(brain: Brain) -> None:
    say(brain, "The harp is what I play.", "It is old.", who="Ana", thread="one")
    say(brain, "The fiddle is what I play.", who="Ana", thread="two")
    query = "Why does Ana play the harp?"

    assert recalled(brain, query=query) == recalled(brain, "second_step", query=query)
