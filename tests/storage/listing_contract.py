"""What every store promises of lists of memories: the rows of every page, and the counts.

A subclass gives `open_store`, as for `StoreContract`.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.model.kinds import Kind
from commonbrain.model.listing import (
    NOT_SET,
    Facet,
    ListFilter,
    ListKey,
    ListOrder,
    ListScope,
    count_groups,
    count_months,
    state_in_list,
    widest,
)
from commonbrain.model.memory import AUDIENCE, Memory, State
from commonbrain.model.messages import deliveries
from commonbrain.model.scope import LOCAL_TENANT, Caller, Scope, Trust, is_visible
from commonbrain.model.timestamps import to_millis
from commonbrain.storage.repositories.listing import ListingRepository
from commonbrain.storage.store import Store, Transaction
from commonbrain.testing.builders import NOON, a_memory
from tests.storage.cascade_contract import a_review
from tests.storage.store_steps import OpenStore

NOW: Final = NOON + timedelta(days=1)
AGENTS: Final = ("ann", "bob", "cara")
KINDS: Final = (Kind.FACT, Kind.EVENT, Kind.RULE)
PROJECTS: Final = (None, "api", "shop")
LABELS: Final = (None, "decision", "bug")
TAGS: Final = ("red", "blue", "ärger")
TIMES: Final = (
    NOON,
    NOON - timedelta(milliseconds=1),
    NOON - timedelta(days=40),
    datetime(1969, 12, 31, 23, 59, tzinfo=UTC),
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(9999, 12, 31, tzinfo=UTC),
)
REVIEWED: Final = range(3, 60, 7)
COUNT: Final = 90


def varied(id_: int, random_source: random.Random) -> Memory:
    """Make a memory that differs from others in all that lists are filtered by."""
    agent = random_source.choice(AGENTS)
    scope = random_source.choice((Scope.TEAM, Scope.TEAM, Scope.PRIVATE, Scope.GLOBAL))
    is_shared = scope is Scope.PRIVATE and random_source.random() < 0.3
    return a_memory(
        id_,
        f"memory {id_}",
        kind=random_source.choice(KINDS),
        project=random_source.choice(PROJECTS),
        label=random_source.choice(LABELS),
        agent=agent,
        scope=scope,
        session=random_source.choice((None, "s1")),
        trust=random_source.choice(list(Trust)),
        pinned=random_source.random() < 0.2,
        state=random_source.choice((*State, *[State.ACTIVE] * 6)),
        tags=tuple(tag for tag in TAGS if random_source.random() < 0.4),
        occurred_at=random_source.choice(TIMES),
        recorded_at=NOON + timedelta(seconds=id_),
        expires_at=random_source.choice((None, None, NOW, NOW + timedelta(days=1))),
        payload={AUDIENCE: [AGENTS[0]]} if is_shared else {},
    )


MEMORIES: Final = [varied(id_, random.Random(id_)) for id_ in range(1, COUNT)]  # noqa: S311 foreseen

filters = st.builds(
    ListFilter,
    kinds=st.lists(st.sampled_from(KINDS), max_size=2, unique=True).map(tuple),
    subtypes=st.sampled_from([(), (), ((Kind.FACT, "bug"),)]),
    labels=st.lists(st.sampled_from([NOT_SET, "decision", "bug"]), max_size=2).map(tuple),
    tags=st.lists(st.sampled_from(TAGS), max_size=2, unique=True).map(tuple),
    project=st.sampled_from([None, None, NOT_SET, "api"]),
    agent=st.sampled_from([None, None, "bob"]),
    session=st.sampled_from([None, None, None, "s1"]),
    scope=st.sampled_from([None, None, *Scope]),
    states=st.lists(st.sampled_from(State), unique=True).map(tuple),
    needs_review=st.sampled_from([False, False, True]),
    pinned=st.sampled_from([None, None, True, False]),
    trust_min=st.sampled_from([0.0, 0.5]),
    since=st.sampled_from([None, None, *TIMES]),
    until=st.sampled_from([None, None, *TIMES]),
    recorded_since=st.sampled_from([None, None, NOON + timedelta(seconds=20)]),
    recorded_until=st.sampled_from([None, None, NOON + timedelta(seconds=70)]),
)


def shown_state(memory: Memory) -> State:
    return state_in_list(memory.state, is_over=memory.is_over(NOW))


def matches(memory: Memory, criteria: ListFilter) -> bool:
    """Tell by the definition of each field whether a list has a memory."""
    kinds, label, tags = criteria.kinds, memory.label or NOT_SET, set(memory.tags)
    is_any = not kinds and not criteria.subtypes
    return (
        (is_any or memory.kind in kinds or (memory.kind, memory.label) in criteria.subtypes)
        and (not criteria.labels or label in criteria.labels)
        and (not criteria.tags or (tags >= {*criteria.tags} and not is_forgotten(memory)))
        and criteria.project in {None, memory.project or NOT_SET}
        and criteria.agent in {None, memory.agent}
        and criteria.session in {None, memory.session}
        and criteria.scope in {None, memory.scope}
        and shown_state(memory) in criteria.listed_states
        and (not criteria.needs_review or memory.id in REVIEWED)
        and criteria.pinned in {None, memory.pinned}
        and memory.trust.weight >= criteria.trust_min
        and (criteria.since is None or memory.occurred_at >= criteria.since)
        and (criteria.until is None or memory.occurred_at <= criteria.until)
        and (criteria.recorded_since is None or memory.recorded_at >= criteria.recorded_since)
        and (criteria.recorded_until is None or memory.recorded_at <= criteria.recorded_until)
    )


def is_forgotten(memory: Memory) -> bool:
    return memory.state is State.FORGOTTEN


def expected(caller: Caller, criteria: ListFilter) -> list[Memory]:
    return [one for one in MEMORIES if is_visible(caller, one) and matches(one, criteria)]


def in_order(memories: Sequence[Memory], order: ListOrder) -> list[int]:
    def place(memory: Memory) -> tuple[int, int]:
        at = to_millis(memory.occurred_at) if order.is_by_occurrence else 0
        return at, memory.id

    return [one.id for one in sorted(memories, key=place, reverse=order.is_descending)]


def counted(
    caller: Caller,
    criteria: ListFilter,
    facet: Facet,
    values: Callable[[Memory], Sequence[str | None]],
) -> dict[str | None, int]:
    memories = expected(caller, criteria.without(facet))
    return dict(Counter(value for one in memories for value in values(one)))


READ_ONLY: Final = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors]
)


class ListingContract:
    """The promises of lists; the store has memories of three agents and of another tenant."""

    @pytest.fixture
    def lists(self, open_store: OpenStore) -> Store:
        """Give a store with memories that differ in all that lists are filtered by."""
        opened = open_store()
        with opened.begin(LOCAL_TENANT) as tx:
            for memory in MEMORIES:
                tx.memories.add(memory)
                if memory.audience:
                    tx.messages.post(deliveries(memory, to=memory.audience))
            tx.reviews.add([a_review(id_, 1) for id_ in REVIEWED])
        opened.make_tenant("other", at=NOON)
        with opened.begin("other") as tx:
            for memory in MEMORIES[:20]:
                tx.memories.add(replace(memory, id=memory.id + COUNT, scope=Scope.TEAM))
        return opened

    @READ_ONLY
    @given(
        criteria=filters,
        agent=st.sampled_from(AGENTS),
        order=st.sampled_from(ListOrder),
        size=st.integers(1, 40),
        walked_max=st.sampled_from([1, 5, 30, 4096]),
    )
    def test_pages_contain_every_matching_memory_once_in_order(
        self,
        lists: Store,
        criteria: ListFilter,
        agent: str,
        order: ListOrder,
        size: int,
        walked_max: int,
    ) -> None:
        caller = Caller(agent=agent)
        scope = ListScope(caller=caller, filter=criteria, now=NOW)
        keys: list[ListKey] = []
        with lists.snapshot(LOCAL_TENANT) as tx:
            listing = ListingRepository(tx.work, walked_max=walked_max)
            while page := listing.keys(
                scope, order=order, after=keys[-1] if keys else None, limit=size
            ):
                keys += page

        assert [key.id for key in keys] == in_order(expected(caller, criteria), order)

    @READ_ONLY
    @given(criteria=filters, agent=st.sampled_from(AGENTS))
    def test_facet_counts_ignore_the_part_of_the_filter_for_that_facet(
        self, lists: Store, criteria: ListFilter, agent: str
    ) -> None:
        caller = Caller(agent=agent)

        def groups_of(tx: Transaction, criteria: ListFilter) -> dict[Facet, dict[str | None, int]]:
            scope = ListScope(caller=caller, filter=widest(criteria), now=NOW)
            groups = tx.listing.groups(scope)
            return count_groups(groups, criteria) | {Facet.MONTH: count_months(groups, criteria)}

        with lists.snapshot(LOCAL_TENANT) as tx:
            counts = groups_of(tx, replace(criteria, needs_review=False))
            months = groups_of(tx, criteria.without(Facet.MONTH))[Facet.MONTH]
            counts |= {Facet.MONTH: months}
            if criteria.needs_review:
                by_state = counts[Facet.STATE]
                counts |= groups_of(tx, criteria) | {Facet.STATE: by_state, Facet.MONTH: months}
            of_tags = replace(criteria, tags=())
            counts[Facet.TAG] = tx.listing.tags(ListScope(caller=caller, filter=of_tags, now=NOW))

        values: dict[Facet, Callable[[Memory], Sequence[str | None]]] = {
            Facet.KIND: lambda one: [one.kind],
            Facet.PROJECT: lambda one: [one.project],
            Facet.LABEL: lambda one: [one.label],
            Facet.AGENT: lambda one: [one.agent],
            Facet.STATE: lambda one: [shown_state(one)],
            Facet.TAG: lambda one: () if is_forgotten(one) else one.tags,
            Facet.MONTH: lambda one: [f"{one.occurred_at.year:04}-{one.occurred_at.month:02}"],
        }
        for facet, of_facet in values.items():
            assert counts[facet] == counted(caller, criteria, facet, of_facet), facet
        assert list(months) == sorted(months, key=str)
