"""Sources changed in their structure are read or refused; what a search found stays found."""

import json
import sqlite3
import struct
import time
from contextlib import closing
from pathlib import Path
from zipfile import ZIP_LZMA, ZipFile

import pytest
from import_samples import IMPORTERS, SAMPLES, load, only, read

from commonbrain.model.errors import InvalidInputError
from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Unreadable
from tests.explore_sources import explore_kind
from tests.mutations import SOURCES
from tests.processes import TIMEOUT_S


@pytest.mark.parametrize("kind", SOURCES)
def test_changed_sources_are_read_or_refused(kind: str) -> None:
    counted = explore_kind(kind, 12, until=time.time() + TIMEOUT_S)
    assert set(counted) <= {"read", "refused"}


def test_zip_of_an_unknown_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", "[]")
    data = bytearray(path.read_bytes())
    struct.pack_into("<H", data, data.index(b"PK\x01\x02") + 6, 238)
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match="not a whole ZIP archive: zip file version"):
        read("chatgpt", path)


def test_zip_whose_member_is_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", "[]" * 99, compress_type=ZIP_LZMA)
    data = bytearray(path.read_bytes())
    data[data.index(b"conversations.json") + 22] = 255
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=r"conversations\.json in"):
        read("chatgpt", path)


def test_sample_whose_id_is_a_list_is_read(tmp_path: Path) -> None:
    samples = json.loads((SAMPLES / "samples.json").read_text())
    for sample in samples:
        sample["sample_id"] = ["a"]
    path = tmp_path / "samples.json"
    path.write_text(json.dumps(samples))
    assert only(Draft, read("conversations", path))


def test_entity_whose_type_is_a_list_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "memory.jsonl"
    entity = {"type": "entity", "name": "Ada", "entityType": "person", "observations": ["Reads."]}
    path.write_text("".join(json.dumps(one) + "\n" for one in (entity, entity | {"type": []})))
    (reported,) = only(Unreadable, read("mcp-memory", path))
    assert "neither entity nor relation" in reported.reason


def test_database_whose_table_is_damaged_is_refused_with_its_name(tmp_path: Path) -> None:
    path = load(SAMPLES / "mem0" / "history.sql", tmp_path / "history.db")
    with closing(sqlite3.connect(path)) as made:
        (page,) = made.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'history'"
        ).fetchone()
    data = bytearray(path.read_bytes())
    data[4096 * (page - 1)] = 255
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=r"history\.db cannot be read to its end"):
        list(IMPORTERS["mem0"].read(path))
