"""Who changes something is told what that change unseated, and what that one may see: no more."""

from datetime import timedelta
from pathlib import Path

from commonbrain.client import Brain
from commonbrain.invalidation.reviews import DEPENDENTS_MAX
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import CASCADE_AT_ONCE, CAUSES_AT_ONCE, PREVIEW_COUNT_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.revision import SYSTEM_AGENT, Action
from commonbrain.model.scope import Scope
from commonbrain.testing.builders import FakeClock, a_brain, a_memory
from tests.contracts.store_steps import a_link
from tests.flows.asking import stored

WHY = "because a test says so"
HOUR = timedelta(hours=1)


def with_dependents(brain: Brain, count: int, *, scope: Scope) -> str:
    """Store a premise of ann's and so many that depend on it, of bob's."""
    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.memories.add(a_memory(1, "The gateway runs on nginx"))
        for id_ in range(2, count + 2):
            made = a_memory(id_, f"memory {id_}", kind=Kind.EVENT, scope=scope, agent="bob")
            tx.memories.add(made)
            tx.links.replace(a_link(id_, 1, type=LinkType.DEPENDS_ON))
    return ids.show(ids.MEMORY, 1)


def test_what_ends_by_its_time_is_not_told_to_whoever_writes_next(
    brain: Brain, clock: FakeClock
) -> None:
    premise = stored(brain, "The gateway token is abc", kind="fact", expires_at=clock.now() + HOUR)
    task = stored(brain, "Deploys use the gateway token", kind="task", depends_on=[premise])
    clock.move(2 * HOUR)
    reply = brain.acting_as(agent="bob").remember("Lunch is at noon", kind="fact")
    assert reply.affected is None
    history = brain.get(task, views=["history"]).history or ()
    assert [one.agent for one in history if one.action is Action.CASCADE] == [SYSTEM_AGENT]


def test_what_one_changes_is_told_and_ones_own_whatever_else_ends(
    brain: Brain, clock: FakeClock
) -> None:
    ending = stored(brain, "The gateway token is abc", kind="fact", expires_at=clock.now() + HOUR)
    stored(brain, "Deploys use the gateway token", kind="task", depends_on=[ending])
    premise = stored(brain, "The gateway runs on nginx", kind="fact")
    near = stored(brain, "Timeouts belong in nginx conf", kind="fact", depends_on=[premise])
    clock.move(2 * HOUR)
    bob = brain.acting_as(agent="bob")
    affected = bob.forget(premise, reason=WHY).affected
    assert affected is not None
    assert affected.ids == (near,)
    history = brain.get(near, views=["history"]).history or ()
    assert [one.agent for one in history if one.action is Action.CASCADE] == ["bob"]


def test_the_last_of_a_full_step_leaves_nothing_more(brain: Brain, clock: FakeClock) -> None:
    last = CAUSES_AT_ONCE
    with brain.services.store.begin(brain.caller.tenant) as tx:
        for id_ in range(1, last + 1):
            tx.memories.add(a_memory(id_, f"memory {id_}", expires_at=clock.now() + HOUR))
            tx.memories.add(a_memory(last + id_, f"memory {last + id_}"))
            tx.links.replace(a_link(last + id_, id_, type=LinkType.DEPENDS_ON))
    clock.move(2 * HOUR)
    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.reviews.touch(range(1, last + 1), at=clock.now())
        assert len(tx.reviews.due(clock.now(), limit=last + 1)) == last
    reply = brain.remember("Lunch is at noon", kind="fact")
    assert reply.affected is None
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        assert tx.reviews.due(clock.now(), limit=1) == []


def test_thousands_that_one_may_not_see_change_nothing_in_what_is_told(brain: Brain) -> None:
    premise = with_dependents(
        brain, max(PREVIEW_COUNT_MAX, CASCADE_AT_ONCE) + 1, scope=Scope.PRIVATE
    )
    seen = stored(brain, "Timeouts belong in nginx conf", kind="fact")
    over = stored(brain, "Headers belong beside them", kind="fact", depends_on=[seen])
    brain.revise.link(seen, premise, type=LinkType.DEPENDS_ON)

    foretold = brain.revise.preview(premise)
    assert (foretold.count, foretold.archived, foretold.is_more) == (2, 2, False)
    told = brain.revise.supersede(premise, "The gateway runs on envoy", reason=WHY).affected
    assert told is not None
    assert (told.count, told.archived, told.ids) == (2, 2, (seen, over))
    assert not told.is_more
    assert "Needs review" in (brain.get(over).banner or "")


def test_a_fan_of_nothing_that_one_may_see_is_not_told(tmp_path: Path) -> None:
    with a_brain(tmp_path / "a.db") as brain:
        premise = with_dependents(brain, CASCADE_AT_ONCE + 1, scope=Scope.PRIVATE)
        assert brain.revise.preview(premise).count == 0
        outcome = brain.revise.supersede(premise, "The gateway runs on envoy", reason=WHY)
        assert outcome.affected is None
        # It is followed up all the same.
        with brain.services.store.snapshot(brain.caller.tenant) as tx:
            assert len(tx.reviews.by(1)) == CASCADE_AT_ONCE + 1


def test_hidden_dependents_do_not_crowd_out_what_is_seen(brain: Brain) -> None:
    premise = with_dependents(brain, DEPENDENTS_MAX + 10, scope=Scope.PRIVATE)
    seen = stored(brain, "Timeouts belong in nginx conf", kind="fact", depends_on=[premise])
    found = brain.get(premise, views=["dependents"]).dependents or ()
    assert [one.id for one in found] == [seen]
