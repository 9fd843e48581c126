"""When a text only repeats another: every word, number, name and modality is said already."""

from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.limits import TEXT_BYTES_MAX
from commonbrain.text.repetition import adds_nothing, carries_out, may_repeat, repeated_part


@pytest.mark.requirement("WP-06")
def test_restatement_adds_nothing(subtests: pytest.Subtests) -> None:
    for known, text in [
        (
            "Postgres was chosen over MySQL because of its row-level security.",
            "Postgres was chosen over MySQL for its row-level security.",
        ),
        ("Never push to main directly.", "Do not push directly to main."),
        ("Ann approved the budget.", "The budget was approved by Ann."),
        ("The choir will not sing outside.", "The choir won't sing outside."),
        ("Normalise the colour profile.", "Normalize the color profile."),
        ("The lift is broken. Bo repairs it.", "The lift is broken and Bo repairs it."),
        ("Tokens expire after 15 minutes.", "A token expires after fifteen minutes."),
    ]:
        with subtests.test(known=known, text=text):
            assert adds_nothing(text, known=known)


@pytest.mark.requirement("WP-06")
def test_text_with_news_is_no_repetition(subtests: pytest.Subtests) -> None:
    for known, text in [
        ("Write docs for the webhook", "Docs for the webhook are written"),
        ("Use pnpm in the monorepo.", "pnpm is used in the monorepo."),
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
        ("Only admins can delete projects.", "Admins can delete projects."),
        ("Turn the pump on.", "Turn the pump off."),
        ("Prices went up.", "Prices went down."),
        ("My car is red.", "Your car is red."),
        ("Deploy by Friday.", "Deploy on Friday."),
        ("The reminder job sends mail.", "The job sends mail."),
        ("Ann paid Bob.", "Ann was paid by Bob."),
        ("The web server stops. The worker starts.", "The worker starts. The web server stops."),
        ("Kwame signs only cheques.", "Only Kwame signs cheques."),
        ("All tests must pass.", "Some tests must pass."),
        ("A latency < 200 ms is fine.", "A latency > 200 ms is fine."),
        ("The limit is -10 degrees.", "The limit is 10 degrees."),
        ("Version ^1.2.3 is pinned.", "Version ~1.2.3 is pinned."),
        ("Access is granted until Friday.", "Access is granted from Friday."),
        ("$HOME is mounted.", "HOME is mounted."),
        ("The variable is called userId.", "The variable is called userID."),
        ("Use rm -r on the cache.", "Use rm -R on the cache."),
        ("Fix the flaky test in ci.yml.", "I fixed the flaky test in ci.yml."),
        ("The migration is planned.", "The migration is done."),
        ("Move helpers from core to cli.", "Move helpers from cli to core."),
        ("The board pays for A1, not for B2.", "The board pays for B2, not for A1."),
        ("Do not use npm; use pnpm.", "Use npm; do not use pnpm."),
        ("The flag is not set in dev but set in prod.", "The flag is set in dev but not in prod."),
        ("We do not cache users but orders.", "We cache users but do not cache orders."),
    ]:
        with subtests.test(known=known, text=text):
            assert not adds_nothing(text, known=known)


def test_words_spread_over_a_long_text_are_no_repetition() -> None:
    known = "The gateway drops idle clients. Retries wait a minute. Audits happen in Lyon."
    assert not adds_nothing("The gateway retries in Lyon.", known=known)


def test_repeated_part_is_the_most_similar_sentence() -> None:
    known = "Ann owns billing. Tokens expire after an hour. The cellar is damp."
    assert repeated_part("A token expires after an hour", known=known) == (
        "Tokens expire after an hour."
    )


@given(st.text(max_size=300))
def test_text_with_content_is_a_repetition_of_itself(text: str) -> None:
    assert adds_nothing(text, known=text) in {True, False}
    assert not adds_nothing(f"{text} zebras graze", known=text)


def test_hostile_text_is_compared_in_linear_time(subtests: pytest.Subtests) -> None:
    for unit in ["no ", "not without ", "do not", "never until ", "unless ", "no\n"]:
        with subtests.test(unit=unit):
            hostile = (unit * TEXT_BYTES_MAX)[:TEXT_BYTES_MAX]
            started = process_time()
            may_repeat(hostile, known="We deploy on Mondays.")
            adds_nothing("We deploy on Mondays.", known=hostile)
            assert process_time() - started < 1


def test_completed_action_carries_out_the_plan_that_says_the_same(
    subtests: pytest.Subtests,
) -> None:
    for plan, text in [
        ("Fix the flaky test in ci.yml.", "I fixed the flaky test in ci.yml."),
        ("Write docs for the webhook.", "Docs for the webhook are written."),
        ("Add retries to the mailer", "Added retries to the mailer in 4.2"),
        ("We need to add retries to the mailer", "Added retries to the mailer."),
        ("Upgrade Django to 5.2", "Django was upgraded to 5.2 on Monday."),
        ("must call the chimney sweep", "I called the chimney sweep"),
    ]:
        with subtests.test(plan=plan, text=text):
            assert carries_out(text, plan=plan)


def test_text_that_leaves_something_to_do_carries_out_no_plan(subtests: pytest.Subtests) -> None:
    for plan, text in [
        ("Add retries to the mailer", "Added half of the retries to the mailer"),
        ("Add retries to the mailer", "Started to add retries to the mailer"),
        ("Add retries to the mailer", "We have not added retries to the mailer"),
        ("Add retries to the mailer", "Tried and failed to add retries to the mailer"),
        ("Add retries to the mailer and the importer", "Added retries to the mailer"),
        ("Upgrade Django to 5.2", "Upgraded Django to 5.1"),
        ("Upgrade Django to 5.2", "We will upgrade Django to 5.2"),
        ("Fix the login page", "Has anybody fixed the login page?"),
        ("Fix the login page", "We could have fixed the login page"),
        ("Pay the invoice", "The invoice is to be paid"),
        ("Pay the invoice of ACME", "If the invoice of ACME was paid, ship"),
        ("Never deploy on Fridays", "Deployed on Fridays"),
        ("Write docs for the webhook. Then tell Sam.", "Docs for the webhook are written."),
        ("Upgrade Django", "Upgraded Django debug toolbar"),
        ("Deploy the API", "Deployed the API to staging"),
        ("Fix the login page", "Fixed the login page, then reverted it"),
        ("Fix the login page", "Fixed the login page. Reverted the next day."),
        ("Fix the login page", "Until the login page is fixed"),
        ("Fix the login page", "Has the login page been fixed"),
        ("Delete files", "Deleted files go to the trash."),
        ("Rename foo.py to bar.py", "bar.py was renamed to foo.py"),
        ("Replace Redis with Kafka", "Kafka was replaced with Redis"),
        ("Ana must pay Bob", "Ana was paid by Bob"),
        ("Review requests daily", "Requests are reviewed daily"),
        ("Always lint before a commit", "Linted before a commit"),
    ]:
        with subtests.test(plan=plan, text=text):
            assert not carries_out(text, plan=plan)
