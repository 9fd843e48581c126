"""Placing each side of a conflict in a project: what is not moved, and which callers may."""

from collections.abc import Callable

import pytest

from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus
from commonbrain.model.errors import RejectedError
from commonbrain.model.links import LinkType
from commonbrain.testing.builders import FakeClock
from tests.asking import stored
from tests.invalidation.test_settling import a_conflict

PLACES = ("q", "zzz")


@pytest.fixture
def bo(brain: Brain) -> Brain:
    return brain.acting_as(agent="bo", session="s2")


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(RejectedError) as refusal:
        call()
    return refusal.value.code


def in_conflict(brain: Brain, one: str, other: str) -> None:
    brain.revise.link(one, other, type=LinkType.CONFLICTS_WITH, reason="they differ")


def placed(brain: Brain, one: str, other: str) -> str:
    """Give the code with which it is refused to place two."""
    return refused(lambda: brain.revise.keep_both(one, other=other, reason="so", projects=PLACES))


def test_memories_without_a_conflict_are_not_moved_to_projects(brain: Brain) -> None:
    one, other = stored(brain, "The kettle is blue"), stored(brain, "Tea is at four")
    assert placed(brain, one, other) == "not_in_conflict"
    assert placed(brain, one, one) == "not_in_conflict"
    assert brain.get(one).project is None


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("kind", ["task", "rule", "message"])
def test_rules_tasks_and_messages_are_not_moved_to_a_project(
    brain: Brain, bo: Brain, kind: str, *, turned: bool
) -> None:
    fact = stored(brain, "The kettle is blue", kind="fact")
    if kind == "message":
        binding = brain.message.send("bo", "The kettle is red").id
    else:
        binding = stored(brain, "Paint the kettle red", kind=kind, project="p")
    assert binding
    in_conflict(brain, fact, binding)
    pair = (binding, fact) if turned else (fact, binding)
    before = brain.get(binding).project
    assert placed(bo, *pair) == "not_placeable"
    assert brain.get(binding).project == before


def test_memory_is_not_moved_into_a_project_with_pending_action_items(
    brain: Brain, bo: Brain, clock: FakeClock
) -> None:
    old, new = a_conflict(brain, clock)
    stored(brain, "Rotate the deploy key", kind="task", must_ack=True, project="q")
    assert placed(bo, old, new) == "action_items_pending"
    assert placed(bo, new, old) == "action_items_pending"
    elsewhere = bo.revise.keep_both(old, other=new, reason="so", projects=("api", "web"))
    assert elsewhere.status is ChangeStatus.DONE


def test_memory_is_not_moved_out_of_a_project_with_pending_action_items(
    brain: Brain, bo: Brain, clock: FakeClock
) -> None:
    old, new = a_conflict(brain, clock)
    brain.revise.keep_both(old, other=new, reason="so", projects=("api", "web"))
    stored(brain, "Rotate the deploy key", kind="task", must_ack=True, project="web")
    assert placed(bo, old, new) == "action_items_pending"
    assert refused(lambda: bo.revise.resolve(old, other=new, reason="so")) == "action_items_pending"


def test_task_claimed_by_another_agent_is_not_moved(brain: Brain, bo: Brain) -> None:
    one = stored(brain, "Descale the kettle", kind="task", project="p")
    fact = stored(brain, "The kettle is blue", kind="fact")
    in_conflict(brain, fact, one)
    brain.acting_as(session="s1").session.claim(one)
    assert placed(bo, fact, one) == "lease_held"
