"""Models in service that nothing runs: fixed weights and rules answer, and the log says so."""

import logging
from dataclasses import replace
from typing import NoReturn

import pytest

from commonbrain.client import Brain
from commonbrain.extras import extra_missing
from commonbrain.model.model_card import ModelRole, ModelState
from commonbrain.services import TrainedModels
from tests.asking import stored
from tests.storage.learning_contract import a_card

ASKED = "Where does the kettle stand?"


def missing() -> NoReturn:
    raise extra_missing("commonbrain[learn]", extra="learn")


@pytest.fixture
def without_package(brain: Brain) -> Brain:
    """A brain with models in service, in a process where their package is not installed."""
    services = brain.services
    with services.store.begin(brain.caller.tenant) as tx:
        for number, role in enumerate(ModelRole, 1):
            assert tx.models.add(a_card(number, role=role, state=ModelState.ACTIVE))
    trained = TrainedModels(missing, store=services.store, clock=services.clock)
    return Brain(replace(services, trained=trained), brain.caller)


def test_fixed_weights_and_rules_answer_without_the_package_of_a_model(
    brain: Brain, without_package: Brain, caplog: pytest.LogCaptureFixture
) -> None:
    for text in ("The kettle stands on the stove.", "The kettle is blue.", "Pots are round."):
        stored(brain, text, kind="fact")
    by_weights = brain.recall(ASKED)

    with caplog.at_level(logging.WARNING):
        recalled = [without_package.recall(ASKED) for _ in range(3)]
        [outcome] = without_package.remember("Pans hang in Porto.", kind="fact").items

    for reply in recalled:
        assert [item.id for item in reply.items] == [item.id for item in by_weights.items]
        assert reply.degraded == ()
    assert outcome.warnings == ()
    [warning] = [one.getMessage() for one in caplog.records if "trained model" in one.getMessage()]
    assert "pip install 'commonbrain[learn]'" in warning


def test_doctor_says_what_runs_the_models_in_service(brain: Brain, without_package: Brain) -> None:
    report = without_package.doctor()

    [finding] = [one for one in report.findings if one.check == "models"]
    assert not finding.is_sound
    assert "reranker" in finding.detail
    assert "fixed weights and rules answer" in finding.detail
    assert finding.hint == "Install it with: pip install 'commonbrain[learn]'"
    with brain.services.store.begin(brain.caller.tenant) as tx:
        for card in tx.models.serving():
            assert tx.models.move(card, replace(card, state=ModelState.RETIRED))
    assert "models" not in [one.check for one in without_package.doctor().findings]


def test_no_card_is_read_where_training_never_made_an_artifact(brain: Brain) -> None:
    services = brain.services
    with services.store.begin(brain.caller.tenant) as tx:
        assert tx.models.add(a_card(1, role=ModelRole.RERANKER, state=ModelState.ACTIVE))

    assert not services.trained.serving(brain.caller.tenant, ModelRole.RERANKER)
    services.blobs()
    assert services.trained.serving(brain.caller.tenant, ModelRole.RERANKER)
