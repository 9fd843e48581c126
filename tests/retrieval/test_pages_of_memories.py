"""Recall without a query lists memories page by page: each once, whatever fits the budget."""

from datetime import datetime, timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.recall_result import RecallResult
from commonbrain.testing.builders import FakeClock
from tests.asking import stored

ANIMALS = "otter heron badger falcon lynx marten stoat bison crane viper osprey".split()


def fill(brain: Brain, clock: FakeClock, *, apart: timedelta = timedelta(minutes=1)) -> list[str]:
    """Store a fact about each animal, the last one newest; return their ids, newest first."""
    ids: list[str] = []
    for name in ANIMALS:
        ids.insert(0, stored(brain, f"The {name} sleeps in pen {ANIMALS.index(name)}", kind="fact"))
        clock.move(apart)
    return ids


def pages(brain: Brain, **options: object) -> list[RecallResult]:
    pages_read = [brain.recall(**options)]  # type: ignore[arg-type]
    while pages_read[-1].next is not None:
        pages_read.append(brain.recall(cursor=pages_read[-1].next, **options))  # type: ignore[arg-type]
        assert len(pages_read) < 50
    return pages_read


def ids_of(shown: list[RecallResult]) -> list[str]:
    return [item.id for page in shown for item in page.items]


@pytest.mark.requirement("OB-14")
def test_pages_list_every_memory_once_newest_first(brain: Brain, clock: FakeClock) -> None:
    ids = fill(brain, clock)
    pages_read = pages(brain, max_items=4)
    assert ids_of(pages_read) == ids
    assert [len(page.items) for page in pages_read] == [4, 4, 3]
    assert [page.more for page in pages_read] == [7, 3, 0]


def test_memories_with_equal_times_appear_on_exactly_one_page(
    brain: Brain, clock: FakeClock
) -> None:
    ids = fill(brain, clock, apart=timedelta())
    assert sorted(ids_of(pages(brain, max_items=2))) == sorted(ids)


def test_page_ends_at_its_token_budget(brain: Brain, clock: FakeClock) -> None:
    ids = fill(brain, clock)
    pages_read = pages(brain, max_items=100, max_tokens=90)
    assert ids_of(pages_read) == ids
    assert len(pages_read) > 2
    assert all(page.tokens <= 90 for page in pages_read)


def test_writes_between_two_pages_do_not_shift_pages(brain: Brain, clock: FakeClock) -> None:
    ids = fill(brain, clock)
    first = brain.recall(max_items=4)
    stored(brain, "The beaver builds a dam", kind="fact")
    brain.forget(ids[1], reason="left the park")
    second = brain.recall(max_items=4, cursor=first.next)
    assert ids_of([second]) == ids[4:8]


def test_filter_applies_to_every_page(brain: Brain, clock: FakeClock) -> None:
    ids = fill(brain, clock)
    bob = brain.acting_as(agent="bob")
    stored(bob, "The wolf howls at night", kind="event")
    private = stored(bob, "Bob is afraid of the wolf", kind="event", scope="private")
    assert ids_of(pages(brain, max_items=3, kinds=["fact"])) == ids
    assert private not in ids_of(pages(brain, max_items=3))
    cursor = brain.recall(max_items=3, kinds=["fact"]).next
    with pytest.raises(InvalidInputError, match="with these filters"):
        brain.recall(max_items=3, cursor=cursor)
    with pytest.raises(InvalidInputError, match="without a query"):
        brain.recall("wolf", cursor=cursor, kinds=["fact"])


def test_timeline_pages_show_each_occurrence(brain: Brain, clock: FakeClock) -> None:
    times: list[datetime] = []
    for n in range(9):
        text = "The feeder jammed" if n % 3 == 0 else f"The {ANIMALS[n]} was fed"
        brain.remember(text, kind="event")
        times.append(clock.now())
        clock.move(timedelta(hours=1))
    pages_read = pages(brain, max_items=2, order="timeline")
    reply = [item.occurred_at for page in pages_read for item in reversed(page.items)]
    assert reply == sorted(times, reverse=True)
