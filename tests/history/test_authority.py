"""Who may change what, and what becomes of a change that its author may not make."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus, ReviseResult
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import NotFoundError, RejectedError
from commonbrain.model.memory import State
from commonbrain.model.scope import Role, Trust
from tests.asking import bodies, stored

TWO = "The nightly build runs on two cores"
FOUR = "The nightly build runs on four cores"
Change = Callable[[Brain, str, str], ReviseResult]
CHANGES: dict[str, Change] = {
    "pin": lambda brain, id_, _: brain.revise.pin(id_),
    "retag": lambda brain, id_, _: brain.revise.retag(id_, add=["ci"]),
    "link": lambda brain, id_, other: brain.revise.link(id_, other, type="supports"),
    "resolve": lambda brain, id_, other: brain.revise.resolve(other, other=id_, reason="newer"),
}


def limited(brain: Brain, ceiling: Trust = Trust.USER_CLAIM) -> Brain:
    """Another agent, which may claim less."""
    return brain.acting_as(agent="bob", trust_ceiling=ceiling)


def with_role(brain: Brain, role: Role) -> Brain:
    return Brain(brain.services, replace(brain.caller, agent="bob", role=role))


@pytest.mark.parametrize("name", CHANGES)
def test_more_trusted_memory_is_changed_by_approval_only(brain: Brain, name: str) -> None:
    id_ = stored(brain, TWO, kind="fact", trust="trusted_tool")
    other = stored(brain, "Deploys of the billing service happen at noon", kind="fact")
    before = brain.get(id_)
    bob = limited(brain)
    proposal = CHANGES[name](bob, id_, other)
    assert (proposal.status, proposal.action) == (ChangeStatus.PROPOSED, name)
    assert proposal.id in (proposal.hint or "")
    assert brain.get(id_) == before
    assert brain.get(proposal.id).state is State.QUARANTINED
    assert CHANGES[name](bob, id_, other).id == proposal.id, "the same proposal is kept once"
    with pytest.raises(RejectedError) as refusal:
        bob.revise.approve(proposal.id, reason="me")
    assert refusal.value.code == "trust_override_denied"
    done = brain.revise.approve(proposal.id, reason="right")
    assert done.status is ChangeStatus.DONE
    assert done.changed
    assert brain.get(proposal.id).state is State.FORGOTTEN


def test_replacement_that_needs_approval_is_quarantined_until_approved(brain: Brain) -> None:
    old = stored(brain, TWO, kind="fact", trust="trusted_tool", tags=["ci"])
    bob = limited(brain)
    proposal = bob.revise.supersede(old, FOUR, reason="upgrade")
    assert (proposal.status, bodies(brain, "build")) == (ItemStatus.QUARANTINED, [TWO])
    assert f"revise approve {proposal.id}" in (proposal.hint or "")
    assert bob.revise.supersede(old, FOUR, reason="upgrade").id == proposal.id
    brain.revise.approve(proposal.id or "", reason="checked")
    new = brain.get(proposal.id or "")
    assert (new.state, new.trust, new.tags) == (State.ACTIVE, Trust.TRUSTED_TOOL, ("ci",))
    assert new.superseded_count == 1
    assert brain.get(old).current_id == proposal.id
    assert bodies(brain, "build") == [FOUR]
    assert brain.doctor().is_sound


@pytest.mark.parametrize("kind", ["rule", "fact"])
def test_less_trusted_text_replaces_a_more_trusted_one_by_approval_only(
    brain: Brain, kind: str
) -> None:
    old = stored(brain, "Never push to main", kind=kind)
    proposal = brain.revise.supersede(
        old, "Always push to main", reason="read it somewhere", trust="untrusted_web"
    )
    assert proposal.status is ItemStatus.QUARANTINED
    assert bodies(brain, "push to main") == ["Never push to main"]
    brain.revise.approve(proposal.id or "", reason="I read it too")
    assert bodies(brain, "push to main") == ["Always push to main"]
    assert brain.get(proposal.id or "").trust is Trust.USER_CLAIM


def test_approval_of_a_proposal_with_a_superseded_target_is_refused_with_the_head(
    brain: Brain,
) -> None:
    old = stored(brain, TWO, kind="fact", trust="trusted_tool")
    proposal = limited(brain).revise.supersede(old, FOUR, reason="upgrade").id or ""
    new = brain.revise.supersede(old, "The build is gone", reason="x", trust="trusted_tool").id
    with pytest.raises(RejectedError, match=new or "?") as refusal:
        brain.revise.approve(proposal, reason="late")
    assert refusal.value.code == "already_superseded"
    assert brain.get(proposal).state is State.QUARANTINED


def test_untrusted_caller_only_proposes_important_changes(brain: Brain) -> None:
    web = limited(brain, Trust.UNTRUSTED_WEB)
    proposal = stored(web, TWO, kind="fact", trust="untrusted_web")
    assert web.revise.retag(proposal, add=["ci"]).status is ChangeStatus.DONE
    assert web.revise.pin(proposal).status is ChangeStatus.PROPOSED
    rule = web.revise.supersede(proposal, "Never build at night", reason="x", kind="rule")
    assert rule.status is ItemStatus.QUARANTINED
    assert brain.get(proposal).state is State.ACTIVE


def test_caller_without_write_access_to_a_scope_cannot_propose_changes(brain: Brain) -> None:
    everyones = stored(brain, TWO, kind="fact", scope="global")
    team = stored(brain, "Deploys happen at noon", kind="fact")
    writer, reader = with_role(brain, Role.WRITER), with_role(brain, Role.READER)
    for change in (
        lambda: writer.revise.pin(everyones),
        lambda: writer.revise.supersede(everyones, FOUR, reason="x", scope="team"),
        lambda: writer.forget(everyones, reason="x"),
    ):
        with pytest.raises(RejectedError) as refusal:
            change()
        assert refusal.value.code == "scope_denied"
    for change in (
        lambda: reader.revise.pin(team),
        lambda: reader.revise.annotate(team, "x"),
        lambda: reader.revise.rate(team, "up"),
        lambda: reader.forget(team, reason="x"),
        lambda: reader.undo(agent="ann", reason="x"),
        reader.prune,
    ):
        with pytest.raises(RejectedError) as refusal:
            change()
        assert refusal.value.code == "insufficient_role"
    assert brain.revise.pin(everyones).status is ChangeStatus.DONE


def test_hidden_memory_cannot_be_revised(brain: Brain) -> None:
    secret = stored(brain.acting_as(agent="bob"), TWO, kind="fact", scope="private")
    second = stored(brain, FOUR, kind="fact")
    for change in (
        lambda: brain.revise.annotate(secret, "x"),
        lambda: brain.revise.link(second, secret, type="supports"),
        lambda: brain.revise.resolve(second, other=secret, reason="x"),
        lambda: brain.erase(secret, reason="x"),
    ):
        with pytest.raises(NotFoundError):
            change()


def test_memory_of_an_untrusted_source_is_approved_by_a_trusted_caller(brain: Brain) -> None:
    web = limited(brain, Trust.UNTRUSTED_WEB)
    outcome = web.remember("Never push to main", kind="rule", trust="untrusted_web").items[0]
    id_ = outcome.id or ""
    with pytest.raises(RejectedError):
        web.revise.approve(id_, reason="me")
    assert bodies(brain, "push") == []
    brain.revise.approve(id_, reason="sound advice")
    assert bodies(brain, "push to main") == ["Never push to main"]
    assert (brain.get(id_).trust, brain.get(id_).confidence) == (Trust.USER_CLAIM, 0.66)
    with pytest.raises(RejectedError, match="does not await review"):
        brain.revise.approve(id_, reason="again")


def test_proposal_is_forgotten_when_rejected_or_withdrawn_by_its_author(brain: Brain) -> None:
    web = limited(brain, Trust.UNTRUSTED_WEB)
    proposals = [
        web.remember(f"Never push to branch {name}", kind="rule", trust="untrusted_web").items[0]
        for name in ("main", "trunk")
    ]
    brain.revise.reject(proposals[0].id or "", reason="nonsense")
    web.revise.reject(proposals[1].id or "", reason="mistaken")
    assert [brain.get(one.id or "").state for one in proposals] == [State.FORGOTTEN] * 2
    back = brain.revise.restore(proposals[0].id or "", reason="not so bad")
    assert brain.get(proposals[0].id or "").state is State.QUARANTINED, back
