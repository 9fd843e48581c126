import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.kinds import Kind, Severity
from commonbrain.text.classification import classify, severity_of


def test_signal_words_choose_the_kind(subtests: pytest.Subtests) -> None:
    for text, kind in [
        ("Never push to main", Kind.RULE),
        ("You must not store secrets", Kind.RULE),
        ("ALWAYS run the linter first", Kind.RULE),
        ("The outage began at noon", Kind.INCIDENT),
        ("The server crashed twice", Kind.INCIDENT),
        ("We need to rotate the keys", Kind.TASK),
        ("Follow-up with the vendor", Kind.TASK),
        ("Postgres listens on 5432", Kind.FACT),
        ("", Kind.FACT),
    ]:
        with subtests.test(text=text, kind=kind):
            assert classify(text) is kind


def test_strongest_signal_word_decides_the_kind() -> None:
    assert classify("Never deploy during an outage; we need to wait") is Kind.RULE


def test_only_whole_words_are_signals(subtests: pytest.Subtests) -> None:
    for text in ["The mustard is yellow", "Nevertheless it works", "A crashpad"]:
        with subtests.test(text=text):
            assert classify(text) is Kind.FACT


def test_prohibition_is_a_blocker_and_advice_is_a_pattern(subtests: pytest.Subtests) -> None:
    for text, severity in [
        ("Never push to main", Severity.BLOCKER),
        ("It is forbidden to log keys", Severity.BLOCKER),
        ("Always run the linter", Severity.PATTERN),
    ]:
        with subtests.test(text=text, severity=severity):
            assert severity_of(text) is severity


@given(st.text())
def test_kind_of_a_text_does_not_depend_on_its_case(text: str) -> None:
    assert classify(text) in {Kind.RULE, Kind.INCIDENT, Kind.TASK, Kind.FACT}


def test_long_row_of_signs_is_classified_in_linear_time() -> None:
    # Read from each sign on, half a million of them would take hours.
    assert classify("x " + ". " * 500_000) is Kind.FACT
