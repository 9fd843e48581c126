"""Models hold up neither each other nor the end of the process, and give way in turn."""

import subprocess
import sys
from pathlib import Path
from threading import Event

import pytest

from commonbrain.learning.serving import ModelLimits, ModelPool, ScoringFailure
from commonbrain.model.limits import EMBEDDINGS_AT_ONCE_MAX, MODELS_LOADED_MAX
from commonbrain.model.model_card import ModelCard
from commonbrain.testing.builders import FakeClock
from tests.contracts.learning_contract import a_card
from tests.laid_out_stores import lay_out_store

pytestmark = pytest.mark.part("models")

TERMS = ModelLimits(limit_ms=50, failures=3, cooldown_ms=2000)


def test_process_with_hanging_embedder_and_models_still_exits(path: Path) -> None:
    lay_out_store(path)
    done = subprocess.run(
        [sys.executable, "-m", "tests.flows.hung", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.count("vector: deadline") == EMBEDDINGS_AT_ONCE_MAX + 1
    assert "took over 50 ms" in done.stdout
    assert "is being loaded" in done.stdout


def answer_of(models: ModelPool[ModelCard, int], card: ModelCard) -> int | ScoringFailure:
    return models.ready("acme", card) or models.ask("acme", card, question=lambda one: one + 1)


def test_hanging_models_do_not_block_other_models(clock: FakeClock) -> None:
    over = Event()
    models: ModelPool[ModelCard, int] = ModelPool(lambda card: card.id, clock=clock, terms=TERMS)
    bad, good = a_card(1), a_card(2)
    assert models.ready("acme", bad) is None
    for _ in range(3):
        answer = models.ask("acme", bad, question=lambda _: over.wait(30))
        assert answer == ScoringFailure(reason="took over 50 ms", is_model_fault=True)
    assert answer_of(models, good) == good.id + 1
    over.set()


def test_least_recently_used_model_is_evicted(clock: FakeClock) -> None:
    loaded: list[int] = []
    models: ModelPool[ModelCard, int] = ModelPool(
        lambda card: loaded.append(card.id) or card.id, clock=clock, terms=TERMS
    )
    cards = [a_card(number) for number in range(1, MODELS_LOADED_MAX + 2)]
    for card in (*cards[:-1], cards[0], cards[-1], cards[0]):
        assert answer_of(models, card) == card.id + 1
    assert len(loaded) == len(cards), "the first was used since"
    assert answer_of(models, cards[1]) == cards[1].id + 1
    assert loaded[-1] == cards[1].id
