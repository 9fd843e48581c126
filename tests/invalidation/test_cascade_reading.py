"""A reader of a dependent sees that its precondition has expired since the last write."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.testing.builders import FakeClock
from tests.asking import stored


@pytest.fixture
def lease(brain: Brain) -> str:
    return stored(brain, "The lease ends soon", kind="fact", ttl_s=3600)


@pytest.fixture
def task(brain: Brain, lease: str) -> str:
    return stored(brain, "Renew under the lease", kind="task", depends_on=[lease])


def test_get_and_recall_show_the_mark_of_an_expired_dependency_before_any_write(
    brain: Brain, clock: FakeClock, lease: str, task: str
) -> None:
    far = stored(brain, "Tell the landlord about renewal", kind="task", depends_on=[task])
    assert brain.get(task, bump=False).banner is None
    clock.move(timedelta(hours=2))

    assert f"{lease} (expired 2026-03-02)" in (brain.get(task, bump=False).banner or "")
    assert f"{far} -> {task} -> {lease}" in (brain.get(far, bump=False).banner or "")
    [item] = [one for one in brain.recall("renew under the lease").items if one.id == task]
    assert item.notes == (f"needs review: {lease} (expired 2026-03-02)",)


def test_derivation_of_an_expired_memory_shows_no_mark(
    brain: Brain, clock: FakeClock, lease: str
) -> None:
    episode = stored(brain, "What the lease taught us", kind="fact", derived_from=[lease])
    clock.move(timedelta(hours=2))
    assert brain.get(episode, bump=False).banner is None


def test_mark_stays_the_same_after_the_next_write(
    brain: Brain, clock: FakeClock, task: str
) -> None:
    clock.move(timedelta(hours=2))
    before = brain.get(task, bump=False).banner
    stored(brain, "Somebody writes something else", kind="fact")
    after = brain.get(task, bump=False).banner
    assert before is not None
    assert (after or "").startswith(before.split(".", maxsplit=1)[0][:40])


def test_recall_as_of_an_earlier_time_shows_no_mark_of_a_later_expiry(
    brain: Brain, clock: FakeClock, task: str
) -> None:
    then = clock.now()
    clock.move(timedelta(hours=2))
    items = brain.recall("renew under the lease", as_of=then).items
    assert [one.notes for one in items if one.id == task] == [()]
