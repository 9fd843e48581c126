"""A store with a model on disk: chosen by its folder, moved to and back, and named in errors."""

from pathlib import Path

import pytest

import commonbrain
from commonbrain.api.operations.status import threshold_line
from commonbrain.embeddings.local import SPACE
from commonbrain.model.errors import InvalidInputError, StoreCorruptError
from tests.onnx_models import WIDTH, save_encoder

FACT = "Ann lives in Lisbon."


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write a model, and give its folder; what is measured of it is kept for this test."""
    monkeypatch.setenv("COMMONBRAIN_STATE", str(tmp_path / "state"))
    return save_encoder(tmp_path / "model")


@pytest.mark.requirement("DO-12")
def test_store_remembers_and_recalls_with_a_model_on_disk(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER", f"onnx:{folder}")
    with commonbrain.open(tmp_path / "brain.db") as brain:
        brain.remember(FACT, kind="fact")
        results, status = brain.recall("Who lives in Lisbon?"), brain.status()

    assert results.items[0].headline == FACT
    assert status.space.startswith("onnx/")
    assert status.space.endswith(f"/{WIDTH}")
    assert status.thresholds.origin in {"calibrated", "cautious"}


def test_status_shows_the_origin_of_the_thresholds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with commonbrain.open(tmp_path / "brain.db") as brain:
        measured = threshold_line(brain.status().thresholds)
    monkeypatch.setenv("COMMONBRAIN_SIMILAR_THRESHOLD", "0.9")
    with commonbrain.open(tmp_path / "brain.db") as brain:
        configured = threshold_line(brain.status().thresholds)

    assert "similar 0.63, relevance 0.21, answer 0.44; measured" in measured
    assert "similar 0.90" in configured
    assert "set by COMMONBRAIN_..._THRESHOLD" in configured


@pytest.mark.requirement("DO-17")
def test_store_can_switch_to_a_model_on_disk_and_back(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "brain.db"
    with commonbrain.open(path) as brain:
        brain.remember(FACT, kind="fact")
        local = brain.spaces.build(f"onnx:{folder}")
        brain.spaces.switch(local.space)
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER", f"onnx:{folder}")
    with commonbrain.open(path) as brain:
        results = brain.recall("Lisbon")
        brain.spaces.build("minilm")
        brain.spaces.switch(SPACE.name)
    monkeypatch.delenv("COMMONBRAIN_EMBEDDER")
    with commonbrain.open(path) as brain:
        again = brain.recall("Lisbon")
        # By now its name is enough.
        rebuilt = brain.spaces.build(local.space)

    assert [one.items[0].headline for one in (results, again)] == [FACT, FACT]
    assert not results.degraded
    assert (rebuilt.space, rebuilt.embedded, rebuilt.missing) == (local.space, 0, 0)


def test_error_of_a_mismatched_embedder_names_the_model_folder(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER", f"onnx:{folder}")
    commonbrain.open(tmp_path / "brain.db").close()
    monkeypatch.delenv("COMMONBRAIN_EMBEDDER")

    with pytest.raises(StoreCorruptError) as mismatch:
        commonbrain.open(tmp_path / "brain.db")

    assert f"COMMONBRAIN_EMBEDDER=onnx:{folder};" in (mismatch.value.hint or "")


def test_building_a_space_without_its_model_folder_asks_for_the_folder(
    tmp_path: Path, folder: Path
) -> None:
    with commonbrain.open(tmp_path / "brain.db") as brain:
        built = brain.spaces.build(f"onnx:{folder}").space
        for unknown in ("onnx/0123456789abcdef/64", "onnx/0123456789abcdef/more/64"):
            with pytest.raises(InvalidInputError) as failure:
                brain.spaces.build(unknown)
            assert failure.value.hint == "Name the folder, as in onnx:FOLDER."
        save_encoder(folder, seed=1)
        with pytest.raises(InvalidInputError, match="has another one now"):
            brain.spaces.build(built)


def test_embedder_setting_without_a_valid_folder_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for embedder in ("onnx", "onnx:", "ollama:/models", "none"):
        with subtests.test(embedder=embedder):
            monkeypatch.setenv("COMMONBRAIN_EMBEDDER", embedder)

            with pytest.raises(InvalidInputError) as failure:
                commonbrain.open(tmp_path / "brain.db")

            assert "onnx:FOLDER" in (failure.value.hint or "")
