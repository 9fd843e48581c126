"""A value that a store would not write, in a file that is merged, harms no later call."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError
from commonbrain.testing.builders import FakeClock, SeededRandom, a_brain
from tests.transfer.test_exporting import full_of_everything, lines

_NUMBERS = (-5, 2**53, 2**63 - 1, 2**63, 10**23, -(2**63), 1e308, float("nan"), float("inf"))
_TIMES = (
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "9999-12-31T23:59:59.999999Z",
    "9999-12-31T23:59:59-23:59",
    "2026-11-30T00:26:01.940000",
)
_TEXTS: tuple[object, ...] = ("", "\0", "\ud83d", "x" * 70_000, None, [], {}, True)


def _leaves(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    match value:
        case dict():
            for key, inner in cast("dict[str, object]", value).items():
                yield from _leaves(inner, (*path, key))
        case list():
            for place, inner in enumerate(cast("list[object]", value)):
                yield from _leaves(inner, (*path, place))
        case _:
            yield path


def _altered(line: str, path: tuple[str | int, ...], value: object) -> str:
    record = json.loads(line)
    inner = record
    for step in path[:-1]:
        inner = inner[step]
    last = path[-1]
    old = inner[last]
    is_id = isinstance(old, str) and old[3:4] == "_" and len(old) == len("mem_") + 13
    inner[last] = ids.show(old[:3], ids.LAST) if is_id and value == "last" else value
    return json.dumps(record)


def _brain(path: Path, seed: int) -> Brain:
    return a_brain(path, clock=FakeClock(), random_source=SeededRandom(seed))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The lines of an export with a record of every sort."""
    folder = tmp_path_factory.mktemp("written")
    with _brain(folder / "one.db", 0) as brain:
        full_of_everything(brain)
        return lines(brain, folder, "all.jsonl")


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_store_works_on_after_a_merge_of_an_altered_export(
    data: st.DataObject, written: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    number = data.draw(st.integers(1, len(written) - 2))
    path = data.draw(st.sampled_from(list(_leaves(json.loads(written[number])))))
    values: tuple[object, ...] = ("last", *_NUMBERS, *_TIMES, *_TEXTS)
    value = data.draw(st.sampled_from(values))
    altered = _altered(written[number], path, value)
    folder = tmp_path_factory.mktemp("altered")
    file = folder / "altered.jsonl"
    file.write_text("\n".join([*written[:number], altered, *written[number + 1 :]]) + "\n", "utf-8")

    with _brain(folder / "other.db", 1) as brain:
        try:
            report = brain.merge(file)
        except CommonbrainError:
            report = None
        assert report is None or report.read == len(written) - 2
        # An action item of another agent blocks writes, as it should.
        for item in brain.boot().action_items:
            brain.revise.ack(item.id, "will_execute")
        assert brain.remember("The victim has a fact of its own.", kind="fact").items[0].id
        assert brain.message.send("all", "The second message of the day.").id
        assert brain.recall("Which fact does the victim have?").items
        brain.recall("port")
        brain.list()
        brain.boot()
        brain.export(folder / "again.jsonl")
        assert brain.doctor().is_sound
