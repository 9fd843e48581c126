"""Telling what seems to answer from what only comes nearest, and what an answer is then."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.kinds import AtomDetail, RuleDetail
from commonbrain.model.limits import RECALL_ITEMS_DEFAULT, RECALL_TOKENS_DEFAULT
from commonbrain.model.query import Budget, Candidate, Filter
from commonbrain.model.recall_result import HEADING, UNSURE, ResultStatus
from commonbrain.model.scope import Caller
from commonbrain.retrieval.plan import QueryPlan, RetrievalOverrides, plan_query
from commonbrain.retrieval.recall import (
    FALLBACK_ITEMS_MAX,
    FALLBACK_TOKENS_MAX,
    Recall,
    choose_budget,
)
from commonbrain.retrieval.score import (
    LENGTH_PENALTY,
    LEXICAL_WEIGHT,
    answer_score,
)
from commonbrain.storage.interface import QueryScope
from commonbrain.testing.builders import NOON, a_brain, a_memory
from commonbrain.text.tokens import estimate
from tests.asking import FailingEmbedder, stored

FERRY = "The ferry leaves from pier 4 at dawn"
FAR = "Which ferry module did the linter complain of after the rename on branch nine?"
MAY = datetime(2025, 5, 8, 12, tzinfo=UTC)


class MeasuredEmbedder(FailingEmbedder):
    """Knows from where on something answers in its space."""

    space = replace(FailingEmbedder.space, answer_threshold=0.46)


@pytest.fixture
def embedder() -> MeasuredEmbedder:
    return MeasuredEmbedder()


@pytest.fixture
def measured(path: Path, embedder: MeasuredEmbedder) -> Iterator[Brain]:
    with a_brain(path, embedder=embedder) as brain:
        yield brain


def a_plan(query: str) -> QueryPlan:
    query_scope = QueryScope(caller=Caller(agent="ann"), filter=Filter(), now=NOON)
    return plan_query(query, query_scope, budget=Budget(), speakers=())


def near(query: str, body: str, *, cosine: float = 0.0) -> float:
    candidate = Candidate(memory=a_memory(1, body), features={}, score=0.0)
    return answer_score(a_plan(query), candidate, cosine=cosine)


def test_inflected_words_of_a_query_raise_the_match_score() -> None:
    assert (
        near("migrating databases", "We migrate the database", cosine=0.25) == 0.25 + LEXICAL_WEIGHT
    )
    assert near("migrating zebras", "We migrate the database") == LEXICAL_WEIGHT / 2
    assert near("harbour fees", "Überfees of the outharbour") == 0


def test_inflected_word_of_another_language_counts_as_a_match() -> None:
    assert near("Fähren", "Die Fähre legt um sechs ab") == LEXICAL_WEIGHT


def test_time_expression_of_a_query_is_not_a_search_term() -> None:
    assert near("ferries in May 2025", FERRY.replace("ferry", "ferries")) == LEXICAL_WEIGHT


def test_length_of_a_text_lowers_its_match_score() -> None:
    short, long = near("ferry", FERRY), near("ferry", f"{FERRY} {'and so on ' * 200}")

    assert short == LEXICAL_WEIGHT
    assert LEXICAL_WEIGHT - 4 * LENGTH_PENALTY < long < short


def test_weak_matches_are_few_short_and_marked_as_uncertain(measured: Brain) -> None:
    for pier in range(20):
        stored(measured, f"The ferry number {pier} leaves from pier {pier} at dawn", kind="fact")
    answer = measured.recall(FAR)

    assert answer.verdict is ResultStatus.BELOW_THRESHOLD
    assert 0 < len(answer.items) <= FALLBACK_ITEMS_MAX
    assert answer.omitted.count == 20 - len(answer.items)
    assert estimate(answer.evidence) <= answer.tokens <= FALLBACK_TOKENS_MAX
    assert answer.evidence.splitlines()[:2] == [HEADING, UNSURE]


def test_recall_for_more_than_usual_returns_more(
    measured: Brain, subtests: pytest.Subtests
) -> None:
    for text in ("Ferry timetable", "A ferry sank", "Ferry fares rise", "Blue ferry", "No ferry"):
        stored(measured, text, kind="event")
    for items, tokens in [
        (RECALL_ITEMS_DEFAULT + 1, RECALL_TOKENS_DEFAULT),
        (5, RECALL_TOKENS_DEFAULT + 1),
    ]:
        with subtests.test(items=items, tokens=tokens):
            answer = measured.recall(FAR, max_items=items, max_tokens=tokens)

            assert (len(answer.items), answer.verdict) == (5, ResultStatus.BELOW_THRESHOLD)


def test_single_matching_memory_is_an_answer(measured: Brain) -> None:
    stored(measured, FERRY, kind="fact")

    assert measured.recall("when does the ferry leave?").verdict is ResultStatus.FOUND
    assert UNSURE not in measured.recall("when does the ferry leave?").evidence
    assert measured.recall(FAR).verdict is ResultStatus.BELOW_THRESHOLD
    assert measured.recall("zebra habitats").items == ()


def test_no_answer_detection_can_be_disabled(measured: Brain) -> None:
    stored(measured, FERRY, kind="fact")
    without = Recall(
        measured.services, measured.caller, RetrievalOverrides(without=frozenset({"verdict"}))
    )

    assert without(FAR).verdict is ResultStatus.FOUND


def test_uncalibrated_space_accepts_every_near_match_as_an_answer(brain: Brain) -> None:
    stored(brain, FERRY, kind="fact")

    assert brain.recall(FAR).verdict is ResultStatus.FOUND


def test_zero_answer_threshold_accepts_every_match_as_an_answer(path: Path) -> None:
    embedder = MeasuredEmbedder()
    embedder.space = replace(embedder.space, answer_threshold=0.0)
    with a_brain(path, embedder=embedder) as brain:
        stored(brain, FERRY, kind="fact")

        assert brain.recall(FAR).verdict is ResultStatus.FOUND


def test_browsing_and_queries_of_time_are_answered_by_any_memory(measured: Brain) -> None:
    stored(measured, FERRY, kind="event", occurred_at=MAY)

    assert measured.recall().verdict is ResultStatus.FOUND
    assert measured.recall("what happened in May 2025?").verdict is ResultStatus.FOUND


def test_skill_triggered_by_a_query_counts_as_an_answer(measured: Brain) -> None:
    skill = RuleDetail(skill={"name": "ferry", "keywords": ["ferry"], "projects": []})
    stored(measured, "Buy the ticket before boarding", kind="rule", detail=skill)

    assert measured.recall(FAR).verdict is ResultStatus.FOUND


def test_query_of_a_single_atom_field_bypasses_no_answer_detection(measured: Brain) -> None:
    detail = AtomDetail(subject="ferry", action="left", outcome="on time")
    stored(measured, "The ferry left on time", kind="atom", detail=detail)

    assert measured.recall(FAR, field="subject").verdict is ResultStatus.FOUND


def test_words_alone_decide_on_an_answer_while_the_embedder_is_down(
    measured: Brain, embedder: MeasuredEmbedder
) -> None:
    stored(measured, FERRY, kind="fact")
    embedder.is_down = True
    answer = measured.recall(FAR)

    assert (answer.verdict, len(answer.items)) == (ResultStatus.FOUND, 1)
    assert answer.degraded


def test_memory_without_a_vector_is_not_judged_too_distant(
    measured: Brain, embedder: MeasuredEmbedder
) -> None:
    stored(measured, "Zebras live in Namibia", kind="fact")
    embedder.is_down = True
    stored(measured, FERRY, kind="fact")
    embedder.is_down = False

    assert measured.recall(FAR).verdict is ResultStatus.FOUND


@pytest.mark.parametrize(("query", "is_cut"), [("ferry at dawn", True), ("all ferries", False)])
def test_question_for_all_leaves_out_nothing_that_is_weak(query: str, *, is_cut: bool) -> None:
    plan = a_plan(query)
    budget = replace(plan.budget, is_default=True)
    chosen = choose_budget(replace(plan, budget=budget), is_answered=True)
    assert chosen.is_default is is_cut


def test_linked_memory_does_not_raise_a_weak_match_to_an_answer(measured: Brain) -> None:
    near, linked = stored(measured, FERRY, kind="fact"), stored(measured, "Zebras", kind="event")
    measured.revise.link(linked, near, type="causes")
    answer = measured.recall(FAR)

    assert {item.id for item in answer.items} == {near, linked}
    assert answer.verdict is ResultStatus.BELOW_THRESHOLD
