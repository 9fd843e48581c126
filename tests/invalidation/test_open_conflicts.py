"""What wants a decision, and that the calls named there make it."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.history.review_queue import ReviewQueue
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.revision import Action
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock
from tests.asking import stored
from tests.invalidation.test_settling import NEW, OLD, a_conflict


@pytest.mark.requirement("RT-22")
def test_conflict_is_listed_with_both_sides_its_basis_and_the_calls(
    brain: Brain, clock: FakeClock
) -> None:
    old, new = a_conflict(brain, clock)
    [one] = brain.review().conflicts
    assert (one.preferred.id, one.preferred.headline) == (new, NEW)
    assert (one.other.id, one.other.headline) == (old, OLD)
    assert (one.basis, one.gap, one.why) == ("number", 0.0, ("newer",))
    assert one.since == clock.now()
    assert one.settle[0] == f"revise resolve {new} --other {old} --reason WHY"
    brain.revise.resolve(new, other=old, reason="newer")
    assert brain.review() == ReviewQueue()


@pytest.mark.parametrize("projects", [(), ("api", "web")])
def test_settled_conflict_is_no_longer_listed(
    brain: Brain, clock: FakeClock, projects: tuple[str, ...]
) -> None:
    old, new = a_conflict(brain, clock)
    brain.revise.keep_both(old, other=new, reason="so", projects=projects)
    assert brain.review() == ReviewQueue()


def test_memory_with_a_predecessor_is_not_offered_as_successor_of_the_other_side(
    brain: Brain, clock: FakeClock
) -> None:
    old, new = a_conflict(brain, clock)
    head = brain.revise.supersede(new, f"{NEW}, all of them fast", reason="said better").id
    [one] = brain.review("conflicts").conflicts
    assert (one.preferred.id, one.settle[0]) == (head, f"forget {old} --reason WHY")


def test_private_memory_is_not_offered_as_successor_of_a_shared_one(
    brain: Brain, clock: FakeClock
) -> None:
    old = stored(brain, OLD, kind="fact")
    clock.move(timedelta(days=1))
    new = stored(brain, NEW, kind="fact", scope="private")
    brain.revise.link(new, old, type="conflicts_with", reason="so")
    [one] = brain.review("conflicts").conflicts
    assert one.preferred.id == new
    assert one.settle[:2] == (
        f"forget {old} --reason WHY",
        f"revise keep_both {new} --other {old} --reason WHY",
    )
    brain.forget(old, reason="it was wrong")
    assert brain.review() == ReviewQueue()


def test_projects_are_offered_only_for_memories_that_can_be_moved(brain: Brain) -> None:
    rule, fact = stored(brain, "Paint it red", kind="rule"), stored(brain, "It is blue")
    brain.revise.link(rule, fact, type="conflicts_with", reason="so")
    [one] = brain.review("conflicts").conflicts
    assert not any("PROJECT" in call for call in one.settle)


def test_caller_who_sees_one_side_sees_no_conflict(brain: Brain, clock: FakeClock) -> None:
    one = stored(brain, OLD, kind="fact")
    clock.move(timedelta(days=1))
    new = stored(brain, NEW, kind="fact", scope="private")
    brain.revise.link(new, one, type="conflicts_with", reason="so")
    assert brain.review().conflicts
    bob = brain.acting_as(agent="bob")
    assert bob.review() == ReviewQueue()
    assert bob.get(one).conflicts is None


def test_memory_that_needs_review_is_listed_with_its_current_successor(brain: Brain) -> None:
    source = stored(brain, "The API listens on port 8080", kind="fact")
    derived = stored(
        brain, "Point the proxy at port 8080 of the API", kind="episode", derived_from=[source]
    )
    head = brain.revise.supersede(source, "The API listens on port 9090", reason="moved").id
    agenda = brain.review()
    [uncertainty] = agenda.needs_review
    assert (uncertainty.memory.id, uncertainty.repeats_old_of) == (derived, head)
    assert source in uncertainty.because
    brain.revise.review(derived, reason="it holds")
    assert brain.review() == ReviewQueue()


def test_proposal_is_listed_with_the_change_it_would_make(brain: Brain, clock: FakeClock) -> None:
    old, new = a_conflict(brain, clock)
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    proposal = web.revise.resolve(old, other=new, reason="I say so").id
    stored_rule = web.remember("Always deploy on Fridays", kind="rule", severity="BLOCKER")
    both = brain.review("proposals").proposals
    assert {one.memory.id for one in both} == {proposal, stored_rule.items[0].id}
    reply = {one.memory.id: one for one in both}[proposal]
    assert reply.change is Action.RESOLVE
    assert [one.memory.id for one in reply.effects] == [old, new]
    assert reply.settle[0] == f"revise approve {proposal} --reason WHY"


def test_pair_linked_in_both_directions_is_one_conflict_on_one_page(
    brain: Brain, clock: FakeClock
) -> None:
    for subject in ("kettle", "teapot"):
        one, other = (stored(brain, f"The {subject} is {how}") for how in ("blue", "tall"))
        for ends in ((one, other), (other, one)):
            clock.move(timedelta(hours=1))
            brain.revise.link(*ends, type="conflicts_with", reason="so")
    first = brain.review("conflicts", limit=1)
    pages = [first, brain.review("conflicts", limit=1, cursor=first.next)]
    reply = [
        frozenset({one.preferred.id, one.other.id}) for page in pages for one in page.conflicts
    ]
    assert (len(reply), len(set(reply))) == (2, 2)
    assert [(page.more, page.next is None) for page in pages] == [(1, False), (0, True)]


def test_review_lists_have_a_limit_and_pages(brain: Brain, clock: FakeClock) -> None:
    for n in ("Monday", "Tuesday", "Friday"):
        stored(brain, f"The release of the API is due on {n}", kind="fact")
        clock.move(timedelta(hours=1))
    first = brain.review(limit=2)
    assert (len(first.conflicts), first.more) == (2, 1)
    rest = brain.review(limit=2, cursor=first.next)
    assert (len(rest.conflicts), rest.more, rest.next) == (1, 0, None)
    assert rest.conflicts[0].since < first.conflicts[1].since
    for limit in (0, 101):
        with pytest.raises(RejectedError):
            brain.review(limit=limit)
    for cursor in ("x", brain.recalls().next or "WzFd"):
        with pytest.raises(InvalidInputError, match="not a cursor"):
            brain.review(cursor=cursor)
    with pytest.raises(InvalidInputError, match="with these filters"):
        brain.review("conflicts", cursor=first.next)
    with pytest.raises(InvalidInputError):
        brain.review("quarrels")
    assert brain.review("needs_review") == ReviewQueue()


@pytest.mark.requirement("OB-14")
def test_categories_of_different_lengths_share_their_pages(brain: Brain, clock: FakeClock) -> None:
    for n in ("Monday", "Tuesday", "Friday"):
        stored(brain, f"The release of the API is due on {n}", kind="fact")
        clock.move(timedelta(hours=1))
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    for subject in ("kettle", "teapot", "saucer", "spoon", "ladle"):
        web.remember(f"Always wash the {subject} by hand", kind="rule", severity="BLOCKER")
        clock.move(timedelta(hours=1))
    pages = [brain.review(limit=2)]
    while pages[-1].next is not None:
        pages.append(brain.review(limit=2, cursor=pages[-1].next))
    assert [(len(one.conflicts), len(one.proposals)) for one in pages] == [(2, 2), (1, 2), (0, 1)]
    assert [one.more for one in pages] == [4, 1, 0]
    assert len({one.memory.id for page in pages for one in page.proposals}) == 5
