"""What every store promises of readings: what recall needs of a text is stored with it.

A subclass gives `open_store`, as for `StoreContract`.
"""

from collections.abc import Mapping
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.model.kinds import AtomDetail, Detail, FactDetail, Kind, MessageDetail
from commonbrain.model.memory import Memory
from commonbrain.model.scope import LOCAL_TENANT
from commonbrain.storage.repositories.memory_rows import decode_reading
from commonbrain.storage.schema.memories import memories
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, a_memory
from commonbrain.text.reading import read_memory
from tests.storage.store_steps import OpenStore, move, put

NUMBERS = count(1)
"""Ids that no other example of a test has."""
TEXTS = st.one_of(
    st.text(min_size=1).filter(str.strip).filter(lambda text: "\0" not in text),
    st.lists(
        st.sampled_from(
            (
                *("The audit is next Friday.", "Is the door open?", "We moved it 2 hours ago."),
                *(
                    "Grandma takes 5 mg",
                    "of",
                    "src/app.py",
                    "\u6771\u4eac",
                    "it's",
                    "--dry-run",
                    "\n",
                ),
            )
        ),
        min_size=1,
        max_size=8,
    ).map(" ".join),
)
NAMES = st.lists(st.sampled_from(("web", "The Kettle", "v1.2", "\u6771\u4eac")), unique=True)
DETAILS: st.SearchStrategy[tuple[Kind, Detail]] = st.one_of(
    st.tuples(st.just(Kind.FACT), st.builds(FactDetail, subject=st.none() | TEXTS)),
    st.tuples(
        st.just(Kind.MESSAGE), st.builds(MessageDetail, sender=st.sampled_from(("Ann", "bo")))
    ),
    st.tuples(st.just(Kind.ATOM), st.builds(AtomDetail, action=TEXTS, outcome=st.none() | TEXTS)),
)
CHANGES: st.SearchStrategy[Mapping[str, object]] = st.fixed_dictionaries(
    {},
    optional={
        "tags": NAMES.map(tuple),
        "people": NAMES.map(lambda names: tuple(map(str.casefold, names))),
        "project": st.none() | st.sampled_from(("api", "harbour")),
        "label": st.none() | st.sampled_from(("bug", "decision")),
        "rating": st.integers(-3, 3),
        "occurred_at": st.integers(-400, 400).map(lambda hours: NOON + timedelta(hours=hours)),
    },
)


class ReadingsContract:
    """The promises of readings; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    @given(text=TEXTS, detail=DETAILS, changes=st.lists(CHANGES, max_size=3), erases=st.booleans())
    @settings(
        suppress_health_check=[
            HealthCheck.function_scoped_fixture,
            HealthCheck.differing_executors,
        ],
        deadline=None,
    )
    def test_stored_reading_is_that_of_the_text_after_any_changes(
        self,
        store: Store,
        text: str,
        detail: tuple[Kind, Detail],
        changes: list[Mapping[str, Any]],
        *,
        erases: bool,
    ) -> None:
        kind, own = detail
        made = a_memory(next(NUMBERS), text, kind=kind, detail=own)
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(made)
            for one in changes:
                move(tx, made.id, **one)
            if erases:
                tx.scrub(made.id)
            memory = tx.memories.get([made.id])[made.id]
            in_row = decode_reading(row_of(tx, made.id))

        assert memory.reading == read_memory(memory)
        assert in_row == (None if erases else memory.reading)

    @pytest.mark.parametrize("left", [None, '[0,"of an older program"]'])
    def test_text_without_a_current_reading_is_read_when_it_is_loaded(
        self, store: Store, left: str | None
    ) -> None:
        memory = a_memory(next(NUMBERS), "Is the audit next Friday?")
        put(store, memory, a_memory(next(NUMBERS), "tea is ready"))
        with store.begin(LOCAL_TENANT) as tx:
            leave(tx, memory, left)
        with store.begin(LOCAL_TENANT) as tx:
            loaded = tx.memories.get([memory.id])[memory.id]
            unread = tx.memories.unread(after=0, limit=9)
            tx.memories.read_again(unread)

            assert loaded.reading == read_memory(memory)
            assert unread == [memory.id]
            assert decode_reading(row_of(tx, memory.id)) == loaded.reading
            assert tx.memories.unread(after=0, limit=9) == []

    def test_words_left_by_a_program_that_erased_without_knowing_them_are_emptied(
        self, store: Store
    ) -> None:
        memory = a_memory(next(NUMBERS), "The safe opens with 8-31-77.")
        put(store, memory)
        with store.begin(LOCAL_TENANT) as tx:
            before = row_of(tx, memory.id)
            tx.scrub(memory.id)
            emptied = row_of(tx, memory.id)
            leave(tx, memory, before)
            tx.memories.read_again(tx.memories.unread(after=0, limit=9))

            assert "8-31-77" in (before or "")
            assert (emptied, row_of(tx, memory.id)) == (None, None)


def row_of(tx: Transaction, id_: int) -> str | None:
    """Return the reading of a memory as its row has it."""
    here = memories.c.tenant_id == tx.work.tenant, memories.c.id == id_
    return tx.work.connection.execute(sa.select(memories.c.reading).where(*here)).scalar()


def leave(tx: Transaction, memory: Memory, reading: str | None) -> None:
    """Leave a row as another program does."""
    here = memories.c.tenant_id == tx.work.tenant, memories.c.id == memory.id
    tx.work.connection.execute(sa.update(memories).where(*here).values(reading=reading))
