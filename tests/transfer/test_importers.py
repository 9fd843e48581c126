"""The core's importers keep the laws of their interface."""

from pathlib import Path
from typing import ClassVar

import pytest

from commonbrain.testing.importer_contract import ImporterContract
from commonbrain.transfer.importer import Importer
from commonbrain.transfer.importers import IMPORTERS

SAMPLES = Path(__file__).parent / "samples"


class TestSessions(ImporterContract):
    @pytest.fixture(params=["claude-code", "codex"])
    @classmethod
    def sample(cls, request: pytest.FixtureRequest) -> Path:
        return SAMPLES / str(request.param)

    @pytest.fixture
    @classmethod
    def importer(cls, sample: Path) -> Importer:
        return IMPORTERS[sample.name]


class TestNotes(ImporterContract):
    reads_any_text: ClassVar[bool] = True

    @pytest.fixture
    @classmethod
    def importer(cls) -> Importer:
        return IMPORTERS["markdown"]

    @pytest.fixture
    @classmethod
    def sample(cls) -> Path:
        return SAMPLES / "notes"


def test_every_importer_of_the_core_is_under_its_name() -> None:
    assert {name: importer.name for name, importer in IMPORTERS.items()} == {
        name: name for name in ("markdown", "claude-code", "codex")
    }
