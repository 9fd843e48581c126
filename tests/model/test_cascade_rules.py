from datetime import timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.kinds import Kind
from commonbrain.model.links import Link, LinkType
from commonbrain.model.memory import State
from commonbrain.model.scope import Authority, Scope, Trust
from commonbrain.model.support import (
    SUPPORTS,
    InvalidationReason,
    Support,
    SupportStatus,
    carried_by,
    invalidation_of,
    is_supported_by,
    unsupported,
)
from commonbrain.testing.builders import NOON

DERIVED, DEPENDS = SUPPORTS
NUMBERS = st.integers(0, 7)


def a_status(id_: int, **more: object) -> SupportStatus:
    plain: dict[str, object] = {
        "kind": Kind.FACT,
        "state": State.ACTIVE,
        "scope": Scope.TEAM,
        "agent": "ann",
        "trust": Trust.USER_CLAIM,
        "authority": Authority.MODEL,
        "expires_at": None,
        "is_erased": False,
    }
    return SupportStatus(id=id_, **{**plain, **more})  # type: ignore[arg-type]


def a_conflict(from_id: int, to_id: int, trust: Trust = Trust.USER_CLAIM) -> Link:
    return Link(
        from_id=from_id,
        to_id=to_id,
        type=LinkType.CONFLICTS_WITH,
        agent="ann",
        trust=trust,
        created_at=NOON,
        observed_at=NOON,
    )


@given(edges=st.sets(st.tuples(NUMBERS, NUMBERS)), candidates=st.sets(NUMBERS))
def test_unsupported_memories_have_no_path_to_a_valid_one(
    edges: set[tuple[int, int]], candidates: set[int]
) -> None:
    supports = [Support(one, on, DERIVED) for one, on in edges if one in candidates]
    bearing = dict.fromkeys(supports, True)

    left = unsupported(candidates, supports, bearing=bearing)

    # By the plainest means: who can be reached from the ground, step by step.
    supported = {one for one, on in edges if one in candidates and on not in candidates}
    for _ in candidates:
        supported |= {one for one, on in edges if one in candidates and on in supported}
    assert left == candidates - supported


def test_invalidation_is_derived_from_state_and_time(subtests: pytest.Subtests) -> None:
    cases: list[tuple[dict[str, object], InvalidationReason | None]] = [
        ({}, None),
        ({"state": State.ARCHIVED}, None),
        ({"state": State.QUARANTINED}, None),
        ({"state": State.SUPERSEDED}, InvalidationReason.SUPERSEDED),
        ({"state": State.FORGOTTEN}, InvalidationReason.FORGOTTEN),
        ({"state": State.FORGOTTEN, "is_erased": True}, InvalidationReason.ERASED),
        ({"state": State.EXPIRED}, InvalidationReason.EXPIRED),
        ({"expires_at": NOON}, InvalidationReason.EXPIRED),
        ({"expires_at": NOON + timedelta(seconds=1)}, None),
    ]
    for more, reason in cases:
        with subtests.test(more=more, reason=reason):
            assert (
                invalidation_of(a_status(1, **more), is_pruned=False, conflicts=(), now=NOON)
                is reason
            )


def test_pruned_memory_counts_as_faded() -> None:
    removed = a_status(1, state=State.FORGOTTEN)
    assert (
        invalidation_of(removed, is_pruned=True, conflicts=(), now=NOON)
        is InvalidationReason.PRUNED
    )
    assert carried_by(InvalidationReason.PRUNED) == (DEPENDS,)
    assert carried_by(InvalidationReason.FORGOTTEN) == SUPPORTS


def test_conflict_counts_if_more_trusted_or_equally_trusted_by_another_author(
    subtests: pytest.Subtests,
) -> None:
    for one, other in list(product(Trust, Trust)):
        with subtests.test(one=one, other=other):
            support, contradictor = a_status(1, trust=one), a_status(2, trust=other)
            for link, said_it in ((a_conflict(2, 1, other), True), (a_conflict(1, 2, one), False)):
                invalidation = invalidation_of(
                    support, is_pruned=False, conflicts=[(link, contradictor)], now=NOON
                )
                is_denied = other.weight > one.weight or (said_it and other is one)
                assert (invalidation is InvalidationReason.CONTRADICTED) == is_denied


def test_invalid_or_hidden_memory_contradicts_nothing(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, object]] = [
        {"state": State.SUPERSEDED},
        {"expires_at": NOON},
        {"scope": Scope.PRIVATE},
        {"scope": Scope.PRIVATE, "trust": Trust.TRUSTED_TOOL, "agent": "bob"},
    ]
    for more in cases:
        with subtests.test(more=more):
            contradictor = a_status(2, **more)
            conflicts = [(a_conflict(2, 1), contradictor)]
            assert (
                invalidation_of(a_status(1), is_pruned=False, conflicts=conflicts, now=NOON) is None
            )


def test_faded_memory_supports_only_its_derived_memories() -> None:
    def held(
        target: SupportStatus | None, *, is_unsupported: bool = False, is_pruned: bool = False
    ) -> list[bool]:
        return [
            is_supported_by(
                Support(2, 1, type_),
                target,
                is_unsupported=is_unsupported,
                is_pruned=is_pruned,
                now=NOON,
            )
            for type_ in SUPPORTS
        ]

    assert held(a_status(1, expires_at=NOON)) == [True, False]
    forgotten = a_status(1, state=State.FORGOTTEN)
    assert held(forgotten, is_pruned=True) == [True, False]
    assert held(forgotten) == held(None) == [False, False]
    assert held(a_status(1, state=State.SUPERSEDED)) == [False, False]
    assert held(a_status(1), is_unsupported=True) == [False, False]
