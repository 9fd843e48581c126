"""What a new memory says that it rests on is linked or suggested, and never guessed."""

import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus, SuggestionBasis
from commonbrain.model.links import LinkType
from commonbrain.model.scope import Trust
from tests.asking import remember_one, stored

POSTGRES = "The shop runs on one Postgres server"


@pytest.fixture
def assumption(brain: Brain) -> str:
    return stored(brain, POSTGRES, kind="fact")


def supports(brain: Brain, id_: str) -> list[str]:
    links = brain.get(id_, views=["links"], bump=False).links or ()
    return [one.id for one in links if one.type is LinkType.DEPENDS_ON and one.is_outgoing]


def test_stored_reason_is_suggested_as_a_dependency_and_not_linked(
    brain: Brain, assumption: str, subtests: pytest.Subtests
) -> None:
    for text in (
        "We lock stock rows because the shop runs on one Postgres server.",
        "Since the shop runs on one Postgres server, we lock stock rows.",
        "The shop runs on one Postgres server, so we lock stock rows.",
        "Given that the shop runs on one Postgres server, we lock stock rows.",
        "As the shop runs on one Postgres server, stock rows are locked.",
    ):
        with subtests.test(text=text):
            outcome = remember_one(brain, text, kind="task", distinct_because="another case")
            [one] = outcome.suggestions
            assert (one.id, one.how) == (assumption, SuggestionBasis.REASON)
            assert (
                one.accept
                == f"brain revise link {outcome.id} --other {assumption} --value depends_on"
            )
            assert supports(brain, outcome.id or "") == []


def test_reason_with_another_meaning_suggests_no_dependency(
    brain: Brain, assumption: str, subtests: pytest.Subtests
) -> None:
    for text in (
        "We lock stock rows because the shop does not run on one Postgres server.",
        "We lock stock rows because the shop runs on 3 Postgres servers.",
        "We lock stock rows since March and the shop is glad of it.",
        "We lock stock rows because the kitchen smells of burnt toast.",
    ):
        with subtests.test(text=text):
            outcome = remember_one(brain, text, kind="task", distinct_because="another case")
            assert outcome.status is ItemStatus.STORED
            assert all(one.id != assumption for one in outcome.suggestions)


def test_memory_depends_on_a_named_assumption_and_needs_review_without_it(
    brain: Brain, assumption: str
) -> None:
    outcome = remember_one(brain, f"We lock stock rows because of {assumption}.", kind="task")
    assert outcome.suggestions == ()
    assert supports(brain, outcome.id or "") == [assumption]
    brain.forget(assumption, reason="it was never so")
    assert "Needs review" in (brain.get(outcome.id or "").banner or "")


def test_memory_named_in_a_text_is_suggested_as_a_dependency(brain: Brain, assumption: str) -> None:
    outcome = remember_one(
        brain, f"Compare the row locks with {assumption} before the sale", kind="task"
    )
    assert [(one.id, one.how) for one in outcome.suggestions] == [
        (assumption, SuggestionBasis.NAMED)
    ]
    assert supports(brain, outcome.id or "") == []


def test_hidden_memory_is_neither_linked_nor_suggested(brain: Brain) -> None:
    private = stored(brain.acting_as(agent="ann"), POSTGRES, kind="fact", scope="private")
    bob = brain.acting_as(agent="bob")
    for text in (
        f"We lock stock rows because of {private}.",
        "We lock the rows because the shop runs on one Postgres server.",
    ):
        outcome = remember_one(bob, text, kind="task", distinct_because="a test")
        assert outcome.suggestions == ()
        assert supports(bob, outcome.id or "") == []


def test_text_with_given_sources_has_no_suggestions(brain: Brain, assumption: str) -> None:
    text = "We lock stock rows because the shop runs on one Postgres server."
    assert remember_one(brain, text, kind="task", depends_on=[assumption]).suggestions == ()


def test_unknown_id_in_a_text_does_not_prevent_storing(brain: Brain) -> None:
    outcome = remember_one(
        brain, "We lock rows because of mem_0000000000001 and habit", kind="task"
    )
    assert outcome.id is not None
    assert outcome.suggestions == ()


@pytest.mark.usefixtures("assumption")
def test_repeated_call_returns_the_same_suggestions(brain: Brain) -> None:
    text = "We lock stock rows because the shop runs on one Postgres server."
    one, other = (brain.remember(text, kind="task", idempotency_key="k").items for _ in "ab")
    assert one[0].suggestions
    assert one == other


def test_quarantined_memory_has_no_suggestions(brain: Brain, assumption: str) -> None:
    web = brain.acting_as(agent="web", trust_ceiling=Trust.UNTRUSTED_WEB)
    assert (
        remember_one(web, f"Never skip row locks because of {assumption}", kind="rule").suggestions
        == ()
    )
