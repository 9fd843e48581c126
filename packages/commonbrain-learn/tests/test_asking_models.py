"""Models hold up neither each other nor the end of the process, and give way in turn."""

import os
import subprocess
import sys
from pathlib import Path
from threading import Event

from commonbrain_learn.serving import ModelPool
from commonbrain_models.guarded_model import ModelLimits, ScoringFailure

from commonbrain.model.limits import EMBEDDINGS_AT_ONCE_MAX, MODELS_LOADED_MAX
from commonbrain.model.model_card import ModelCard
from commonbrain.testing.builders import FakeClock
from tests.laid_out_stores import lay_out_store
from tests.storage.learning_contract import a_card

ROOT = Path(__file__).parents[3]
HUNG = Path(__file__).with_name("hung_models.py")
LIMITS = ModelLimits(limit_ms=50, failures=3, cooldown_ms=2000)


def test_process_with_hanging_embedder_and_models_still_exits(path: Path) -> None:
    lay_out_store(path)
    done = subprocess.run(
        [sys.executable, str(HUNG), str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout.count("vector: deadline") == EMBEDDINGS_AT_ONCE_MAX + 1
    assert "took over 50 ms" in done.stdout
    assert "is being loaded" in done.stdout


def answer_of(models: ModelPool[int], card: ModelCard) -> int | ScoringFailure:
    model = models.get("acme", card)
    return model.ready() or model.ask(lambda one: one + 1)


def test_hanging_models_do_not_block_other_models(clock: FakeClock) -> None:
    over = Event()
    models: ModelPool[int] = ModelPool(lambda card: card.id, clock=clock, limits=LIMITS)
    bad, good = a_card(1), a_card(2)
    assert models.get("acme", bad).ready() is None
    for _ in range(3):
        answer = models.get("acme", bad).ask(lambda _: over.wait(30))
        assert answer == ScoringFailure(reason="took over 50 ms", is_model_fault=True)
    assert answer_of(models, good) == good.id + 1
    over.set()


def test_least_recently_used_model_is_evicted(clock: FakeClock) -> None:
    loaded: list[int] = []
    models: ModelPool[int] = ModelPool(
        lambda card: loaded.append(card.id) or card.id, clock=clock, limits=LIMITS
    )
    cards = [a_card(number) for number in range(1, MODELS_LOADED_MAX + 2)]
    for card in (*cards[:-1], cards[0], cards[-1], cards[0]):
        assert answer_of(models, card) == card.id + 1
    assert len(loaded) == len(cards), "the first was used since"
    assert answer_of(models, cards[1]) == cards[1].id + 1
    assert loaded[-1] == cards[1].id
