"""What is chosen of several texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.consolidation.reflection import Correction, repeated
from commonbrain.text.capture import is_durable
from commonbrain.text.summaries import SourceText, body_of, digest, is_stated
from commonbrain.text.tokens import estimate

WORDS = "kettle lamp bridge garden ferry violin copper winter market harbour ladder window".split()
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(
    lambda words: " ".join(words).capitalize() + "."
)
TEXTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=5).map(" ".join), max_size=20)


@given(TEXTS)
def test_a_digest_is_made_of_sentences_as_they_stand_within_its_budget(texts: list[str]) -> None:
    told = [SourceText(text=text, speaker="Ann") for text in texts]

    found = digest(told)

    assert found == digest(told)
    for point in found.points:
        [of] = point.of
        assert point.text.removeprefix("Ann: ") in texts[of]
    places = [point.of for point in found.points]
    assert places == sorted(places)
    allowed = min(max(120, 0.35 * sum(map(estimate, texts))), 600)
    assert estimate(body_of(found.points)) <= allowed + 5 or len(found.points) == 1
    assert bool(found.points) != (found.fault is not None)


def test_what_was_said_is_not_said_again() -> None:
    twice = "The harbour crane broke at noon and the ferry waited."
    found = digest(
        [
            SourceText(text=twice),
            SourceText(text=twice),
            SourceText(text="Ann bought a new violin bow."),
        ]
    )

    assert [point.of for point in found.points] == [(0,), (2,)]


def test_a_mark_that_made_a_memory_once_makes_none_again() -> None:
    found = digest([SourceText(text="@decision We keep the ferry timetable of last winter.")])

    assert body_of(found.points) == "We keep the ferry timetable of last winter."


@pytest.mark.parametrize(
    "text",
    [
        "We decided to keep Postgres for the billing service.",
        "Caroline prefers tea with lemon in the morning.",
        "The cause was an expired certificate of the proxy.",
    ],
)
def test_what_may_last_is_proposed(text: str) -> None:
    assert is_durable(text)


@pytest.mark.parametrize(
    "text",
    [
        "It was decided by then, because of that.",
        "Should we prefer Postgres over MySQL for billing?",
        "Never deploy the billing service on Friday.",
        "Maybe the cause was an expired certificate of the proxy.",
        "Lunch came late today, as on most days.",
    ],
)
def test_what_is_asked_ordered_guessed_or_leans_on_another_sentence_is_not(text: str) -> None:
    assert not is_durable(text)


def test_a_sentence_with_another_number_name_or_denial_is_not_told_by_its_sources() -> None:
    sources = ["The backup of Orders took 41 minutes last night.", "It ended before noon."]

    assert is_stated("The Orders backup took 41 minutes.", sources)
    assert not is_stated("The Orders backup took 14 minutes.", sources)
    assert not is_stated("The Invoices backup took 41 minutes.", sources)
    assert not is_stated("The Orders backup never took 41 minutes.", sources)


def test_corrections_count_when_three_sessions_give_them_in_much_the_same_words() -> None:
    def said(text: str, session: str) -> Correction:
        return Correction(of=1, text=text, by=("ann", session))

    same = ["Use the staging proxy for the tests.", "use staging proxy for our tests"]
    told = [said(same[0], "s1"), said(same[1], "s2"), said(same[0], "s2"), said("outdated", "s3")]

    assert repeated(told) == []
    assert repeated([*told, said(same[1], "s3")]) == [
        tuple(one for one in (*told, said(same[1], "s3")) if one.text != "outdated")
    ]
