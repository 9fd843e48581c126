"""Names of things: one key for all forms of a name, and none for ordinary words."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.text.names import name_terms, names_in, shared_names


def test_different_spellings_of_one_name_are_equal(subtests: pytest.Subtests) -> None:
    cases: list[tuple[str, ...]] = [
        ("payments-db is full", "PaymentsDb is full", "the payments database", "payments_db"),
        ("PaymentService stalled", "the payment service stalled", "payment-service stalled"),
        ("src/billing/tax.py is wrong", "see `tax.py`", "billing/tax.py"),
        ("see OPS-311", "OPS-311: done", "(OPS-311)"),
        ("commit 4be19f2aa33d", "since 4be19f2"),
        ("the order queues", "order-queue", "The Order Queue"),
    ]
    for forms in cases:
        with subtests.test(forms=forms):
            for one in forms:
                assert all(shared_names(one, other) for other in forms)


def test_ordinary_words_are_not_names(subtests: pytest.Subtests) -> None:
    for text in [
        "The new service of the main server was slow in mid-2024",
        "A well-known, long-term, step-by-step way to restart servers",
        "Use utf8 and sha256 on page12 in step-3",
        "Spring cleaning: edge cases excel, teams react",
        "Ann said that the first job was done on Monday",
        "e.g. this, i.e. that, and/or 3.5",
    ]:
        with subtests.test(text=text):
            assert not names_in(text)


def confidence(one: str, other: str) -> float:
    """Return the confidence of the surest name that two texts share."""
    return max((name.confidence for name in shared_names(one, other)), default=0.0)


def test_number_alone_is_a_less_certain_name_than_with_a_kind_or_project() -> None:
    alone = confidence("#87 was merged", "since #87")
    with_kind = confidence("PR #87 was merged", "since pull request #87")
    with_project = confidence("PAY-87 was merged", "since PAY-87")
    assert 0 < alone < with_kind < with_project


def test_products_versions_and_usual_names_name_no_thing(subtests: pytest.Subtests) -> None:
    for text in [
        "Kafka was rebooted, and Postgres 17 was installed",
        "python-3 and v2.1.0 were installed",
        "us-east-1 lost user_id, created_at and config.yaml in the staging database",
        "github.com answered ERR-500 to a POST endpoint",
        "The int32 and float64 columns moved to ec2; the page uses vue3 and react18",
    ]:
        with subtests.test(text=text):
            assert not names_in(text)


def test_different_entities_of_one_type_share_no_name() -> None:
    for one, other in (
        ("db1 is full", "db2 is full"),
        ("payments-db", "reports-db"),
        ("the order queue", "the mail queue"),
        ("OPS-311", "OPS-411"),
        ("PR #87 was merged", "Bug #87 is open"),
        ("a/tax.py", "b/tax.py"),
    ):
        assert not shared_names(one, other)


@given(st.text(), st.text())
def test_sharing_of_names_is_symmetric_and_reflexive(one: str, other: str) -> None:
    assert {name.key for name in shared_names(one, one)} == set(names_in(one))
    assert bool(shared_names(one, other)) == bool(shared_names(other, one))
    assert all(0 < name.confidence <= 1 for name in names_in(one).values())
    assert all(term.isalnum() for term in name_terms(one))


def test_hostile_text_is_read_in_linear_time(subtests: pytest.Subtests) -> None:
    for unit in ["a", "a-", "A", "Aa", "a.", "a_", "a ", "db ", "1", "#", "a1", "-"]:
        with subtests.test(unit=unit):
            started = process_time()
            names_in((unit * TEXT_BYTES_MAX)[:TEXT_BYTES_MAX])
            assert process_time() - started < 2
