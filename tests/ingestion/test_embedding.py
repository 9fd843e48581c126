"""With an endpoint down a memory is kept and found by its words; its vectors come later."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.embeddings.interface import Matrix
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import InvalidInputError, UnavailableError
from commonbrain.model.scope import Caller
from commonbrain.testing.builders import WordHashEmbedder, a_brain
from tests.asking import FailingEmbedder, bodies, remember_one, stored
from tests.model_server import FAMILIES, Answer, ModelServer
from tests.tenant_rows import add_tenant

FACT = "The nightly build runs at three."


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.mark.requirement("WP-34")
@pytest.mark.parametrize("family", FAMILIES)
def test_memory_is_stored_and_recalled_by_words_while_the_embedding_endpoint_is_down(
    path: Path, server: ModelServer, family: str
) -> None:
    with a_brain(path, embedder=server.embedder(family, retries=0)) as brain:
        server.is_down = True
        outcome = remember_one(brain, FACT, kind="fact")
        answer = brain.recall("nightly build")
        [finding] = [one for one in brain.doctor().findings if one.check == "embedder"]

        assert (outcome.status, outcome.embedding_pending) == (ItemStatus.STORED, True)
        assert [item.body for item in answer.items] == [FACT]
        [reason] = answer.degraded
        assert reason.startswith(f"vector: embedder_down, The embedder {family} at {server.host}")
        assert not finding.is_sound
        assert brain.status().embedding_pending == 1


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=401),
        Answer(status=429, headers={"Retry-After": "0"}),
        Answer(status=500),
        Answer(body="<html>"),
        Answer(body='{"embeddings": [[1.0, 0.0]]}'),
        Answer(hangs=True),
    ],
)
def test_memory_is_stored_despite_any_failure_of_the_embedder(
    path: Path, server: ModelServer, answer: Answer
) -> None:
    server.script.append(answer)
    with a_brain(path, embedder=server.embedder("ollama", retries=0, timeout_s=0.2)) as brain:
        outcome = remember_one(brain, FACT, kind="fact")

        assert (outcome.status, outcome.embedding_pending) == (ItemStatus.STORED, True)
        assert brain.embed_pending().count == 1


def store_without_vectors(brain: Brain, embedder: FailingEmbedder, *texts: str) -> None:
    embedder.is_down = True
    for text in texts:
        stored(brain, text, kind="fact")
    embedder.is_down = False


def test_pending_texts_are_embedded_later_in_batches(path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        store_without_vectors(
            brain, embedder, *(f"Machine {n} stands in hall {n}." for n in range(5))
        )

        done = [brain.embed_pending(batch=2) for _ in range(4)]

        assert [(one.count, one.left) for one in done] == [(2, 3), (2, 1), (1, 0), (0, 0)]
        assert brain.status().embedding_pending == 0
        assert brain.doctor().is_sound


def test_embedding_later_fails_while_the_embedder_is_down(path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        store_without_vectors(brain, embedder, FACT)
        embedder.is_down = True

        with pytest.raises(UnavailableError):
            brain.embed_pending()

        assert brain.status().embedding_pending == 1


def test_batch_out_of_bounds_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    for batch in [0, -1, 101]:
        with subtests.test(batch=batch), pytest.raises(InvalidInputError, match="1 to 100"):
            brain.embed_pending(batch=batch)


class FussyEmbedder(WordHashEmbedder):
    """Never takes a text about cheese, alone or among others."""

    def passages(self, texts: Sequence[str]) -> list[Matrix]:
        if any("cheese" in text for text in texts):
            raise UnavailableError("No cheese.", code="embedder_down")
        return super().passages(texts)


def test_text_that_cannot_be_embedded_does_not_delay_the_others(path: Path) -> None:
    embedder = FailingEmbedder()
    texts = ["Ann likes cheese.", "Bo likes tea.", "Cy likes jam."]
    with a_brain(path, embedder=embedder) as brain:
        store_without_vectors(brain, embedder, *texts)

    with a_brain(path, embedder=FussyEmbedder()) as brain:
        done = brain.embed_pending()

        assert (done.count, done.left) == (2, 1)
        assert bodies(brain, "cheese") == ["Ann likes cheese."]


@pytest.mark.requirement("WP-34")
def test_process_embeds_pending_texts_when_its_embedder_recovers(path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        store_without_vectors(
            brain, embedder, *(f"Machine {n} stands in hall {n}." for n in range(20))
        )
        pending: list[int] = []
        for number in range(3):
            stored(brain, f"Ship {number} lies at quay {number}.", kind="fact")
            pending.append(brain.status().embedding_pending)

    assert pending == [4, 0, 0]


def test_process_without_embedding_failures_leaves_pending_texts_of_others(path: Path) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        store_without_vectors(brain, embedder, FACT)

    with a_brain(path) as brain:
        stored(brain, "Ship one lies at quay one.", kind="fact")

        assert brain.status().embedding_pending == 1


def test_text_that_cannot_be_embedded_is_not_tried_at_every_write(path: Path) -> None:
    with a_brain(path, embedder=FussyEmbedder()) as brain:
        assert remember_one(brain, "Ann likes cheese.").embedding_pending
        assert brain.caller.tenant in brain.services.unembedded

        assert not remember_one(brain, "Bo likes tea.").embedding_pending

        assert brain.caller.tenant not in brain.services.unembedded
        assert brain.status().embedding_pending == 1


def test_pending_texts_of_a_tenant_are_embedded_although_another_tenant_writes_first(
    path: Path,
) -> None:
    embedder = FailingEmbedder()
    with a_brain(path, embedder=embedder) as brain:
        add_tenant(brain, "other")
        other = Brain(brain.services, Caller(tenant="other", agent="zoe"))
        store_without_vectors(brain, embedder, FACT)

        stored(other, "Ship one lies at quay one.", kind="fact")
        assert brain.status().embedding_pending == 1
        stored(brain, "Ship two lies at quay two.", kind="fact")

        assert brain.status().embedding_pending == 0
