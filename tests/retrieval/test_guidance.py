"""What people asked to be kept to is considered for every request of its topic."""

import pytest

from commonbrain.client import Brain
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.memory import Draft
from commonbrain.model.scope import Scope, Trust
from commonbrain.retrieval.plan import RetrievalOverrides, is_lookup
from commonbrain.retrieval.recall import Recall
from commonbrain.retrieval.retrieve import score_guidance
from commonbrain.testing.builders import WordHashEmbedder
from tests.asking import bodies, stored

INSTRUCTION = "Always sort the report tables by date."
REQUEST = "Could you draft the weekly report about harbour traffic?"
TOPIC = (
    "The weekly report about harbour traffic counts ferries and freighters.",
    "Harbour traffic peaked in the weekly figures of the second ferry season.",
    "A weekly draft of harbour traffic goes to the port office first.",
    "The harbour office wants weekly traffic by berth.",
)


def fill(brain: Brain, *more: Draft) -> None:
    brain.remember([*(Draft(body=text, kind="fact") for text in TOPIC), *more])


def matches(brain: Brain, *without: str, query: str = REQUEST, **options: object) -> list[str]:
    recall = Recall(brain.services, brain.caller, RetrievalOverrides(without=frozenset(without)))
    result = recall(query, max_items=12, **options)  # type: ignore[arg-type]
    return [item.body or "" for item in result.items]


def test_instruction_ranks_higher_for_a_request_on_its_topic(brain: Brain) -> None:
    fill(brain, Draft(body=INSTRUCTION, kind="fact"))

    assert matches(brain).index(INSTRUCTION) < matches(brain, "guidance").index(INSTRUCTION)


def test_guidance_is_listed_after_the_three_best_answers(brain: Brain) -> None:
    fill(brain, Draft(body=INSTRUCTION, kind="fact"))

    assert matches(brain).index(INSTRUCTION) == 3


def test_recall_explains_why_guidance_was_raised(brain: Brain) -> None:
    instruction = "Always draft the weekly report about harbour traffic by date."
    fill(brain, Draft(body=instruction, kind="fact"))
    [why] = [item.why for item in brain.recall(REQUEST).items if item.body == instruction]

    assert "guidance" in why


def test_fact_lookup_raises_guidance_less_than_a_request() -> None:
    lookup = "When did the weekly report about harbour traffic go out?"
    space = WordHashEmbedder().space
    cosines = {1: 0.9, 2: 0.0}

    def raised(query: str) -> dict[int, float]:
        return score_guidance(cosines, is_lookup=is_lookup(query), space=space)

    assert raised(REQUEST) == {1: 1.0}
    assert 0 < raised(lookup)[1] < 0.5


@pytest.mark.parametrize(("sender", "is_raised"), [("user", True), ("assistant", False)])
def test_request_of_a_user_is_guidance_and_advice_of_an_assistant_is_not(
    brain: Brain, sender: str, *, is_raised: bool
) -> None:
    fill(brain, Draft(body=INSTRUCTION, kind=Kind.MESSAGE, detail=MessageDetail(sender=sender)))

    assert (matches(brain) != matches(brain, "guidance")) is is_raised


def test_demand_of_an_untrusted_page_is_no_guidance(brain: Brain) -> None:
    fill(brain, Draft(body=INSTRUCTION, kind="fact", trust=Trust.UNTRUSTED_WEB))

    assert matches(brain) == matches(brain, "guidance")


def test_private_request_of_another_agent_is_not_recalled(brain: Brain) -> None:
    fill(brain)
    other = brain.acting_as(agent="other")
    stored(other, INSTRUCTION, kind="fact", scope=Scope.PRIVATE)

    assert INSTRUCTION not in matches(brain)


def test_filters_apply_to_guidance(brain: Brain) -> None:
    fill(brain, Draft(body=INSTRUCTION, kind="rule"))

    assert INSTRUCTION in bodies(brain, REQUEST)
    assert INSTRUCTION not in bodies(brain, REQUEST, kinds=["fact"])


def test_proactive_recall_shows_no_guidance(brain: Brain) -> None:
    fill(brain, Draft(body=INSTRUCTION, kind="fact"))

    assert INSTRUCTION not in matches(brain, proactive=True)
