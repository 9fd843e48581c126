"""A new store has the multilingual model where its package is installed; others keep theirs."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import commonbrain
from commonbrain.embeddings.local import SPACE
from commonbrain.model.errors import StoreCorruptError

FACT = "The kettle stands on the upper shelf."
MULTILINGUAL = "multilingual-e5-small-int8-2"
FAKE_MODEL = f"""
from dataclasses import replace
from commonbrain.testing.builders import WordHashEmbedder

class MultilingualEmbedder(WordHashEmbedder):
    space = replace(WordHashEmbedder.space, name={MULTILINGUAL!r})

    def __init__(self, threads):
        self.is_loaded = True
"""
"""The real one has 73 MB; its own tests are in its package."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "brain.db"


@pytest.fixture(autouse=True)
def _uninstalled(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("COMMONBRAIN_EMBEDDER", raising=False)
    yield
    forget()


def forget() -> None:
    for name in [one for one in sys.modules if one.startswith("commonbrain_multilingual")]:
        del sys.modules[name]


def install(folder: Path, patch: pytest.MonkeyPatch) -> None:
    package = folder / "installed" / "commonbrain_multilingual"
    package.mkdir(parents=True, exist_ok=True)
    (package / "__init__.py").touch()
    (package / "embedder.py").write_text(FAKE_MODEL, "utf-8")
    patch.syspath_prepend(package.parent)  # pyright: ignore[reportUnknownMemberType]


def served(path: Path) -> tuple[str, str | None, tuple[str, ...]]:
    """Give the serving space, and what a recall finds and says."""
    with commonbrain.open(path) as brain:
        answer = brain.recall("kettle shelf")
        return brain.status().space, answer.items[0].body, answer.degraded


@pytest.mark.requirement("DO-32")
def test_new_store_has_the_multilingual_model_where_its_package_is_installed(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch)
    with commonbrain.open(path) as brain:
        brain.remember(FACT, kind="fact")

    assert served(path) == (MULTILINGUAL, FACT, ())


@pytest.mark.requirement("DO-32")
def test_model_of_a_store_stays_when_the_package_is_installed_and_removed(
    path: Path, tmp_path: Path
) -> None:
    with commonbrain.open(path) as brain:
        brain.remember(FACT, kind="fact")
    with pytest.MonkeyPatch.context() as installed:
        install(tmp_path, installed)
        assert served(path) == (SPACE.name, FACT, ())
        with commonbrain.open(tmp_path / "new.db") as brain:
            brain.remember(FACT, kind="fact")
    forget()

    space, body, [degraded] = served(tmp_path / "new.db")

    assert (space, body) == (MULTILINGUAL, FACT)
    assert degraded.startswith("vector: embedder_down, This needs commonbrain_multilingual")


@pytest.mark.requirement("DO-32")
def test_programs_without_a_setting_follow_a_store_that_moves_there_and_back(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with commonbrain.open(path) as brain:
        brain.remember(FACT, kind="fact")
    install(tmp_path, monkeypatch)
    for name, space in (("multilingual", MULTILINGUAL), ("minilm", SPACE.name)):
        with commonbrain.open(path) as running, commonbrain.open(path) as moving:
            assert moving.spaces.build(name).missing == 0
            assert running.recall("kettle shelf").degraded == ()
            moving.spaces.switch(space)
            [warning] = running.recall("kettle shelf").degraded
            assert warning.startswith(f"space: {space} serves now")

        assert served(path) == (space, FACT, ())


def test_setting_that_names_another_model_is_not_overruled(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, monkeypatch)
    commonbrain.open(path).close()
    monkeypatch.setenv("COMMONBRAIN_EMBEDDER", "minilm")

    with pytest.raises(StoreCorruptError) as refused:
        commonbrain.open(path)

    assert "COMMONBRAIN_EMBEDDER=multilingual;" in refused.value.hint
