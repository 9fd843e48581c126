"""What upkeep asks of a file, and what it finds where a row was lost."""

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.testing.builders import a_memory
from tests.storage.store_steps import OpenStore, put
from tests.storage.test_stores import opened
from tests.storage.upkeep_contract import UpkeepContract


@pytest.fixture
def open_store(path: Path) -> Iterator[OpenStore]:
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(opened(path)))


class TestSqliteUpkeep(UpkeepContract):
    pass


def test_row_without_its_body_is_reported(path: Path, open_store: OpenStore) -> None:
    store = open_store()
    for number in (1, 2):
        put(store, a_memory(number, f"Number {number}"))
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DELETE FROM facts WHERE memory_id = 2")
    with store.snapshot(LOCAL_TENANT) as tx:
        assert tx.memories.bodiless(after=0, limit=9) == [2]
