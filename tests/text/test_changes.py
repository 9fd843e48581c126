"""When a newer text says that an older one no longer holds: only on words that can be quoted."""

from itertools import permutations
from pathlib import Path
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commonbrain.model.links import Basis
from commonbrain.text.changes import find_change, may_change
from commonbrain.text.reading import read_undated
from commonbrain.text.words import read_words

WORDS = st.lists(
    st.sampled_from(
        "the cache Redis Postgres is not never runs on owns Anna Ben 8080 9090 8 two Monday Friday"
        " disabled enabled . , : moved from to in of port now no longer instead was".split()
    ),
    max_size=14,
).map(" ".join)


def test_quoted_old_value_is_a_change(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("The cleanup cron runs at 2am.", "Moved the cleanup cron from 2am to 4am."),
        ("Priya owns the invoicing service.", "Tomasz took over the invoicing service from Priya."),
        ("The search runs on Solr.", "We replaced Solr with Typesense for the search."),
        ("Pupils hand in their phones at the office.", "Pupils keep phones in lockers now."),
        ("Shipping is free from 60 euros.", "Shipping is free from 75 euros instead of 60."),
        ("Docs are built with Sphinx.", "Docs: Sphinx -> MkDocs."),
        ("The request timeout is 30s.", "Request timeout: 30s -> 60s"),
        ("MAX_UPLOAD: 10 MB", "MAX_UPLOAD: 10 MB -> 25 MB because guests send films"),
        ("We use Slack.", "We switched from Slack to Teams."),
        (
            "The treasurer of the club is Henrike Paulsen.",
            "Dimitar took over from Henrike Paulsen as treasurer.",
        ),
        ("Error alerts go to #sre.", "Error alerts go to #ops instead of #sre."),
        (
            "Telemetry: owner team Kestrel.",
            "Telemetry was handed over by team Kestrel to team Heron.",
        ),
        ("The mascot is called Pip.", "Marketing renamed the mascot from Pip to Juno."),
    ]:
        with subtests.test(older=older, newer=newer):
            expected = None if "lockers" in newer else Basis.ANNOUNCED
            assert find_change(older, newer) is expected


def test_corrected_value_is_a_correction(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("The budget is 200k.", "Correction: the budget is 140k, not 200k."),
        ("Churn in May was 4.1 percent.", "Actually churn in May was 3.4 percent."),
        ("The chair is Mr. Vukovic.", "I misread it: the chair is Mrs. Oyelaran."),
    ]:
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is Basis.CORRECTION


def test_same_statement_with_another_value_is_a_change(subtests: pytest.Subtests) -> None:
    for older, newer, basis in [
        ("The API listens on port 8080", "The API listens on port 9090", Basis.NUMBER),
        ("The pool has eight threads", "The pool has 12 threads", Basis.NUMBER),
        ("The release is on 2026-01-02", "The release is on 2026-02-03", Basis.NUMBER),
        ("The archive lives in Oslo", "The archive lives in Turin", Basis.ENTITY),
        ("Anna owns billing", "Billing is owned by Ben", Basis.VALUE),
        ("The default shell is bash", "The default shell is fish", Basis.VALUE),
        ("The key is in the drawer", "The key is in the safe", Basis.VALUE),
        ("The timeout is 30 seconds", "The timeout is 30 minutes", Basis.NUMBER),
        ("Gate: 14 C", "Gate: 22 C", Basis.NUMBER),
    ]:
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is basis


def test_denial_of_a_statement_is_a_change(subtests: pytest.Subtests) -> None:
    for older, newer, basis in [
        ("The cache is shared", "The cache isn't shared", Basis.NEGATION),
        ("Customer calls are recorded.", "Customer calls are no longer recorded.", Basis.ANNOUNCED),
        ("The parser supports XML", "The parser no longer supports XML", Basis.ANNOUNCED),
        ("We store the state in S3.", "The state no longer sits in S3.", Basis.ANNOUNCED),
    ]:
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is basis


def test_announced_value_of_the_same_attribute_is_a_change(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("The backend of the ticket shop runs on Node 20", "We're on Node 22 now"),
        ("The request timeout of the gateway is 30 seconds.", "Bumped the gateway timeout to 90s."),
        ("The budget of the fair is $25,000.", "The budget of the fair is now $25,500."),
        ("The budget of the fair is $1.2M.", "The budget of the fair is now $1.4M."),
        ("Our primary region is eu-west-1.", "As of today the primary region is eu-central-1."),
        ("Yewande lives in Leeds.", "Yewande has lived in Cardiff since October."),
        ("We raised the limit for uploads to 25 MB.", "The limit for uploads is now 40 MB."),
    ]:
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is Basis.ANNOUNCED


def test_statement_on_another_thing_is_no_change(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("Bumped react to 19.1", "Bumped vite to 7.0"),
        ("Moved pricing.md to docs/shop/.", "Moved hiring.md to docs/people/."),
        ("Moved the inventory from 6am to 8am.", "Moved the tasting to 16:30."),
        ("Renamed the bucket logs_eu to audit_eu.", "Renamed the bucket logs_us to audit_us."),
        ("Gave the chair of choir A to Ines.", "Gave the chair of choir B to Karl."),
        ("Changed the owner of board A to Ines.", "Changed the owner of board B to Karl."),
        ("Edition 7 came out in May.", "Edition 8 came out in June."),
        ("Lowered the volume of lane 1 to 5 %.", "Lowered the volume of lane 2 to 20 %."),
        ("Shelf 1 is for crate 1.", "Shelf 2 is for crate 2."),
        ("If it rains, we meet in the hall.", "If it is dry, we meet in the park."),
        ("The timeout is 30 s.", "The retry timeout is now 60 s."),
        ("The request timeout is 10 s.", "Raised the connect timeout from 10 to 30 s."),
        ("Anna leads the choir.", "Tom took over the bookkeeping of the choir from Anna."),
        ("The battery lasts 10 hours.", "The battery now charges in 2 hours."),
        ("The bus leaves at 7:15.", "The bus leaves at 8:15."),
        ("The dashboard shows CPU.", "The dashboard shows RAM."),
        ("Sprint 3 ended with two open bugs", "Sprint 4 ended with five open bugs"),
        ("Staging deploys at 09:00", "Production deploys at 17:00"),
        ("The API returns 404 for deleted users.", "The API returns 410 for deleted orders."),
        ("Anna owns billing", "Anna owns search"),
        ("Marta leads the data team.", "Sven leads the platform team."),
        ("Raised the gateway timeout to 90 s.", "Raised the worker timeout to 300 s."),
        ("Open port 8080 on web-1.", "Open port 9090 on web-1."),
        ("EU store: raw events kept 13 months.", "US store: raw events kept 36 months now."),
        ("The limit for guests is 20 MB.", "The limit for members is now 50 MB."),
    ]:
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is None


def test_talk_after_the_name_of_its_speaker_is_no_change(subtests: pytest.Subtests) -> None:
    lines = [
        "Noor: Thanks, Pavel!",
        "Noor: Wow, Pavel! That's lovely.",
        "Pavel: Hey Noor, long time no see! What's new with you?",
        "Pavel: Hey Noor! Good to hear from you.",
        "Noor: Yeah, can't wait to see it done!",
        "Noor: Yeah, good floors matter.",
        "Ana de Sousa: Lisbon",
        "Ana de Sousa: Porto",
        "Bob (support): Great",
        "Bob (support): Sure",
        "Coach: Great game!",
        "Coach: Bad game!",
    ]
    for older, newer in permutations(lines, 2):
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is None


def test_statement_that_only_mentions_a_subject_is_no_change(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("Invoices are due after 30 days.", "Renamed service billing-api to invoices."),
        ("billing-api authenticates with mTLS.", "Renamed service billing-api to invoices."),
        ("Invoices are due after 30 days.", "Updated the invoices template."),
        ("The repo acme-web uses pnpm.", "Renamed repo acme-web to storefront."),
        ("Feature flags live in Unleash.", "Removed the feature flag checkout-new-tax."),
        ("The fan gland of chamber 2 leaked.", "Replaced the fan gland on chamber 2."),
    ]:
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is None


def test_what_is_not_done_replaces_nothing(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("The port is 8080.", "We did not move the port from 8080 to 9090."),
        ("The port is 8080.", "Ann wants to change the port from 8080 to 9090."),
        ("The timeout is 30 s.", "The timeout can be raised to 60 s."),
        ("The early shift starts at 6am.", "The early shift runs from 6am to 2pm."),
        ("The train goes from Ulm to Bern.", "The train goes from Bern to Milan."),
        ("The API returns JSON.", "The API returns not just JSON but also XML."),
        ("Anna lives in Ulm.", "Anna walked from Ulm to Bern."),
    ]:
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is None


def test_change_of_a_part_or_for_a_time_is_no_change_of_the_whole(
    subtests: pytest.Subtests,
) -> None:
    for older, newer in [
        ("The pallets are in bay 4.", "Moved two pallets from bay 4 to bay 6."),
        ("Patients are seen in room 3.", "A patient is seen in room 5 instead of room 3."),
        ("Some tests take 5 s.", "Some tests take 20 s."),
        ("We eat at 7.", "On Sundays we eat at 8 instead of 7."),
        ("The dose is 20 mg.", "In week 3 the dose is raised from 20 mg to 40 mg."),
        ("Training is on Tuesday.", "This week training is on Wednesday instead of Tuesday."),
        ("Logs are kept for 30 days.", "Logs are no longer kept for 30 days in staging."),
        ("The site is checked hourly.", "The site is no longer checked hourly by hand."),
        ("My rent is 900 euros.", "Her rent is now 980 euros."),
        ("Train 7 leaves from track 5.", "Train 9 was moved from track 5 to track 6."),
        ("The connect timeout is 5 s.", "The timeout is now 60 s."),
        ("The nurse checks the drip every 2 hours.", "The nurse now changes the drip every day."),
        ("The timeout is 30 s.", "The timeout of uploads is 60 s, not 30 s."),
        ("The build runs on Jenkins.", "The mobile build runs on Bitrise instead of Jenkins."),
        ("Standup is at 9:30.", "Standup of the design team is at 10:00 instead of 9:30."),
        ("The tests are in tests/unit.", "The tests are on Buildkite."),
        ("Cron jobs live in the infra repo.", "Cron jobs live on the bastion."),
    ]:
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is None


def test_time_at_which_a_change_was_made_does_not_limit_it() -> None:
    older = "The nightly run starts at 02:00."
    assert find_change(older, "On Monday we moved the nightly run from 02:00 to 04:30.")
    assert find_change(older, "The nightly run starts at 04:30 instead of 02:00.")


def test_values_that_add_up_are_no_change(subtests: pytest.Subtests) -> None:
    for older, newer in [
        ("Maria speaks Spanish.", "Maria speaks French."),
        ("The parser supports comments", "The parser supports trailing commas"),
        ("The kids have been to Denmark.", "The kids have been to Iceland."),
        ("The backup took 14 minutes.", "The backup took 22 minutes."),
        ("The server is slow", "The server is noisy"),
        ("reader: parse CSV", "reader: parse Parquet"),
        ("The notary charges 350 euros.", "The notary charges 350 euros an hour."),
        ("The demo is on Friday", "Is the demo on Monday?"),
    ]:
        with subtests.test(older=older, newer=newer):
            assert find_change(older, newer) is None


def test_open_and_close_are_two_attributes() -> None:
    assert find_change("The shop opens at 7:00", "The shop now closes at 18:00") is None
    assert find_change("The shop opens at 7:00", "The shop now opens at 8:00") is Basis.ANNOUNCED


def test_wider_statement_covers_a_narrower_one() -> None:
    older = "Backups are kept for 14 days in the EU."
    assert find_change(older, "All backups are now kept for 30 days.") is Basis.ANNOUNCED
    assert find_change(older, "Backups are now kept for 30 days in Norway.") is None


@example("cache Redis . not cache Monday")
@given(WORDS)
def test_text_never_changes_itself(text: str) -> None:
    assert find_change(text, text) is None


@given(WORDS, WORDS)
def test_text_changes_nothing_that_it_repeats(older: str, more: str) -> None:
    assert find_change(older, f"{older}.\n{more}") is None


@given(WORDS, WORDS)
def test_every_pair_of_texts_is_judged(older: str, newer: str) -> None:
    assert find_change(older, newer) in {*Basis, None}


@example("Anna", "Ben owns the cache.", "Anna owns the cache. Now `pool size` = 8, not 4.")
@given(WORDS, WORDS | st.text(max_size=80), WORDS)
def test_stored_words_of_a_text_rule_out_no_change(headline: str, older: str, newer: str) -> None:
    stems = read_undated(headline, older).stems
    assert stems >= {word.key for word in read_words(older) if word.is_content}
    assert find_change(older, newer) is None or may_change(newer, words=stems)


def test_hostile_statement_is_read_in_little_time(subtests: pytest.Subtests) -> None:
    units = ["a", "A.", "1.", "is ", "not ", ", the is ", "from to ", ": a is ", "->", "a-", "\n"]
    for unit in units:
        with subtests.test(unit=unit):
            text = (unit * 600)[:600]
            started = process_time()
            find_change(text, f"{text}x")
            assert process_time() - started < 1


def test_every_example_of_the_documentation_is_judged_as_it_says(
    subtests: pytest.Subtests,
) -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "changes.md"
    rows = [line.strip("| ").split(" | ") for line in page.read_text("utf-8").splitlines()]
    examples = [row for row in rows if len(row) == 3 and row[2].startswith(("changed", "both"))]
    assert len(examples) == 10
    for older, newer, expected in examples:
        with subtests.test(older=older, newer=newer):
            assert (find_change(older, newer) is not None) == expected.startswith("changed")
