"""What every store promises of the list of open conflicts.

A subclass gives `open_store`, as for `StoreContract`.
"""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from commonbrain.model import ids
from commonbrain.model.links import DISAGREEMENTS, LinkType
from commonbrain.model.memory import State
from commonbrain.model.query import Filter
from commonbrain.model.scope import LOCAL_TENANT, Caller, Scope
from commonbrain.storage.interface import QueryScope
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import OpenStore, a_link

_AGAINST = LinkType.CONFLICTS_WITH


def query_scope(*, agent: str = "ann", **more: object) -> QueryScope:
    criteria = Filter(trust_min=0.0, **more)  # type: ignore[arg-type]
    return QueryScope(caller=Caller(agent=agent), filter=criteria, now=NOON)


def _pairs(
    store: Store,
    scope: QueryScope,
    *,
    limit: int = 9,
    after: tuple[datetime, int, int] | None = None,
) -> list[tuple[int, int]]:
    with store.snapshot(LOCAL_TENANT) as tx:
        links = tx.conflicts.open(scope, limit=limit, after=after)
    return [(link.from_id, link.to_id) for link in links]


class DisputesContract:
    """The promises of `ConflictRepository`."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give a store where 2 to 6 contradict 1 and every one but 2, 5 and 6 can be seen to."""
        opened = open_store()
        more: dict[int, dict[str, object]] = {
            1: {"project": "api"},
            3: {"project": "api"},
            4: {"scope": Scope.PRIVATE, "agent": "bob"},
            5: {"state": State.FORGOTTEN},
            6: {"project": "web"},
        }
        with opened.begin(LOCAL_TENANT) as tx:
            for id_ in range(1, 7):
                plain = a_memory(id_, f"It runs on {id_} cores")
                tx.memories.add(replace(plain, **more.get(id_, {})))  # type: ignore[arg-type]
            for id_ in range(2, 7):
                made = a_link(id_, 1, type=_AGAINST)
                tx.links.replace(replace(made, created_at=NOON + timedelta(days=id_)))
            tx.links.replace(a_link(3, 2, type=LinkType.RELATES_TO))
        return opened

    def test_open_conflicts_with_two_visible_sides_are_listed_latest_first(
        self, store: Store
    ) -> None:
        assert _pairs(store, query_scope()) == [(3, 1), (2, 1)]
        assert _pairs(store, query_scope(agent="bob")) == [(4, 1), (3, 1), (2, 1)]

    def test_project_lists_its_own_conflicts_and_those_without_a_project(
        self, store: Store
    ) -> None:
        assert _pairs(store, query_scope(project="api")) == [(3, 1), (2, 1)]
        assert _pairs(store, query_scope(project="web")) == []

    def test_conflicts_are_listed_in_pages(self, store: Store) -> None:
        assert _pairs(store, query_scope(), limit=1) == [(3, 1)]
        first, second = NOON + timedelta(days=3), NOON + timedelta(days=2)
        assert _pairs(store, query_scope(), limit=1, after=(first, 3, 1)) == [(2, 1)]
        assert _pairs(store, query_scope(), limit=1, after=(second, 2, 1)) == []
        # Of one time, the ends decide.
        assert _pairs(store, query_scope(), after=(first, 3, 2)) == [(3, 1), (2, 1)]
        assert _pairs(store, query_scope(), after=(first, 4, 0)) == [(3, 1), (2, 1)]

    def test_conflicts_can_be_limited_to_memories_recorded_since_a_time(self, store: Store) -> None:
        recent = ids.make_id(NOON, 7)
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(a_memory(recent, "It runs on 64 cores"))
            tx.links.replace(a_link(recent, 1, type=LinkType.CHANGES))
            assert len(tx.conflicts.open(query_scope(), limit=9)) == 2
            assert len(tx.conflicts.open(query_scope(), limit=9, types=DISAGREEMENTS)) == 3
            for since, count in ((NOON, 1), (NOON + timedelta(days=1), 0)):
                recent_links = tx.conflicts.open(
                    query_scope(), limit=9, types=DISAGREEMENTS, since=since
                )
                assert len(recent_links) == count

    def test_conflicts_of_another_tenant_are_not_listed(self, store: Store) -> None:
        with store.begin("other") as tx:
            assert tx.conflicts.open(query_scope(), limit=9) == []

    def test_pair_linked_in_both_directions_is_listed_once(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.links.replace(a_link(1, 3, type=_AGAINST))
        assert set(_pairs(store, query_scope())) == {(1, 3), (2, 1)}
        assert len(_pairs(store, query_scope(), limit=2)) == 2
