from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.embeddings.interface import CAUTIOUS, EmbeddingSpace
from commonbrain.ingestion.deduplication import (
    CandidateMemory,
    Duplicate,
    Unique,
    classify_duplicate,
    is_comparable,
    is_repetition,
)
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import SIMILAR_HINTS_MAX
from commonbrain.model.scope import Scope
from commonbrain.testing.builders import a_memory

SPACE = EmbeddingSpace(
    name="test",
    dimensions=2,
    similar_threshold=0.5,
    relevance_threshold=0.2,
)
TEXT = "The cache lives on the build host"
COSINES = st.floats(-1, 1)


def near(*similarities: float, text: str = TEXT) -> list[CandidateMemory]:
    return [
        CandidateMemory(id=n, headline=text, text=text, similarity=similarity)
        for n, similarity in enumerate(similarities, 1)
    ]


def test_near_duplicate_rule_or_fact_is_refused(subtests: pytest.Subtests) -> None:
    for kind in [Kind.RULE, Kind.FACT]:
        with subtests.test(kind=kind):
            match classify_duplicate(kind, TEXT, near=near(0.6, 0.75), space=SPACE):
                case Duplicate(of=neighbour, is_refused=True):
                    assert neighbour.id == 2
                case other:
                    pytest.fail(f"{other}")


def test_near_duplicate_task_is_stored_with_a_hint() -> None:
    result = classify_duplicate(Kind.TASK, TEXT, near=near(0.9), space=SPACE)
    assert result == Duplicate(of=near(0.9)[0], is_refused=False)


def test_near_duplicate_of_a_repeatable_kind_is_stored_with_hints(
    subtests: pytest.Subtests,
) -> None:
    for kind in [Kind.INCIDENT, Kind.EVENT, Kind.EPISODE, Kind.ATOM, Kind.MESSAGE]:
        with subtests.test(kind=kind):
            assert classify_duplicate(kind, TEXT, near=near(0.99), space=SPACE) == Unique(
                similar=tuple(near(0.99))
            )


@given(st.sampled_from(Kind), st.lists(COSINES, max_size=12))
def test_hints_are_limited_to_near_memories_nearest_first(
    kind: Kind, similarities: Sequence[float]
) -> None:
    result = classify_duplicate(kind, TEXT, near=near(*similarities), space=SPACE)
    if isinstance(result, Unique):
        given_ = [neighbour.similarity for neighbour in result.similar]
        assert given_ == sorted(given_, reverse=True)
        assert len(given_) <= SIMILAR_HINTS_MAX
        assert all(similarity >= SPACE.related_threshold for similarity in given_)
    else:
        assert result.of.similarity == max(similarities) >= SPACE.similar_threshold


def test_text_with_another_number_or_a_negation_is_no_duplicate(subtests: pytest.Subtests) -> None:
    for one, other in [
        ("The limit is 10 MB", "The limit is 20 MB"),
        ("Version 1.2.3 is deployed", "Version 1.2.4 is deployed"),
        ("The release was on 2026-01-02", "The release was on 2026-01-03"),
        ("Retries are enabled", "Retries are not enabled"),
        ("The cache is shared", "The cache isn't shared"),
    ]:
        with subtests.test(one=one, other=other):
            result = classify_duplicate(Kind.FACT, one, near=near(0.99, text=other), space=SPACE)
            assert isinstance(result, Unique)
            assert result.similar == tuple(near(0.99, text=other))


def test_less_similar_memory_is_listed_if_it_shares_half_of_the_words(
    subtests: pytest.Subtests,
) -> None:
    less = (SPACE.related_threshold + SPACE.similar_threshold) / 2
    for text, known, is_listed in [
        ("The backend is written in Go", "The backend is written in Rust", True),
        ("We host on Hetzner", "Everything is hosted at OVH", True),
        ("Redis stores sessions", "The accounts are in Postgres", False),
    ]:
        with subtests.test(text=text):
            hints = tuple(near(less, text=known)) if is_listed else ()
            for kind, similar in ((Kind.FACT, hints), (Kind.EVENT, ())):
                result = classify_duplicate(kind, text, near=near(less, text=known), space=SPACE)
                assert result == Unique(similar=similar)
            unlike = near(SPACE.relevance_threshold, text=known)
            assert classify_duplicate(Kind.FACT, text, near=unlike, space=SPACE) == Unique()


def test_nearest_rule_is_listed_though_it_shares_no_word() -> None:
    less = (SPACE.related_threshold + SPACE.similar_threshold) / 2
    first, *rest = near(less, less - 0.01, text="Do not check credentials into git")
    result = classify_duplicate(Kind.RULE, "Never commit secrets", near=[*rest, first], space=SPACE)
    assert result == Unique(similar=(first,))


def test_space_that_was_never_measured_lists_only_similar_memories() -> None:
    unmeasured = EmbeddingSpace.of("unmeasured", dimensions=2, thresholds=CAUTIOUS)
    result = classify_duplicate(Kind.RULE, TEXT, near=near(0.84), space=unmeasured)
    assert result == Unique()


def test_contradicting_neighbour_does_not_hide_an_agreeing_duplicate() -> None:
    agreeing = CandidateMemory(id=9, headline=TEXT, text=TEXT, similarity=0.8)
    [denial] = near(0.99, text="The cache never lives on the build host")
    result = classify_duplicate(Kind.FACT, TEXT, near=[denial, agreeing], space=SPACE)
    assert isinstance(result, Duplicate)
    assert (result.of, result.is_refused) == (agreeing, True)


def test_only_memories_visible_to_all_readers_are_compared(subtests: pytest.Subtests) -> None:
    for stored, offered, comparable in [
        (Scope.TEAM, Scope.TEAM, True),
        (Scope.GLOBAL, Scope.TEAM, True),
        (Scope.TEAM, Scope.PRIVATE, True),
        (Scope.PRIVATE, Scope.PRIVATE, True),
        (Scope.PRIVATE, Scope.TEAM, False),
        (Scope.PRIVATE, Scope.GLOBAL, False),
    ]:
        with subtests.test(stored=stored, offered=offered, comparable=comparable):
            assert (
                is_comparable(a_memory(1, TEXT, scope=stored), offered, project=None) is comparable
            )


def test_only_the_same_and_the_null_project_are_compared(subtests: pytest.Subtests) -> None:
    for stored, offered, comparable in [
        (None, None, True),
        (None, "api", True),
        ("api", "api", True),
        ("api", "web", False),
        ("api", None, False),
    ]:
        with subtests.test(stored=stored, offered=offered, comparable=comparable):
            memory = a_memory(1, TEXT, project=stored)
            assert is_comparable(memory, Scope.TEAM, project=offered) is comparable


def test_event_recurs_if_only_numbers_and_times_differ(subtests: pytest.Subtests) -> None:
    for one, other in [
        ("The backup took 14 minutes", "The backup took 22 minutes"),
        ("Deploy failed at 10:02 on Monday", "Deploy failed at 16:47 on Friday"),
        ("Crawled 1,200 pages, 3.5GB", "crawled 1,340 pages, 9GB"),
        ("Done at 2026-02-01T10:02:00Z", "Done at 2026-02-02T11:30:05Z"),
        ("The disk is full", "The disk is full"),
    ]:
        with subtests.test(one=one, other=other):
            assert is_repetition(one, other)


def test_different_event_is_no_recurrence(subtests: pytest.Subtests) -> None:
    for one, other in [
        ("The backup took 14 minutes", "The import took 14 minutes"),
        ("Fixed OPS-311", "Fixed OPS-312"),
        ("14", "15"),
        ("", ""),
        ("The disk is full", "The disk is 96% full"),
    ]:
        with subtests.test(one=one, other=other):
            assert not is_repetition(one, other)


@given(st.text(), st.text())
def test_recurrence_is_symmetric(one: str, other: str) -> None:
    assert is_repetition(one, other) == is_repetition(other, one)
