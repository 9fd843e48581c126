"""Chains continue over things that both memories name, and never over words alone."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.model.limits import ITEMS_PER_CALL_MAX
from commonbrain.model.memory import Draft
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import stored

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
    ("invoice-api was redeployed at noon", "Letters had no logo, see invoice-api"),
    ("The heap of node12 was tuned", "Videos stuttered on node12"),
    ("FEATURE_SHORT_URLS was toggled", "Links in mails were dead with FEATURE_SHORT_URLS"),
    ("ledger-db went read-only", "Refunds were not stored in ledger-db"),
    ("media-db hit its quota", "Photos of the fair were lost by media-db"),
    ("kafka-4 was rebooted", "Invoices were a day late, lag on kafka-4"),
    ("prod-redis-2 was replaced", "Carts were empty for users of prod-redis-2"),
    ("PR #512 was merged", "Letters lost their logo with PR #512"),
)
MISSING_MAX = 1
"""One says nothing that reads like a change."""
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
# Two incidents that share a name which many unrelated things have.
GENERIC = (
    ("The load balancer in us-east-1 was replaced", "Invoices lost their logo in us-east-1"),
    ("Kernel patched on all hosts in eu-central-1a", "The wiki ran out of disk in eu-central-1a"),
    ("The VPN was restarted in europe-west1", "Search results were empty in europe-west1"),
    ("Quota was lowered in eastus2", "The chat widget crashed for visitors in eastus2"),
    ("The type of user_id was changed in the audit table", "Carts lost their user_id at checkout"),
    ("An index on created_at was dropped", "Newsletters showed a created_at of 1970"),
    ("is_active was set to false for old coupons", "Staff accounts lost is_active"),
    ("The web server was upgraded to a new kernel", "The web server sent mails twice"),
    ("The daily job was moved to another host", "The daily job printed wrong tax totals"),
    ("The API gateway was restarted at noon", "Passwords were logged by the API gateway"),
    ("The prod cluster was patched", "A coupon was applied twice in the prod cluster"),
    ("The staging database was reset", "Fonts broke on a page fed by the staging database"),
    ("The Monday job was disabled", "The Monday job sent letters to the wrong address"),
    ("POST requests were throttled", "Images of products were missing for POST requests"),
    ("The POST endpoint was moved", "The POST endpoint accepted a wrong currency"),
    ("Port 8080 was closed in the firewall", "A memory leak appeared in the process on port 8080"),
    ("http://localhost:8080 was blocked by a rule", "Dates were wrong on http://localhost:8080"),
    ("The SDK v2.1.0 was deployed", "The driver v2.1.0 lost packets"),
    ("LOG_LEVEL was changed to debug for mail", "Search ignored LOG_LEVEL and filled its disk"),
    ("DATABASE_URL was changed for the wiki", "The shop failed to start without DATABASE_URL"),
    ("config.yaml was changed for the mailer", "The crawler crashed on a tab in config.yaml"),
    ("utils.py was renamed in the parser", "Totals were rounded wrongly by utils.py"),
    ("/health was removed from the proxy", "The printer queue showed red on /health"),
    ("Logs were moved to /tmp", "Uploads of videos failed: /tmp was read-only"),
    ("The cron job was disabled for the wiki", "The cron job of billing charged twice"),
    ("The load balancer was upgraded", "The load balancer certificate of the blog was wrong"),
    ("The Redis cache of search was flushed", "Basket totals were stale in the Redis cache"),
    ("github.com was unavailable for an hour", "Issue templates were lost on github.com"),
    ("prod-2 was rebooted", "Translations were missing on prod-2"),
    ("The main app was restarted", "The main app showed prices in the wrong currency"),
    ("ERR-500 was added to the alerts of mail", "The game server crashed with ERR-500"),
    ("PR #87 was merged in the docs repo", "Bug #87 was reported by a customer"),
    ("#87 was closed in the wiki", "A letter about parking got the reference #87"),
    ("python-3 was upgraded on the wiki", "The game server crashed with python-3"),
    ("Kafka was upgraded and its topics were rebalanced", "Events stalled after Kafka rebalanced"),
    (
        "Redis eviction policy set to noeviction",
        "Sessions could not be stored, Redis refused writes",
    ),
    # The same with half of the words in common.
    ("user_id was null in the export of orders", "user_id was null in the import of leads"),
    ("Latency rose in us-east-1 for search", "Latency rose in us-east-1 for payroll"),
)


Incidents = tuple[str, str]


def chained(brain: Brain, cases: Sequence[Incidents]) -> list[Incidents]:
    """Store each case in a project; return those whose first incident causes the second."""
    drafts = [
        Draft(body=body, kind="incident", occurred_at=when, project=f"p{number}")
        for number, case in enumerate(cases)
        for body, when in zip(case, (START, START + timedelta(hours=3)), strict=True)
    ]
    stored_ids = [
        one.id
        for start in range(0, len(drafts), ITEMS_PER_CALL_MAX)
        for one in brain.remember(drafts[start : start + ITEMS_PER_CALL_MAX]).items
    ]
    assert None not in stored_ids
    return [
        case
        for number, case in enumerate(cases)
        if stored_ids[2 * number] in causes(brain, str(stored_ids[2 * number + 1]), f"p{number}")
    ]


def causes(brain: Brain, id_: str, project: str) -> set[str]:
    return {step.id for step in brain.acting_as(project=project).trace.causes(id_).steps}


def chain_of(brain: Brain, earlier: str, later: str, *, project: str) -> bool:
    """Store two incidents in a project; return whether the first is a cause of the second."""
    first = stored(brain, earlier, kind="incident", occurred_at=START, project=project)
    when = START + timedelta(hours=3)
    second = stored(brain, later, kind="incident", occurred_at=when, project=project)
    return first in causes(brain, second, project)


@pytest.mark.requirement("CT-10")
def test_causal_chain_continues_over_a_name_shared_by_two_incidents(brain: Brain) -> None:
    missing = {*CHAINS}.difference(chained(brain, CHAINS))
    assert len(missing) <= MISSING_MAX, missing


@pytest.mark.requirement("CT-10")
@pytest.mark.requirement("CT-11")
def test_chain_never_joins_incidents_that_share_only_words(brain: Brain) -> None:
    assert not chained(brain, UNRELATED)


@pytest.mark.requirement("CT-11", "CT-13")
def test_generic_name_joins_no_incidents(brain: Brain) -> None:
    assert not chained(brain, GENERIC)


@pytest.mark.requirement("CT-11")
def test_name_that_occurs_in_many_incidents_joins_none(brain: Brain) -> None:
    earlier, later = "billing-worker was restarted on Monday", "Letters were lost by billing-worker"
    assert chain_of(brain, earlier, later, project="rare")
    for number in range(25):
        when = START + timedelta(minutes=number)
        text = f"Customer {number} wrote a letter about billing-worker"
        stored(brain, text, kind="incident", occurred_at=when, project="busy")
    assert not chain_of(brain, earlier, later, project="busy")


@pytest.mark.requirement("CT-10")
def test_rarer_of_two_shared_names_continues_the_chain(brain: Brain) -> None:
    for number in range(6):
        text = f"Customer {number} wrote a letter about billing-worker"
        stored(brain, text, kind="incident", occurred_at=START + timedelta(minutes=number))
    rare = stored(brain, "tax_rates was truncated", kind="incident", occurred_at=START)
    later = START + timedelta(hours=1)
    stored(brain, "billing-worker was restarted", kind="incident", occurred_at=later)
    text = "Invoices of billing-worker had no sum: tax_rates was empty"
    effect = stored(brain, text, kind="incident", occurred_at=START + timedelta(hours=2))
    _, step = brain.trace.causes(effect, depth=1).steps
    assert step.id == rare


def remember_cause(brain: Brain, *, days: int) -> None:
    when = START + timedelta(days=days)
    text = "Checkout failed because the disk of the shop was full."
    brain.remember(text, kind="event", extract_causes=True, occurred_at=when)


@pytest.mark.requirement("CT-10", "CT-14")
def test_cause_that_is_stated_before_or_after_an_incident_leads_back_from_it(
    path: Path, subtests: pytest.Subtests
) -> None:
    incidents = ("Checkout failed", "Checkout failed for all customers")
    for incident, days in product(incidents, (-5, 0, 1, 5)):
        case = subtests.test(incident=incident, days=days)
        with case, a_brain(path.with_name(f"{len(incident)}-{days}.db")) as brain:
            effect = stored(brain, incident, kind="incident", occurred_at=START)
            remember_cause(brain, days=days)
            for query in (effect, incident):
                traced = brain.trace.causes(query)
                assert [one.headline for one in traced.steps] == [
                    incident,
                    "the disk of the shop | was full | Checkout failed",
                ]
                assert [one.is_guess for one in traced.roots] == [True]
                assert not any("dated after its effect" in gap for gap in traced.gaps)


@pytest.mark.requirement("CT-11")
def test_cause_of_another_incident_or_another_week_is_not_traced(
    path: Path, subtests: pytest.Subtests
) -> None:
    cases = (
        ("Checkout failed for all customers", 9),
        ("Checkout failed for all customers", -9),
        ("The checkout of the wiki tour failed", 1),
        ("Search failed for all customers", 1),
        ("Checkout succeeded after the disk was cleaned", 1),
    )
    clock = FakeClock()
    clock.move(timedelta(days=30))
    for number, (incident, days) in enumerate(cases):
        case = subtests.test(incident=incident, days=days)
        with case, a_brain(path.with_name(f"{number}.db"), clock=clock) as brain:
            effect = stored(brain, incident, kind="incident", occurred_at=START)
            remember_cause(brain, days=days)
            assert len(brain.trace.causes(effect).steps) == 1


@pytest.mark.requirement("RT-31")
def test_links_view_shows_visible_memories_that_name_the_same_entity(brain: Brain) -> None:
    cause = stored(brain, "Ann raised the pool size of payments-db", kind="event")
    private = stored(brain, "I broke the payments database", kind="event", scope="private")
    stored(brain, "The pool size of reports-db was raised", kind="event")
    effect = stored(brain, "PaymentsDb ran out of memory", kind="incident")
    view = brain.get(effect, views=["links"])
    assert view.links == ()
    assert {(one.id, one.basis, one.confidence) for one in view.related or ()} == {
        (private, "both name PaymentsDb", 0.8),
        (cause, "both name PaymentsDb", 0.8),
    }
    view_of_bob = brain.acting_as(agent="bob").get(effect, views=["links"])
    assert [one.id for one in view_of_bob.related or ()] == [cause]
    assert brain.get(effect).related is None


@pytest.mark.requirement("RT-31")
def test_links_view_shows_no_memory_for_a_generic_name(brain: Brain) -> None:
    stored(brain, "The load balancer in us-east-1 was upgraded to v2.1.0", kind="event")
    text = "Invoices in us-east-1 lost their user_id with v2.1.0"
    effect = stored(brain, text, kind="incident")
    stored(brain, "The user_id of old invoices was cleared", kind="event")
    assert brain.get(effect, views=["links"]).related == ()
