"""Large fans are followed up in steps that no death can lose; other stores take part in it."""

from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.invalidation.propagation import propagate
from commonbrain.model import ids
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import CASCADE_AT_ONCE
from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from commonbrain.model.revision import Action
from commonbrain.storage.change_log import ChangeContext
from commonbrain.testing.builders import a_brain, a_memory
from tests.storage.store_steps import a_link

WHY = "because a test says so"
FAN = CASCADE_AT_ONCE + 2


def a_fan(brain: Brain) -> None:
    """Let half of many memories rest on the first, and each other one on one of that half."""
    with brain.services.store.begin(brain.caller.tenant) as tx:
        for id_ in range(1, FAN + 2):
            tx.memories.add(a_memory(id_, f"memory {id_}", kind=Kind.EVENT))
        for id_ in range(2, FAN + 2):
            on = 1 if id_ % 2 == 0 else id_ - 1
            tx.links.replace(a_link(id_, on, type=LinkType.DERIVED_FROM))


def marked(brain: Brain) -> int:
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        return len(tx.reviews.by(1))


def archived(brain: Brain) -> int:
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        return sum(
            count for (_, state), count in tx.memories.counts().items() if state is State.ARCHIVED
        )


def test_all_of_many_dependents_are_marked_before_the_reply_and_after_a_crash(brain: Brain) -> None:
    a_fan(brain)
    affected = brain.forget(ids.show(ids.MEMORY, 1), reason=WHY).affected
    assert affected is not None
    assert (affected.count, affected.is_more) == (CASCADE_AT_ONCE, True)
    assert (marked(brain), archived(brain)) == (FAN, FAN)

    # A step that is repeated changes nothing.
    change_context = ChangeContext(
        action=Action.CASCADE, caller=brain.caller, at=brain.services.clock.now()
    )
    with brain.services.store.begin(brain.caller.tenant) as tx:
        before = tx.reviews.by(1)
        tx.reviews.touch([1], at=change_context.at)
        assert propagate(tx, change_context).affected == ()
        assert tx.reviews.by(1) == before

    brain.revise.restore(ids.show(ids.MEMORY, 1), reason=WHY)
    assert (marked(brain), archived(brain)) == (0, 0)

    with brain.services.store.begin(brain.caller.tenant) as tx:
        tx.memories.set_state([1], State.SUPERSEDED)
        tx.reviews.touch([1], at=change_context.at)
        # Here the process ends: the change is durable, and so are the first marks.
        assert propagate(tx, change_context, limit=10).is_cut
    first_level = FAN // 2
    assert marked(brain) == first_level

    # The next write does what the death left undone.
    brain.remember("Lunch is at noon", kind="fact")

    assert (marked(brain), archived(brain)) == (FAN, FAN)


@pytest.fixture
def three(brain: Brain) -> tuple[str, str, str]:
    """A premise, what is derived from it, and a task that depends on that."""
    precondition = brain.remember("The gateway runs on nginx", kind="fact").items[0].id or ""
    middle = (
        brain.remember("Timeouts belong in nginx conf", kind="fact", derived_from=[precondition])
        .items[0]
        .id
        or ""
    )
    task = (
        brain.remember("Raise timeouts before launch", kind="task", depends_on=[middle]).items[0].id
        or ""
    )
    return precondition, middle, task


def test_export_carries_open_reviews_and_confirmations(
    brain: Brain, three: tuple[str, str, str], tmp_path: Path
) -> None:
    precondition, middle, task = three
    brain.revise.link(task, precondition, type=LinkType.DEPENDS_ON)
    brain.forget(precondition, reason=WHY)
    brain.revise.review(middle, reason="true of any gateway")
    brain.export(tmp_path / "out.jsonl")
    with a_brain(tmp_path / "other.db") as other:
        other.merge(tmp_path / "out.jsonl")
        for id_ in three:
            assert other.get(id_) == brain.get(id_)
        with (
            brain.services.store.snapshot(brain.caller.tenant) as here,
            other.services.store.snapshot(other.caller.tenant) as there,
        ):
            every = [ids.parse(ids.MEMORY, id_) for id_ in three]
            assert here.reviews.of(every) == there.reviews.of(every)
        again = other.merge(tmp_path / "out.jsonl")
        assert again.exists == again.read


def test_merged_supersede_marks_local_dependents(
    brain: Brain, three: tuple[str, str, str], tmp_path: Path
) -> None:
    precondition, middle, task = three
    brain.export(tmp_path / "before.jsonl")
    brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    brain.export(tmp_path / "after.jsonl")
    with a_brain(tmp_path / "other.db") as other:
        other.merge(tmp_path / "before.jsonl")
        dependent = other.remember(
            "Nginx needs a reload", kind="fact", derived_from=[middle]
        ).items[0]
        other.merge(tmp_path / "after.jsonl")
        matches = {item.id for item in other.recall(states=["needs_review"]).items}
        assert matches == {middle, task, dependent.id}
