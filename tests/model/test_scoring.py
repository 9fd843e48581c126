from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.kinds import KINDS, Kind
from commonbrain.model.memory import (
    CURRENT_STATES,
    State,
    confidence,
    half_life,
    is_archived,
    is_dormant,
    strength,
)
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import NOON, a_memory

DAYS = st.floats(0, 4000).map(lambda days: timedelta(days=days))


@pytest.mark.requirement("WP-47", "WP-32")
def test_initial_confidence_depends_on_trust(subtests: pytest.Subtests) -> None:
    for trust, start in [
        (Trust.TRUSTED_TOOL, 0.82),
        (Trust.USER_CLAIM, 0.66),
        (Trust.UNTRUSTED_WEB, 0.38),
    ]:
        with subtests.test(trust=trust, start=start):
            assert confidence(Kind.RULE, "Use uv", trust=trust, is_sourced=True) == start


@pytest.mark.requirement("WP-47")
def test_each_hedge_costs_five_hundredths() -> None:
    hedged = "Maybe it is the cache, perhaps the disk"
    sure = confidence(Kind.EVENT, "It is", trust=Trust.USER_CLAIM, is_sourced=True)
    unsure = confidence(Kind.EVENT, hedged, trust=Trust.USER_CLAIM, is_sourced=True)
    assert unsure == pytest.approx(sure - 0.10)


@pytest.mark.requirement("WP-47")
def test_initial_salience_depends_on_the_kind() -> None:
    cases = (Kind.RULE, Kind.FACT, Kind.INCIDENT, Kind.TASK, Kind.EPISODE, Kind.EVENT)
    assert [KINDS[kind].salience for kind in cases] == [0.6, 0.5, 0.6, 0.6, 0.6, 0.45]


@pytest.mark.requirement("WP-32")
def test_confidence_of_a_fact_without_a_source_is_capped() -> None:
    cases = ((Kind.FACT, False), (Kind.FACT, True), (Kind.EVENT, False))
    assert [
        confidence(kind, "It is so", trust=Trust.TRUSTED_TOOL, is_sourced=is_sourced)
        for kind, is_sourced in cases
    ] == [0.6, 0.82, 0.82]


@given(st.sampled_from(Kind), st.text(), st.sampled_from(Trust), st.booleans(), st.integers(0, 50))
def test_confidence_is_between_0_and_1_and_hedges_never_raise_it(
    kind: Kind,
    text: str,
    trust: Trust,
    is_sourced: bool,  # noqa: FBT001 hypothesis draws it
    hedges: int,
) -> None:
    plain = confidence(kind, text, trust=trust, is_sourced=is_sourced)
    hedged = confidence(kind, text + " maybe" * hedges, trust=trust, is_sourced=is_sourced)
    assert 0 < hedged <= plain <= 1


def test_strength_halves_in_the_half_life_of_its_kind(subtests: pytest.Subtests) -> None:
    for kind in [kind for kind in Kind if KINDS[kind].half_life]:
        with subtests.test(kind=kind):
            half_life = KINDS[kind].half_life
            assert half_life is not None
            memory = a_memory(1, "x", kind=kind)
            assert strength(memory, NOON) == 1
            assert strength(memory, NOON + half_life) == pytest.approx(0.5)
            assert strength(memory, NOON + 3 * half_life) == pytest.approx(0.125)


@given(st.sampled_from(Kind), DAYS, DAYS)
def test_strength_is_between_0_and_1_and_time_never_raises_it(
    kind: Kind, one: timedelta, other: timedelta
) -> None:
    memory = a_memory(1, "x", kind=kind)
    sooner, later = sorted([NOON + one, NOON + other])
    assert 0 <= strength(memory, later) <= strength(memory, sooner) <= 1


@given(DAYS)
def test_rules_tasks_and_pinned_memories_never_fade(age: timedelta) -> None:
    lasting = (
        a_memory(1, "x", kind=Kind.RULE),
        a_memory(2, "x", kind=Kind.TASK),
        a_memory(3, "x", pinned=True),
    )
    assert [strength(memory, NOON + age) for memory in lasting] == [1, 1, 1]


def test_access_revives_a_memory_and_an_older_access_does_not_weaken_it() -> None:
    week = timedelta(days=7)
    revived = a_memory(1, "x", last_access_at=NOON + week)
    assert strength(revived, NOON + week) == 1
    imported = a_memory(1, "x", occurred_at=NOON - 100 * week, last_access_at=NOON - 100 * week)
    assert strength(imported, NOON) == 1


def test_clock_set_back_makes_no_memory_stronger_than_new() -> None:
    assert strength(a_memory(1, "x"), NOON - timedelta(days=1)) == 1


@given(
    st.sampled_from(Kind),
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.integers(-50, 50),
    st.floats(0, 1),
)
def test_use_votes_and_weight_never_shorten_the_life_of_a_memory(
    kind: Kind, one: int, other: int, rating: int, salience: float
) -> None:
    fewer, more = sorted([one, other])
    base = a_memory(1, "x", kind=kind, access_count=fewer, rating=rating, salience=salience)
    better = (
        replace(base, access_count=more),
        replace(base, rating=rating + 1),
        replace(base, salience=min(1.0, salience + 0.1)),
        replace(base, pinned=True),
    )
    later = NOON + timedelta(days=40)
    assert all(strength(base, later) <= strength(one, later) <= 1 for one in better)


@given(st.integers(0, 10**9), st.integers(-(10**6), 10**6), st.floats(0, 1))
def test_no_signal_makes_strength_infinite_or_zero(
    accesses: int, rating: int, salience: float
) -> None:
    memory = a_memory(1, "x", access_count=accesses, rating=rating, salience=salience)
    lasting, default = half_life(memory), KINDS[Kind.FACT].half_life
    assert lasting is not None
    assert default is not None
    assert default / 4 <= lasting <= default * 20


def test_unused_fact_is_dormant_after_23_days_until_it_is_read() -> None:
    memory = a_memory(1, "x")
    for days, asleep in ((0, False), (23, False), (24, True), (400, True)):
        assert is_dormant(memory, NOON + timedelta(days=days)) is asleep
    read = replace(memory, last_access_at=NOON + timedelta(days=30), access_count=1)
    assert not is_dormant(read, NOON + timedelta(days=30))


@given(DAYS, st.sampled_from(sorted(set(State) - CURRENT_STATES)))
def test_access_does_not_revive_an_invalid_memory(age: timedelta, state: State) -> None:
    memory = a_memory(1, "x", state=state)
    assert not is_dormant(memory, NOON + age)
    over = a_memory(1, "x", expires_at=NOON)
    assert not is_dormant(over, NOON + age)


@given(DAYS)
def test_rules_tasks_and_messages_are_never_dormant(age: timedelta) -> None:
    for kind in (Kind.RULE, Kind.TASK, Kind.MESSAGE):
        assert not is_dormant(a_memory(1, "x", kind=kind), NOON + age)


def test_unread_incident_is_archived_after_90_days() -> None:
    incident = a_memory(1, "x", kind=Kind.INCIDENT)
    later = NOON + timedelta(days=90)
    assert (is_archived(incident, NOON), is_archived(incident, later)) == (False, True)
    assert is_dormant(incident, later)
    assert not is_archived(replace(incident, pinned=True), later)
    assert is_dormant(replace(incident, state=State.ARCHIVED), NOON)
