"""Every embedder that can be chosen keeps the laws of its interface."""

from collections.abc import Iterator
from pathlib import Path

import commonbrain_minilm
import pytest
from commonbrain_models.model_records import ModelRecords
from commonbrain_models.onnx_folder import OnnxEmbedder

from commonbrain.embeddings.interface import Embedder, Thresholds
from commonbrain.runtime.models import EMBEDDERS, Options
from commonbrain.testing.embedder_contract import EmbedderContract
from tests.embeddings.test_embedders import LoadedOnce
from tests.model_server import FAMILIES, ModelServer
from tests.onnx_models import save_encoder, trust

CALIBRATED = Thresholds(similar=0.7, relevance=0.6, answer=None, origin="calibrated")
"""Both prefixes share little, and texts of other words hardly anything."""


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
            model, records=ModelRecords(), calibrate=lambda _: CALIBRATED, threads=2, check=trust
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
    assert set(EMBEDDERS) == {"minilm", "multilingual", "onnx", *FAMILIES}
