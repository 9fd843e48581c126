"""What a clause of a report says, and whether a later one settles an open point."""

import pytest

from commonbrain.text.reports import ClauseType, role_of, settles, states_failure


@pytest.mark.requirement("JB-14")
def test_passive_clause_is_a_result_unless_it_is_negated(subtests: pytest.Subtests) -> None:
    for text, role in [
        ("Timeouts were lowered for the mailer.", ClauseType.DONE),
        ("The lease was signed by the landlord.", ClauseType.DONE),
        ("The index was rebuilt again.", ClauseType.DONE),
        ("The old tokens have been revoked.", ClauseType.DONE),
        ("The lease was not signed.", ClauseType.NOTED),
        ("The dump wasn't restored.", ClauseType.NOTED),
        ("The dump has never been restored.", ClauseType.NOTED),
        ("No token was revoked.", ClauseType.NOTED),
        ("The meeting was delayed by the strike.", ClauseType.NOTED),
        ("The keys were not only rotated but also moved.", ClauseType.DONE),
    ]:
        with subtests.test(text=text, role=role):
            assert role_of(text) is role


@pytest.mark.requirement("JB-14")
def test_adjective_before_a_noun_does_not_open_a_point(subtests: pytest.Subtests) -> None:
    for text, role in [
        ("It is unclear how the token leaked", ClauseType.OPEN),
        ("It is unclear whether we use Redis or Memcached", ClauseType.OPEN),
        ("Will reviewed and merged the patch", ClauseType.DONE),
        ("The delay in the queue was due to a wrong label.", ClauseType.NOTED),
        ("The freeze is due to be lifted at noon.", ClauseType.OPEN),
        ("The tax report is due Thursday.", ClauseType.OPEN),
        ("The remaining checks ran through.", ClauseType.DONE),
        ("The missing column was added to the view.", ClauseType.DONE),
        ("Olga merged the pending patches.", ClauseType.DONE),
        ("Lena fixed what was missing.", ClauseType.DONE),
        ("The pool was raised to 30, which is still blocked by legal.", ClauseType.OPEN),
        ("The vendor asked whether the invoices were paid.", ClauseType.OPEN),
        ("The job was blocked for an hour and is back.", ClauseType.DONE),
        ("No file is missing.", ClauseType.NOTED),
        ("The rollout is no longer blocked.", ClauseType.DECIDED),
        ("The rollout is not blocked by legal anymore.", ClauseType.NOTED),
        ("Suspended accounts cannot pay.", ClauseType.NOTED),
        ("The column in the view is still missing.", ClauseType.OPEN),
        ("We are blocked by the audit.", ClauseType.OPEN),
        ("Missing: a column in the view.", ClauseType.OPEN),
        ("Review of the view pending", ClauseType.OPEN),
        ("There are two pending patches.", ClauseType.OPEN),
        ("The owner of the bucket remains unclear.", ClauseType.OPEN),
    ]:
        with subtests.test(text=text, role=role):
            assert role_of(text) is role


@pytest.mark.requirement("JB-14")
def test_only_an_agreed_clause_is_a_decision(subtests: pytest.Subtests) -> None:
    for text, role in [
        ("We have not agreed on the colour of the logo.", ClauseType.OPEN),
        ("No decision yet about the office in Porto.", ClauseType.OPEN),
        ("The decision on the vendor was deferred to June.", ClauseType.OPEN),
        ("We couldn't agree on a date.", ClauseType.OPEN),
        ("Nothing was decided on the logo.", ClauseType.OPEN),
        ("We suspect that the leak comes from the parser.", ClauseType.NOTED),
        ("I hope the cache helps the shop.", ClauseType.NOTED),
        ("RFC-7 approved: keep one queue per tenant.", ClauseType.DECIDED),
        ("Let's keep Postgres.", ClauseType.DECIDED),
        ("We're going with the smaller vendor.", ClauseType.DECIDED),
        ("We went with the smaller vendor.", ClauseType.DECIDED),
        ("We decided not to buy the tool.", ClauseType.DECIDED),
        ("The decision is to keep one queue.", ClauseType.DECIDED),
    ]:
        with subtests.test(text=text, role=role):
            assert role_of(text) is role


@pytest.mark.requirement("JB-14")
def test_continuing_failure_is_an_open_point(subtests: pytest.Subtests) -> None:
    for text, role in [
        ("The login test still fails although the clock was fixed.", ClauseType.OPEN),
        ("After the clock was fixed, the login test fails again.", ClauseType.OPEN),
        ("The export is still failing.", ClauseType.OPEN),
        ("The login test fails since the clock was fixed.", ClauseType.NOTED),
        ("No test still fails.", ClauseType.NOTED),
        ("The clock was fixed because the login test failed.", ClauseType.NOTED),
    ]:
        with subtests.test(text=text, role=role):
            assert role_of(text) is role


def test_fix_counts_only_in_the_main_clause() -> None:
    assert states_failure("The login test failed after the clock was fixed.")
    assert not states_failure("The failing login test was fixed after lunch.")


def test_clause_on_the_same_subject_settles_an_open_point(subtests: pytest.Subtests) -> None:
    for point, clause in [
        ("Open: raise limit to 30.", "Raised limit to 30."),
        ("Open: raise the limit of the import to 30.", "Raised the import's limit to 30."),
        ("The retry job is not yet merged.", "The retry job is merged."),
        ("The supplier hasn't confirmed the price list.", "The supplier confirmed the price list."),
        ("Do we use Redis or Kafka for the queue?", "We use Kafka for the queue."),
        ("Do we use Redis for the sessions?", "We do not use Redis for the sessions."),
        ("Who writes the report on the outage?", "Tomas writes the report on the outage."),
        ("Open: disable the cache of the shop.", "Disabled the cache of the shop."),
        ("The lease is not signed yet.", "The lease was signed."),
        ("Lena has to move the mailboxes by Tuesday.", "Lena moved the mailboxes."),
        ("Lena has to move the mailboxes before 3 June.", "Lena moved the mailboxes."),
        ("Lena moves the mailboxes by the end of the week.", "Lena moved the mailboxes on Monday."),
        (
            "Rollout of the mailer to staging is pending.",
            "Rollout of the mailer to staging is done.",
        ),
        ("The login test still fails.", "The login test passed again."),
        (
            "Support asks whether refunds can be partial.",
            "We agreed with support that refunds can be partial.",
        ),
    ]:
        with subtests.test(point=point, clause=clause):
            assert settles(clause, point=point)


@pytest.mark.requirement("JB-14")
def test_another_number_name_negation_or_subject_leaves_a_point_open(
    subtests: pytest.Subtests,
) -> None:
    for point, clause in [
        (
            "The migration has not been tested on staging yet",
            "We agreed that the migration must be tested on staging before Friday",
        ),
        ("Open: raise limit to 30.", "Raised limit to 20."),
        ("Open: raise the limit of the import to 30.", "We raise the limit of the import to 20."),
        ("Still open: rotate the key of web-03.", "Rotated the key of web-04."),
        ("Still open: enable TLS for the proxy.", "TLS was not enabled for the proxy."),
        ("Open: disable the cache of the shop.", "Enabled the cache of the shop."),
        ("Open: move Orders to the new cluster.", "Moved Invoices to the new cluster."),
        ("Open: move Orders to the new cluster.", "Moved the tables to the new cluster."),
        ("Open: raise the memory limit of the import.", "Raised the disk limit of the import."),
        ("Open: run the migration on staging.", "Ran the migration on production."),
        ("Do we use Redis for the sessions?", "We use Kafka for the sessions."),
        ("Open: extend the freeze until Friday.", "The freeze was extended until Monday."),
        ("The login test still fails.", "The login test still fails after the clock was fixed."),
        ("Rollout of the mailer is pending.", "Rollout of the mailer to staging is done."),
        ("The export is not enabled.", "The export is enabled on CI."),
        ("Open: renew the certificate of the shop.", "Merged the layout of the invoices."),
    ]:
        with subtests.test(point=point, clause=clause):
            assert not settles(clause, point=point)
