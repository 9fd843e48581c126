"""Leases and versions: two agents who claim one task, and the replies that each of them gets."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.scope import Role
from commonbrain.testing.builders import FakeClock
from tests.asking import stored


@pytest.fixture
def ann(brain: Brain) -> Brain:
    return brain.acting_as(session="s1")


@pytest.fixture
def bo(brain: Brain) -> Brain:
    return brain.acting_as(agent="bo", session="s2")


@pytest.fixture
def task(brain: Brain) -> str:
    return stored(brain, "Descale the kettle", kind="task")


@pytest.mark.requirement("SE-30")
def test_claimed_task_cannot_be_claimed_again_until_its_lease_ends(
    ann: Brain, bo: Brain, task: str, clock: FakeClock
) -> None:
    lease = ann.session.claim(task).lease
    assert lease is not None
    assert (lease.holder, lease.until) == ("s1", clock.now() + timedelta(minutes=30))
    with pytest.raises(RejectedError, match=r"claimed by s1 until 2026-03-02T09:30:00Z") as refusal:
        bo.session.claim(task)
    assert refusal.value.code == "lease_held"
    clock.move(timedelta(minutes=30))
    taken = bo.session.claim(task, minutes=5).lease
    assert taken is not None
    assert (taken.holder, taken.status) == ("s2", "claimed")


def test_lease_holder_can_renew_and_release_its_lease(ann: Brain, bo: Brain, task: str) -> None:
    ann.session.claim(task)
    renewed = ann.session.claim(task, minutes=60).lease
    assert renewed is not None
    assert renewed.status == "renewed"
    released = ann.session.release(task).lease
    assert released is not None
    assert released.status == "released"
    again = bo.session.release(task).lease
    assert again is not None
    assert again.status == "free"
    assert bo.session.claim(task).lease


def test_agent_without_a_session_claims_by_name(brain: Brain, task: str) -> None:
    lease = brain.session.claim(task).lease
    assert lease is not None
    assert lease.holder == "ann"


def test_only_the_lease_holder_changes_the_status_of_a_claimed_task(
    ann: Brain, bo: Brain, task: str
) -> None:
    ann.session.claim(task)
    with pytest.raises(RejectedError) as refusal:
        bo.revise.status(task, "done")
    assert refusal.value.code == "lease_held"
    assert ann.revise.status(task, "done").status is ChangeStatus.DONE
    assert ann.get(task).detail["lease_holder"] is None
    with pytest.raises(RejectedError) as closed:
        bo.session.claim(task)
    assert closed.value.code == "not_open"


def test_only_an_admin_releases_the_lease_of_another_agent(
    ann: Brain, bo: Brain, task: str
) -> None:
    ann.session.claim(task)
    writer = Brain(bo.services, type(bo.caller)(agent="cy", role=Role.WRITER))
    with pytest.raises(RejectedError) as refusal:
        writer.session.release(task)
    assert refusal.value.code == "lease_held"
    assert bo.session.release(task).lease
    assert writer.session.claim(task).lease


def test_ended_session_holds_no_lease(ann: Brain, bo: Brain, task: str) -> None:
    ann.session.task("descaling")
    ann.session.claim(task)
    ann.session.end()
    lease = bo.session.claim(task).lease
    assert lease is not None
    assert lease.holder == "s2"


def test_lease_lasts_a_minute_to_a_day(ann: Brain, task: str, subtests: pytest.Subtests) -> None:
    for minutes in [0, -5, 24 * 60 + 1]:
        case = subtests.test(minutes=minutes)
        with case, pytest.raises(InvalidInputError, match="1 to 1440"):
            ann.session.claim(task, minutes=minutes)


def test_only_tasks_can_be_claimed_and_a_write_cannot_set_the_lease_holder(
    ann: Brain, brain: Brain
) -> None:
    fact = stored(brain, "The kettle is blue", kind="fact")
    with pytest.raises(InvalidInputError, match="only a task"):
        ann.session.claim(fact)
    with pytest.raises(InvalidInputError, match="lease_holder"):
        brain.remember("Descale it", kind="task", lease_holder="bo")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@pytest.mark.requirement("SE-30")
def test_change_based_on_an_older_version_is_refused(ann: Brain, bo: Brain, task: str) -> None:
    version = ann.get(task).version
    ann.session.claim(task)
    ann.revise.rate(task, "up")
    ann.revise.annotate(task, "use vinegar")
    ann.session.release(task)
    assert ann.get(task).version == version == 1
    bo.revise.status(task, "blocked", version=version)
    with pytest.raises(RejectedError, match="at version 2;") as refusal:
        ann.revise.status(task, "done", version=version)
    assert refusal.value.code == "version_conflict"
    with pytest.raises(RejectedError, match="at version 2;"):
        ann.revise.supersede(task, "Descale both kettles", reason="two", version=version)
    new = ann.revise.supersede(task, "Descale both kettles", reason="two", version=2).id
    assert new is not None
    assert ann.get(new).version == 1


def test_undo_of_a_claim_frees_the_task(ann: Brain, bo: Brain, task: str) -> None:
    ann.session.claim(task)
    assert bo.undo(session="s1", reason="by mistake", confirm=1).count == 1
    assert bo.session.claim(task).lease


def test_claimed_task_is_not_superseded_by_another_agent(ann: Brain, bo: Brain, task: str) -> None:
    ann.session.claim(task)
    with pytest.raises(RejectedError) as refusal:
        bo.revise.supersede(task, "Descale the pot", reason="it is a pot")
    assert refusal.value.code == "lease_held"
    assert ann.revise.supersede(task, "Descale the pot", reason="it is a pot").id


def test_claimed_task_is_not_forgotten_by_another_agent(ann: Brain, bo: Brain, task: str) -> None:
    ann.session.claim(task)
    with pytest.raises(RejectedError, match="claimed") as refusal:
        bo.forget(task, reason="not needed")
    assert refusal.value.code == "lease_held"
    ann.forget(task, reason="not needed")
