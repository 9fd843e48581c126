"""What every importer promises, whatever its format."""

import os
from pathlib import Path

import pytest

from commonbrain.model.errors import CommonbrainError
from commonbrain.transfer.importers import INSTALLED as IMPORTERS

FORMATS = sorted(IMPORTERS)
DAMAGED = {
    "an empty file": b"",
    "random bytes": bytes(range(256)) * 64,
    "the beginning of a database": b"SQLite format 3\x00" + b"\x10\x00" * 500,
    "half a JSON object": b'{"messages": [{"text": "the lock op',
    "JSON of something else": b'{"weather": {"monday": "rain"}}',
    "the beginning of a zip": b"PK\x03\x04" + bytes(200),
    "a page of the web": b"<!doctype html><title>404</title>",
}


def test_every_importer_has_a_short_purpose_without_a_full_stop(subtests: pytest.Subtests) -> None:
    for format_ in FORMATS:
        with subtests.test(format_=format_):
            purpose = IMPORTERS[format_].purpose
            assert 8 <= len(purpose) <= 90
            assert not purpose.endswith(".")


@pytest.mark.requirement("MG-12")
def test_every_importer_finds_nothing_in_an_empty_home(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for format_ in FORMATS:
        with subtests.test(format_=format_):
            assert list(IMPORTERS[format_].find(tmp_path)) == []


def test_missing_source_is_refused_with_its_name_and_a_next_step(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    missing = tmp_path / "nowhere"
    for format_ in FORMATS:
        with subtests.test(format_=format_):
            with pytest.raises(CommonbrainError, match="nowhere") as caught:
                next(IMPORTERS[format_].read(missing, None), None)
            assert caught.value.hint


def test_damaged_or_foreign_file_is_refused_with_a_next_step(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    source = tmp_path / "source.json"
    for format_ in [one for one in FORMATS if one != "markdown"]:
        for damage in sorted(DAMAGED):
            with subtests.test(damage=damage, format_=format_):
                source.write_bytes(DAMAGED[damage])
                with pytest.raises(CommonbrainError) as caught:
                    list(IMPORTERS[format_].read(source, None))
                assert "source.json" in caught.value.message
                assert caught.value.hint


def test_empty_folder_is_refused_with_a_next_step(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    for format_ in FORMATS:
        with subtests.test(format_=format_):
            with pytest.raises(CommonbrainError, match="empty") as caught:
                list(IMPORTERS[format_].read(folder, None))
            assert caught.value.hint


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads every file")
def test_file_without_read_permission_is_refused(tmp_path: Path, subtests: pytest.Subtests) -> None:
    source = tmp_path / "secret.json"
    source.write_text("[]", "utf-8")
    source.chmod(0)
    for format_ in FORMATS:
        with (
            subtests.test(format_=format_),
            pytest.raises(CommonbrainError, match=r"secret\.json"),
        ):
            list(IMPORTERS[format_].read(source, None))
