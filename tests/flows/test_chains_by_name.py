"""Chains continue over things that both memories name, and never over words alone."""

from datetime import UTC, datetime, timedelta

import pytest

from commonbrain.client import Brain
from tests.flows.asking import stored

START = datetime(2026, 3, 1, 8, tzinfo=UTC)

# What happened first, and what came of it a few hours later.
CHAINS = (
    ("Log rotation was switched off on db1", "The disk of db1 filled up with old logs"),
    ("payments-db ran out of connections", "Checkout timed out waiting for payments-db"),
    ("Ann raised the pool size of payments-db to 500", "The payments database ran out of memory"),
    ("The order queue grew to a million messages", "Orders were lost when the order queue crashed"),
    ("OPS-311 was deployed to production", "Logins failed for an hour; OPS-311 was rolled back"),
    ("src/billing/tax.py was rewritten for the new rates", "Invoices were wrong: bug in tax.py"),
    ("The certificate of shop.example.com expired", "Customers could not open shop.example.com"),
    ("Commit 4be19f2 changed the retry limit", "The retry storm was traced to 4be19f2"),
    ("PaymentService was moved to the new cluster", "Refunds stalled in the payment service"),
    ("The cache server lost its warm keys", "Pages were slow without the cache server"),
    ("MAX_UPLOAD_MB was lowered to 5", "Uploads of photos failed because of MAX_UPLOAD_MB"),
    ("Kafka was upgraded and its topics were rebalanced", "Events stalled after Kafka rebalanced"),
    (
        "A migration added an index to orders_archive",
        "Writes to orders_archive timed out for twenty minutes",
    ),
    (
        "The TLS certificate on edge-proxy-2 was replaced with a self-signed one",
        "Partners reported handshake errors against edge-proxy-2",
    ),
    (
        "Bob bumped checkout-api to v3.4.0",
        "checkout-api v3.4.0 returns 500 on empty carts",
    ),
    (
        "We turned on query logging in the reporting database",
        "The reporting database ran out of disk space",
    ),
    (
        "PAY-77 merged: cache tokens for 24 hours",
        "Users kept access after logout, see PAY-77",
    ),
    (
        "Redis eviction policy set to noeviction",
        "Sessions could not be stored, Redis refused writes",
    ),
    (
        "config/limits.yaml now caps uploads at 1 MB",
        "Photo uploads rejected; limits.yaml caps them at 1 MB",
    ),
    (
        "A cron typo made the cleanup job run every minute",
        "The cleanup job deleted live carts",
    ),
    (
        "node7 was drained for maintenance",
        "Search latency doubled after node7 left",
    ),
    (
        "The DNS record of api.acme.io was changed",
        "Mobile clients could not resolve api.acme.io",
    ),
    (
        "FEATURE_NEW_TAX was set to true in production",
        "Totals were off by one cent with FEATURE_NEW_TAX",
    ),
    (
        "The email worker was scaled down to one replica",
        "Password resets arrived an hour late, the email worker could not keep up",
    ),
)
MISSING_MAX = 2
"""Two say nothing that reads like a change, or name a product that many installations have."""
# Two incidents that have words in common, and nothing else to do with each other.
UNRELATED = (
    ("Checkout failed with a timeout for every customer", "Search failed with a timeout for users"),
    ("The disk of db1 filled up with old logs", "The disk of web3 filled up with old images"),
    ("The order queue grew to a million messages", "The mail queue grew to a million messages"),
    (
        "Deploy of the billing service took two hours",
        "Deploy of the search service was rolled back",
    ),
    ("payments-db ran out of connections", "reports-db ran out of connections at night"),
    ("Logins failed because a token had expired", "Uploads failed because a certificate expired"),
    ("The backup of the wiki was not complete", "The backup of the forum was not complete either"),
    ("OPS-311 changed how retries are counted", "OPS-411 changed how refunds are counted"),
    ("The build was slow and the tests were flaky", "The site was slow and the search was flaky"),
    ("A new release broke the login of customers", "A new release broke the export of customers"),
    ("src/billing/tax.py raised an error at night", "src/search/rank.py raised an error at night"),
    ("Memory use of the worker rose to 95 percent", "Memory use of the browser rose to 95 percent"),
    ("The network of the office was down on Monday", "The phone line of the office was down again"),
    ("Customers complained about slow pages", "Customers complained about wrong invoices"),
    (
        "Ann wrote a runbook for payments-db",
        "Checkout failed because payments-db was out of connections",
    ),
    (
        "Postgres was upgraded on the wiki host",
        "The shop could not reach its Postgres",
    ),
    (
        "The release notes were published in the wiki",
        "The release was rolled back because of a crash",
    ),
    (
        "Customers in Spain saw errors at checkout",
        "Customers in Italy saw errors at login",
    ),
    (
        "The alert for disk usage on db1 was added",
        "The alert for memory usage on db2 was removed",
    ),
    (
        "Nothing changed on node7 this week",
        "node7 rebooted at night",
    ),
    (
        "The search index was rebuilt",
        "The tax table was rebuilt",
    ),
    (
        "A timeout was raised in the invoice service",
        "A timeout was raised in the login service",
    ),
    (
        "The build failed with a network error",
        "The import failed with a network error",
    ),
    (
        "We moved to version v2.1.0 of the SDK",
        "The CLI v2.1.0 crashed on start",
    ),
    (
        "The old server room was cleaned",
        "The new server room was too hot",
    ),
    (
        "Mail delivery was slow this morning",
        "Page delivery was slow this morning",
    ),
)


def chain_of(brain: Brain, earlier: str, later: str, *, project: str) -> list[str | None]:
    """Store two incidents and return the bases by which the first is a cause of the second."""
    first = stored(brain, earlier, kind="incident", occurred_at=START, project=project)
    when = START + timedelta(hours=3)
    second = stored(brain, later, kind="incident", occurred_at=when, project=project)
    traced = brain.acting_as(project=project).trace.causes(second)
    return [step.basis for step in traced.steps if step.id == first]


@pytest.mark.requirement("CT-10")
def test_a_chain_continues_over_a_thing_that_both_name(brain: Brain) -> None:
    missing = [
        (earlier, later)
        for number, (earlier, later) in enumerate(CHAINS)
        if not chain_of(brain, earlier, later, project=f"p{number}")
    ]
    assert len(missing) <= MISSING_MAX, missing


@pytest.mark.requirement("CT-10")
@pytest.mark.requirement("CT-11")
def test_a_chain_never_jumps_between_incidents_that_share_only_words(brain: Brain) -> None:
    jumps = [
        (earlier, later)
        for number, (earlier, later) in enumerate(UNRELATED)
        if chain_of(brain, earlier, later, project=f"p{number}")
    ]
    assert not jumps


@pytest.mark.requirement("RT-31")
def test_links_show_what_names_the_same_thing_to_those_who_may_see_it(brain: Brain) -> None:
    cause = stored(brain, "Ann raised the pool size of payments-db", kind="event")
    mine = stored(brain, "I broke the payments database", kind="event", scope="private")
    stored(brain, "The pool size of reports-db was raised", kind="event")
    effect = stored(brain, "PaymentsDb ran out of memory", kind="incident")
    shown = brain.get(effect, views=["links"])
    assert shown.links == ()
    assert {(one.id, one.basis, one.confidence) for one in shown.related or ()} == {
        (mine, "both name PaymentsDb", 0.8),
        (cause, "both name PaymentsDb", 0.8),
    }
    seen = brain.acting_as(agent="bob").get(effect, views=["links"])
    assert [one.id for one in seen.related or ()] == [cause]
    assert brain.get(effect).related is None


@pytest.mark.requirement("RT-31", "RT-17")
def test_a_question_for_a_cause_brings_what_names_the_same_thing(brain: Brain) -> None:
    cause = stored(brain, "Ann raised the pool size of payments-db to 500", kind="event")
    for number in range(20):
        stored(brain, f"Note {number}: why customers like the shop, part {number}", kind="event")
    effect = stored(brain, "Checkout crashed, as the payments database swapped", kind="incident")
    asked = brain.recall("why did the checkout crash?", max_items=6)
    [item] = [one for one in asked.items if one.id == cause]
    assert "linked" in item.why
    assert effect in {one.id for one in asked.items}
    plain = brain.recall("checkout crash", max_items=6)
    assert cause not in {one.id for one in plain.items}
