"""Models of the user without commonbrain-models: what to install is said, and nothing is lost."""

import logging
from pathlib import Path

import pytest

import commonbrain
from commonbrain.model.errors import InvalidInputError, StoreCorruptError
from tests.distributions import add_distribution
from tests.model_server import MODEL, ModelServer

INSTALL = "pip install 'commonbrain[models]'"
FACT = "The kettle stands on the upper shelf."


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store made with an embedder of commonbrain-models, which is hidden from then on."""
    with ModelServer() as server:
        monkeypatch.setenv("COMMONBRAIN_EMBEDDER", "ollama")
        monkeypatch.setenv("COMMONBRAIN_EMBEDDER_MODEL", MODEL)
        monkeypatch.setenv("COMMONBRAIN_EMBEDDER_DIMENSIONS", "384")
        monkeypatch.setenv("COMMONBRAIN_EMBEDDER_URL", server.base("ollama"))
        with commonbrain.open(tmp_path / "brain.db") as brain:
            brain.remember(FACT, kind="fact")
    hide_package(tmp_path, monkeypatch)
    return tmp_path / "brain.db"


def hide_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_distribution(folder / "hidden", "commonbrain-models")
    monkeypatch.syspath_prepend(folder / "hidden")  # pyright: ignore[reportUnknownMemberType]


def test_store_of_a_missing_embedder_is_read_by_words_and_says_what_to_install(
    store: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), commonbrain.open(store) as brain:
        answer = brain.recall("kettle")
        [finding] = [one for one in brain.doctor().findings if one.check == "embedder"]

        assert [item.body for item in answer.items] == [FACT]
        assert answer.degraded[0].startswith(
            "vector: embedder_down, This needs commonbrain[models]"
        )
        assert INSTALL in finding.detail
    [line] = [message for message in caplog.messages if "embedder" in message]
    assert INSTALL in line


def test_memory_stored_without_the_embedder_waits_for_its_vectors(store: Path) -> None:
    with commonbrain.open(store) as brain:
        [item] = brain.remember("The toaster is broken.", kind="fact").items
        assert item.embedding_pending
        assert [one.body for one in brain.recall("toaster").items] == ["The toaster is broken."]
        assert brain.status().space == f"ollama/{MODEL}/384"


def test_new_store_is_not_made_without_its_embedder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_package(tmp_path, monkeypatch)
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER", "onnx:models")
    for path in (tmp_path / "new.db", tmp_path / "empty.db"):
        if path.name == "empty.db":
            path.touch()
        with pytest.raises(InvalidInputError) as refused:
            commonbrain.open(path)
        assert refused.value.code == "extra_missing"
        assert INSTALL in refused.value.hint
    assert not (tmp_path / "new.db").exists()


def test_store_of_another_embedder_stays_a_mismatch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commonbrain.open(tmp_path / "brain.db").close()
    hide_package(tmp_path, monkeypatch)
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER", "openai")

    with pytest.raises(StoreCorruptError, match=r"space all-minilm.*; the embedder makes openai\."):
        commonbrain.open(tmp_path / "brain.db")


def test_missing_reranker_and_language_model_leave_the_store_usable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hide_package(tmp_path, monkeypatch)
    monkeypatch.setenv("COMMONBRAIN_RERANKER", "onnx:models")
    monkeypatch.setenv("COMMONBRAIN_REFLECTOR", "ollama")
    monkeypatch.setenv("COMMONBRAIN_REFLECTOR_MODEL", "qwen3")
    with commonbrain.open(tmp_path / "brain.db") as brain:
        brain.remember(FACT, kind="fact")
        answer = brain.recall("kettle")

        assert [item.body for item in answer.items] == [FACT]
        assert [one for one in answer.degraded if one.startswith("cross_encoder: This needs")]
        [finding] = [one for one in brain.doctor().findings if one.check == "reranker"]
        assert INSTALL in finding.detail
