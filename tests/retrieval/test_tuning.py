import dataclasses

import pytest

from commonbrain.client import Brain
from commonbrain.model.query import Budget, Filter
from commonbrain.model.scope import Caller
from commonbrain.retrieval.plan import NO_OVERRIDES, RetrievalOverrides, plan_query
from commonbrain.retrieval.recall import Recall
from commonbrain.retrieval.retrieve import RETRIEVER_WEIGHTS, RETRIEVERS, Retriever
from commonbrain.retrieval.score import FEATURE_WEIGHTS
from commonbrain.storage.interface import QueryScope
from commonbrain.testing.builders import NOON

FIELDS = dataclasses.fields(Retriever)


def recall(brain: Brain, *without: str) -> Recall:
    return Recall(brain.services, brain.caller, RetrievalOverrides(without=frozenset(without)))


def test_no_overrides_leave_all_weights_unchanged() -> None:
    assert NO_OVERRIDES.of(FEATURE_WEIGHTS) is FEATURE_WEIGHTS
    assert NO_OVERRIDES.is_enabled("lexical")


def test_overrides_set_weights_and_zero_the_excluded_ones() -> None:
    reply = RetrievalOverrides(
        without=frozenset({"lexical"}), weights={"vector": 0.9, "lexical": 0.8}
    )

    assert reply.of(RETRIEVER_WEIGHTS)["lexical"] == 0
    assert reply.of(RETRIEVER_WEIGHTS)["vector"] == 0.9
    assert reply.of(RETRIEVER_WEIGHTS)["recent"] == RETRIEVER_WEIGHTS["recent"]


def test_excluded_retriever_returns_nothing(brain: Brain) -> None:
    brain.remember("The mooring fee is due on the first of April.", kind="fact")

    assert recall(brain, "vector")("mooring fee").items
    assert recall(brain, "lexical")("mooring fee").items
    assert not recall(brain, "lexical", "vector")("mooring fee").items


def test_excluded_feature_adds_no_score(brain: Brain) -> None:
    brain.remember("The mooring fee is due on the first of April.", kind="fact")
    [usual] = brain.recall("mooring fee").items
    [bare] = recall(brain, *(set(FEATURE_WEIGHTS) - {"fused"}))("mooring fee").items

    assert bare.score < usual.score


def test_recall_without_the_threshold_returns_irrelevant_memories(brain: Brain) -> None:
    brain.remember("The mooring fee is due on the first of April.", kind="fact")

    assert not brain.recall("quarterly zebra census").items
    assert recall(brain, "threshold")("quarterly zebra census").items


def test_query_has_no_period_when_time_expressions_are_disabled() -> None:
    scope = QueryScope(caller=Caller(agent="ann"), filter=Filter(), now=NOON)
    for without in ((), ("time",)):
        overrides = RetrievalOverrides(without=frozenset(without))
        plan = plan_query(
            "What happened yesterday?", scope, budget=Budget(), speakers=(), overrides=overrides
        )
        assert (plan.period is None) is bool(without)
        assert plan.is_about_time is not bool(without)
        assert plan.overrides is overrides


def test_retriever_needs_a_value_for_every_field(subtests: pytest.Subtests) -> None:
    for missing in [field.name for field in FIELDS]:
        with subtests.test(missing=missing):
            complete = {field.name: getattr(RETRIEVERS["lexical"], field.name) for field in FIELDS}
            del complete[missing]

            with pytest.raises(TypeError, match=missing):
                Retriever(**complete)


def test_every_weighted_retriever_orders_results_until_it_is_left_out(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    brain.remember("The mooring fee is due on the first of April.", kind="fact")
    for name in [name for name, one in RETRIEVERS.items() if one.weight]:
        with subtests.test(name=name):
            query = "" if name == "recent" else "mooring fee"
            others = set(RETRIEVERS) - {name}

            [results] = recall(brain, *others, "threshold")(query).items
            assert RETRIEVERS[name].reason in results.why
            assert not recall(brain, *RETRIEVERS, "threshold")(query).items
