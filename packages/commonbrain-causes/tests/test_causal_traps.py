"""Sentences that read like causes: amounts, destinations, denials, repairs, pronouns, asides."""

import pytest
from commonbrain_causes.patterns import extract_atoms

CAUSES = (
    (
        "The API returned 500s for an hour. This was caused by a bad feature flag.",
        "a bad feature flag",
        "The API returned 500s for an hour",
    ),
    (
        "The vendor confirmed that the outage was caused by a defective cable.",
        "a defective cable",
        "the outage",
    ),
    (
        "The node rebooted at 04:00, and since its fstab was wrong, no volume was mounted.",
        "its fstab was wrong",
        "no volume was mounted",
    ),
    (
        "A misconfigured health check took the whole pool out of rotation.",
        "A misconfigured health check",
        "took the whole pool out of rotation",
    ),
    (
        "A leftover pid file keeps the queue from starting.",
        "A leftover pid file",
        "keeps the queue from starting",
    ),
    (
        "The nightly sync duplicated 900 contacts yesterday.",
        "The nightly sync",
        "duplicated 900 contacts yesterday",
    ),
    (
        "The list view loads faster thanks to keyset pagination.",
        "keyset pagination",
        "The list view loads faster",
    ),
    (
        "The cable was cut near Lyon, leaving the village without internet.",
        "The cable was cut near Lyon",
        "leaving the village without internet",
    ),
    (
        "All data of a tenant is on one server, so no tenant can be larger.",
        "All data of a tenant is on one server",
        "no tenant can be larger",
    ),
    (
        "The payment worker hung since its certificate had been issued for the old host.",
        "its certificate had been issued for the old host",
        "The payment worker hung",
    ),
    (
        "The invoice run was delayed by a broken printer.",
        "a broken printer",
        "The invoice run was delayed",
    ),
    (
        "The release was delayed by a two-week code freeze.",
        "a two-week code freeze",
        "The release was delayed",
    ),
    ("We traced the errors to a stale DNS entry.", "a stale DNS entry", "the errors"),
    ("We tracked the memory leak down to the image cache.", "the image cache", "the memory leak"),
    ("The slow logins were traced to a missing index.", "a missing index", "The slow logins"),
    (
        "Checkout was down for an hour. Root cause: human error. Bob dropped the table.",
        "human error",
        "Checkout was down for an hour",
    ),
    (
        "The disk of db1 was checked. It failed because it was full.",
        "The disk of db1 was full",
        "The disk of db1 failed",
    ),
    (
        "The worker restarts every hour. It crashes because it leaks memory.",
        "The worker leaks memory",
        "The worker crashes",
    ),
    (
        "The pods restarted twice. They crashed because they ran out of memory.",
        "The pods ran out of memory",
        "The pods crashed",
    ),
    (
        "The build broke because it was pinned to Node 12.",
        "it was pinned to Node 12",
        "The build broke",
    ),
    ("It was slow due to a missing index.", "a missing index", "It was slow"),
    (
        "The search page was rewritten. It was slow due to a missing index.",
        "a missing index",
        "The search page was slow",
    ),
    (
        "Ann's laptop crashed because Bob's update removed the driver.",
        "Bob's update removed the driver",
        "Ann's laptop crashed",
    ),
    (
        "The demo failed because of Ann's expired certificate.",
        "Ann's expired certificate",
        "The demo failed",
    ),
    (
        "The customers' invoices were wrong because the shop's tax table was old.",
        "the shop's tax table was old",
        "The customers' invoices were wrong",
    ),
    (
        "The build was broken by Ann's change to the parser.",
        "Ann's change to the parser",
        "The build was broken",
    ),
    (
        "The import failed because the file was empty (see the log of Monday).",
        "the file was empty (see the log of Monday)",
        "The import failed",
    ),
    (
        "Uploads failed because the disk (db1, 2 TB) was full.",
        "the disk (db1, 2 TB) was full",
        "Uploads failed",
    ),
    (
        "The cache server (redis) was restarted, causing (brief) timeouts in checkout.",
        "The cache server (redis) was restarted",
        "(brief) timeouts in checkout",
    ),
    (
        "Response times were doubled by a noisy neighbour.",
        "a noisy neighbour",
        "Response times were doubled",
    ),
    (
        "The handover was delayed by three days of heavy rain.",
        "three days of heavy rain",
        "The handover was delayed",
    ),
    ("The import was delayed by one stuck worker.", "one stuck worker", "The import was delayed"),
    (
        "Engineers traced the duplicate mails to a retry loop.",
        "a retry loop",
        "the duplicate mails",
    ),
    (
        "We tracked the crash down to a null pointer in the parser.",
        "a null pointer in the parser",
        "the crash",
    ),
    (
        "The corrupted rows were traced back to the import script.",
        "the import script",
        "The corrupted rows",
    ),
    (
        "Search was down. Root cause: an expired licence. Dora renewed it at noon.",
        "an expired licence",
        "Search was down",
    ),
    (
        "The scheduler was upgraded. It skipped jobs because its clock was wrong.",
        "its clock was wrong",
        "The scheduler skipped jobs",
    ),
    (
        "The gateway was patched. It dropped requests, so clients retried.",
        "The gateway dropped requests",
        "clients retried",
    ),
    (
        "The nodes were replaced. They rebooted because they had lost power.",
        "The nodes had lost power",
        "The nodes rebooted",
    ),
    (
        "The page was slow because the shop's open orders were counted each time.",
        "the shop's open orders were counted each time",
        "The page was slow",
    ),
    (
        "The nightly build failed because Ann's work branch removed a header.",
        "Ann's work branch removed a header",
        "The nightly build failed",
    ),
    (
        "The customers' orders were lost because the teams' queue overflowed.",
        "the teams' queue overflowed",
        "The customers' orders were lost",
    ),
    (
        "The network was disrupted by the vendor's upgrade.",
        "the vendor's upgrade",
        "The network was disrupted",
    ),
    (
        "The cert (issued because of an audit) expired, causing login errors.",
        "The cert (issued because of an audit) expired",
        "login errors",
    ),
    (
        "Mails were late because the queue (mail-2) had stalled.",
        "the queue (mail-2) had stalled",
        "Mails were late",
    ),
    (
        "The fan died (again), leading to a shutdown of the rack.",
        "The fan died (again)",
        "a shutdown of the rack",
    ),
    (
        "Root cause: a nightly backfill locked the invoices table. Restarting the worker fixed it.",
        "a nightly backfill",
        "locked the invoices table",
    ),
    (
        "Root-cause: the nightly purge wiped every open basket.",
        "the nightly purge",
        "wiped every open basket",
    ),
    (
        "Root cause: the importer crashed because the file was empty. Ann repaired it.",
        "the file was empty",
        "the importer crashed",
    ),
    (
        "The search page crashed after node9 was evicted.",
        "node9 was evicted",
        "The search page crashed",
    ),
    (
        "After the index was rebuilt, the search page failed.",
        "the index was rebuilt",
        "the search page failed",
    ),
    (
        "The outage was caused by a typo in the route, not by the release.",
        "a typo in the route",
        "The outage",
    ),
    (
        "The crash was caused by a bad driver and not by the new kernel.",
        "a bad driver",
        "The crash",
    ),
    (
        "The crash was due to a bad driver rather than the new kernel.",
        "a bad driver",
        "The crash",
    ),
    (
        "The delay was caused by a stuck lift instead of by the strike.",
        "a stuck lift",
        "The delay",
    ),
    (
        "The crash was caused by a bad driver, not the new kernel.",
        "a bad driver",
        "The crash",
    ),
    (
        "Mails bounced because the queue was full, not because of the new relay.",
        "the queue was full",
        "Mails bounced",
    ),
    (
        "The errors were traced to a bad cable, not to the switch.",
        "a bad cable",
        "The errors",
    ),
    (
        "The report was wrong because the client used UTC rather than local time.",
        "the client used UTC rather than local time",
        "The report was wrong",
    ),
    (
        "The page was slow because the view loaded all rows instead of by page.",
        "the view loaded all rows instead of by page",
        "The page was slow",
    ),
)
"""A text, the cause that it states, and the effect."""
NO_CAUSES = (
    "The release was delayed by two weeks.",
    "The launch was postponed by 3 days in the end.",
    "The migration was slowed down by about an hour.",
    "The report was delayed by half a day again.",
    "The queue was delayed by several minutes on Monday.",
    "The budget was cut by forty percent in the spring.",
    "Latency was reduced by 30 ms in the new build.",
    "We traced the requests to the gateway.",
    "We tracked the parcel to the warehouse in Leeds.",
    "I traced the call to the billing service.",
    "The team tracked the users to the new site.",
    "We traced the packets back to the office router.",
    "The requests were traced to the edge node in Paris.",
    "The outage was caused by nothing we changed.",
    "The crash was caused by no change of ours.",
    "The delay was not caused by the new scheduler.",
    "The errors were never caused by the load balancer.",
    "The timeouts are caused by neither the proxy nor the pool.",
    "The slow pages were caused by none of these changes.",
    "The failure was due to nothing in the release.",
    "The spike did not result from the nightly import.",
    "Nothing failed because of the new certificate.",
    "Root cause: human error. Bob dropped the table.",
    "Root cause: a bad migration. Ann deleted the column by hand.",
    "Root cause: a typo in the firewall rule. Carla fixed the rule at noon.",
    "Root cause: an expired token. The token was renewed at nine.",
    "It failed because it was full.",
    "They crashed because they ran out of memory.",
    "This happened because that was wrong.",
    "Learned that the vendor API is rate limited",
    "Thanks to the cook for the soup.",
    "The fund thanked all helpers, thanks to everyone who came.",
    "Legend says the tower fell because of an earthquake.",
    "The theory that the heat caused the failure was dropped.",
    "The tool shows which query caused the lock.",
    "A talk about how caching led to faster pages was given on Monday.",
    "It is possible that the outage was caused by a loose plug.",
    "The plan is to run the job at night because the load is lower.",
    "Such crashes are rarely caused by dust.",
    "We did not find that the disk caused the crash.",
    "The seal, due to its age, is stored in the museum.",
    "The backup didn't stop due to the tape but due to the fuse.",
    "The problem can be solved by adding more memory.",
    "We need the numbers by noon so that the board can decide.",
    "Since you asked, the report is in the shared folder.",
    "Passwords are hashed with argon2id since the auth rewrite landed.",
    "Answer customers in their own language. If none of us speaks it, write English.",
    "The coach left the players without a break.",
    "We walked home, leaving the car at the station.",
    "He sings, which makes me happy.",
    '"It failed because of dust," said Omar.',
    "It looks like a slow query exhausted the pool.",
    "Logins failed (because of an expired certificate) for an hour.",
    "The site was slow (the cache was cold because it had restarted) until noon.",
    "The job failed (twice, because the token had expired).",
    "The proxy (nginx, which broke the header last year) was replaced.",
    "The rollout was held up by almost a month.",
    "The train was delayed by 45 minutes.",
    "The build was slowed by 20% last week.",
    "The order was delayed by a further two business days.",
    "We traced the order to the depot in Leeds.",
    "The traffic was traced to a customer in Spain.",
    "The alarm was triggered by nobody on our side.",
    "The regression was caused by none of the commits of today.",
    "The backlog was caused by no single service.",
    "Root cause: a missing index. Emil added an index on Friday.",
    "Ann opened the ticket. It failed because it was old.",
    "The node was replaced. They rebooted because they had lost power.",
    "The parser reads the file. It crashed because it was empty.",
    "When it rains, the cellar of the office floods.",
    "Checkout failed (the disk was full, which broke the log) on Monday.",
    "Root cause: a full disk. The disk was replaced on Tuesday.",
    "Root cause: a full disk. The site recovered at noon.",
    "Root cause: a bad cable. Emil restarted it.",
    "Root cause: bad firmware. Every disk was replaced.",
    "The root cause was not the migration, which locked the orders table.",
    "The root cause was found when Ann restarted the node, which broke the cache.",
    "The root cause is unknown because nobody measured the queue.",
    "The root cause of the outage was Bob, and this locked the orders table.",
    "The outage was caused not by the deploy but by a typo.",
    "After a late lunch, the projector failed.",
    "After some time, the disk failed.",
)

PARTS = (
    (
        "The regional DNS resolver was slow, so pages timed out.",
        ("The regional DNS resolver", "was slow", "pages timed out"),
    ),
    (
        "The wildcard TLS certificate expired, so logins failed.",
        ("The wildcard TLS certificate", "expired", "logins failed"),
    ),
    (
        "The shared AWS account hit its quota, so uploads failed.",
        ("The shared AWS account", "hit its quota", "uploads failed"),
    ),
    (
        "The strict CORS policy rejected the app, so carts stayed empty.",
        ("The strict CORS policy", "rejected the app", "carts stayed empty"),
    ),
    (
        "Trucks were lost because the GPS receiver was off.",
        ("the GPS receiver", "was off", "Trucks were lost"),
    ),
    (
        "Pages broke because the legacy CMS plugin crashed.",
        ("the legacy CMS plugin", "crashed", "Pages broke"),
    ),
    (
        "The alarm was missed because the status LED was broken.",
        ("the status LED", "was broken", "The alarm was missed"),
    ),
    (
        "The deploy FAILED because the disk WAS full.",
        ("the disk", "WAS full", "The deploy FAILED"),
    ),
    (
        "THE DISK FAILED BECAUSE THE FAN STOPPED.",
        ("THE FAN", "STOPPED", "THE DISK FAILED"),
    ),
    (
        "The import failed because of a delay (90 s) at the bank.",
        ("a delay (90 s) at the bank", "", "The import failed"),
    ),
    (
        "Mails bounced because of DNS (again).",
        ("DNS (again)", "", "Mails bounced"),
    ),
    (
        "Orders were lost because the queue (which drops old messages) was full.",
        ("the queue (which drops old messages)", "was full", "Orders were lost"),
    ),
    (
        "Clients saw 504s because haproxy could not open a socket.",
        ("haproxy", "could not open a socket", "Clients saw 504s"),
    ),
    (
        "Pages were blank because the browser couldn't parse the reply.",
        ("the browser", "couldn't parse the reply", "Pages were blank"),
    ),
    (
        "The job died because the pod would not start.",
        ("the pod", "would not start", "The job died"),
    ),
)
"""A text with the subject, the action and the outcome."""


@pytest.mark.requirement("WP-45", "WP-50")
def test_subject_and_verb_of_a_cause_are_separated(subtests: pytest.Subtests) -> None:
    for text, parts in PARTS:
        with subtests.test(text=text, parts=parts):
            [atom] = extract_atoms(text)
            assert (atom.subject, atom.action, atom.outcome) == parts


@pytest.mark.requirement("WP-45", "WP-50")
def test_cause_and_effect_are_extracted_as_whole_phrases(subtests: pytest.Subtests) -> None:
    for text, cause, effect in CAUSES:
        with subtests.test(text=text, cause=cause, effect=effect):
            [atom] = extract_atoms(text)
            assert (f"{atom.subject} {atom.action}".strip(), atom.outcome) == (cause, effect)
            assert not atom.subject.endswith(("'s", "s'"))


@pytest.mark.requirement("WP-45", "WP-50")
def test_text_that_resembles_a_cause_yields_no_atom(subtests: pytest.Subtests) -> None:
    for text in NO_CAUSES:
        with subtests.test(text=text):
            assert extract_atoms(text) == ()


@pytest.mark.parametrize(
    "note",
    [
        "Le champ est vide because la valeur manque dans la table des clients.",
        "El informe falla because la tabla no tiene los datos de ventas.",
    ],
)
def test_english_word_in_a_text_of_another_language_states_no_cause(note: str) -> None:
    assert extract_atoms(note) == ()
