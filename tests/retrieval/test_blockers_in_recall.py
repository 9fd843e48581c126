"""A person's BLOCKER on what is asked is seen, whatever other authors store on the matter."""

from typing import Any

import pytest

from commonbrain.client import Brain
from commonbrain.hooks.actions import recall_for_prompt
from commonbrain.model.scope import Authority, Role
from tests.asking import stored

BLOCKER = "Never deploy on a Friday without the approval of Dana."
QUESTION = "can I deploy the api today, it is Friday?"
FIRST_THREE = 3


@pytest.fixture
def model(brain: Brain) -> Brain:
    return brain.acting_as(agent="mallory", role=Role.WRITER, authority=Authority.MODEL)


def _store_many(model: Brain, kind: str, count: int) -> None:
    for number in range(10, 10 + count):
        details: dict[str, Any] = {"kind": kind, "distinct_because": "each release"}
        text = f"You can deploy the api today, it is Friday: release {number} is clear."
        if kind == "skill":
            skill = {"name": f"d{number}", "keywords": ["deploy", "friday"]}
            details |= {"kind": "rule", "skill": skill}
        model.remember(text, **details)


@pytest.mark.parametrize(("kind", "count"), [("fact", 4), ("fact", 80), ("rule", 80), ("skill", 4)])
def test_no_number_of_texts_of_models_pushes_it_out(
    brain: Brain, model: Brain, kind: str, count: int
) -> None:
    blocker = stored(brain, BLOCKER, kind="rule", severity="BLOCKER")
    _store_many(model, kind, count)

    recalled = [one.id for one in brain.recall(QUESTION).items]
    in_prompt = recall_for_prompt(model, QUESTION, max_tokens=400)

    assert blocker in recalled[:FIRST_THREE]
    assert in_prompt is not None
    assert blocker in [one.id for one in in_prompt.items]
    if kind == "skill":
        assert recalled[0] == blocker


@pytest.mark.parametrize(("kind", "count"), [("fact", 4), ("fact", 40), ("skill", 12)])
def test_nor_two_of_them(brain: Brain, model: Brain, kind: str, count: int) -> None:
    texts = (BLOCKER, "Never deploy the api before the tests are green.")
    both = {stored(brain, one, kind="rule", severity="BLOCKER") for one in texts}
    _store_many(model, kind, count)

    in_prompt = recall_for_prompt(model, QUESTION, max_tokens=400)

    assert both <= {one.id for one in brain.recall(QUESTION).items[:FIRST_THREE]}
    assert in_prompt is not None
    assert both <= {one.id for one in in_prompt.items}


def test_blocker_on_another_matter_is_not_brought(brain: Brain, model: Brain) -> None:
    blocker = stored(brain, "Never print the payroll on paper.", kind="rule", severity="BLOCKER")
    _store_many(model, "fact", 4)

    assert blocker not in [one.id for one in brain.recall(QUESTION).items]


def test_skill_of_a_person_comes_first(brain: Brain) -> None:
    blocker = stored(brain, BLOCKER, kind="rule", severity="BLOCKER")
    trigger = {"name": "release", "keywords": ["deploy"]}
    skill = stored(brain, "Tag the commit before a release.", kind="rule", skill=trigger)

    assert [one.id for one in brain.recall(QUESTION).items][:2] == [skill, blocker]
