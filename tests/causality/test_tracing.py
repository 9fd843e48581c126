"""Laws of traces: order, likeness of words, patterns."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from commonbrain.causality.result import PrecursorsResult, average, peak_hour, precursors
from commonbrain.causality.traversal import (
    Hop,
    are_alike,
    covers_words,
    in_order,
    is_same,
    ranked_roots,
)
from commonbrain.model.links import LinkType
from tests.storage.store_steps import a_link

WORDS = st.frozensets(st.sampled_from(["disk", "disks", "full", "queue", "log", "a", "db1"]))


def test_hops_are_sorted_by_certainty() -> None:
    weak = Hop(here=1, there=2, link=a_link(2, 1, type=LinkType.CAUSES, strength=0.1))
    sure = Hop(here=1, there=3, link=a_link(3, 1, type=LinkType.CAUSES, strength=0.9))
    words = Hop(here=1, there=4, score=1.0)
    under = Hop(here=3, there=5, score=0.6)
    order = [(hop.there, depth) for hop, depth in in_order(1, [words, weak, under, sure])]
    assert order == [(3, 1), (5, 2), (2, 1), (4, 1)]


@given(st.lists(st.integers(2, 40), max_size=30, unique=True), st.randoms())
def test_every_hop_of_a_tree_appears_once_after_its_parent(
    nodes: list[int], random_source: object
) -> None:
    known = [1]
    hops: list[Hop] = []
    for node in nodes:
        hops.append(Hop(here=random_source.choice(known), there=node, score=0.5))  # type: ignore[attr-defined]
        known.append(node)
    output = [hop for hop, _ in in_order(1, hops)]
    assert sorted(hop.there for hop in output) == sorted(nodes)
    assert all(
        hop.here == 1 or hop.here in {one.there for one in output[:at]}
        for at, hop in enumerate(output)
    )


@given(WORDS, WORDS)
def test_similarity_is_a_symmetric_share(one: frozenset[str], other: frozenset[str]) -> None:
    assert 0 <= are_alike(one, other) <= 1
    assert 0 <= covers_words(one, other) <= 1
    if len(one) != len(other):
        assert are_alike(one, other) == are_alike(other, one)


def test_single_shared_word_is_no_similarity_and_inflected_forms_are_equal() -> None:
    assert are_alike({"disk", "full"}, {"disk", "empty", "again"}) == 0
    assert are_alike({"disk", "fail"}, {"disks", "failed", "again"}) == 1
    assert covers_words({"deadlock"}, {"deadlocks", "seen"}) == 1


def test_forms_of_the_same_words_are_the_same_event() -> None:
    assert is_same({"checkout", "failed", "again"}, {"checkout", "fail", "again"})
    assert not is_same({"disk", "full"}, {"disk", "full", "of", "old", "logs"})


def test_roots_rank_by_explained_events_then_by_distance() -> None:
    assert ranked_roots({7: {1}, 8: {1, 2}, 9: {1}}, {7: 3, 8: 5, 9: 1}) == [8, 9, 7]


def test_precursor_counts_once_for_each_occurrence_by_its_nearest_time() -> None:
    twice = [
        PrecursorsResult(subject="Deploy", minutes=30),
        PrecursorsResult(subject="deploy", minutes=10),
    ]
    once = [PrecursorsResult(subject="deploy", minutes=20, is_candidate=True)]
    [one] = precursors([twice, once]).values()
    assert (one.subject, one.count, one.share, one.minutes_before) == ("Deploy", 2, 1.0, 15)
    assert one.is_candidate


def test_single_delay_has_no_average_and_equally_frequent_hours_have_no_peak() -> None:
    assert (average([None, 5.0]), average([3.0, 5.0, None])) == (None, 4.0)
    at = [datetime(2026, 3, day, hour, tzinfo=UTC) for day in (1, 2) for hour in (8, 9)]
    assert peak_hour(at) is None
    assert peak_hour([*at, datetime(2026, 3, 3, 9, tzinfo=UTC)]) == (9, 3)
    assert peak_hour([]) is None
