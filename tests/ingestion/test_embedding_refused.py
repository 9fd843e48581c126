"""A call that is refused or too late stores nothing, however its texts would be found."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Matrix
from commonbrain.ingestion.embedding import embed_if_free
from commonbrain.model.errors import BusyError, DeadlineError, UnavailableError
from commonbrain.model.memory import Draft
from commonbrain.testing.builders import WordHashEmbedder, a_brain, a_memory
from tests.asking import remember_one, stored

ERRORS = [BusyError("Too many texts wait."), DeadlineError("The caller no longer waits.")]
FACT = "The nightly build runs at three."


@dataclass
class RefusingEmbedder(WordHashEmbedder):
    """Raises an error for every text, once there is one."""

    error: UnavailableError | None = None
    calls: int = 0

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        self.calls += 1
        if self.error is not None:
            raise self.error
        return super().passages(texts)


def remember(brain: Brain, _: str) -> None:
    remember_one(brain, "The weekly build runs at five.", kind="fact")


def remember_several(brain: Brain, _: str) -> None:
    brain.remember([Draft(body=f"Kettle {n} is hot.", kind="fact") for n in range(2)])


def supersede(brain: Brain, id_: str) -> None:
    brain.revise.supersede(id_, "The nightly build runs at four.", reason="moved")


def send(brain: Brain, _: str) -> None:
    brain.message.send("ben", "The oven is hot.")


def hand_over(brain: Brain, _: str) -> None:
    brain.acting_as(session="s1").session.handoff("The oven is built.")


def restore(brain: Brain, id_: str) -> None:
    brain.revise.restore(id_, reason="still true")


def undo(brain: Brain, _: str) -> None:
    count = brain.undo(reason="a mistake", agent="ann").count
    brain.undo(reason="a mistake", agent="ann", confirm=count)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
@pytest.mark.parametrize("call", [remember, remember_several, supersede, send, hand_over])
def test_text_is_not_stored_without_vectors_when_the_embedder_refuses_the_call(
    path: Path, call: Callable[[Brain, str], None], error: UnavailableError
) -> None:
    embedder = RefusingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        id_ = stored(brain, FACT, kind="fact")
        before = brain.status().memories
        embedder.error = error

        with pytest.raises(type(error)):
            call(brain, id_)

        assert brain.status().memories == before
        assert brain.status().embedding_pending == 0
        assert brain.get(id_).state == "active"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
@pytest.mark.parametrize("call", [restore, undo])
def test_memory_is_not_restored_without_vectors_when_the_embedder_refuses_the_call(
    path: Path, call: Callable[[Brain, str], None], error: UnavailableError
) -> None:
    embedder = RefusingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        id_ = stored(brain.acting_as(agent="ben"), FACT, kind="fact")
        brain.forget(id_, reason="an error")
        embedder.error = error

        with pytest.raises(type(error)):
            call(brain, id_)
        assert brain.get(id_).state == "forgotten"

        embedder.error = None
        call(brain, id_)
        assert brain.get(id_).state == "active"


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_pending_texts_are_not_tried_one_by_one_after_the_embedder_refused_the_call(
    error: UnavailableError,
) -> None:
    embedder = RefusingEmbedder(error=error)
    waiting = [a_memory(number, f"Kettle {number} is hot.") for number in range(1, 4)]

    with pytest.raises(type(error)):
        embed_if_free(waiting, embedder)

    assert embedder.calls == 1
