"""A model in canary orders a sticky share of recalls, harms none, and is rolled back by itself."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from commonbrain_learn.rollout import Actor, start_canary
from commonbrain_learn.serving import Reranker
from ranking_helpers import (
    ByFeature,
    Numberless,
    Shop,
    Then,
    audited,
    crashing,
    hanging,
    marked,
    sessions_of,
    slow,
    state_of,
    with_models,
)

from commonbrain.client import Brain
from commonbrain.model.model_card import ModelCard, ModelState
from commonbrain.model.query import RecallLogEntry
from commonbrain.storage.interface import EntryFilter
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import stored

ASKED = "Where does the kettle stand?"


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def brain(path: Path, clock: FakeClock, shop: Shop) -> Iterator[Brain]:
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
    """Put a model in canary as an admin does."""
    card = shop.card(brain, reranker)
    with brain.services.store.begin(brain.caller.tenant) as tx:
        by = Actor(at=brain.services.clock.now(), agent="ann", reason="a trial")
        [card] = start_canary(tx, card, percent=percent, allow=allow, by=by)
    brain.services.trained.forget(brain.caller.tenant)
    return card


def entries(brain: Brain) -> list[RecallLogEntry]:
    brain.services.journal.flush()
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        return tx.recall_log.entries(EntryFilter(), limit=1000)


def test_canary_model_ranks_only_recalls_of_its_own_sessions(brain: Brain, shop: Shop) -> None:
    weights = [item.id for item in brain.recall(ASKED, max_items=12).items]
    card = on_trial(brain, shop, ByFeature(sign=-1), percent=50)
    served = brain.acting_as(session=sessions_of(card, count=1)[0])
    not_served = brain.acting_as(session=sessions_of(card, count=1, served=False)[0])
    by_model = served.recall(ASKED, max_items=12)
    by_weights = not_served.recall(ASKED, max_items=12)

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


def test_canary_does_not_reorder_browsing(brain: Brain, shop: Shop) -> None:
    newest = [item.id for item in brain.recall().items]
    on_trial(brain, shop, ByFeature("recency", sign=-1))
    assert [item.id for item in brain.recall().items] == newest


@pytest.mark.parametrize(
    ("reranker", "says"),
    [
        (crashing("secret body"), "failed with IndexError"),
        (Numberless(), "no score that is a number"),
        (ByFeature("fused"), "its features are not those of its card"),
    ],
)
def test_failing_model_leaves_the_default_order_and_is_rolled_back(
    brain: Brain, shop: Shop, clock: FakeClock, reranker: Reranker, says: str
) -> None:
    weights = [item.id for item in brain.recall(ASKED).items]
    card = on_trial(brain, shop, reranker)
    if "features" in says:
        shop.models[card.digest] = ByFeature("recency")
    for _ in range(5):
        answer = brain.recall(ASKED)
        assert [item.id for item in answer.items] == weights
        assert "reranker: mdl_" in answer.degraded[0]
        assert says in answer.degraded[0]
        assert "secret" not in answer.degraded[0]
        clock.move(timedelta(seconds=2))
    brain.services.journal.flush()

    assert state_of(brain, card) is ModelState.ROLLED_BACK
    assert "errors: 5 of the last 5 recalls failed" in audited(brain)["model_rolled_back"]
    assert brain.recall(ASKED).degraded == ()


def test_model_is_paused_after_three_failures_in_a_row(
    brain: Brain, shop: Shop, clock: FakeClock
) -> None:
    calls: list[None] = []
    on_trial(brain, shop, Then(does=lambda: calls.append(None) or 1 / 0))
    for _ in range(5):
        brain.recall(ASKED)
    assert len(calls) == 3
    assert "rests after 3 failures" in brain.recall(ASKED).degraded[0]
    clock.move(timedelta(seconds=2))
    brain.recall(ASKED)
    assert len(calls) == 4


def test_hanging_model_delays_no_recall_and_is_rolled_back(
    brain: Brain, shop: Shop, clock: FakeClock
) -> None:
    over = Event()
    card = on_trial(brain, shop, hanging(over))
    for _ in range(5):
        answer = brain.recall(ASKED)
        assert answer.items
        assert "took over 50 ms" in answer.degraded[0]
        clock.move(timedelta(seconds=2))
    brain.services.journal.flush()
    over.set()
    assert state_of(brain, card) is ModelState.ROLLED_BACK


def test_slow_model_is_rolled_back(brain: Brain, shop: Shop, clock: FakeClock) -> None:
    card = on_trial(brain, shop, slow(clock, 30))
    for _ in range(5):
        assert brain.recall(ASKED).degraded == ()
    brain.services.journal.flush()
    assert state_of(brain, card) is ModelState.ROLLED_BACK
    why = audited(brain)["model_rolled_back"]
    assert "slowness: 5 of the last 5 recalls took over 20 ms to order" in why


def test_model_that_shows_more_untrusted_memories_is_rolled_back(brain: Brain, shop: Shop) -> None:
    for number in range(3):
        stored(brain, f"Kettles sell for {number} euros.", kind="fact", trust="untrusted_web")
    card = on_trial(brain, shop, ByFeature("trust", sign=-1))
    for _ in range(8):
        usual, unlimited = (
            brain.recall(ASKED, max_items=2),
            brain.recall(ASKED, max_items=2, trust_min=0.0),
        )
        # Policy has the last word, whatever a model makes of it.
        assert {item.trust.weight for item in usual.items} == {0.7}
        assert [item.trust.weight for item in unlimited.items] == [0.35, 0.7]
        assert unlimited.degraded == ()
    brain.services.journal.flush()
    assert state_of(brain, card) is ModelState.ROLLED_BACK
    assert "safety: 8 of the last 16 recalls showed more" in audited(brain)["model_rolled_back"]


def test_model_that_ranks_worse_is_rolled_back(brain: Brain, shop: Shop, clock: FakeClock) -> None:
    card = on_trial(brain, shop, ByFeature(sign=-1), percent=50)
    best = brain.recall(ASKED).items[0].id
    drawn = [sessions_of(card, count=10, served=served) for served in (True, False)]
    for _ in range(5):
        for session in (*drawn[0], *drawn[1]):
            clock.move(timedelta(seconds=1))
            answer = brain.acting_as(session=session).recall(ASKED, max_items=3)
            assert answer.degraded == ()
            # An agent uses what answers, where it is shown.
            brain.services.journal.flush()
            if best in [item.id for item in answer.items]:
                marked(brain, answer.trace_id, best)
    assert state_of(brain, card) is ModelState.CANARY
    clock.move(timedelta(seconds=1))
    brain.acting_as(session=drawn[0][0]).recall(ASKED)
    brain.services.journal.flush()
    assert state_of(brain, card) is ModelState.ROLLED_BACK
    assert "quality: answers helped less often: by -1.000" in audited(brain)["model_rolled_back"]
