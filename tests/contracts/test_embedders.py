"""Every embedder that can be chosen keeps the port's laws, and so does the one for tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from commonbrain.embeddings.interface import Embedder
from commonbrain.embeddings.local import MiniLmEmbedder
from commonbrain.model.errors import UnavailableError
from commonbrain.runtime.models import EMBEDDERS, Options
from commonbrain.testing.builders import WordHashEmbedder
from commonbrain.testing.embedder_contract import EmbedderContract
from tests.models.server import FAMILIES, ModelServer


class TestMiniLmEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> Embedder:
        return EMBEDDERS["minilm"](Options(threads=1))


@pytest.mark.parametrize("family", FAMILIES)
class TestRemoteEmbedders(EmbedderContract):
    # The endpoint of the tests makes its vectors of words.
    understands_meaning = False

    @pytest.fixture
    def embedder(self, family: str) -> Iterator[Embedder]:
        with ModelServer() as server:
            yield server.embedder(family)


def test_every_embedder_that_can_be_chosen_keeps_the_contract() -> None:
    assert set(EMBEDDERS) == {"minilm", *FAMILIES}


class TestWordHashEmbedder(EmbedderContract):
    understands_meaning = False

    @pytest.fixture
    def embedder(self) -> Embedder:
        return WordHashEmbedder()


class TestMiniLm:
    @pytest.mark.requirement("DM-45", "DO-04")
    def test_its_space_is_known_without_its_model(self, tmp_path: Path) -> None:
        embedder = MiniLmEmbedder(model_path=tmp_path / "missing.onnx")

        assert embedder.space.dimensions == 384

    def test_a_missing_model_is_unavailable(self, tmp_path: Path) -> None:
        embedder = MiniLmEmbedder(model_path=tmp_path / "missing.onnx")

        with pytest.raises(UnavailableError) as failure:
            embedder.query("Ann moved to Lisbon.")

        assert failure.value.code == "embedder_down"
        assert failure.value.hint
        assert failure.value.__cause__ is not None

    def test_a_broken_tokenizer_is_unavailable(self, tmp_path: Path) -> None:
        broken = tmp_path / "tokenizer.json"
        broken.write_text("{}", encoding="utf-8")

        with pytest.raises(UnavailableError, match="could not load the embedding model"):
            MiniLmEmbedder(tokenizer_path=broken).passages(["Ann moved to Lisbon."])
