"""The importers of this package keep the laws of their interface, and are known to the core."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import ClassVar

import pytest
from import_samples import IMPORTERS, SAMPLES, load

from commonbrain.extras import IMPORT_FORMATS, load_rows
from commonbrain.testing.importer_contract import ImporterContract
from commonbrain.transfer.importer import Importer

FILES: Mapping[str, str] = {
    "chatgpt": "chatgpt",
    "claude-ai": "claude-ai",
    "conversations": "samples.json",
    "graphiti": "graphiti/graph.json",
    "letta": "letta/agent.af",
    "mcp-memory": "mcp-memory/memory.jsonl",
    "open-brain": "open-brain/v2.dump.sql",
    "openbrain": "openbrain/dump.sql",
}
"""Samples that are read as they are."""
DATABASES: Mapping[str, Mapping[str, str]] = {
    "brain-db": {"brain-db/brain.sql": "brain.db"},
    "brainstem": {"brainstem/brainstem.sql": "brainstem.db"},
    "claude-mem": {"claude-mem/claude-mem.sql": "claude-mem.db"},
    "mcp-memory-service": {"mcp-memory-service/sqlite_vec.sql": "sqlite_vec.db"},
    "mem0": {"mem0/history.sql": "history.db", "mem0/storage.sql": "qdrant/storage.sqlite"},
}
"""Where the dumps of a sample go."""
NOTES: Mapping[str, str] = {"basic-memory": "basic-memory", "obsidian": "obsidian/vault"}


class TestFiles(ImporterContract):
    @pytest.fixture(params=FILES)
    @classmethod
    def importer(cls, request: pytest.FixtureRequest) -> Importer:
        return IMPORTERS[request.param]

    @pytest.fixture
    @classmethod
    def sample(cls, importer: Importer) -> Path:
        return SAMPLES / FILES[importer.name]


class TestDatabases(ImporterContract):
    @pytest.fixture(params=DATABASES)
    @classmethod
    def importer(cls, request: pytest.FixtureRequest) -> Importer:
        return IMPORTERS[request.param]

    @pytest.fixture
    @classmethod
    def sample(cls, importer: Importer, tmp_path: Path) -> Path:
        restored: list[Path] = []
        for dump, name in DATABASES[importer.name].items():
            path = tmp_path / "source" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            restored.append(load(SAMPLES / dump, path))
        return restored[0] if len(restored) == 1 else tmp_path / "source"


class TestNotes(ImporterContract):
    reads_any_text: ClassVar[bool] = True

    @pytest.fixture(params=NOTES)
    @classmethod
    def importer(cls, request: pytest.FixtureRequest) -> Importer:
        return IMPORTERS[request.param]

    @pytest.fixture
    @classmethod
    def sample(cls, importer: Importer) -> Path:
        return SAMPLES / NOTES[importer.name]


def test_every_format_of_the_package_is_tested_and_named_by_the_core() -> None:
    own = {
        point.name
        for point in entry_points(group="commonbrain.importers")
        if point.module.partition(".")[0] == "commonbrain_import"
    }
    assert own == set(IMPORT_FORMATS) == {*FILES, *DATABASES, *NOTES}


def test_every_importer_is_installed_under_its_name() -> None:
    rows = load_rows("importers")
    assert {name: getattr(row, "name", None) for name, row in rows.items()} == {
        name: name for name in rows
    }
