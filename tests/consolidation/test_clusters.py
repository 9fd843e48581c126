"""Which memories are about one thing."""

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
    occurrences = [
        Occurrence(at=NOON + timedelta(hours=hour), within=name)
        for hour, name in zip(hours, within, strict=True)
    ]
    cosines = [
        [0.6 if one == other else 0.1 * ((one + other + noise) % 4) for other in topics]
        for one in topics
    ]
    return occurrences, cosines


@given(histories())
def test_clusters_are_disjoint_and_within_size_limits(
    history: tuple[list[Occurrence], list[list[float]]],
) -> None:
    groups = clusters(*history, alike_at=ALIKE)

    members = [place for one in groups for place in one]
    assert len(members) == len(set(members))
    assert all(CLUSTER_MIN <= len(one) <= SOURCES_MAX for one in groups)
    assert all(one == sorted(one) for one in groups)


@given(histories(), st.data())
def test_removing_a_cluster_does_not_change_the_others(
    history: tuple[list[Occurrence], list[list[float]]], data: st.DataObject
) -> None:
    occurrences, cosines = history
    groups = clusters(occurrences, cosines, alike_at=ALIKE)
    drawn = [one for one in groups if data.draw(st.booleans())]
    removed = {place for one in drawn for place in one}
    left = [place for place in range(len(occurrences)) if place not in removed]

    again = clusters(
        [occurrences[place] for place in left],
        [[cosines[one][other] for other in left] for one in left],
        alike_at=ALIKE,
    )

    assert [[left[place] for place in one] for one in again] == [
        one for one in groups if one not in drawn
    ]


def test_cluster_has_at_most_as_many_members_as_a_memory_has_sources() -> None:
    size = 2 * SOURCES_MAX + 10
    occurrences = [Occurrence(at=NOON) for _ in range(size)]

    groups = clusters(occurrences, [[1.0] * size for _ in range(size)], alike_at=ALIKE)

    assert list(map(len, groups)) == [SOURCES_MAX, SOURCES_MAX, 10]


def test_half_a_day_of_silence_ends_a_cluster() -> None:
    occurrences = [Occurrence(at=NOON + timedelta(hours=hour)) for hour in (0, 1, 2, 9, 10, 11)]

    groups = clusters(occurrences, [[0.9] * 6 for _ in range(6)], alike_at=ALIKE)

    assert groups == [[0, 1, 2], [3, 4, 5]]
