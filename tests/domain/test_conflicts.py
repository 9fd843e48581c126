from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.model.links import Basis
from commonbrain.text.contradictions import find_contradiction, may_add_information
from commonbrain.text.statements import Statement

# Plain letters, so that changing their case and back gives the same text.
PROSE = st.text(alphabet="abeIsNot 019.,:'-\nABE", max_size=80)
WORDS = st.lists(
    st.sampled_from(
        "the cache Redis Postgres is not never runs on owns Anna Ben 8080 9090 8 two Monday Friday"
        " disabled enabled . moved to in of port".split()
    ),
    max_size=12,
).map(" ".join)
TEXTS = st.text() | WORDS


def basis(one: str, other: str) -> Basis | None:
    contradiction = find_contradiction(Statement(text=one), Statement(text=other))
    return contradiction.basis if contradiction else None


def test_incompatible_statements_about_one_subject_conflict(subtests: pytest.Subtests) -> None:
    for one, other, by in [
        ("The API listens on port 8080", "The API listens on port 9090", Basis.NUMBER),
        ("The pool has eight threads", "The pool has 12 threads", Basis.NUMBER),
        ("The release is on 2026-01-02", "The release is on 2026-02-03", Basis.NUMBER),
        ("The runtime is v1.2", "The runtime is v1.3", Basis.NUMBER),
        ("The archive lives in Oslo", "The archive lives in Turin", Basis.ENTITY),
        ("The queue runs on RabbitMQ", "The queue has moved to Kafka", Basis.ENTITY),
        ("Anna owns billing", "Billing is owned by Ben", Basis.ENTITY),
        ("The sofa is green", "The sofa is grey", Basis.VALUE),
        ("The key is in the drawer", "The key is in the safe", Basis.VALUE),
        ("The timeout is 30 seconds", "The timeout is 30 minutes", Basis.VALUE),
        ("The cache is shared", "The cache isn't shared", Basis.NEGATION),
        ("Retries are enabled", "Retries are disabled", Basis.NEGATION),
        ("The parser supports comments", "The parser no longer supports comments", Basis.NEGATION),
    ]:
        with subtests.test(one=one, other=other, by=by):
            assert basis(one, other) is by
            assert may_add_information(one, other)


def test_other_subjects_other_properties_and_other_words_are_no_conflict(
    subtests: pytest.Subtests,
) -> None:
    for one, other in [
        ("Staging deploys at 09:00", "Production deploys at 17:00"),
        ("Anna owns billing", "Anna owns search"),
        ("Jonas is allergic to nuts", "Marta is allergic to nuts"),
        ("The worker is written in Go", "The worker is deployed by Ben"),
        ("The parser supports comments", "The parser supports trailing commas"),
        ("The build takes about forty minutes", "A build needs roughly 40 min"),
        ("Never push to main", "Pushing to main is forbidden"),
        ("The report is about costs", "The report is about delays"),
        ("", "The cache is shared"),
    ]:
        with subtests.test(one=one, other=other):
            assert basis(one, other) is None


def test_given_subject_takes_precedence_over_the_words_of_a_text() -> None:
    here = Statement(text="5432", subject="Port of the orders database")
    there = Statement(text="5433", subject="port of the orders database")
    elsewhere = Statement(text="5433", subject="port of the users database")
    assert find_contradiction(here, there)
    assert find_contradiction(here, elsewhere) is None


def test_two_values_of_one_subject_conflict() -> None:
    contradiction = find_contradiction(
        Statement(text="Postgres", subject="main store"),
        Statement(text="SQLite", subject="main store"),
    )
    assert contradiction
    assert contradiction.basis is Basis.VALUE


def test_text_with_a_replaced_word_may_add_information(subtests: pytest.Subtests) -> None:
    for one, other in [
        ("The build host is slow", "The build server is slow"),
        ("Lisa leads the team", "Bruno leads the team"),
        ("Deploy on Monday", "Deploy on Friday"),
    ]:
        with subtests.test(one=one, other=other):
            assert may_add_information(one, other)


def test_same_words_in_another_order_add_no_information() -> None:
    assert not may_add_information(
        "In Makefiles, indent with tabs", "Use tabs to indent in Makefiles"
    )


@given(TEXTS, TEXTS)
def test_contradiction_and_new_information_are_symmetric(one: str, other: str) -> None:
    assert basis(one, other) is basis(other, one)
    assert may_add_information(one, other) == may_add_information(other, one)


@given(TEXTS)
def test_text_never_contradicts_itself(text: str) -> None:
    assert basis(text, text) is None
    assert not may_add_information(text, text)


@given(PROSE, st.sampled_from([str.upper, str.lower, str.swapcase]))
def test_case_and_spacing_make_no_conflict(text: str, write: type[str]) -> None:
    spaced = write("  ".join(text.split(" ")))
    assert basis(text, spaced) is None
    assert not may_add_information(text, spaced)


@given(WORDS, WORDS)
def test_contradiction_is_never_a_duplicate(one: str, other: str) -> None:
    assert basis(one, other) is None or may_add_information(one, other)


def test_hostile_text_is_read_in_linear_time(subtests: pytest.Subtests) -> None:
    for unit in [
        "a",
        "A",
        "@",
        ".",
        "-",
        "_",
        "'",
        "1",
        "1.",
        "a.",
        "aA",
        "a_",
        "is ",
        "not ",
        "\n",
        " ",
    ]:
        with subtests.test(unit=unit):
            text = (unit * TEXT_BYTES_MAX)[:TEXT_BYTES_MAX]
            started = process_time()
            basis(text, text + "x")
            may_add_information("x" + text, text)
            # A quadratic reading takes tens of seconds; two linear ones a tenth of one.
            assert process_time() - started < 2
