from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.domain.duplicates import (
    Duplicate,
    Neighbour,
    Novel,
    contradicts,
    is_comparable,
    judge,
)
from commonbrain.domain.kinds import Kind
from commonbrain.domain.limits import SIMILAR_HINTS_MAX
from commonbrain.domain.scope import Scope
from commonbrain.domain.space import Space
from commonbrain.testing.builders import a_memory

SPACE = Space(name="test", dimensions=2, duplicate_at=0.75, similar_at=0.5, relevant_at=0.2)
TEXT = "The cache lives on the build host"
COSINES = st.floats(-1, 1)


def near(*similarities: float, text: str = TEXT) -> list[Neighbour]:
    return [
        Neighbour(id=n, headline=text, text=text, similarity=similarity)
        for n, similarity in enumerate(similarities, 1)
    ]


@pytest.mark.parametrize("kind", [Kind.RULE, Kind.FACT])
def test_a_near_duplicate_rule_or_fact_is_refused(kind: Kind) -> None:
    match judge(kind, TEXT, near=near(0.6, 0.75), space=SPACE):
        case Duplicate(of=neighbour, is_refused=True):
            assert neighbour.id == 2
        case other:
            pytest.fail(f"{other}")


def test_a_near_duplicate_task_is_told_of_and_let_in() -> None:
    judged = judge(Kind.TASK, TEXT, near=near(0.9), space=SPACE)
    assert judged == Duplicate(of=near(0.9)[0], is_refused=False)


@pytest.mark.parametrize("kind", [Kind.INCIDENT, Kind.EVENT, Kind.EPISODE, Kind.ATOM, Kind.MESSAGE])
def test_what_may_happen_twice_is_novel_with_hints(kind: Kind) -> None:
    assert judge(kind, TEXT, near=near(0.99), space=SPACE) == Novel(similar=tuple(near(0.99)))


@given(st.sampled_from(Kind), st.lists(COSINES, max_size=12))
def test_hints_are_near_few_and_nearest_first(kind: Kind, similarities: Sequence[float]) -> None:
    judged = judge(kind, TEXT, near=near(*similarities), space=SPACE)
    if isinstance(judged, Novel):
        given_ = [neighbour.similarity for neighbour in judged.similar]
        assert given_ == sorted(given_, reverse=True)
        assert len(given_) <= SIMILAR_HINTS_MAX
        assert all(similarity >= SPACE.similar_at for similarity in given_)
    else:
        assert judged.of.similarity == max(similarities) >= SPACE.duplicate_at


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The limit is 10 MB", "The limit is 20 MB"),
        ("Version 1.2.3 is deployed", "Version 1.2.4 is deployed"),
        ("The release was on 2026-01-02", "The release was on 2026-01-03"),
        ("Retries are enabled", "Retries are not enabled"),
        ("The cache is shared", "The cache isn't shared"),
    ],
)
def test_another_number_or_a_denial_may_be_the_news(one: str, other: str) -> None:
    assert contradicts(one, other)
    assert judge(Kind.FACT, one, near=near(0.99, text=other), space=SPACE) == Novel(
        similar=tuple(near(0.99, text=other))
    )


def test_a_contradicting_neighbour_does_not_hide_one_that_agrees() -> None:
    agreeing = Neighbour(id=9, headline=TEXT, text=TEXT, similarity=0.8)
    neighbours = [*near(0.99, text="The cache lives on 3 build hosts"), agreeing]
    assert judge(Kind.FACT, TEXT, near=neighbours, space=SPACE) == Duplicate(
        of=agreeing, is_refused=True
    )


@given(st.text(), st.text())
def test_contradiction_is_mutual_and_no_text_contradicts_itself(one: str, other: str) -> None:
    assert contradicts(one, other) == contradicts(other, one)
    assert not contradicts(one, one)


@pytest.mark.parametrize(
    ("stored", "offered", "comparable"),
    [
        (Scope.TEAM, Scope.TEAM, True),
        (Scope.GLOBAL, Scope.TEAM, True),
        (Scope.TEAM, Scope.PRIVATE, True),
        (Scope.PRIVATE, Scope.PRIVATE, True),
        (Scope.PRIVATE, Scope.TEAM, False),
        (Scope.PRIVATE, Scope.GLOBAL, False),
    ],
)
def test_only_what_every_future_reader_may_see_is_compared(
    stored: Scope, offered: Scope, *, comparable: bool
) -> None:
    assert is_comparable(a_memory(1, TEXT, scope=stored), offered, project=None) is comparable


@pytest.mark.parametrize(
    ("stored", "offered", "comparable"),
    [
        (None, None, True),
        (None, "api", True),
        ("api", "api", True),
        ("api", "web", False),
        ("api", None, False),
    ],
)
def test_only_the_same_and_the_null_project_are_compared(
    stored: str | None, offered: str | None, *, comparable: bool
) -> None:
    memory = a_memory(1, TEXT, project=stored)
    assert is_comparable(memory, Scope.TEAM, project=offered) is comparable
