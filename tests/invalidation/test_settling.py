"""Settling a conflict: for one side, for both, for each in its project; and taking it back."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, InvalidInputError
from commonbrain.model.memory import Memory
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import bodies, stored

OLD = "The nightly build of the API runs on two cores"
NEW = "The nightly build of the API runs on four cores"
QUERY = "how many cores has the nightly build of the API"


def a_conflict(brain: Brain, clock: FakeClock) -> tuple[str, str]:
    old = stored(brain, OLD, kind="fact")
    clock.move(timedelta(days=1))
    outcome = brain.remember(NEW, kind="fact").items[0]
    assert [one.id for one in outcome.conflicts] == [old]
    assert outcome.id
    return old, outcome.id


def rows(brain: Brain, *shown: str) -> list[Memory]:
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        results = tx.memories.get([ids.parse(ids.MEMORY, one) for one in shown])
    return list(results.values())


@pytest.mark.requirement("WP-33")
def test_conflict_shows_its_basis_and_gap_in_recall_and_get(brain: Brain, clock: FakeClock) -> None:
    old, new = a_conflict(brain, clock)
    [conflict] = brain.recall(QUERY).conflicts
    assert (conflict.ids, conflict.basis, conflict.gap) == ((new, old), "number", 0.0)
    assert f"Conflict of number: {new}, newer, contradicts {old}" in conflict.line()
    assert brain.get(old).conflicts == (conflict,)
    assert brain.get(new).conflicts == (conflict,)
    brain.revise.link(old, new, type="relates_to")
    assert brain.get(stored(brain, "Something else", kind="fact")).conflicts is None


@pytest.mark.requirement("WP-33")
def test_conflict_settled_by_projects_shows_each_side_in_its_project(
    brain: Brain, clock: FakeClock
) -> None:
    old, new = a_conflict(brain, clock)
    done = brain.revise.keep_both(old, other=new, reason="two clusters", projects=["api", "web"])
    assert (done.status, len(done.changed)) == (ChangeStatus.DONE, 2)
    for project, body in (("api", OLD), ("web", NEW)):
        answer = brain.recall(QUERY, project=project)
        assert [item.body for item in answer.items] == [body]
        assert (answer.conflicts, answer.items[0].notes) == ((), ())
    answer = brain.recall(QUERY)
    assert {item.body for item in answer.items} == {OLD, NEW}
    assert [item.notes for item in answer.items] == [(), ()]
    [reply] = answer.conflicts
    assert (reply.preferred, set(reply.projects or ())) == (None, {"api", "web"})
    assert f"{old} in api" in reply.line()
    assert f"{new} in web" in reply.line()
    again = brain.revise.keep_both(old, other=new, reason="so", projects=["api", "web"])
    assert again.status is ChangeStatus.UNCHANGED


def test_memory_of_another_project_is_never_linked_as_conflict(brain: Brain) -> None:
    stored(brain, OLD, kind="fact", project="api")
    assert not brain.remember(NEW, kind="fact", project="web").items[0].conflicts
    assert brain.recall(QUERY).conflicts == ()


def test_settling_by_projects_needs_two_different_projects_and_another_memory(
    brain: Brain, clock: FakeClock
) -> None:
    old, new = a_conflict(brain, clock)
    for projects in (["api"], ["api", "api"], ["api", "web", "ops"], ["api", ""]):
        with pytest.raises(InvalidInputError):
            brain.revise.keep_both(old, other=new, reason="so", projects=projects)
    with pytest.raises(InvalidInputError):
        brain.revise.keep_both(old, reason="so", projects=["api", "web"])


def test_less_trusted_caller_proposes_a_settlement_that_approval_carries_out(
    brain: Brain, clock: FakeClock
) -> None:
    old, new = a_conflict(brain, clock)
    guest = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    proposal = guest.revise.keep_both(old, other=new, reason="I say so", projects=["api", "web"])
    assert proposal.status is ChangeStatus.PROPOSED
    assert [one.project for one in rows(brain, old, new)] == [None, None]
    assert brain.revise.approve(proposal.id, reason="true").status is ChangeStatus.DONE
    assert {one.project for one in rows(brain, old, new)} == {"api", "web"}


@pytest.mark.parametrize("is_proposed", [False, True])
def test_less_trusted_winner_of_a_conflict_is_recalled_instead_of_the_other_side(
    brain: Brain, clock: FakeClock, *, is_proposed: bool
) -> None:
    old = stored(brain, OLD, kind="fact")
    guest = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    new = stored(guest, NEW, kind="fact")
    brain.revise.link(old, new, type="conflicts_with", reason="so")
    assert bodies(brain, QUERY) == [OLD]
    clock.move(timedelta(minutes=1))
    since = clock.now()
    if is_proposed:
        proposal = guest.revise.resolve(new, other=old, reason="I say so")
        assert proposal.status is ChangeStatus.PROPOSED
        assert bodies(brain, QUERY) == [OLD]
        brain.revise.approve(proposal.id, reason="true")
    else:
        brain.revise.resolve(new, other=old, reason="it is right")
    assert bodies(brain, QUERY) == [NEW]
    by_id = {ids.show(ids.MEMORY, one.id): one for one in rows(brain, old, new)}
    assert by_id[new].trust is by_id[old].trust
    assert by_id[new].confidence == by_id[old].confidence
    report = brain.undo(since=since, reason="no")
    if report.status != "done":
        brain.undo(since=since, reason="no", confirm=report.count)
    assert bodies(brain, QUERY) == [OLD]


def test_settled_conflict_is_not_linked_again(brain: Brain, clock: FakeClock) -> None:
    old, new = a_conflict(brain, clock)
    brain.revise.keep_both(new, other=old, reason="two builds")
    assert brain.recall(QUERY).conflicts == ()
    again = brain.remember(NEW, kind="fact").items[0]
    assert (again.status, again.conflicts) == (ItemStatus.EXISTS, ())
    head = brain.revise.supersede(new, f"{NEW}, and it has a disk", reason="more is known")
    assert (head.status, head.conflicts) == (ItemStatus.STORED, ())
    assert brain.recall(QUERY).conflicts == ()


def test_conflict_is_linked_again_after_undo_of_its_settlement(
    brain: Brain, clock: FakeClock
) -> None:
    old, new = a_conflict(brain, clock)
    clock.move(timedelta(minutes=1))
    since = clock.now()
    brain.revise.keep_both(new, other=old, reason="two builds")
    brain.undo(since=since, reason="no", confirm=1)
    assert brain.recall(QUERY).conflicts
    head = brain.revise.supersede(new, f"{NEW}, and it has a disk", reason="more is known")
    assert [one.id for one in head.conflicts] == [old]


@pytest.mark.requirement("WP-32")
def test_dependent_of_contradicted_memory_loses_confidence(brain: Brain, clock: FakeClock) -> None:
    old, new = a_conflict(brain, clock)
    based = stored(brain, "Cores are scarce", kind="episode", derived_from=[new])

    def sure(query: str) -> dict[str, float]:
        return {item.id: item.confidence for item in brain.recall(query).items}

    of_facts, of_episode = brain.get(new).confidence, brain.get(based).confidence
    assert sure(QUERY)[new] == of_facts
    assert sure(QUERY)[old] == pytest.approx(of_facts * 2 / 3)
    brain.revise.resolve(old, other=new, reason="it was right")
    assert sure(QUERY)[old] == of_facts
    assert sure("scarce cores")[based] == pytest.approx(of_episode * 2 / 3)
    brain.revise.review(based, reason="they are")
    assert sure("scarce cores")[based] == of_episode
    assert brain.get(based).confidence == of_episode


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(way=st.sampled_from(["resolve", "keep_both", "context"]), turned=st.booleans())
def test_undo_of_a_settlement_restores_the_state(
    tmp_path_factory: pytest.TempPathFactory,
    way: str,
    turned: bool,  # noqa: FBT001 an example
) -> None:
    clock = FakeClock()
    with a_brain(tmp_path_factory.mktemp("brain") / "brain.db", clock=clock) as brain:
        old, new = a_conflict(brain, clock)
        one, other = (new, old) if turned else (old, new)
        before = rows(brain, old, new), brain.get(old, bump=False).conflicts
        clock.move(timedelta(minutes=1))
        since = clock.now()
        match way:
            case "resolve":
                brain.revise.resolve(one, other=other, reason="so")
            case "keep_both":
                brain.revise.keep_both(one, other=other, reason="so")
            case _:
                brain.revise.keep_both(one, other=other, reason="so", projects=["api", "web"])
        assert rows(brain, old, new) != before[0] or not brain.get(old, bump=False).conflicts
        assert bodies(brain, QUERY)
        report = brain.undo(since=since, reason="no")
        if report.status != "done":
            brain.undo(since=since, reason="no", confirm=report.count)
        after = rows(brain, old, new)
        assert [_untouched(one) for one in after] == [_untouched(one) for one in before[0]]
        assert brain.get(old, bump=False).conflicts == before[1]


def _untouched(memory: Memory) -> Memory:
    return replace(memory, believed_since=None, access_count=0, last_access_at=None)


@pytest.mark.requirement("WP-33")
def test_memory_that_repeats_a_superseded_source_is_shown_with_its_successor(
    brain: Brain,
) -> None:
    source = stored(brain, "The API listens on port 8080", kind="fact")
    derived = stored(
        brain, "Point the proxy at port 8080 of the API", kind="episode", derived_from=[source]
    )
    fresh = stored(brain, "The API listens for the proxy", kind="episode", derived_from=[source])
    head = brain.revise.supersede(source, "The API listens on port 9090", reason="moved").id
    assert head
    reply = brain.recall("proxy port API").conflicts
    assert [(one.ids, one.basis) for one in reply] == [((head, derived), "superseded source")]
    assert reply[0].preferred == head
    assert brain.get(derived).conflicts == reply
    assert brain.get(fresh).conflicts is None
    brain.revise.review(derived, reason="the proxy is told of old ports too")
    assert brain.recall("proxy port API").conflicts == ()


def test_restored_source_is_not_reported_as_superseded(brain: Brain, clock: FakeClock) -> None:
    source = stored(brain, "The API listens on port 8080", kind="fact")
    derived = stored(
        brain, "Point the proxy at port 8080 of the API", kind="episode", derived_from=[source]
    )
    brain.revise.supersede(source, "The API listens on port 9090", reason="moved")
    clock.move(timedelta(minutes=1))
    brain.revise.restore(source, reason="it did not")
    assert brain.get(derived).conflicts is None
    with pytest.raises(CommonbrainError):
        brain.revise.keep_both(derived, other=source, reason="nothing between them")


def test_settled_conflict_stays_settled_when_an_older_copy_is_merged(
    brain: Brain, clock: FakeClock, tmp_path: Path
) -> None:
    old, new = a_conflict(brain, clock)
    brain.export(tmp_path / "open.jsonl")
    clock.move(timedelta(hours=1))
    brain.revise.keep_both(new, other=old, reason="two builds")
    brain.merge(tmp_path / "open.jsonl")
    assert brain.get(old).conflicts is None

    clock.move(timedelta(hours=1))
    brain.revise.link(old, new, type="conflicts_with")
    brain.export(tmp_path / "again.jsonl")
    with a_brain(tmp_path / "other.db", clock=clock) as other:
        other.merge(tmp_path / "again.jsonl")
        assert other.get(old).conflicts
        assert other.merge(tmp_path / "again.jsonl").changed == 0
