"""A fall keeps its date, what was vouched for comes back with undo, and what binds stays."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import RejectedError
from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock
from tests.asking import stored

WHY = "because a test says so"
DAY = timedelta(days=1)


@pytest.fixture
def precondition(brain: Brain) -> str:
    return stored(brain, "The gateway runs on nginx", kind="fact")


@pytest.fixture
def conclusion(brain: Brain, precondition: str) -> str:
    return stored(brain, "Timeouts belong in nginx conf", kind="fact", derived_from=[precondition])


def banner(brain: Brain, id_: str) -> str:
    return brain.get(id_, bump=False).banner or ""


def undo_all(brain: Brain, clock: FakeClock, since: object) -> None:
    clock.move(timedelta(minutes=1))
    count = brain.undo(reason=WHY, since=since).count  # type: ignore[arg-type]
    brain.undo(reason=WHY, since=since, confirm=count)  # type: ignore[arg-type]


def test_memory_derived_from_a_superseded_one_names_the_day_it_was_superseded(
    brain: Brain, clock: FakeClock, precondition: str
) -> None:
    brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    clock.move(8 * DAY)
    dependent = stored(
        brain, "Headers belong in nginx conf too", kind="fact", derived_from=[precondition]
    )
    assert f"{precondition} (superseded 2026-03-02)" in banner(brain, dependent)


@pytest.mark.parametrize("how", ["supersede", "forget", "contradict"])
def test_undoing_a_restore_brings_back_the_review_mark_with_its_original_date(
    brain: Brain, clock: FakeClock, precondition: str, conclusion: str, how: str
) -> None:
    against = stored(brain, "Envoy is what serves traffic", kind="fact")
    conflict = LinkType.CONFLICTS_WITH
    match how:
        case "supersede":
            brain.revise.supersede(precondition, "The gateway runs on caddy", reason=WHY)
        case "forget":
            brain.forget(precondition, reason=WHY)
        case _:
            brain.revise.link(against, precondition, type=conflict)
    clock.move(4 * DAY)
    then = clock.now()
    clock.move(4 * DAY)
    since = clock.now()
    if how == "contradict":
        brain.revise.unlink(against, precondition, type=conflict)
    else:
        brain.revise.restore(precondition, reason=WHY)
    assert banner(brain, conclusion) == ""
    undo_all(brain, clock, since)
    assert "2026-03-02)" in banner(brain, conclusion)
    items = brain.recall("timeouts nginx conf", as_of=then).items
    [item] = [one for one in items if one.id == conclusion]
    assert "2026-03-02)" in str(item.notes)


def test_recall_as_of_an_earlier_time_shows_no_mark_of_a_later_link(
    brain: Brain, clock: FakeClock, precondition: str
) -> None:
    unlinked = stored(brain, "Headers belong in conf too", kind="fact")
    brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    task = stored(brain, "Mend every timeout", kind="task", depends_on=[precondition])
    clock.move(DAY)
    then = clock.now()
    clock.move(DAY)
    brain.revise.link(unlinked, task, type=LinkType.DEPENDS_ON)
    assert "superseded 2026-03-02" in banner(brain, unlinked)
    [item] = [one for one in brain.recall("headers conf", as_of=then).items if one.id == unlinked]
    assert item.notes == ()


def test_undoing_a_restore_brings_back_confirmations(
    brain: Brain, clock: FakeClock, precondition: str, conclusion: str
) -> None:
    brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    brain.revise.review(conclusion, reason="true of envoy as well")
    clock.move(DAY)
    since = clock.now()
    brain.revise.restore(precondition, reason=WHY)
    undo_all(brain, clock, since)
    assert (brain.get(conclusion).state, banner(brain, conclusion)) == (State.ACTIVE, "")


def test_undoing_a_restore_of_a_pruned_memory_counts_as_pruning(
    brain: Brain, clock: FakeClock
) -> None:
    noise = stored(brain, "Somebody opened a door", kind="event")
    episode = stored(brain, "How the doors were used", kind="fact", derived_from=[noise])
    clock.move(40 * DAY)
    brain.prune(days=30, kinds=["event"], confirm=1)
    clock.move(DAY)
    since = clock.now()
    brain.revise.restore(noise, reason=WHY)
    undo_all(brain, clock, since)
    assert (brain.get(noise).state, banner(brain, episode)) == (State.FORGOTTEN, "")


def test_memory_removed_by_retention_still_supports_its_derivations(
    brain: Brain, clock: FakeClock, precondition: str
) -> None:
    noise = stored(brain, "Somebody opened a door", kind="event")
    episode = stored(brain, "Doors and gateways", kind="fact", derived_from=[noise, precondition])
    clock.move(40 * DAY)
    brain.prune(days=30, kinds=["event"], confirm=1)
    preview = brain.revise.preview(precondition)
    assert (preview.count, preview.archived) == (1, 0)
    brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    assert brain.get(episode).state is State.ACTIVE


def test_pending_action_item_is_marked_and_still_binds_until_it_is_done(brain: Brain) -> None:
    usr = brain.acting_as(agent="usr", trust_ceiling=Trust.USER_CLAIM, session="s1", project="b")
    fact = stored(usr, "Keys live in the vault", kind="fact", project="b")
    item = stored(
        brain,
        "Rotate the gateway keys before any other change",
        kind="task",
        must_ack=True,
        trust="trusted_tool",
        depends_on=[fact],
        project="a",
    )
    assert usr.revise.preview(fact).archived == 0
    usr.revise.supersede(fact, "Keys live in a safe", reason=WHY)
    assert "Needs review" in banner(brain, item)
    zed = brain.acting_as(agent="zed", project="a", session="s2")
    with pytest.raises(RejectedError, match=item):
        zed.remember("Lunch is at noon", kind="fact")
    brain.revise.status(item, "done")
    assert brain.get(item).state is State.ARCHIVED
    brain.revise.status(item, "open")
    assert brain.get(item).state is State.ACTIVE


def test_memory_archived_without_support_no_longer_contradicts(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    report = stored(brain, "Eve reported on the migration", kind="event")
    against = stored(brain, "Apache serves it all", kind="fact", derived_from=[report])
    brain.revise.link(against, precondition, type=LinkType.CONFLICTS_WITH)
    assert "contradicted" in banner(brain, conclusion)
    brain.forget(report, reason="the report was wrong")
    assert (brain.get(against).state, banner(brain, conclusion)) == (State.ARCHIVED, "")
    brain.revise.restore(report, reason=WHY)
    assert "contradicted" in banner(brain, conclusion)


def test_cascade_ends_for_a_memory_that_contradicts_its_own_support(
    brain: Brain, clock: FakeClock
) -> None:
    ending = stored(
        brain, "A lease of the rack", kind="fact", expires_at=clock.now() + timedelta(hours=1)
    )
    below = stored(brain, "Racks are ours", kind="fact", depends_on=[ending])
    between = stored(brain, "Cables may stay", kind="fact", derived_from=[below])
    above = stored(brain, "Nothing is owned here", kind="fact", derived_from=[between])
    brain.revise.link(above, below, type=LinkType.CONFLICTS_WITH)
    clock.move(DAY)
    stored(brain, "Somebody writes something else", kind="fact")
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        assert tx.reviews.due(clock.now(), limit=1) == []
