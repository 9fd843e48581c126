"""Sources that are odd, damaged or made to harm: their memories are read, nothing else happens."""

import json
from collections.abc import Sequence
from pathlib import Path

from commonbrain.model.memory import Draft
from commonbrain.transfer.importer import Content
from commonbrain.transfer.importers import IMPORTERS


def read(format_: str, source: Path) -> Sequence[Content]:
    return [one.content for one in IMPORTERS[format_].read(source, None)]


def drafts(contents: Sequence[Content]) -> list[Draft]:
    return [one for one in contents if isinstance(one, Draft)]


def bodies(contents: Sequence[Content]) -> list[str]:
    return [one.body for one in drafts(contents)]


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
