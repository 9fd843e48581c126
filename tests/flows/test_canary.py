"""A model in canary orders a sticky share of recalls, harms none, and is rolled back by itself."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from commonbrain.brain import Brain
from commonbrain.domain.model_card import ModelCard, ModelState
from commonbrain.flows.moves import By, put_to_test
from commonbrain.ports.ledger import EntryFilter
from commonbrain.ports.models import Reranker
from commonbrain.testing.builders import a_brain
from commonbrain.testing.clock import FakeClock
from tests.flows.asking import stored
from tests.flows.ranking import (
    ByFeature,
    Numberless,
    Shop,
    audited,
    crashing,
    sessions_of,
    state_of,
    with_models,
)

ASKED = "Where does the kettle stand?"


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def brain(path, clock: FakeClock, shop: Shop) -> Iterator[Brain]:
    with a_brain(path, clock=clock) as plain:
        for number in range(8):
            stored(plain, f"The kettle number {number} stands {'up ' * number}there.", kind="fact")
        yield with_models(plain, shop)


def on_trial(
    brain: Brain,
    shop: Shop,
    reranker: Reranker,
    *,
    percent: float = 100.0,
    allow: tuple[str, ...] = (),
) -> ModelCard:
    """Put a model in canary as somebody would."""
    card = shop.card(brain, reranker)
    with brain.house.store.begin(brain.caller.tenant) as tx:
        by = By(at=brain.house.clock.now(), agent="ann", reason="a trial")
        [card] = put_to_test(tx, card, percent=percent, allow=allow, by=by)
    brain.house.rankers.forget(brain.caller.tenant)
    return card


def entries(brain: Brain):
    brain.house.journal.flush()
    with brain.house.store.snapshot(brain.caller.tenant) as tx:
        return tx.ledger.entries(EntryFilter(), limit=1000)


def test_a_canary_orders_the_recalls_of_its_sessions_alone(brain: Brain, shop: Shop) -> None:
    weights = [item.id for item in brain.recall(ASKED).items]
    card = on_trial(brain, shop, ByFeature(sign=-1), percent=50)
    mine = brain.acting_as(session=sessions_of(card, count=1)[0])
    theirs = brain.acting_as(session=sessions_of(card, count=1, served=False)[0])
    by_model, by_weights = mine.recall(ASKED), theirs.recall(ASKED)

    assert [item.id for item in by_weights.items] == weights
    assert [item.id for item in by_model.items] != weights
    assert {item.id for item in by_model.items} == set(weights)
    assert by_model.degraded == ()
    scores = [item.score for item in by_model.items]
    assert scores == sorted(scores, reverse=True) == [item.score for item in by_weights.items]
    _, ranked, plain = entries(brain)
    assert (ranked.ranker, plain.ranker) == (card.id, None)
    assert "rerank" in ranked.stages_ms
    assert "rerank" not in plain.stages_ms
    assert shop.loads == 1


def test_browsing_stays_as_it_is(brain: Brain, shop: Shop) -> None:
    newest = [item.id for item in brain.recall().items]
    on_trial(brain, shop, ByFeature("recency", sign=-1))
    assert [item.id for item in brain.recall().items] == newest


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda _: crashing("secret body"), "failed with IndexError"),
        (lambda _: Numberless(), "no score that is a number"),
        (lambda _: ByFeature("fused"), "its features are not those of its card"),
    ],
)
def test_a_model_that_fails_leaves_the_order_of_fixed_weights_and_is_rolled_back(
    brain: Brain, shop: Shop, clock: FakeClock, make, says: str
) -> None:
    weights = [item.id for item in brain.recall(ASKED).items]
    card = on_trial(brain, shop, make(None))
    if "features" in says:
        shop.models[card.digest] = ByFeature("recency")
    for _ in range(6):
        answer = brain.recall(ASKED)
        assert [item.id for item in answer.items] == weights
        assert "reranker: mdl_" in answer.degraded[0]
        clock.move(timedelta(seconds=2))
    assert says in answer.degraded[0]
    assert "secret" not in answer.degraded[0]
    brain.house.journal.flush()

    assert state_of(brain, card) is ModelState.ROLLED_BACK
    assert (
        "errors: 5 of the last" in audited(brain)["model_rolled_back"]
        or "6 of the last" in audited(brain)["model_rolled_back"]
    )
    after = brain.recall(ASKED)
    assert after.degraded == ()
