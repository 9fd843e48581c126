"""The built-in embedder keeps the laws of its interface, and so does the one for tests."""

from pathlib import Path

import pytest

from commonbrain.embeddings.interface import Embedder
from commonbrain.embeddings.local import MiniLmEmbedder
from commonbrain.model.errors import UnavailableError
from commonbrain.runtime.models import EMBEDDERS, Options
from commonbrain.testing.builders import WordHashEmbedder
from commonbrain.testing.embedder_contract import EmbedderContract


class LoadedOnce(EmbedderContract):
    """Loads a model once for all tests, and again for the one of threads that load it at once."""

    def make(self, model: Path) -> Embedder:
        """Make an embedder that has not loaded its model."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        return tmp_path_factory.mktemp("model")

    @pytest.fixture(scope="class")
    @classmethod
    def loaded(cls, model: Path) -> Embedder:
        return cls().make(model)

    @pytest.fixture
    def embedder(self, request: pytest.FixtureRequest, model: Path, loaded: Embedder) -> Embedder:
        is_of_threads = request.function == self.test_threads_get_the_vectors_one_thread_gets
        return self.make(model) if is_of_threads else loaded


class TestMiniLmEmbedder(LoadedOnce):
    def make(self, model: Path) -> Embedder:  # noqa: ARG002
        return EMBEDDERS["minilm"](Options(threads=1))


class TestWordHashEmbedder(EmbedderContract):
    understands_meaning = False

    @pytest.fixture
    def embedder(self) -> Embedder:
        return WordHashEmbedder()


class TestMiniLm:
    @pytest.mark.requirement("DM-45", "DO-04")
    def test_embedding_space_is_known_without_loading_the_model(self, tmp_path: Path) -> None:
        embedder = MiniLmEmbedder(model_path=tmp_path / "missing.onnx")

        assert embedder.space.dimensions == 384

    def test_missing_model_is_unavailable(self, tmp_path: Path) -> None:
        embedder = MiniLmEmbedder(model_path=tmp_path / "missing.onnx")

        with pytest.raises(UnavailableError) as failure:
            embedder.query("Ann moved to Lisbon.")

        assert failure.value.code == "embedder_down"
        assert failure.value.hint
        assert failure.value.__cause__ is not None

    def test_broken_tokenizer_is_unavailable(self, tmp_path: Path) -> None:
        broken = tmp_path / "tokenizer.json"
        broken.write_text("{}", encoding="utf-8")

        with pytest.raises(UnavailableError, match="could not load the embedding model"):
            MiniLmEmbedder(tokenizer_path=broken).passages(["Ann moved to Lisbon."])
