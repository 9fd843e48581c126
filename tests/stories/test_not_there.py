"""An answer that is not there: nothing is made up, and the reply says which nothing it is."""

import random

import pytest

from commonbrain.client import Brain
from commonbrain.model.recall_result import ResultStatus
from tests.asking import bodies, stored

KNOWN = (
    "The staging database is rebuilt every night",
    "Invoices are sent on the first of the month",
    "The mobile app talks to the gateway over gRPC",
)
UNKNOWN = (
    "Who won chess in Vienna?",
    "zebra habitats in Namibia",
    "Which colour has our sofa?",
)


@pytest.fixture
def team(brain: Brain) -> Brain:
    for text in KNOWN:
        stored(brain, text, kind="fact")
    return brain


def test_empty_store_is_reported_as_empty(brain: Brain) -> None:
    for question in ("", *UNKNOWN):
        answer = brain.recall(question)
        assert (answer.items, answer.verdict) == ((), ResultStatus.NOTHING_STORED)


def test_unanswerable_query_returns_no_memory(team: Brain, subtests: pytest.Subtests) -> None:
    for question in UNKNOWN:
        with subtests.test(question=question):
            answer = team.recall(question)
            assert (answer.items, answer.verdict) == ((), ResultStatus.BELOW_THRESHOLD)
            assert (answer.evidence, answer.conflicts, answer.confidence) == ("", (), None)


def test_filter_without_matches_has_its_own_status(team: Brain) -> None:
    assert team.recall("staging", labels=["runbook"]).verdict is ResultStatus.NOTHING_STORED
    assert team.recall("staging", since="2030-01-01").verdict is ResultStatus.NOTHING_STORED


def test_word_order_of_a_query_does_not_change_the_best_match(team: Brain) -> None:
    words = "when is the staging database rebuilt".split()
    for seed in range(5):
        random.Random(seed).shuffle(words)  # noqa: S311 the same order every time
        assert bodies(team, " ".join(words))[0] == KNOWN[0]


def test_every_answer_consists_of_stored_texts(team: Brain) -> None:
    for question in (*KNOWN, "database invoices gateway"):
        assert set(bodies(team, question)) <= set(KNOWN)
