"""What every store promises of walks over links, and of what needs review.

A subclass gives `open_store`, as for `StoreContract`.
"""

from dataclasses import replace
from typing import Any

import pytest

from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from commonbrain.model.scope import LOCAL_TENANT, Caller, Scope, Trust
from commonbrain.model.support import SUPPORTS, InvalidationReason, Review, Support
from commonbrain.storage.interface import Direction, GraphReader, ReachedMemory
from commonbrain.storage.store import Store
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.store_steps import LATER, OpenStore, a_link

_DERIVED = LinkType.DERIVED_FROM
_DEPENDS = LinkType.DEPENDS_ON


def a_review(memory_id: int, cause_id: int, **more: object) -> Review:
    """Make a review as of noon, with anything else as given."""
    plain = Review(
        memory_id=memory_id,
        cause_id=cause_id,
        fall=InvalidationReason.FORGOTTEN,
        via_id=cause_id,
        depth=1,
        at=NOON,
    )
    return replace(plain, **more)  # type: ignore[arg-type]


class CascadeContract:
    """The promises of graph and reviews; 2 and 3 rest on 1, 4 on both, and 1 on 4: a circle."""

    @pytest.fixture
    def store(self, open_store: OpenStore) -> Store:
        """Give a store with five memories and the links among four of them."""
        opened = open_store()
        with opened.begin(LOCAL_TENANT) as tx:
            for id_ in range(1, 6):
                tx.memories.add(a_memory(id_, f"memory {id_}"))
            for one, on, type_ in (
                (4, 3, _DERIVED),
                (4, 2, _DEPENDS),
                (3, 1, _DEPENDS),
                (2, 1, _DERIVED),
                (1, 4, _DEPENDS),
            ):
                tx.links.replace(a_link(one, on, type=type_))
        return opened

    def test_graph_walk_takes_shortest_paths_and_visits_a_cycle_once(self, store: Store) -> None:
        with store.snapshot(LOCAL_TENANT) as tx:
            walk = tx.graph.walk([1], Direction.AGAINST, types=SUPPORTS, limit=9)
        assert walk.reached == (
            ReachedMemory(2, 1, 1, _DERIVED),
            ReachedMemory(3, 1, 1, _DEPENDS),
            ReachedMemory(4, 2, 2, _DEPENDS),
        )
        assert not walk.is_cut
        assert walk.path(4) == [4, 2, 1]

    def test_graph_walk_can_follow_the_direction_of_the_links(self, store: Store) -> None:
        with store.snapshot(LOCAL_TENANT) as tx:
            walk = tx.graph.walk([4], Direction.ALONG, types=SUPPORTS, limit=9)
        assert [(one.id, one.depth) for one in walk.reached] == [(2, 1), (3, 1), (1, 2)]

    def test_links_among_memories_and_next_nodes_of_a_walk_are_listed(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.links.replace(a_link(4, 2, type=_DEPENDS, strength=0.9))
        with store.snapshot(LOCAL_TENANT) as tx:
            among = tx.graph.among([4, 2, 5], types=SUPPORTS)
            assert tx.graph.among([], types=SUPPORTS) == []
            assert tx.graph.onward([2, 5], Direction.ALONG, types=SUPPORTS) == {2}
            assert tx.graph.onward([2, 3], Direction.AGAINST, types=[_DERIVED]) == {3}
            assert tx.graph.onward([], Direction.ALONG, types=SUPPORTS) == set()
        assert [(one.from_id, one.to_id, one.strength) for one in among] == [(4, 2, 0.9)]

    @pytest.mark.parametrize(
        "hidden",
        [
            {"scope": Scope.PRIVATE, "agent": "eve"},
            {"trust": Trust.UNTRUSTED_WEB},
            {"state": State.QUARANTINED},
        ],
    )
    def test_graph_walk_for_a_reader_does_not_pass_through_hidden_memories(
        self, store: Store, hidden: dict[str, Any]
    ) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.memories.add(a_memory(6, "memory 6", **hidden))
            tx.links.replace(a_link(6, 5, type=_DEPENDS))
            tx.links.replace(a_link(2, 6, type=_DEPENDS))
        reader = GraphReader(caller=Caller(agent="ann"), trust_min=0.5)
        with store.snapshot(LOCAL_TENANT) as tx:
            visible = tx.graph.seen_by(reader)
            walk = visible.walk([5], Direction.AGAINST, types=SUPPORTS, limit=9)
            every = tx.graph.walk([5], Direction.AGAINST, types=SUPPORTS, limit=9)
            assert visible.onward([5], Direction.AGAINST, types=SUPPORTS) == set()
        assert walk.reached == ()
        assert [one.id for one in every.reached] == [6, 2, 4, 1, 3]

    def test_graph_walk_respects_its_types_depth_limit_and_stops(self, store: Store) -> None:
        def walked(**bounds: object) -> tuple[list[int], bool]:
            arguments = {"types": SUPPORTS, "limit": 9, **bounds}
            with store.snapshot(LOCAL_TENANT) as tx:
                walk = tx.graph.walk([1], Direction.AGAINST, **arguments)  # type: ignore[arg-type]
            return [one.id for one in walk.reached], walk.is_cut

        assert walked(types=[_DEPENDS]) == ([3], False)
        assert walked(depth_max=1) == ([2, 3], False)
        assert walked(limit=2) == ([2, 3], True)
        assert walked(limit=3) == ([2, 3, 4], False)
        assert walked(stops=[2, 3]) == ([2, 3], False)
        assert walked(stops=[2]) == ([2, 3, 4], False)

    def test_supports_and_statuses_of_the_given_memories_are_returned(self, store: Store) -> None:
        with store.snapshot(LOCAL_TENANT) as tx:
            supports = set(tx.graph.supports([4, 5]))
            standings = tx.graph.support_statuses([4, 99])
        assert supports == {Support(4, 3, _DERIVED), Support(4, 2, _DEPENDS)}
        assert {id_: (one.state, one.is_erased) for id_, one in standings.items()} == {
            4: (State.ACTIVE, False)
        }

    def test_reviews_are_added_updated_read_and_dropped(self, store: Store) -> None:
        near, far = a_review(2, 1), a_review(4, 1, depth=2, via_id=2)
        settled = replace(near, settled_at=LATER, settled_by="ann", reason="it holds")
        with store.begin(LOCAL_TENANT) as tx:
            tx.reviews.add([far, near])
            assert tx.reviews.by(1) == [near, far]
            tx.reviews.put([settled])
            assert tx.reviews.of([2, 3, 4]) == {2: [settled], 4: [far]}
            tx.reviews.drop([far])
        with store.snapshot(LOCAL_TENANT) as tx:
            assert tx.reviews.by(1) == [settled]

    def test_memories_without_dependents_are_not_listed(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.reviews.touch([5], at=NOON)
            assert tx.reviews.due(LATER, limit=9) == []

    def test_memories_affected_by_a_change_are_due_until_they_are_processed(
        self, store: Store
    ) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.links.replace(a_link(5, 3, type=LinkType.CONFLICTS_WITH))
            assert (tx.reviews.disputed([3, 4]), tx.reviews.disputed([5])) == ([5], [3])
            tx.reviews.add([a_review(5, 2)])
            # Itself, for it needs review; what it contradicts; the cause of its review.
            tx.reviews.touch([5], at=NOON)
            assert tx.reviews.listed() == [2, 3, 5]
            tx.reviews.postpone(3, NOON)
            assert tx.reviews.listed() == [2, 5]
        with store.begin(LOCAL_TENANT) as tx:
            assert tx.reviews.listed() == []
            assert tx.reviews.due(NOON, limit=9) == [2, 3, 5]
            tx.reviews.postpone(2, None)
            tx.reviews.postpone(3, LATER)
            assert tx.reviews.due(NOON, limit=9) == [5]
            assert tx.reviews.due(LATER, limit=9) == [5, 3]

    def test_affected_memories_are_reached_through_open_reviews(self, store: Store) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.reviews.add([a_review(2, 1), a_review(3, 1, settled_at=LATER)])
            assert tx.reviews.affected([1]) == [1, 2]
            tx.reviews.add([a_review(4, 1)])
            assert tx.reviews.affected([1]) == [1, 2, 4]

    def test_unconfirmed_memories_have_an_open_review_and_are_not_confirmed(
        self, store: Store
    ) -> None:
        lost = a_review(3, 3, fall=InvalidationReason.UNSUPPORTED, depth=0, earlier=State.ACTIVE)
        with store.begin(LOCAL_TENANT) as tx:
            tx.reviews.add([a_review(2, 1), a_review(4, 1), lost])
            tx.reviews.add([a_review(4, 2, settled_at=LATER)])
            assert tx.reviews.unconfirmed([2, 3, 4, 5]) == [2]
            assert tx.reviews.unsupported([2, 3, 4]) == {3: lost}

    def test_scrubbing_deletes_the_reviews_of_a_memory_and_not_those_it_caused(
        self, store: Store
    ) -> None:
        with store.begin(LOCAL_TENANT) as tx:
            tx.reviews.add([a_review(2, 1), a_review(4, 2)])
            assert tx.scrub(2)["reviews"] == 1
            assert tx.reviews.of([2, 4]) == {4: [a_review(4, 2)]}
