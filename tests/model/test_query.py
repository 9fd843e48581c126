from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import CURRENT_STATES, Memory, State
from commonbrain.model.query import Budget, Filter, is_allowed
from commonbrain.model.revision import BeliefPeriod
from commonbrain.model.scope import Caller, Scope, Trust
from commonbrain.testing.builders import NOON, a_memory

ANN = Caller(agent="ann")
HOUR = timedelta(hours=1)
MEMORY = a_memory(1, "The cache is shared", project="api", label="decision", tags=("a", "b"))
OPEN = Filter()


def allows(
    filter_: Filter,
    memory: Memory = MEMORY,
    *,
    now: datetime = NOON,
    past: Sequence[BeliefPeriod] = (),
) -> bool:
    return is_allowed(memory, ANN, criteria=filter_, now=now, past=past)


def test_empty_filter_accepts_a_current_memory() -> None:
    assert allows(OPEN)


def test_private_memory_of_another_agent_is_never_allowed() -> None:
    assert not allows(OPEN, replace(MEMORY, scope=Scope.PRIVATE, agent="bob"))
    assert allows(OPEN, replace(MEMORY, scope=Scope.PRIVATE, agent="ann"))


@pytest.mark.requirement("RT-24")
def test_untrusted_content_is_excluded_unless_requested() -> None:
    web = replace(MEMORY, trust=Trust.UNTRUSTED_WEB)
    assert not allows(OPEN, web)
    assert allows(Filter(trust_min=0.35), web)
    assert not allows(Filter(trust_min=0.71), MEMORY)


def test_project_filter_includes_memories_without_a_project() -> None:
    assert allows(Filter(project="api"))
    assert allows(Filter(project="api"), replace(MEMORY, project=None))
    assert not allows(Filter(project="web"))


@pytest.mark.requirement("EV-12")
def test_every_condition_of_a_filter_narrows(subtests: pytest.Subtests) -> None:
    for filter_, allowed in [
        (Filter(kinds=(Kind.FACT, Kind.RULE)), True),
        (Filter(kinds=(Kind.RULE,)), False),
        (Filter(labels=("decision",)), True),
        (Filter(labels=("bug",)), False),
        (Filter(tags=("b", "a")), True),
        (Filter(tags=("a", "c")), False),
        (Filter(agent="ann"), True),
        (Filter(agent="bob"), False),
        (Filter(min_confidence=0.6), True),
        (Filter(min_confidence=0.61), False),
    ]:
        with subtests.test(filter_=filter_, allowed=allowed):
            assert allows(filter_) is allowed


def test_since_and_until_are_inclusive() -> None:
    assert allows(Filter(since=NOON, until=NOON))
    assert not allows(Filter(since=NOON + HOUR))
    assert not allows(Filter(until=NOON - HOUR))


def test_since_and_until_filter_by_time_of_occurrence() -> None:
    recorded_later = replace(MEMORY, occurred_at=NOON - 5 * HOUR, recorded_at=NOON)
    assert allows(Filter(until=NOON - HOUR), recorded_later)


def test_only_current_memories_match_a_query_about_now(subtests: pytest.Subtests) -> None:
    for state in State:
        with subtests.test(state=state):
            assert allows(OPEN, replace(MEMORY, state=state)) == (state in CURRENT_STATES)


def test_memory_is_excluded_at_its_expiry() -> None:
    expiring = replace(MEMORY, expires_at=NOON + HOUR)
    assert allows(OPEN, expiring, now=NOON + HOUR - timedelta(milliseconds=1))
    assert not allows(OPEN, expiring, now=NOON + HOUR)
    assert allows(Filter(as_of=NOON), expiring, now=NOON + 9 * HOUR)


def test_query_as_of_a_time_sees_what_was_current_then() -> None:
    old = replace(MEMORY, state=State.SUPERSEDED, superseded_by=2, superseded_at=NOON + 2 * HOUR)
    new = replace(MEMORY, id=2, recorded_at=NOON + 2 * HOUR, superseded_count=1)
    now = NOON + 9 * HOUR
    periods = {1: [BeliefPeriod(since=NOON, until=NOON + 2 * HOUR)], 2: []}
    believed = [
        [
            memory.id
            for memory in (old, new)
            if allows(Filter(as_of=at), memory, now=now, past=periods[memory.id])
        ]
        for at in (NOON - HOUR, NOON, NOON + HOUR, NOON + 2 * HOUR, now)
    ]
    assert believed == [[], [1], [1], [2], [2]]


@pytest.mark.requirement("PV-04", "PV-08")
@given(st.lists(st.integers(0, 20), min_size=1, max_size=6, unique=True), st.integers(-1, 25))
def test_at_most_one_revision_of_a_chain_is_current_at_any_time(
    hours: list[int], query: int
) -> None:
    recorded = [NOON + hour * HOUR for hour in sorted(hours)]
    chain = [
        replace(
            MEMORY,
            id=n,
            recorded_at=at,
            state=State.SUPERSEDED if n + 1 < len(recorded) else State.ACTIVE,
        )
        for n, at in enumerate(recorded)
    ]
    past = [[BeliefPeriod(since=since, until=until)] for since, until in pairwise(recorded)] + [[]]
    at, now = NOON + query * HOUR, NOON + 30 * HOUR
    believed = [one for one in chain if allows(Filter(as_of=at), one, now=now, past=past[one.id])]
    assert len(believed) == (1 if at >= recorded[0] else 0)


def test_query_as_of_a_time_returns_no_forgotten_or_held_memory(subtests: pytest.Subtests) -> None:
    for state in [State.FORGOTTEN, State.QUARANTINED, State.CANDIDATE]:
        with subtests.test(state=state):
            assert not allows(Filter(as_of=NOON), replace(MEMORY, state=state))


@pytest.mark.requirement("DM-71")
def test_budget_out_of_bounds_is_refused_with_its_bounds(subtests: pytest.Subtests) -> None:
    for items, tokens in [(0, 100), (101, 100), (-1, 100), (1, 63), (1, 32_001)]:
        with subtests.test(items=items, tokens=tokens):
            with pytest.raises(RejectedError, match=r"1 to 100|64 to 32000") as refusal:
                Budget(max_items=items, max_tokens=tokens)
            assert refusal.value.code == "limit_exceeded"


@given(st.integers(1, 100), st.integers(64, 32_000))
def test_budget_within_bounds_is_accepted(items: int, tokens: int) -> None:
    budget = Budget(max_items=items, max_tokens=tokens)
    assert (budget.max_items, budget.max_tokens) == (items, tokens)


def test_filter_passes_matching_memories(subtests: pytest.Subtests) -> None:
    for filter_ in [
        Filter(people=("sam", "bo")),
        Filter(scope=Scope.TEAM),
        Filter(states=(State.ARCHIVED, State.ACTIVE)),
        Filter(session="s"),
    ]:
        with subtests.test(filter_=filter_):
            memory = replace(MEMORY, people=("sam",), session="s")
            assert allows(filter_, memory)


def test_filter_excludes_other_memories(subtests: pytest.Subtests) -> None:
    for filter_ in [
        Filter(people=("bo",)),
        Filter(scope=Scope.GLOBAL),
        Filter(states=(State.ARCHIVED,)),
        Filter(session="t"),
        Filter(thread=7),
    ]:
        with subtests.test(filter_=filter_):
            memory = replace(MEMORY, people=("sam",), session="s")
            assert not allows(filter_, memory)


def test_filter_for_forgotten_memories_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="forgotten"):
        Filter(states=(State.FORGOTTEN,))
    with pytest.raises(InvalidInputError, match="as_of"):
        Filter(states=(State.SUPERSEDED,), as_of=NOON)
