"""An open point is settled only by the same subject with the same numbers, names and direction."""

import pytest

from commonbrain.text.open_points import settles


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
