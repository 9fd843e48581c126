from commonbrain.client import Brain
from commonbrain.retrieval.fusion import ARM_WEIGHTS
from commonbrain.retrieval.query_plan import AS_EVER, Tuning
from commonbrain.retrieval.ranking import WEIGHTS
from commonbrain.retrieval.service import Recall


def recall(brain: Brain, *without: str) -> Recall:
    return Recall(brain.house, brain.caller, Tuning(without=frozenset(without)))


def test_as_it_comes_nothing_is_otherwise() -> None:
    assert AS_EVER.of(WEIGHTS) is WEIGHTS
    assert AS_EVER.has("lexical")


def test_what_is_left_out_weighs_nothing_and_what_is_given_weighs_so_much() -> None:
    told = Tuning(without=frozenset({"lexical"}), weights={"vector": 0.9, "lexical": 0.8})

    assert told.of(ARM_WEIGHTS)["lexical"] == 0
    assert told.of(ARM_WEIGHTS)["vector"] == 0.9
    assert told.of(ARM_WEIGHTS)["recent"] == ARM_WEIGHTS["recent"]


def test_an_arm_that_is_left_out_brings_nothing(brain: Brain) -> None:
    brain.remember("The mooring fee is due on the first of April.", kind="fact")

    assert recall(brain, "vector")("mooring fee").items
    assert recall(brain, "lexical")("mooring fee").items
    assert not recall(brain, "lexical", "vector")("mooring fee").items


def test_a_feature_that_is_left_out_orders_nothing(brain: Brain) -> None:
    brain.remember("The mooring fee is due on the first of April.", kind="fact")
    [usual] = brain.recall("mooring fee").items
    [bare] = recall(brain, *(set(WEIGHTS) - {"fused"}))("mooring fee").items

    assert bare.score < usual.score


def test_without_the_threshold_what_is_far_is_found_as_well(brain: Brain) -> None:
    brain.remember("The mooring fee is due on the first of April.", kind="fact")

    assert not brain.recall("quarterly zebra census").items
    assert recall(brain, "threshold")("quarterly zebra census").items
