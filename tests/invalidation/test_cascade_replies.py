"""The reply to a change names the dependents in review that its caller may see, and no other."""

from datetime import timedelta

from commonbrain.client import Brain
from commonbrain.invalidation.dependents import DEPENDENTS_MAX
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import CASCADE_AT_ONCE, CAUSES_AT_ONCE, PREVIEW_COUNT_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.revision import SYSTEM_AGENT, Action
from commonbrain.model.scope import Authority, Scope
from commonbrain.testing.builders import FakeClock, a_memory
from tests.asking import stored
from tests.storage.store_steps import a_link

WHY = "because a test says so"
HOUR = timedelta(hours=1)


def with_dependents(brain: Brain, count: int, *, scope: Scope) -> str:
    """Store a premise of ann's and so many that depend on it, of bob's."""
    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.memories.add(a_memory(1, "The gateway runs on nginx", authority=Authority.PERSON))
        for id_ in range(2, count + 2):
            made = a_memory(id_, f"memory {id_}", kind=Kind.EVENT, scope=scope, agent="bob")
            tx.memories.add(made)
            tx.links.replace(a_link(id_, 1, type=LinkType.DEPENDS_ON))
    return ids.show(ids.MEMORY, 1)


def test_next_write_does_not_report_dependents_of_expired_memories(
    brain: Brain, clock: FakeClock
) -> None:
    precondition = stored(
        brain, "The gateway token is abc", kind="fact", expires_at=clock.now() + HOUR
    )
    task = stored(brain, "Deploys use the gateway token", kind="task", depends_on=[precondition])
    clock.move(2 * HOUR)
    reply = brain.acting_as(agent="bob").remember("Lunch is at noon", kind="fact")
    assert reply.affected is None
    history = brain.get(task, views=["history"]).history or ()
    assert [one.agent for one in history if one.action is Action.CASCADE] == [SYSTEM_AGENT]


def test_change_reports_its_own_dependents_and_not_those_of_expired_memories(
    brain: Brain, clock: FakeClock
) -> None:
    ending = stored(brain, "The gateway token is abc", kind="fact", expires_at=clock.now() + HOUR)
    stored(brain, "Deploys use the gateway token", kind="task", depends_on=[ending])
    precondition = stored(brain, "The gateway runs on nginx", kind="fact")
    near = stored(brain, "Timeouts belong in nginx conf", kind="fact", depends_on=[precondition])
    clock.move(2 * HOUR)
    bob = brain.acting_as(agent="bob")
    affected = bob.forget(precondition, reason=WHY).affected
    assert affected is not None
    assert affected.ids == (near,)
    history = brain.get(near, views=["history"]).history or ()
    assert [one.agent for one in history if one.action is Action.CASCADE] == ["bob"]


def test_full_batch_of_expired_memories_leaves_no_pending_review(
    brain: Brain, clock: FakeClock
) -> None:
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


def test_thousands_of_hidden_dependents_do_not_change_the_reply(brain: Brain) -> None:
    count = max(PREVIEW_COUNT_MAX, CASCADE_AT_ONCE) + 1
    cause = with_dependents(brain, count, scope=Scope.PRIVATE)
    assert brain.revise.preview(cause).count == 0
    assert brain.forget(cause, reason=WHY).affected is None
    # They are followed up all the same.
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        assert len(tx.reviews.by(1)) == count
    brain.revise.restore(cause, reason=WHY)

    visible = stored(brain, "Timeouts belong in nginx conf", kind="fact")
    over = stored(brain, "Headers belong next to them", kind="fact", depends_on=[visible])
    brain.revise.link(visible, cause, type=LinkType.DEPENDS_ON)

    preview = brain.revise.preview(cause)
    assert (preview.count, preview.archived, preview.is_more) == (2, 2, False)
    affected = brain.revise.supersede(cause, "The gateway runs on envoy", reason=WHY).affected
    assert affected is not None
    assert (affected.count, affected.archived, affected.ids) == (2, 2, (visible, over))
    assert not affected.is_more
    assert "Needs review" in (brain.get(over).banner or "")


def test_hidden_dependents_do_not_displace_visible_ones(brain: Brain) -> None:
    precondition = with_dependents(brain, DEPENDENTS_MAX + 10, scope=Scope.PRIVATE)
    visible = stored(brain, "Timeouts belong in nginx conf", kind="fact", depends_on=[precondition])
    matches = brain.get(precondition, views=["dependents"]).dependents or ()
    assert [one.id for one in matches] == [visible]
