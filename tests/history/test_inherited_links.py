"""A revision takes over what its memory rested on, and its causes; what takes it back does too."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock
from tests.asking import stored

WHY = "because a test says so"


@pytest.fixture
def precondition(brain: Brain) -> str:
    return stored(brain, "The gateway runs on nginx", kind="fact")


@pytest.fixture
def conclusion(brain: Brain, precondition: str) -> str:
    return stored(brain, "Timeouts belong in nginx conf", kind="fact", depends_on=[precondition])


def reworded(brain: Brain, id_: str, **known: object) -> str:
    text = "Timeouts belong in the configuration folder of nginx"
    return brain.revise.supersede(id_, text, reason="a typo", **known).id or ""  # type: ignore[arg-type]


def links(brain: Brain, id_: str) -> set[tuple[str, bool, str]]:
    edges = brain.get(id_, views=["links"]).links or ()
    return {(one.type, one.is_outgoing, one.id) for one in edges}


def needs_review(brain: Brain, id_: str) -> bool:
    return (brain.get(id_).banner or "").startswith("Needs review")


def test_reworded_conclusion_needs_review_when_its_precondition_is_superseded(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    new = reworded(brain, conclusion)
    outcome = brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    assert outcome.affected is not None
    assert outcome.affected.ids == (new,)
    assert needs_review(brain, new)


def test_revision_with_other_supports_drops_the_old_ones(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    other = stored(brain, "Operators want one folder for all", kind="fact")
    new = reworded(brain, conclusion, depends_on=[other])
    brain.forget(precondition, reason=WHY)
    assert links(brain, new) == {("depends_on", True, other)}
    assert not needs_review(brain, new)


def test_revision_does_not_inherit_forgotten_preconditions(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    other = stored(brain, "Operators want one folder for all", kind="fact")
    task = stored(brain, "Raise them all", kind="task", depends_on=[conclusion, other])
    brain.forget(precondition, reason=WHY)
    new = reworded(brain, conclusion)
    assert (links(brain, new), needs_review(brain, new)) == (set(), False)
    # What a support itself only fell with is left behind as well.
    later = brain.revise.supersede(task, "Raise timeouts twofold", reason=WHY).id or ""
    assert links(brain, later) == {("depends_on", True, other)}
    assert not needs_review(brain, later)


def test_precondition_hidden_from_the_reviser_is_inherited(brain: Brain) -> None:
    bob = brain.acting_as(agent="bob")
    secret = stored(bob, "Quietly planned for May", kind="fact", scope="private")
    shared = stored(bob, "Freeze the release branch", kind="task")
    bob.revise.link(shared, secret, type=LinkType.DEPENDS_ON)
    new = reworded(brain, shared)
    assert links(brain, new) == set()
    bob.forget(secret, reason=WHY)
    assert needs_review(brain, new)


def test_revision_is_trusted_no_more_than_its_remaining_sources(brain: Brain) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    source = stored(web, "Port 5432 is open on staging", kind="fact")
    old = stored(brain, "Staging is reached by port", kind="fact", derived_from=[source])
    assert brain.get(reworded(brain, old)).trust is Trust.UNTRUSTED_WEB


def test_supersede_with_a_less_trusted_source_needs_approval(brain: Brain) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    source = stored(web, "Port 5432 is open on staging", kind="fact")
    old = stored(brain, "Staging is closed by day", kind="fact")
    proposal = brain.revise.supersede(
        old, "Staging answers at night as well", reason=WHY, derived_from=[source]
    )
    assert brain.get(proposal.id or "").state is State.QUARANTINED
    assert brain.get(old).state is State.ACTIVE


def test_approved_revision_inherits_the_links_of_its_predecessor(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    proposal = reworded(web, conclusion)
    brain.revise.approve(proposal, reason=WHY)
    brain.forget(precondition, reason=WHY)
    assert needs_review(brain, proposal)


@pytest.fixture
def chain(brain: Brain, clock: FakeClock) -> tuple[str, str, str]:
    first = stored(brain, "Somebody switched the nightly log rotation off", kind="incident")
    clock.move(timedelta(hours=1))
    middle = stored(brain, "The volume of db1 ran out of space", kind="incident")
    clock.move(timedelta(hours=1))
    last = stored(brain, "Checkout answered errors to every customer", kind="incident")
    brain.revise.link(first, middle, type=LinkType.CAUSES)
    brain.revise.link(middle, last, type=LinkType.CAUSES)
    clock.move(timedelta(hours=1))
    return first, middle, last


def test_corrected_incident_retains_its_causes_and_effects(
    brain: Brain, chain: tuple[str, str, str]
) -> None:
    first, middle, last = chain
    new = reworded(brain, middle)
    assert {one.id for one in brain.trace.causes(new).steps} == {new, first}
    assert new in {one.id for one in brain.trace.causes(last).steps}


@pytest.mark.parametrize("how", ["restore", "undo"])
def test_undo_of_a_revision_removes_its_inherited_links(
    brain: Brain, clock: FakeClock, chain: tuple[str, str, str], how: str
) -> None:
    first, middle, last = chain
    before = [links(brain, one) for one in chain]
    traced = brain.trace.causes(last)
    bob = brain.acting_as(agent="bob")
    new = reworded(bob, middle)
    clock.move(timedelta(minutes=1))
    if how == "restore":
        reply = brain.revise.restore(middle, reason=WHY).changed
        assert first not in str(reply)
    else:
        count = brain.undo(agent="bob", reason=WHY).count
        brain.undo(agent="bob", reason=WHY, confirm=count)
    assert brain.get(new).state is State.FORGOTTEN
    assert [links(brain, one) for one in chain] == before
    assert brain.trace.causes(last).steps == traced.steps


def test_revision_that_names_its_predecessor_does_not_depend_on_it(brain: Brain) -> None:
    old = stored(brain, "The team meets on Tuesdays at ten", kind="fact")
    done = brain.revise.supersede(old, f"The team meets on Fridays, per {old}", reason=WHY)
    new = str(done.id)
    assert links(brain, new) == set()
    assert brain.get(new).state is State.ACTIVE
    with pytest.raises(InvalidInputError, match="cannot depend on it"):
        brain.revise.supersede(new, "It meets on Mondays", reason=WHY, derived_from=[new])
    with pytest.raises(InvalidInputError, match="cannot depend on it"):
        brain.revise.supersede(new, "It meets on Mondays", reason=WHY, depends_on=[new])


def test_correction_of_a_cause_replaces_the_cause_in_a_trace(brain: Brain) -> None:
    cause = stored(brain, "The cache was cold", kind="incident")
    effect = stored(brain, "Pages were slow", kind="incident")
    brain.revise.link(cause, effect, type="causes")
    for number in range(3):
        text = f"The cache was cold after restart {number}"
        cause = str(brain.revise.supersede(cause, text, reason=WHY).id)
    back = brain.trace.causes(effect)
    assert [root.id for root in back.roots] == [cause]
    assert len(back.steps) == 2


def test_inherited_link_is_trusted_no_more_than_its_revision(brain: Brain) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    rumour = stored(web, "Somebody attacked the proxy", kind="fact")
    effect = stored(brain, "Pages were slow", kind="incident")
    brain.revise.link(rumour, effect, type="causes", strength=1.0)
    new = str(web.revise.supersede(rumour, "Aliens attacked the proxy", reason=WHY).id)
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        [link] = tx.links.touching([ids.parse(ids.MEMORY, new)], types=[LinkType.CAUSES])
    assert link.trust is Trust.UNTRUSTED_WEB


def test_link_that_was_made_or_confirmed_by_hand_outlives_a_restore(brain: Brain) -> None:
    cause = stored(brain, "The cache was cold", kind="incident")
    effect = stored(brain, "Pages were slow", kind="incident")
    brain.revise.link(cause, effect, type="causes")
    new = str(brain.revise.supersede(cause, "The cache was empty", reason=WHY).id)
    with pytest.raises(InvalidInputError, match="must not begin"):
        brain.revise.link(new, effect, type="enables", reason="inherited: not so")
    brain.revise.link(new, effect, type="causes")
    brain.revise.restore(cause, reason=WHY)
    brain.revise.restore(new, reason=WHY)
    assert ("causes", True, effect) in links(brain, new)
