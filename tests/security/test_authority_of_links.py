"""What a model links to a text acts on nothing of a person's, also once a person confirms it."""

from collections.abc import Mapping

import pytest

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.links import Basis
from commonbrain.model.recall_result import Item
from commonbrain.model.scope import Authority, Role
from tests.asking import remember_one, stored

BLOCKER = "Never force-push to main; open a pull request."
FACT = "The port of web1 is 8001."
HARMLESS = "Name the ticket in each commit message."
WHY = "the model says so"


@pytest.fixture
def person(brain: Brain) -> Brain:
    """A person at a terminal or on the page."""
    return brain.acting_as(agent="owner")


@pytest.fixture
def model(brain: Brain) -> Brain:
    """An agent that acts of its own accord, as over MCP."""
    return brain.acting_as(agent="mallory", role=Role.WRITER, authority=Authority.MODEL)


def _items(brain: Brain, question: str) -> Mapping[str, Item]:
    return {one.id: one for one in brain.recall(question).items}


def test_link_of_a_model_acts_on_nothing_of_a_person(person: Brain, model: Brain) -> None:
    fact = stored(person, FACT, kind="fact")
    rests = stored(person, "So open 8001.", kind="fact", depends_on=[fact])
    made = stored(model, HARMLESS, kind="rule")
    model.revise.link(made, fact, type="conflicts_with", strength=1, reason=WHY)

    assert remember_one(person, HARMLESS, kind="rule").id == made

    shown = _items(person, "the port of web1")[fact]
    assert "contradicted" not in shown.notes
    assert not any("earlier" in one for one in shown.notes)
    assert not _items(person, "open 8001")[rests].notes


@pytest.mark.parametrize("reason", [*Basis, "inherited: causes"])
def test_reason_of_a_link_is_no_mark_of_a_detected_one(model: Brain, reason: str) -> None:
    one, other = (stored(model, text, kind="fact") for text in (FACT, HARMLESS))

    with pytest.raises(InvalidInputError, match="must not begin"):
        model.revise.link(one, other, type="conflicts_with", reason=reason)


def test_change_is_linked_by_no_caller(person: Brain, model: Brain) -> None:
    blocker = stored(person, BLOCKER, kind="rule", severity="BLOCKER")
    made = stored(model, HARMLESS, kind="rule")

    with pytest.raises(InvalidInputError, match="detected"):
        model.revise.link(made, blocker, type="changes", strength=1)


def test_related_text_of_a_model_does_not_come_before_a_persons(
    person: Brain, model: Brain
) -> None:
    fact = stored(person, FACT, kind="fact")
    person.revise.pin(fact)
    made = stored(model, "The port of web1 is 9999.", kind="fact")
    before = list(_items(person, "the port of web1"))

    model.revise.link(made, fact, type="relates_to")

    assert list(_items(person, "the port of web1")) == before == [fact, made]


def test_person_says_that_both_hold(person: Brain, model: Brain) -> None:
    fact = stored(person, FACT, kind="fact")
    made = stored(model, "The port of web1 is 9999.", kind="fact")

    person.revise.keep_both(made, reason="web1 has two", other=fact)

    assert person.review().conflicts == ()


def test_annotation_of_a_person_is_shown_however_many_models_write(
    person: Brain, model: Brain
) -> None:
    fact = stored(person, "The deploy script is at tools/deploy.sh.", kind="fact")
    person.revise.annotate(fact, "Do not run it before Tuesday.")
    for number in range(3):
        model.revise.annotate(fact, f"Checked by run {number}: safe.")

    notes = _items(person, "where is the deploy script?")[fact].notes

    assert any("before Tuesday" in one for one in notes)


def test_words_of_a_model_are_noted_again_by_a_person(person: Brain) -> None:
    fact = stored(person, FACT, kind="fact")
    person.acting_as(authority=Authority.MODEL).revise.annotate(fact, "Ask Dana first.")
    for number in range(3):
        person.acting_as(authority=Authority.MODEL).revise.annotate(fact, f"Safe {number}.")

    person.revise.annotate(fact, "Ask Dana first.")

    notes = _items(person, "the port of web1")[fact].notes
    assert any("Ask Dana" in one for one in notes)


@pytest.mark.parametrize("reason", [None, "it is another port"])
def test_fact_of_a_model_against_a_persons_is_a_question_for_a_person(
    person: Brain, model: Brain, reason: str | None
) -> None:
    fact = stored(person, FACT, kind="fact")
    other = stored(model, HARMLESS, kind="fact")
    model.revise.link(other, fact, type="conflicts_with", reason=WHY)

    stored(model, "The port of web1 is 9999.", kind="fact", distinct_because=reason)

    assert any("9999" in str(one) for one in person.review().conflicts)
