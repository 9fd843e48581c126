"""How probable it is that one text changes what an older one says."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commonbrain.model.links import SURE_FROM
from commonbrain.text.change_words import read_words
from commonbrain.text.changes import change_confidence, compare, is_no_change, repeats


def confidence(older: str, newer: str, *, cosine: float = 0.7, follows: bool = False) -> float:
    return change_confidence(compare(older, newer, cosine=cosine, follows=follows))


def test_changed_value_is_probably_outdated(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("The API timeout is 30 seconds.", "The API timeout is 45 seconds."),
        ("Priya owns the invoicing service.", "Tomasz took over the invoicing service from Priya."),
        ("The limit for uploads is 10 MB.", "We raised the limit for uploads to 25 MB."),
        ("Customer calls are recorded.", "Customer calls are no longer recorded."),
        ("The budget is 200k.", "Correction: the budget is 140k, not 200k."),
    ]:
        with subtests.test(older=older, newer=newer):
            assert confidence(older, newer) > 0.5


def test_compatible_statement_is_not_a_certain_change(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("Marta leads the data team.", "Sven leads the platform team."),
        ("Maria speaks Spanish.", "Maria speaks French."),
        ("The EU cluster runs on 3 nodes.", "The US cluster runs on 5 nodes."),
        ("The recipe uses basil.", "The recipe uses garlic too."),
        ("The cellar is damp.", "Deploys happen on Tuesdays."),
    ]:
        with subtests.test(older=older, newer=newer):
            assert confidence(older, newer) < SURE_FROM


def test_elliptic_text_probably_changes_only_the_statement_it_follows() -> None:
    older, newer = "Let's book the venue for 80 people.", "Make it 120."
    unrelated = confidence(older, newer, cosine=0.2)
    assert unrelated < 0.6 < confidence(older, newer, cosine=0.2, follows=True)


def test_value_without_subject_changes_the_latest_statement(subtests: pytest.Subtests) -> None:
    for newer in [
        "Sorry, 55.",
        "Err, 38.",
        "No wait, to Pilar.",
        "In July, rather.",
        "Thirty, it is heavy.",
    ]:
        with subtests.test(newer=newer):
            older = "Order 40 roof tiles for the annexe."
            assert confidence(older, newer, cosine=0.2) < 0.5
            assert confidence(older, newer, cosine=0.2, follows=True) > 0.6


def test_small_talk_is_not_a_certain_change(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("Ida: I started a pottery course.", "Ida: I went sailing. I can't wait to tell you more."),
        ("Omar: Keep going, it pays off!", "Omar: I won't quit. I will keep going."),
        ("Ida: The kiln is in the shed.", "Ida: It was lovely there. Actually, we had cake too."),
        (
            "I'm trying to set up the shop with Rails 7.",
            "I want to finish the shop with Rails 7.1.",
        ),
        ("Painting helps me to relax.", "It's a great way to relax after a long day."),
        ("from shop import Cart, Order, pay", "from shop import Basket, Order, send"),
    ]:
        with subtests.test(older=older, newer=newer):
            assert confidence(older, newer, cosine=0.5, follows=True) < SURE_FROM


def test_value_that_holds_again_is_not_outdated() -> None:
    older = "The API timeout is 30 seconds."
    assert is_no_change(older, "We are back to 30 seconds for the API timeout.")
    assert not is_no_change(older, "We are back to 45 seconds for the API timeout.")


def test_abandoned_habit_can_be_a_change(subtests: pytest.Subtests) -> None:
    for newer in [
        "We no longer keep the access logs.",
        "We don't keep the access logs.",
        "Stop keeping the access logs.",
    ]:
        with subtests.test(newer=newer):
            assert not is_no_change("We keep the access logs for 30 days.", newer)


def test_change_announced_in_capitals_is_detected() -> None:
    older, newer = "Customer calls are recorded.", "Customer calls are no longer recorded."
    assert confidence(older, newer.upper()) > SURE_FROM
    assert confidence(older, newer.replace("no longer", "NO LONGER")) > SURE_FROM


def test_answer_that_echoes_a_text_counts_as_its_repetition() -> None:
    order = "Order: 40 roof tiles for the annexe."
    assert repeats("Order confirmed: 40 roof tiles for the annexe.", order)
    assert not repeats("Order confirmed: 55 roof tiles for the annexe.", order)
    assert not repeats("Do not order 40 roof tiles for the annexe.", order)
    oslo = "The database in Oslo runs Postgres 14."
    assert not repeats("The staging database in Oslo runs Postgres 14.", oslo)


def test_subject_after_its_value_is_recognized() -> None:
    subject = read_words("Ann is the owner of billing.").subject
    assert subject == read_words("The owner of billing is Bo.").subject
    assert read_words('"The owner of billing is the lead"').subject == subject


def test_nearest_sentences_of_a_long_text_decide_a_change() -> None:
    older = "The depot opens at seven."
    chat = "We met the driver. Lunch was late. The depot now opens at six. The yard is wet."
    assert confidence(older, chat) > 0.75
    other = "We no longer sell ice. Lunch was late. The depot is near the river. The yard is wet."
    assert confidence(older, other) < 0.5


def test_neither_questions_nor_other_items_are_changes() -> None:
    assert is_no_change("The demo is on Friday", "Is the demo on Monday?")
    assert is_no_change("Job 3 starts at noon", "Job 4 starts at one")
    assert not is_no_change("The build takes 3 minutes", "The build takes 4 minutes")


@given(st.text(max_size=200), st.text(max_size=200), st.floats(-1, 1))
@example("?!", "Ann left", 0.9)
def test_confidence_of_a_change_is_a_probability(older: str, newer: str, cosine: float) -> None:
    assert 0 <= confidence(older, newer, cosine=cosine) <= 1


def test_same_choice_in_other_words_is_no_change() -> None:
    older = "Prefer composition over inheritance."
    assert is_no_change(older, "Favor composition rather than inheritance.")
    assert not is_no_change(older, "Favor inheritance rather than composition.")
    assert not is_no_change(older, "Favor composition rather than mixins.")
