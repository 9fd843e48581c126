"""Every embedder that can be chosen keeps the port's laws, and so does the one for tests."""

from collections.abc import Iterator
from pathlib import Path

import commonbrain_minilm
import pytest

from commonbrain.embeddings.interface import Embedder, Thresholds
from commonbrain.embeddings.local import MiniLmEmbedder
from commonbrain.embeddings.model_records import ModelRecords
from commonbrain.embeddings.onnx_folder import OnnxEmbedder
from commonbrain.model.errors import UnavailableError
from commonbrain.runtime.models import EMBEDDERS, Options
from commonbrain.testing.builders import WordHashEmbedder
from commonbrain.testing.embedder_contract import EmbedderContract
from tests.models.onnx_models import save_encoder
from tests.models.server import FAMILIES, ModelServer

CALIBRATED = Thresholds(similar=0.7, relevance=0.6, answer=None, origin="calibrated")
"""Both prefixes share little, and texts of other words hardly anything."""


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


class TestShippedModelAsFolder(LoadedOnce):
    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        folder = tmp_path_factory.mktemp("model")
        for path in commonbrain_minilm.FILES:
            (folder / path.name).symlink_to(path)
        return folder

    def make(self, model: Path) -> Embedder:
        # All share what the first one measures.
        return EMBEDDERS["onnx"](Options(model=str(model), records=model / "records", threads=1))


class TestWordVectorsInFolder(LoadedOnce):
    # The model adds up vectors of words.
    understands_meaning = False

    @pytest.fixture(scope="class")
    @classmethod
    def model(cls, tmp_path_factory: pytest.TempPathFactory) -> Path:
        prompts = {"query": "query: ", "document": "passage: "}
        return save_encoder(tmp_path_factory.mktemp("model"), prompts=prompts)

    def make(self, model: Path) -> Embedder:
        return OnnxEmbedder(
            model, records=ModelRecords(), calibrate=lambda _: CALIBRATED, threads=2
        )


@pytest.mark.parametrize("family", FAMILIES)
class TestRemoteEmbedders(EmbedderContract):
    # The endpoint of the tests makes its vectors of words.
    understands_meaning = False

    @pytest.fixture(scope="class")
    @classmethod
    def server(cls) -> Iterator[ModelServer]:
        with ModelServer() as server:
            yield server

    @pytest.fixture
    def embedder(self, server: ModelServer, family: str) -> Embedder:
        return server.embedder(family)


def test_selectable_embedders_are_those_with_a_contract_test() -> None:
    assert set(EMBEDDERS) == {"minilm", "onnx", *FAMILIES}


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
