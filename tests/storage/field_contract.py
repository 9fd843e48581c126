"""What every store promises of searching atoms by one field: its words and its vector alone.

A subclass gives `open_store`, as for `StoreContract`.
"""

from dataclasses import replace
from datetime import timedelta

import pytest

from commonbrain.embeddings.interface import Vectors
from commonbrain.model.kinds import AtomDetail, CausalField, Kind
from commonbrain.model.memory import Memory, State
from commonbrain.model.revision import Action, BeliefPeriod
from commonbrain.model.scope import LOCAL_TENANT, Scope, Trust
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import (
    EMBEDDER,
    LATER,
    OpenStore,
    a_change,
    lexical,
    move,
    nearest,
    put,
    query_scope,
    vectors_for,
)

SUBJECT, ACTION, OUTCOME, CONSEQUENCES = CausalField


def an_atom(id_: int, *, subject: str, action: str, outcome: str, consequences: str = "") -> Memory:
    """Make an atom of up to four fields."""
    detail = AtomDetail(subject=subject, action=action, outcome=outcome, consequences=consequences)
    body = f"{subject} | {action} | {outcome} | {consequences}"
    return a_memory(id_, body, kind=Kind.ATOM, detail=detail)


BROKER = an_atom(
    1,
    subject="the broker",
    action="ran full",
    outcome="orders were lost",
    consequences="customers left",
)
LEDGER = an_atom(
    2, subject="orders were lost", action="by the ledger", outcome="the broker stopped"
)


class FieldContract:
    """The promises of searching a field; each test opens its own store."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give the store as one process sees it."""
        return open_store()

    @pytest.mark.requirement("DM-43", "DM-58")
    @pytest.mark.parametrize(
        ("field", "text"),
        [
            (SUBJECT, "the broker"),
            (ACTION, "ran full"),
            (OUTCOME, "orders were lost"),
            (CONSEQUENCES, "customers left"),
        ],
    )
    def test_atom_is_returned_by_a_search_of_the_matching_field_only(
        self, store: Store, field: CausalField, text: str
    ) -> None:
        put(store, BROKER)

        for name in CausalField:
            scope = query_scope(field=name)
            ids = [1] if name is field else []
            assert lexical(store, *text.split(), scope=scope) == ids
            assert nearest(store, text, scope=scope) == ids

    def test_field_search_considers_only_atoms_with_that_field(self, store: Store) -> None:
        plain = a_memory(3, "an atom of no fields: customers left", kind=Kind.ATOM)
        put(store, BROKER, LEDGER, plain, a_memory(4, "customers left"))

        scope = query_scope(field=CONSEQUENCES)
        assert lexical(store, "customers", scope=scope) == [1]
        with store.snapshot(LOCAL_TENANT) as tx:
            hits = tx.index.nearest(EMBEDDER.query("customers left"), scope, limit=9)
            assert [hit.id for hit in hits] == [1]
            assert [hit.id for hit in tx.memories.newest(scope, limit=9)] == [1]
            assert tx.index.similarities(
                EMBEDDER.query("customers left"), [1, 2, 3, 4], field=CONSEQUENCES
            ) == {1: pytest.approx(1, abs=1e-2)}

    def test_search_of_whole_memories_ignores_fields(self, store: Store) -> None:
        put(store, BROKER, LEDGER)

        window = EMBEDDER.passages([BROKER.text])[0][0]
        with store.snapshot(LOCAL_TENANT) as tx:
            similarities = tx.index.similarities(EMBEDDER.query("customers left"), [1])

        assert similarities == {
            1: pytest.approx(float(EMBEDDER.query("customers left") @ window), abs=1e-2)
        }

    @pytest.mark.parametrize(
        ("memory", "scope"),
        [
            (replace(BROKER, scope=Scope.PRIVATE, agent="bo"), query_scope(field=OUTCOME)),
            (replace(BROKER, state=State.FORGOTTEN), query_scope(field=OUTCOME)),
            (replace(BROKER, expires_at=NOON), query_scope(field=OUTCOME)),
            (replace(BROKER, trust=Trust.UNTRUSTED_WEB), query_scope(field=OUTCOME)),
            (replace(BROKER, project="api"), query_scope(field=OUTCOME, project="web")),
            (BROKER, query_scope(field=OUTCOME, agent="bo")),
            (BROKER, query_scope(field=OUTCOME, since=NOON + timedelta(seconds=1))),
            (BROKER, query_scope(field=OUTCOME, as_of=NOON - timedelta(seconds=1))),
        ],
    )
    def test_field_search_returns_no_memory_outside_the_scope(
        self, store: Store, memory: Memory, scope: QueryScope
    ) -> None:
        put(store, memory)

        assert lexical(store, "orders", scope=scope) == []
        assert nearest(store, "orders were lost", scope=scope) == []

    def test_field_search_returns_no_memory_of_another_tenant(self, store: Store) -> None:
        put(store, BROKER)

        with store.snapshot("other") as tx:
            query = EMBEDDER.query("orders were lost")
            assert tx.index.lexical(["orders"], query_scope(field=OUTCOME), limit=9) == []
            assert tx.index.nearest(query, query_scope(field=OUTCOME), limit=9) == []
            assert tx.index.similarities(query, [1], field=OUTCOME) == {}

    def test_superseded_atom_is_returned_by_a_field_search_as_of_an_earlier_time(
        self, store: Store
    ) -> None:
        newer = an_atom(3, subject="the broker", action="ran full", outcome="nothing fell")
        put(store, BROKER, newer)
        with store.begin(LOCAL_TENANT) as tx:
            move(tx, 1, state=State.SUPERSEDED, superseded_by=3, superseded_at=LATER)
            believed = BeliefPeriod(since=NOON, until=LATER)
            tx.changes.add(a_change(1, action=Action.SUPERSEDE, at=LATER, believed=believed))

        now = query_scope(now=timedelta(days=3), field=OUTCOME)
        then = query_scope(now=timedelta(days=3), field=OUTCOME, as_of=NOON)
        assert lexical(store, "orders", scope=now) == []
        assert lexical(store, "orders", scope=then) == [1]
        assert nearest(store, "orders were lost", scope=then) == [1]

    def test_dropped_and_rewritten_vectors_are_seen_by_every_process(
        self, open_store: OpenStore
    ) -> None:
        one, other = open_store(), open_store()
        put(one, BROKER, LEDGER)
        scope = query_scope(field=OUTCOME)
        assert nearest(other, "orders were lost", scope=scope) == [1]

        with one.begin(LOCAL_TENANT) as tx:
            tx.index.drop(1)
        assert nearest(other, "orders were lost", scope=scope) == []
        assert lexical(other, "orders", scope=scope) == []
        with one.begin(LOCAL_TENANT) as tx:
            tx.index.put(BROKER, vectors_for(BROKER))

        assert nearest(other, "orders were lost", scope=scope) == [1]
        assert lexical(other, "orders", scope=scope) == [1]

    def test_transaction_reads_its_own_writes_and_rollback_leaves_nothing(
        self, store: Store
    ) -> None:
        query, scope = EMBEDDER.query("orders were lost"), query_scope(field=OUTCOME)
        with pytest.raises(ZeroDivisionError), store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(BROKER)
            tx.index.put(BROKER, vectors_for(BROKER))
            assert [hit.id for hit in tx.index.nearest(query, scope, limit=5)] == [1]
            raise ZeroDivisionError

        assert nearest(store, "orders were lost", scope=scope) == []
        put(store, LEDGER)
        assert nearest(store, "the broker stopped", scope=scope) == [2]

    def test_atom_without_field_vectors_is_pending_until_embedded(self, store: Store) -> None:
        made = vectors_for(BROKER)
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(BROKER)
            tx.index.put(BROKER, Vectors(windows=made.windows))
            missing = tx.missing_embeddings
            assert (missing.pending(), missing.oldest(limit=5)) == (
                1,
                [1],
            )

        with store.begin(LOCAL_TENANT) as tx:
            assert tx.index.embed(1, made)
            assert not tx.index.embed(1, made)
            missing = tx.missing_embeddings
            assert (missing.pending(), missing.oldest(limit=5)) == (
                0,
                [],
            )
        assert nearest(store, "orders were lost", scope=query_scope(field=OUTCOME)) == [1]
        assert nearest(store, BROKER.text) == [1]

    def test_atom_without_fields_is_not_pending(self, store: Store) -> None:
        put(store, a_memory(1, "an atom of no fields", kind=Kind.ATOM))
        put(store, an_atom(2, subject="", action="", outcome=""))

        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.missing_embeddings.pending() == 0

    def test_vectors_of_unsearchable_fields_are_dropped(self, store: Store) -> None:
        put(store, BROKER, LEDGER)
        with store.begin(LOCAL_TENANT) as tx:
            move(tx, 1, state=State.FORGOTTEN)
            assert tx.index.drop_unsound_vectors() == 1 + len(CausalField)
            assert tx.index.drop_unsound_vectors() == 0

        with store.snapshot(LOCAL_TENANT) as tx:
            query = EMBEDDER.query("orders were lost")
            assert tx.index.similarities(query, [1, 2], field=OUTCOME).keys() == {2}

    def test_erased_atom_leaves_no_field_vector(self, store: Store) -> None:
        put(store, BROKER)
        with store.begin(LOCAL_TENANT) as tx:
            scrubbed = tx.scrub(1)

        assert scrubbed["field_vectors"] == len(CausalField)
        assert lexical(store, "orders", scope=query_scope(field=OUTCOME)) == []

    def test_words_of_fields_are_rewritten_with_the_other_words(self, store: Store) -> None:
        put(store, BROKER)
        with store.begin(LOCAL_TENANT) as tx:
            tx.index.reword(an_atom(1, subject="cake", action="cake", outcome="cake"))
        assert lexical(store, "orders", scope=query_scope(field=OUTCOME)) == []

        # The rows are the truth: they still say orders.
        assert store.rebuild_text() == 1
        assert lexical(store, "orders", scope=query_scope(field=OUTCOME)) == [1]
        assert lexical(store, "cake", scope=query_scope(field=OUTCOME)) == []

    @pytest.mark.parametrize("term", ['"', "NEAR(", "a*", "-x", "outcome:", "{subject}", "\0", ""])
    def test_field_search_reads_no_term_as_an_operator_or_as_another_field(
        self, store: Store, term: str
    ) -> None:
        put(store, BROKER)

        scope = query_scope(field=OUTCOME)
        assert lexical(store, term, "orders", scope=scope) == [1]
        assert lexical(store, term, "broker", scope=scope) == []
