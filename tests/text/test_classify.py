import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.kinds import Kind, Severity
from commonbrain.text.classification import PREDICTED, classify, label_in, severity_of


def test_kind_of_a_plain_text_is_what_a_reader_would_call_it(subtests: pytest.Subtests) -> None:
    for text, kind in [
        ("Never push to main", Kind.RULE),
        ("You must not store secrets", Kind.RULE),
        ("ALWAYS run the linter first", Kind.RULE),
        ("Use pnpm, not npm.", Kind.RULE),
        ("You should read docs/adr first.", Kind.RULE),
        ("I prefer short answers", Kind.RULE),
        ("Please answer in French from now on.", Kind.RULE),
        ("Never deploy during an outage; we need to wait", Kind.RULE),
        ("The outage began at noon", Kind.INCIDENT),
        ("The server crashed twice", Kind.INCIDENT),
        ("We need to rotate the keys", Kind.TASK),
        ("Follow-up with the vendor", Kind.TASK),
        ("Visited the school in Kisumu on Friday with Mei and Tom.", Kind.EVENT),
        ("Postgres listens on 5432", Kind.FACT),
        ("", Kind.FACT),
    ]:
        with subtests.test(text=text, kind=kind):
            assert classify(text) is kind


def test_single_word_decides_nothing(subtests: pytest.Subtests) -> None:
    for text in [
        "The mustard is yellow",
        "Nevertheless it works",
        "A crashpad",
        "The crash reporter is Sentry.",
        "The outage budget is 40 minutes.",
        "The word 'must' is a reserved keyword in the DSL.",
        "RocksDB state is in /var/lib/joiner; after a crash delete the LOCK file.",
        "It must have been a race condition.",
    ]:
        with subtests.test(text=text):
            assert classify(text) is Kind.FACT


def test_what_never_happened_is_no_rule() -> None:
    for text in [
        "I have never seen this error.",
        "He never called back.",
        "We never had an outage.",
    ]:
        assert classify(text) is not Kind.RULE
        assert severity_of(text) is Severity.PATTERN


def test_label_before_a_text_sets_its_label_and_kind(subtests: pytest.Subtests) -> None:
    for text, label, kind in [
        ("Decision: Postgres instead of MySQL.", "decision", Kind.FACT),
        ("**Decision** (Ann): never merge without a review.", "decision", Kind.RULE),
        ("Convention: columns in snake case.", "convention", Kind.RULE),
        ("Convention for branches: area/topic.", "convention", Kind.RULE),
        ("Bug: the pager skips the last row.", "bug", Kind.INCIDENT),
        ("Decision trees beat the network.", None, Kind.FACT),
        ("The bug: it was there from the start.", None, Kind.FACT),
    ]:
        with subtests.test(text=text):
            assert (label_in(text), classify(text)) == (label, kind)


def test_prohibition_is_a_blocker_and_advice_is_a_pattern(subtests: pytest.Subtests) -> None:
    for text, severity in [
        ("Never push to main", Severity.BLOCKER),
        ("It is forbidden to log keys", Severity.BLOCKER),
        ("Always run the linter", Severity.PATTERN),
    ]:
        with subtests.test(text=text, severity=severity):
            assert severity_of(text) is severity


@given(st.text())
def test_every_text_has_a_kind_that_may_be_chosen(text: str) -> None:
    assert classify(text) in PREDICTED


def test_long_row_of_signs_is_classified_in_linear_time() -> None:
    # Read from each sign on, half a million of them would take hours.
    assert classify("x " + ". " * 500_000) in PREDICTED
