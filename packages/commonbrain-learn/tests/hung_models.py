"""A process whose embedder, reranker and model of salience hang for good, and its end."""

import sys
from dataclasses import replace
from pathlib import Path
from threading import Event

from commonbrain_learn.salience_model import LearnedSalience
from commonbrain_learn.usefulness import FEATURES
from ranking_helpers import Shop, Then, on_trial, with_models, with_salience

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Matrix
from commonbrain.model.limits import EMBEDDINGS_AT_ONCE_MAX
from commonbrain.model.model_card import ModelRole, ModelState
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.testing.builders import WordHashEmbedder, a_brain
from tests.asking import stored
from tests.storage.learning_contract import a_card


def never(_: str) -> LearnedSalience:
    """Load for good."""
    Event().wait()
    raise AssertionError("nobody sets it")


class Hung(WordHashEmbedder):
    """Makes vectors of memories, and none of a question."""

    def query(self, text: str) -> Matrix:
        """Hang."""
        Event().wait()
        return super().query(text)


def main(path: Path) -> None:
    """Ask them, and say what came of it."""
    with a_brain(path) as plain:
        stored(plain, "The kettle stands there.", kind="fact")
        hung = Brain(replace(plain.services, embedder=Hung()), plain.caller)
        for _ in range(EMBEDDINGS_AT_ONCE_MAX + 1):
            timed = hung.recall("Where does the kettle stand?", deadline_ms=50)
            sys.stdout.write(f"{timed.degraded}\n")

        shop = Shop()
        brain = with_models(plain, shop)
        on_trial(brain, shop, Then(does=Event().wait))
        sys.stdout.write(f"{brain.recall('Where does the kettle stand?').degraded}\n")

        services = brain.services
        with services.store.begin(LOCAL_TENANT) as tx:
            role, state = ModelRole.SALIENCE, ModelState.ACTIVE
            tx.models.add(a_card(1, role=role, state=state, features=FEATURES))
        writing = with_salience(brain, never)
        [outcome] = writing.remember("Pots are round.", kind="event").items
        sys.stdout.write(f"{outcome.warnings}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
