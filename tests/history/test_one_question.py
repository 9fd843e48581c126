"""A person is asked once about a subject, and about nothing that changes nothing."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import permutations
from typing import Final

import pytest

from commonbrain.api.operations.review import render_review_queue
from commonbrain.api.operations.revise import REVISE, ReviseRequest
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import Kind, Severity
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Authority, Role
from commonbrain.testing.builders import FakeClock
from tests.asking import stored

HELD: Final = "The gateway listens on port 8080."
WHY: Final = "it was looked up"
_SAYING_OTHERWISE: Final[Mapping[str, Callable[[Brain, str], object]]] = {
    "fact": lambda model, _: model.remember("The gateway listens on port 9090.", kind="fact"),
    "change": lambda model, _: model.remember("The gateway no longer listens on port 8080."),
    "proposal": lambda model, id_: model.revise.supersede(
        id_, "The gateway listens on port 9191.", reason=WHY
    ),
}


@pytest.fixture
def model(brain: Brain) -> Brain:
    return brain.acting_as(agent="codex", role=Role.WRITER, authority=Authority.MODEL)


def _questions(brain: Brain) -> list[str]:
    """Give the first line of each question as a person reads it."""
    lines = render_review_queue(brain.review()).splitlines()
    return [line for line in lines if not line.startswith(" ") and "Nothing" not in line]


@pytest.mark.parametrize("order", list(permutations(_SAYING_OTHERWISE)))
@pytest.mark.parametrize("verb", ["approve", "reject"])
def test_proposal_and_conflicts_about_one_memory_are_one_question(
    brain: Brain, model: Brain, order: tuple[str, ...], verb: str
) -> None:
    held = stored(brain, HELD, kind="fact")
    for way in order:
        _SAYING_OTHERWISE[way](model.acting_as(agent=f"agent-{way}"), held)

    assert len(_questions(brain)) == 1
    [proposal] = brain.review("proposals").proposals
    getattr(brain.revise, verb)(proposal.memory.id, reason=WHY)

    assert _questions(brain) == []


def test_proposal_hides_no_conflict_between_equals(brain: Brain, model: Brain) -> None:
    held = stored(brain, HELD, kind="fact")
    other = stored(brain, "The gateway listens on port 9090.", kind="fact")
    model.revise.supersede(held, "The gateway listens on port 9191.", reason=WHY)

    [conflict] = brain.review("conflicts").conflicts
    assert {conflict.preferred.id, conflict.other.id} == {held, other}


def test_conflicts_that_are_no_question_take_no_place_of_a_page(brain: Brain, model: Brain) -> None:
    names = ("gateway", "broker", "mailer", "cache")
    held = {name: stored(brain, f"The {name} listens on port 8080.", kind="fact") for name in names}
    for name in names:
        model.remember(f"The {name} listens on port 9090.", kind="fact")
    for name in names[2:]:
        model.revise.supersede(held[name], f"The {name} listens on port 1.", reason=WHY)

    first = brain.review("conflicts", limit=1)
    second = brain.review("conflicts", limit=1, cursor=first.next)

    assert (first.more, second.more, second.next) == (1, 0, None)
    shown = {
        one.id for page in (first, second) for c in page.conflicts for one in (c.preferred, c.other)
    }
    assert shown & set(held.values()) == {held[name] for name in names[:2]}


@pytest.mark.parametrize("by_model", [False, True])
def test_rule_of_a_model_that_repeats_a_persons_is_no_question(
    brain: Brain, model: Brain, *, by_model: bool
) -> None:
    stored(brain, "Commit subjects must name the ticket and the component", kind="rule")
    author = model if by_model else brain
    stored(author, "Commit subjects should name the ticket", kind="rule")

    assert len(_questions(brain)) == (0 if by_model else 1)


def test_pending_texts_of_one_call_are_one_question(
    brain: Brain, model: Brain, clock: FakeClock
) -> None:
    texts = ("Never log a card.", "Never push to main.", "Never skip the tests.")
    held = model.remember(
        [Draft(body=text, kind=Kind.RULE, severity=Severity.BLOCKER) for text in texts]
    ).items
    clock.move(timedelta(minutes=1))
    model.remember("Never deploy on a Friday.", kind="rule", severity="BLOCKER")
    assert len(_questions(brain)) == 2

    given = ",".join(str(one.id) for one in held)
    with pytest.raises(InvalidInputError):
        REVISE.handle(brain, ReviseRequest(op="approve", id=f"{given},mem_?", reason=WHY))
    assert len(brain.review("proposals").proposals) == 4
    REVISE.handle(brain, ReviseRequest(op="approve", id=given, reason=WHY))

    [left] = brain.review("proposals").proposals
    assert left.memory.headline == "Never deploy on a Friday."
    assert all(text in brain.boot().text for text in texts)
