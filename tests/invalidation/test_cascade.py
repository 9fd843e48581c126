"""What rests on a memory needs review once that falls, and is as before once it is back."""

from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus
from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from commonbrain.model.scope import Trust
from commonbrain.testing.builders import FakeClock
from tests.asking import as_it_is

WHY = "because a test says so"


def remembered(brain: Brain, text: str, **known: object) -> str:
    [outcome] = brain.remember(text, **{"kind": "fact", **known}).items  # type: ignore[arg-type]
    assert outcome.id is not None, outcome
    return outcome.id


def state(brain: Brain, id_: str) -> State:
    return brain.get(id_, bump=False).state


def marked(brain: Brain) -> set[str]:
    """Give what needs review, as a browser of the review queue sees it."""
    return {item.id for item in brain.recall(states=["needs_review"], max_items=50).items}


@pytest.fixture
def precondition(brain: Brain) -> str:
    return remembered(brain, "The gateway runs on nginx")


@pytest.fixture
def conclusion(brain: Brain, precondition: str) -> str:
    return remembered(brain, "Timeouts belong in nginx conf", derived_from=[precondition])


@pytest.fixture
def plan(brain: Brain, conclusion: str) -> str:
    return remembered(brain, "Raise timeouts before launch", kind="task", depends_on=[conclusion])


def test_supersede_marks_and_reports_all_dependents(
    brain: Brain, precondition: str, conclusion: str, plan: str
) -> None:
    other = remembered(brain, "Lunch is at noon")

    outcome = brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)

    assert outcome.affected is not None
    assert (outcome.affected.count, outcome.affected.ids) == (2, (conclusion, plan))
    assert marked(brain) == {conclusion, plan}
    assert brain.get(other).banner is None
    banner = brain.get(plan).banner or ""
    assert f"{precondition} (superseded 2026-" in banner
    assert f"{plan} -> {conclusion} -> {precondition}" in banner


def test_forgotten_precondition_archives_dependents_without_other_support(
    brain: Brain, precondition: str, conclusion: str, plan: str
) -> None:
    outcome = brain.forget(precondition, reason=WHY)

    assert outcome.affected is not None
    assert (outcome.affected.count, outcome.affected.archived) == (2, 2)
    assert [state(brain, one) for one in (conclusion, plan)] == [State.ARCHIVED] * 2


def test_dependent_with_another_support_stays_active_and_marked(
    brain: Brain, precondition: str
) -> None:
    other = remembered(brain, "Operators approved it")
    both = remembered(brain, "Timeouts are ours to set", derived_from=[precondition, other])

    brain.forget(precondition, reason=WHY)
    assert (state(brain, both), marked(brain)) == (State.ACTIVE, {both})

    brain.forget(other, reason=WHY)
    assert state(brain, both) is State.ARCHIVED
    brain.revise.restore(precondition, reason=WHY)
    assert (state(brain, both), marked(brain)) == (State.ACTIVE, {both})
    brain.revise.restore(other, reason=WHY)
    assert marked(brain) == set()


def test_rule_without_its_precondition_is_marked_and_not_archived(
    brain: Brain, precondition: str
) -> None:
    rule = remembered(brain, "Never edit nginx by hand", kind="rule", derived_from=[precondition])
    brain.forget(precondition, reason=WHY)
    assert (state(brain, rule), marked(brain)) == (State.ACTIVE, {rule})


def test_restoring_a_precondition_restores_the_exact_earlier_state(
    brain: Brain, precondition: str, conclusion: str, plan: str
) -> None:
    before = [as_it_is(brain, one) for one in (precondition, conclusion, plan)]
    brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    brain.revise.restore(precondition, reason=WHY)
    assert [as_it_is(brain, one) for one in (precondition, conclusion, plan)] == before
    assert marked(brain) == set()


def test_contradiction_of_equal_trust_marks_dependents_until_both_are_accepted(
    brain: Brain, precondition: str, conclusion: str, plan: str
) -> None:
    against = remembered(brain, "Envoy is what serves traffic")
    revised = brain.revise.link(against, precondition, type=LinkType.CONFLICTS_WITH)

    assert revised.affected is not None
    assert marked(brain) == {conclusion, plan}
    assert state(brain, conclusion) is State.ACTIVE
    brain.revise.keep_both(precondition, reason=WHY, other=against)
    assert marked(brain) == set()


def test_news_of_another_thing_marks_no_dependents(brain: Brain) -> None:
    known = remembered(brain, "Bumped the pump firmware to 4.1.")
    dependent = remembered(brain, "The dosing script reads the new counter", depends_on=[known])
    remembered(brain, "Bumped the valve firmware to 7.0.")
    assert brain.get(dependent).banner is None
    assert marked(brain) == set()


def test_declaring_both_sides_of_a_conflict_true_unmarks_dependents(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    against = remembered(brain, "Envoy is what serves traffic")
    brain.revise.link(against, precondition, type=LinkType.CONFLICTS_WITH)
    brain.revise.resolve(against, other=precondition, reason=WHY)
    assert marked(brain) == {conclusion}
    assert "superseded" in (brain.get(conclusion).banner or "")
    brain.revise.keep_both(precondition, reason=WHY)
    assert marked(brain) == set()


def test_less_trusted_contradiction_marks_no_dependents(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    against = remembered(web, "Envoy is what serves traffic")
    web.revise.link(against, precondition, type=LinkType.CONFLICTS_WITH)
    assert brain.get(conclusion).banner is None
    assert marked(brain) == set()


def test_private_contradiction_marks_no_dependents_that_others_see(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    bob = brain.acting_as(agent="bob")
    against = remembered(bob, "Envoy is what serves traffic", scope="private")
    bob.revise.link(against, precondition, type=LinkType.CONFLICTS_WITH)
    assert brain.get(conclusion).banner is None


def test_expiry_propagates_along_depends_on_links_only(brain: Brain, clock: FakeClock) -> None:
    fading = remembered(brain, "The lease ends soon", ttl_s=3600)
    episode = remembered(brain, "What the lease taught us", derived_from=[fading])
    task = remembered(brain, "Renew under the lease", kind="task", depends_on=[fading])

    clock.move(timedelta(hours=2))
    remembered(brain, "Somebody writes something else")

    assert marked(brain) == {task}
    assert brain.get(episode).banner is None
    assert state(brain, task) is State.ARCHIVED
    brain.revise.restore(fading, reason=WHY)
    assert (state(brain, task), marked(brain)) == (State.ACTIVE, set())


def test_pruning_propagates_along_depends_on_links_only(brain: Brain, clock: FakeClock) -> None:
    noise = remembered(brain, "Somebody opened a door", kind="event")
    episode = remembered(brain, "How the doors were used", derived_from=[noise])
    clock.move(timedelta(days=40))
    later = remembered(brain, "Paint the doors", kind="task", depends_on=[noise])
    brain.prune(days=30, kinds=["event"], confirm=1)

    assert state(brain, noise) is State.FORGOTTEN
    assert marked(brain) == {later}
    assert state(brain, episode) is State.ACTIVE


def test_unsupported_cycle_is_archived_and_restored(brain: Brain, precondition: str) -> None:
    one = remembered(brain, "Chickens lay eggs here", derived_from=[precondition])
    other = remembered(brain, "Eggs hatch chickens there", depends_on=[one])
    brain.revise.link(one, other, type=LinkType.DEPENDS_ON)
    brain.forget(precondition, reason=WHY)
    assert [state(brain, id_) for id_ in (one, other)] == [State.ARCHIVED] * 2
    brain.revise.restore(precondition, reason=WHY)
    assert [state(brain, id_) for id_ in (one, other)] == [State.ACTIVE] * 2


def test_memory_derived_from_a_superseded_one_needs_review_at_once(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    reply = brain.remember("Set them to nine", kind="fact", derived_from=[conclusion])
    [outcome] = reply.items
    assert reply.affected is not None
    assert reply.affected.ids == (outcome.id,)
    assert marked(brain) == {conclusion, outcome.id}


def test_removing_a_link_removes_its_review(
    brain: Brain, precondition: str, conclusion: str, plan: str
) -> None:
    brain.forget(precondition, reason=WHY)
    brain.revise.unlink(conclusion, precondition, type=LinkType.DERIVED_FROM)
    assert marked(brain) == set()
    assert [state(brain, one) for one in (conclusion, plan)] == [State.ACTIVE] * 2


def test_confirming_a_memory_settles_its_review_and_those_of_its_dependents(
    brain: Brain, precondition: str, conclusion: str, plan: str
) -> None:
    brain.forget(precondition, reason=WHY)
    done = brain.revise.review(conclusion, reason="true of envoy as well")

    assert done.status is ChangeStatus.DONE
    assert marked(brain) == set()
    assert [state(brain, one) for one in (conclusion, plan)] == [State.ACTIVE] * 2
    assert brain.revise.review(conclusion, reason=WHY).status is ChangeStatus.UNCHANGED
    # Another premise that falls is another question.
    brain.forget(conclusion, reason=WHY)
    assert marked(brain) == {plan}


def test_restoring_an_archived_memory_confirms_the_memory(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    brain.forget(precondition, reason=WHY)
    brain.revise.restore(conclusion, reason=WHY)
    assert (state(brain, conclusion), marked(brain)) == (State.ACTIVE, set())


def test_less_trusted_caller_only_proposes_to_confirm_a_memory(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    brain.forget(precondition, reason=WHY)
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    proposed = web.revise.review(conclusion, reason="it seems to hold")
    assert proposed.status is ChangeStatus.PROPOSED
    assert conclusion in marked(brain)
    brain.revise.approve(proposed.id, reason=WHY)
    assert marked(brain) == set()


def test_proposed_supersede_marks_dependents_only_once_approved(
    brain: Brain, precondition: str, conclusion: str
) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    proposal = web.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    assert marked(brain) == set()
    assert proposal.id is not None
    assert brain.revise.approve(proposal.id, reason=WHY).affected is not None
    assert marked(brain) == {conclusion}


def test_undo_removes_reviews_and_leaves_later_changes(
    brain: Brain, clock: FakeClock, precondition: str, conclusion: str, plan: str
) -> None:
    clock.move(timedelta(minutes=1))
    bob = brain.acting_as(agent="bob")
    bob.forget(precondition, reason=WHY)
    assert marked(brain) == {conclusion, plan}
    done = brain.undo(agent="bob", reason=WHY, confirm=1)
    assert (done.count, marked(brain)) == (1, set())
    assert [state(brain, one) for one in (precondition, conclusion, plan)] == [State.ACTIVE] * 3


def test_undo_of_a_review_opens_it_again(brain: Brain, precondition: str, conclusion: str) -> None:
    brain.forget(precondition, reason=WHY)
    brain.acting_as(agent="bob").revise.review(conclusion, reason=WHY)
    brain.undo(agent="bob", reason=WHY, confirm=1)
    assert (state(brain, conclusion), marked(brain)) == (State.ARCHIVED, {conclusion})


def test_undone_forgetting_of_an_archived_memory_makes_it_active_if_its_precondition_is_back(
    brain: Brain, clock: FakeClock, precondition: str, conclusion: str
) -> None:
    brain.forget(precondition, reason=WHY)
    clock.move(timedelta(minutes=1))
    bob = brain.acting_as(agent="bob")
    bob.forget(conclusion, reason=WHY)
    brain.revise.restore(precondition, reason=WHY)
    brain.undo(agent="bob", reason=WHY, confirm=1)
    assert state(brain, conclusion) is State.ACTIVE


def test_erased_precondition_leaves_its_dependents_marked(brain: Brain, precondition: str) -> None:
    task = remembered(brain, "Patch it on Friday", kind="task", depends_on=[precondition])
    derived = remembered(
        brain,
        "We know web servers",
        derived_from=[precondition, remembered(brain, "We run three of them")],
    )
    brain.erase(precondition, reason=WHY, confirm=1)
    assert marked(brain) == {task}
    assert "erased" in (brain.get(task).banner or "")
    assert brain.get(derived).banner is None


def test_review_outlives_the_erasure_of_a_memory_in_between(
    brain: Brain, precondition: str, conclusion: str, plan: str
) -> None:
    brain.forget(precondition, reason=WHY)
    other = remembered(brain, "A second opinion")
    brain.revise.link(plan, other, type=LinkType.DEPENDS_ON)
    brain.erase(conclusion, reason=WHY, confirm=1)
    remembered(brain, "Somebody writes something else")
    assert marked(brain) == {plan}
    brain.revise.restore(precondition, reason=WHY)
    assert "erased" in (brain.get(plan).banner or "")


def test_hidden_precondition_is_not_named(brain: Brain) -> None:
    bob = brain.acting_as(agent="bob")
    secret = remembered(bob, "Quietly planned for May", scope="private")
    shared = remembered(bob, "Freeze the release branch", kind="task")
    bob.revise.link(shared, secret, type=LinkType.DEPENDS_ON)
    bob.forget(secret, reason=WHY)

    banner = brain.get(shared).banner or ""
    assert "a premise you may not see" in banner
    assert secret not in banner
    [item] = [one for one in brain.recall("freeze release branch").items if one.id == shared]
    assert secret not in str(item.notes)
    assert secret in (bob.get(shared).banner or "")


def test_recall_marks_dependents_in_review_and_ranks_them_lower(brain: Brain) -> None:
    precondition = remembered(brain, "Kettles come from Leeds")
    other = remembered(brain, "Somebody counted them")
    shaken = remembered(brain, "kettle depot address alpha", derived_from=[precondition, other])
    sound = remembered(brain, "kettle depot address beta", distinct_because="two depots")
    first, second = [one.id for one in brain.recall("kettle depot address").items[:2]]
    assert {first, second} == {shaken, sound}
    brain.forget(precondition, reason=WHY)
    items = brain.recall("kettle depot address").items
    assert [one.id for one in items[:2]] == [sound, shaken]
    assert f"needs review: {precondition} (forgotten 2026-03-02)" in items[1].notes


def test_recall_as_of_an_earlier_time_shows_no_later_review_mark(
    brain: Brain, clock: FakeClock, precondition: str, conclusion: str
) -> None:
    clock.move(timedelta(days=1))
    then = clock.now()
    clock.move(timedelta(days=1))
    brain.revise.supersede(precondition, "The gateway runs on envoy", reason=WHY)
    items = brain.recall("timeouts nginx conf", as_of=then).items
    [item] = [one for one in items if one.id == conclusion]
    assert item.notes == ()


def test_previews_count_all_dependents_and_change_nothing(
    brain: Brain, precondition: str, conclusion: str, plan: str
) -> None:
    predicted = brain.revise.preview(precondition)
    assert (predicted.count, predicted.ids) == (2, (conclusion, plan))
    other = remembered(brain, "Lunch is at noon")
    preview = brain.forget([precondition, other], reason=WHY)
    assert [one.id for one in preview.dependents] == [conclusion, plan]
    dependents = brain.get(precondition, views=["dependents"]).dependents or ()
    assert [(one.id, one.depth, one.via) for one in dependents] == [
        (conclusion, 1, precondition),
        (plan, 2, conclusion),
    ]
    assert marked(brain) == set()


def test_rule_on_the_same_subject_is_suggested_as_a_precondition(brain: Brain) -> None:
    rule = remembered(brain, "Never touch src/billing/tax.py without a review", kind="rule")
    [task] = brain.remember("Round half up in src/billing/tax.py", kind="task").items
    assert f"other {rule}, value depends_on" in (task.hint or "")
