"""Sources that are odd, damaged or made to harm: their memories are read, nothing else happens."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Content, Unreadable
from commonbrain.transfer.importers import IMPORTERS


def read(format_: str, source: Path) -> Sequence[Content]:
    return [one.content for one in IMPORTERS[format_].read(source, None)]


def drafts(contents: Sequence[Content]) -> list[Draft]:
    return [one for one in contents if isinstance(one, Draft)]


def bodies(contents: Sequence[Content]) -> list[str]:
    return [one.body for one in drafts(contents)]


def reasons(contents: Sequence[Content]) -> list[str]:
    return [one.reason for one in contents if isinstance(one, Unreadable)]


def written(folder: Path, name: str, value: object) -> Path:
    path = folder / name
    path.write_text(json.dumps(value))
    return path


def test_a_fact_that_ended_before_it_was_recorded_has_ended(tmp_path: Path) -> None:
    edge = {
        "uuid": "e1",
        "fact": "Ada leads the billing team.",
        "created_at": "2025-06-01T00:00:00Z",
        "invalid_at": "2020-01-01T00:00:00Z",
    }
    code = {
        "id": "m1",
        "memory": "The discount code SPRING is valid in the shop.",
        "expiration_date": "2025-01-01",
        "updated_at": "2025-02-01T00:00:00Z",
    }
    ended = [
        *drafts(read("graphiti", written(tmp_path, "graph.json", {"edges": [edge]}))),
        *drafts(read("mem0", written(tmp_path, "mem0.json", [code]))),
    ]
    assert [one.expires_at.year for one in ended if one.expires_at] == [2020, 2025]
    assert all(
        one.occurred_at and one.occurred_at < one.expires_at for one in ended if one.expires_at
    )


@pytest.mark.parametrize(
    ("front_matter", "reason"),
    [
        pytest.param(
            "tags:\n"
            "  - &a [x, x, x, x, x, x, x, x, x]\n"
            + "".join(
                f"  - &{new} [{', '.join([f'*{old}'] * 9)}]\n"
                for old, new in zip("abcdefgh", "bcdefghi", strict=True)
            ),
            "Its front matter has anchors or aliases.",
            id="aliases",
        ),
        pytest.param(
            "log: |\n" + "  We decided to use Postgres in the shop.\n" * 2000,
            "Its front matter has more than 65,536 characters.",
            id="long",
        ),
    ],
)
def test_front_matter_that_would_fill_the_memory_is_reported(
    front_matter: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "note.md").write_text(f"---\n{front_matter}---\nThe shop is in Berlin.\n")
    contents = read("obsidian", tmp_path)
    assert bodies(contents) == ["The shop is in Berlin."]
    assert reasons(contents) == [reason]


def test_front_matter_is_read_as_texts(tmp_path: Path) -> None:
    matter = "tags: [yes, 1_0, 2025-01-02]\ndate: 2025-01-02\n"
    (tmp_path / "note.md").write_text(f"---\n{matter}---\nThe shop is in Berlin.\n")
    (note,) = drafts(read("obsidian", tmp_path))
    assert note.tags == ("yes", "1_0", "2025-01-02")
    assert note.occurred_at is not None
    assert note.occurred_at.isoformat() == "2025-01-02T00:00:00+00:00"
