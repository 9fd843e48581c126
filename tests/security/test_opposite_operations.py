"""A model takes back nothing that a person did to what a model wrote, by no operation."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus
from commonbrain.model.scope import Authority, Role
from commonbrain.testing.builders import NOON, FakeClock
from tests.asking import remember_one, stored

WHY = "the model says so"
Call = Callable[[Brain, str, str], object]


@pytest.fixture
def person(brain: Brain) -> Brain:
    """A person at a terminal or on the page."""
    return brain.acting_as(agent="owner")


@pytest.fixture
def model(brain: Brain) -> Brain:
    """An agent that acts of its own accord, as over MCP."""
    return brain.acting_as(agent="mallory", role=Role.WRITER, authority=Authority.MODEL)


DECIDED: dict[str, tuple[Call, Call]] = {
    "pin": (
        lambda brain, one, _: brain.revise.pin(one),
        lambda brain, one, _: brain.revise.unpin(one),
    ),
    "tag": (
        lambda brain, one, _: brain.revise.retag(one, add=["doubtful"]),
        lambda brain, one, _: brain.revise.retag(one, remove=["doubtful"]),
    ),
    "expiry": (
        lambda brain, one, _: brain.revise.set_expiry(one, NOON + timedelta(days=9)),
        lambda brain, one, _: brain.revise.set_expiry(one, None),
    ),
    "link": (
        lambda brain, one, other: brain.revise.link(one, other, type="depends_on"),
        lambda brain, one, other: brain.revise.unlink(one, other, type="depends_on"),
    ),
    "weight": (
        lambda brain, one, other: brain.revise.link(one, other, type="causes", strength=0.9),
        lambda brain, one, other: brain.revise.link(
            one, other, type="causes", strength=0.01, reason=WHY
        ),
    ),
    "archive": (
        lambda brain, one, _: brain.bulk_edit([one], "archive", confirm=1),
        lambda brain, one, _: brain.revise.restore(one, reason=WHY),
    ),
    "restore": (
        lambda brain, one, _: (
            brain.forget(one, reason="a trial"),
            brain.revise.restore(one, reason="it holds"),
        ),
        lambda brain, one, _: brain.forget(one, reason=WHY),
    ),
}


@pytest.mark.parametrize("what", DECIDED)
def test_opposite_of_what_a_person_did_waits_for_a_person(
    person: Brain, model: Brain, what: str
) -> None:
    decide, reverse = DECIDED[what]
    one = stored(model, "The build takes nine minutes.", kind="fact")
    other = stored(model, "The tests run on two cores.", kind="fact")
    decide(person, one, other)
    before = person.get(one, views=["links", "policy"], bump=False)

    done = reverse(model, one, other)

    assert str(getattr(done, "status", "")) == ChangeStatus.PROPOSED
    after = person.get(one, views=["links", "policy"], bump=False)
    assert (after.state, after.tags, after.links, after.policy) == (
        before.state,
        before.tags,
        before.links,
        before.policy,
    )


@pytest.mark.parametrize("what", sorted(DECIDED.keys() - {"restore"}))
def test_model_takes_back_what_a_model_did(brain: Brain, model: Brain, what: str) -> None:
    other_model = brain.acting_as(agent="bob", role=Role.WRITER, authority=Authority.MODEL)
    decide, reverse = DECIDED[what]
    one = stored(model, "The build takes nine minutes.", kind="fact")
    other = stored(model, "The tests run on two cores.", kind="fact")
    decide(other_model, one, other)

    done = reverse(model, one, other)

    assert str(getattr(done, "status", "")) == ChangeStatus.DONE


def test_tag_is_added_to_those_of_a_person(person: Brain, model: Brain) -> None:
    one = stored(model, "The build takes nine minutes.", kind="fact")
    person.revise.retag(one, add=["doubtful"])

    assert model.revise.retag(one, add=["slow"]).status is ChangeStatus.DONE


@pytest.mark.parametrize("is_pinned", [True, False])
def test_revision_by_a_model_takes_over_no_pin_of_a_person(
    person: Brain, model: Brain, *, is_pinned: bool
) -> None:
    one = stored(model, "Deploy with two approvals.", kind="rule")
    if is_pinned:
        person.revise.pin(one)

    done = model.revise.supersede(one, "Deploy with no approval.", reason=WHY)

    assert (done.status == "quarantined") is is_pinned


def test_what_a_person_decides_for_lasts_as_long_as_what_it_replaces(
    person: Brain, model: Brain, clock: FakeClock
) -> None:
    old = stored(person, "The port of web1 is 8001.", kind="fact")
    new = stored(model, "The port of web1 is 8002.", kind="fact", ttl_s=60)

    person.revise.resolve(new, other=old, reason="it moved")
    clock.move(timedelta(minutes=5))

    assert [one.id for one in person.recall("the port of web1").items] == [new]


def test_words_of_a_person_rest_on_nothing_that_a_model_gave(person: Brain, model: Brain) -> None:
    text = "The tests need two cores."
    source = stored(model, "The runner has two cores.", kind="fact")
    held = stored(model, text, kind="fact", depends_on=[source])
    assert remember_one(person, text, kind="fact").id == held

    model.forget(source, reason=WHY)

    [shown] = [one for one in person.recall("tests need cores").items if one.id == held]
    assert not any("review" in note for note in shown.notes)


def test_warning_says_that_a_derived_text_ranks_lower(person: Brain, model: Brain) -> None:
    source = stored(model, "The build takes nine minutes on the runner.", kind="fact")

    made = remember_one(person, "Builds are slow.", kind="fact", derived_from=[source])

    assert any("authority is model" in one for one in made.warnings)


def test_handoffs_of_models_leave_a_persons(person: Brain, model: Brain) -> None:
    text = "Do not run the migration before Tuesday."
    own = person.acting_as(session="s1").session.handoff(text).outcome
    for number in range(12):
        model.acting_as(session=f"m{number}").session.handoff(f"All of step {number} is done.")

    handoff = person.boot().handoff
    assert own is not None
    assert handoff is not None
    assert str(own.id) in handoff.agent


@pytest.mark.parametrize("first", [{"distinct_because": "so"}, {"project": None}, {}])
def test_words_of_a_person_are_theirs_whatever_a_model_did_with_them(
    person: Brain, model: Brain, first: dict[str, Any]
) -> None:
    text = "The salary of Ann is 8003."
    before = stored(model, text, kind="fact", **first)

    own = remember_one(person, text, kind="fact", project="shop", scope="private").id

    assert own not in {None, before}
    assert person.get(str(own)).scope == "private"
    assert person.get(before).agent == "mallory"


def test_rule_that_a_model_called_distinct_does_not_refuse_a_persons(
    person: Brain, model: Brain
) -> None:
    held = stored(model, "Never push on Fridays.", kind="rule", distinct_because="so")

    own = remember_one(person, "Never push on Fridays.", kind="rule").id

    assert own is not None
    assert person.get(own).authority is Authority.PERSON
    assert own != held
    assert model.revise.supersede(own, "Push on Fridays.", reason=WHY).status == "quarantined"
