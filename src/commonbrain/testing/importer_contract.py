"""The laws of the Importer interface as tests; subclass them for a format of your own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

import pytest

from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.memory import Draft
from commonbrain.transfer.child_importer import format_piece, parse_piece
from commonbrain.transfer.importer import Content, Importer, SourceRelation, Unreadable, split_part

DAMAGED = {
    "an empty file": b"",
    "random bytes": bytes(range(256)) * 64,
    "the beginning of a database": b"SQLite format 3\x00" + b"\x10\x00" * 500,
    "half a JSON object": b'{"messages": [{"text": "the lock op',
    "JSON of something else": b'{"weather": {"monday": "rain"}}',
    "the beginning of a zip": b"PK\x03\x04" + bytes(200),
    "a page of the web": b"<!doctype html><title>404</title>",
}
NUMBERS = (b"[", b'{"messages": [', b'{"items": [{"content": "Tea.", "n": ', b'{"a": 0.')
"""What stands before a number of more digits than a parser survives."""
DIGITS = 66_000


class ImporterContract:
    """Subclass it in a test module and provide two fixtures.

    `importer` returns the importer, and `sample` the path of a source with a memory or several.
    """

    reads_any_text: ClassVar[bool] = False
    """Whether every text is a source, as notes are."""

    def test_purpose_is_short_and_has_no_full_stop(self, importer: Importer) -> None:
        assert 8 <= len(importer.purpose) <= 90
        assert not importer.purpose.endswith(".")

    def test_nothing_is_found_in_an_empty_home(self, importer: Importer, tmp_path: Path) -> None:
        assert list(importer.find(tmp_path)) == []

    def test_missing_source_is_refused_with_its_name_and_a_next_step(
        self, importer: Importer, tmp_path: Path
    ) -> None:
        with pytest.raises(CommonbrainError, match="nowhere") as caught:
            next(importer.read(tmp_path / "nowhere"), None)
        assert caught.value.hint

    def test_damaged_or_foreign_file_is_refused_with_a_next_step(
        self, importer: Importer, tmp_path: Path, subtests: pytest.Subtests
    ) -> None:
        if self.reads_any_text:
            pytest.skip("every text is a source")
        source = tmp_path / "source.json"
        for damage, data in DAMAGED.items():
            with subtests.test(damage=damage):
                source.write_bytes(data)
                with pytest.raises(CommonbrainError) as caught:
                    list(importer.read(source))
                assert "source.json" in caught.value.message
                assert caught.value.hint

    def test_empty_folder_is_refused_with_a_next_step(
        self, importer: Importer, tmp_path: Path
    ) -> None:
        folder = tmp_path / "empty"
        folder.mkdir()
        with pytest.raises(CommonbrainError, match="empty") as caught:
            list(importer.read(folder))
        assert caught.value.hint

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads every file")
    def test_file_without_read_permission_is_refused(
        self, importer: Importer, tmp_path: Path
    ) -> None:
        source = tmp_path / "secret.json"
        source.write_text("[]", "utf-8")
        source.chmod(0)
        with pytest.raises(CommonbrainError, match=r"secret\.json"):
            list(importer.read(source))

    def test_long_number_is_refused_or_reported(
        self, importer: Importer, tmp_path: Path, subtests: pytest.Subtests
    ) -> None:
        for start in NUMBERS:
            for suffix in ("json", "jsonl", "md", "db"):
                with subtests.test(start=start, suffix=suffix):
                    source = tmp_path / f"conversations.{suffix}"
                    source.write_bytes(start + b"9" * DIGITS)
                    try:
                        contents = _contents(importer, source)
                    except InvalidInputError:
                        continue
                    reported = [one for one in contents if isinstance(one, Unreadable)]
                    assert reported or self.reads_any_text

    def test_reading_twice_gives_the_same_memories_each_with_a_reference_of_its_own(
        self, importer: Importer, sample: Path
    ) -> None:
        contents = _contents(importer, sample)
        drafts = [one for one in contents if isinstance(one, Draft)]
        bodies = {(one.source_ref, one.part): one.body for one in drafts}

        assert drafts
        assert all(one.source_ref for one in drafts)
        assert all(bodies[one.source_ref, one.part] == one.body for one in drafts)
        assert _contents(importer, sample) == contents

    def test_pieces_are_the_same_after_the_way_from_a_child_process(
        self, importer: Importer, sample: Path
    ) -> None:
        pieces = list(importer.read(sample))
        lines = map(format_piece, pieces)

        assert [parse_piece(line, number=number) for number, line in enumerate(lines, 1)] == pieces

    def test_progress_rises_from_0_to_1(self, importer: Importer, sample: Path) -> None:
        progress = [one.progress for one in importer.read(sample)]

        assert progress == sorted(progress)
        assert min(progress) >= 0
        assert max(progress) <= 1

    def test_relations_are_between_references_and_only_where_announced(
        self, importer: Importer, sample: Path
    ) -> None:
        relations = [one for one in _contents(importer, sample) if isinstance(one, SourceRelation)]

        assert all(one.first and one.second and one.first != one.second for one in relations)
        assert importer.has_relations or not relations

    def test_reading_changes_no_file(self, importer: Importer, sample: Path) -> None:
        file = split_part(sample)[0]
        folder = file if file.is_dir() else file.parent
        before = _files(folder)
        list(importer.read(sample))

        assert _files(folder) == before


def _contents(importer: Importer, source: Path) -> list[Content]:
    return [one.content for one in importer.read(source)]


def _files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
