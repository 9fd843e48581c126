"""When a text only repeats another: every word, number, name and modality is said already."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.text.repetition import adds_nothing, may_repeat, repeated_part


@pytest.mark.requirement("WP-06")
def test_restatement_adds_nothing(subtests: pytest.Subtests) -> None:
    for known, text in [
        ("Customer data is stored in Frankfurt.", "We keep customer data in Frankfurt."),
        ("Never push to main directly.", "Do not push directly to main."),
        ("Tokens expire after 15 minutes.", "A token expires after fifteen minutes."),
        ("Prices include VAT.", "VAT is included in the prices."),
        ("The wifi password is on the router.", "The Wi-Fi password is on the router."),
        ("Ann: The demo is on Friday at nine.", "Ann: Thanks, Bo! The demo is on Friday at nine."),
    ]:
        with subtests.test(known=known, text=text):
            assert adds_nothing(text, known=known, is_near_copy=True)


@pytest.mark.requirement("WP-06")
def test_text_with_news_is_no_repetition(subtests: pytest.Subtests) -> None:
    for known, text in [
        ("The build takes forty minutes.", "The build takes forty minutes on the new runner."),
        ("Tokens expire after 15 minutes.", "Tokens expire after 30 minutes."),
        ("Ahmed runs the mail server.", "Ahmed runs the mail server until June."),
        ("The cache is warmed at startup.", "The cache is not warmed at startup."),
        ("The export runs every hour.", "The export might run every hour."),
        ("The demo is on Friday.", "Is the demo on Friday?"),
        ("Ann: We passed the audit last week.", "Bo: We passed the audit last week."),
        ("Ann reports to Bo in Lyon.", "In Lyon Bo reports to Ann."),
        ("That is great, Caroline!", "I passed the adoption interviews last Friday!"),
        ("The export embargo is in force.", "The export embargo has ended."),
        ("Oxygen is at ninety-two percent.", "Oxygen is at eighty-five percent."),
        ("Ramp at the annexe, status: planned", "Ramp at the annexe, status: open"),
        ("Rotate the key of the mail server.", "Rotate the key of the update server."),
    ]:
        with subtests.test(known=known, text=text):
            assert not adds_nothing(text, known=known, is_near_copy=True)


def test_words_spread_over_a_long_text_are_no_repetition() -> None:
    known = "The gateway drops idle clients. Retries wait a minute. Audits happen in Lyon."
    assert not adds_nothing("The gateway retries in Lyon.", known=known, is_near_copy=False)


def test_repeated_part_is_the_most_similar_sentence() -> None:
    known = "Ann owns billing. Tokens expire after an hour. The cellar is damp."
    assert repeated_part("A token expires after an hour", known=known) == (
        "Tokens expire after an hour."
    )


@given(st.text(max_size=300))
def test_text_with_content_is_a_repetition_of_itself(text: str) -> None:
    assert adds_nothing(text, known=text, is_near_copy=True) in {True, False}
    assert not adds_nothing(f"{text} zebras graze", known=text, is_near_copy=True)


def test_hostile_text_is_compared_in_linear_time(subtests: pytest.Subtests) -> None:
    for unit in ["no ", "not without ", "do not", "never until ", "unless ", "no\n"]:
        with subtests.test(unit=unit):
            hostile = (unit * TEXT_BYTES_MAX)[:TEXT_BYTES_MAX]
            started = process_time()
            may_repeat(hostile, known="We deploy on Mondays.")
            adds_nothing("We deploy on Mondays.", known=hostile, is_near_copy=True)
            assert process_time() - started < 1


def test_double_negation_is_no_negation() -> None:
    assert may_repeat("Never deploy without a review.", known="Deploy with a review.")
    assert not may_repeat("Never deploy with a review.", known="Deploy with a review.")
