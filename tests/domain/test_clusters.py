"""Which memories tell of one thing."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from commonbrain.consolidation.episodes import CLUSTER_MIN, Occurrence, clusters
from commonbrain.model.limits import SOURCES_MAX
from commonbrain.testing.builders import NOON

ALIKE = 0.3


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Occurrence], list[list[float]]]:
    """Memories of a few topics and sessions, in the order of their time."""
    size = draw(st.integers(0, 40))
    hours = sorted(draw(st.lists(st.integers(0, 30), min_size=size, max_size=size)))
    topics = draw(st.lists(st.integers(0, 3), min_size=size, max_size=size))
    within = draw(st.lists(st.sampled_from([None, "a", "b"]), min_size=size, max_size=size))
    noise = draw(st.integers(0, 2))
    told = [
        Occurrence(at=NOON + timedelta(hours=hour), within=name)
        for hour, name in zip(hours, within, strict=True)
    ]
    cosines = [
        [0.6 if one == other else 0.1 * ((one + other + noise) % 4) for other in topics]
        for one in topics
    ]
    return told, cosines


@given(histories())
def test_no_memory_is_in_two_clusters_and_none_is_smaller_or_larger_than_allowed(
    history: tuple[list[Occurrence], list[list[float]]],
) -> None:
    found = clusters(*history, alike_at=ALIKE)

    members = [place for one in found for place in one]
    assert len(members) == len(set(members))
    assert all(CLUSTER_MIN <= len(one) <= SOURCES_MAX for one in found)
    assert all(one == sorted(one) for one in found)


@given(histories(), st.data())
def test_whatever_clusters_are_taken_away_the_others_stay_as_they_are(
    history: tuple[list[Occurrence], list[list[float]]], data: st.DataObject
) -> None:
    told, cosines = history
    found = clusters(told, cosines, alike_at=ALIKE)
    kept = [one for one in found if data.draw(st.booleans())]
    gone = {place for one in kept for place in one}
    left = [place for place in range(len(told)) if place not in gone]

    again = clusters(
        [told[place] for place in left],
        [[cosines[one][other] for other in left] for one in left],
        alike_at=ALIKE,
    )

    assert [[left[place] for place in one] for one in again] == [
        one for one in found if one not in kept
    ]


def test_a_cluster_is_cut_where_it_has_as_many_members_as_a_memory_has_sources() -> None:
    size = 2 * SOURCES_MAX + 10
    told = [Occurrence(at=NOON) for _ in range(size)]

    found = clusters(told, [[1.0] * size for _ in range(size)], alike_at=ALIKE)

    assert list(map(len, found)) == [SOURCES_MAX, SOURCES_MAX, 10]


def test_half_a_day_of_silence_ends_what_is_told_of() -> None:
    told = [Occurrence(at=NOON + timedelta(hours=hour)) for hour in (0, 1, 2, 9, 10, 11)]

    found = clusters(told, [[0.9] * 6 for _ in range(6)], alike_at=ALIKE)

    assert found == [[0, 1, 2], [3, 4, 5]]
