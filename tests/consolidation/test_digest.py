"""What is chosen of several texts."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.consolidation.reflection import Correction, repeated
from commonbrain.testing.builders import NOON
from commonbrain.text.capture import is_durable
from commonbrain.text.reports import ClauseType
from commonbrain.text.summaries import SourceText, body_of, digest, is_stated, titled
from commonbrain.text.tokens import estimate

WORDS = "kettle lamp bridge garden ferry violin copper winter market harbour ladder window".split()
SENTENCES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(
    lambda words: " ".join(words).capitalize() + "."
)
TEXTS = st.lists(st.lists(SENTENCES, min_size=1, max_size=5).map(" ".join), max_size=20)


DAY = (
    ("08:50", "ana", "Good morning, everyone!"),
    ("09:00", "ana", "Started work on the payment retry feature for the shop."),
    ("09:10", "tomas", "The nightly price import failed at 02:40 with a timeout."),
    ("09:20", "tomas", "Looking into the failed price import."),
    ("09:50", "tomas", "The price import failed because the supplier sends 1.2 million rows."),
    ("10:05", "ci", "CI run 4471 passed."),
    ("10:10", "ana", "We decided that a payment is retried at most 3 times."),
    ("10:30", "priya", "Can someone look at the pull request for the invoice layout?"),
    ("10:55", "tomas", "Raised the timeout of the price import to 40 minutes."),
    ("11:20", "ci", "CI run 4472 passed."),
    ("11:40", "ana", "Working on the table for the payment retries."),
    ("13:00", "priya", "The office plants look thirsty again, and the tea is out."),
    ("13:40", "priya", "Merged the invoice layout after a review by Ana."),
    ("16:00", "ci", "CI run 4473 passed."),
    ("16:30", "ana", "The payment retry job is still missing, it comes on Tuesday."),
    ("17:00", "tomas", "See you tomorrow."),
)


def a_day() -> list[SourceText]:
    return [
        SourceText(text=text, author=author, at=datetime.fromisoformat(f"2026-03-02T{at}+00:00"))
        for at, author, text in DAY
    ]


@given(TEXTS)
def test_digest_quotes_sentences_in_a_third_of_the_tokens(
    texts: list[str],
) -> None:
    sources = [SourceText(text=text, speaker="Ann", at=NOON) for text in texts]

    summary = digest(sources)

    assert summary == digest(sources)
    for point in summary.points:
        [of] = point.of
        assert point.text.removeprefix("Ann: ") in texts[of]
    digested = f"{summary.headline}\n{body_of(summary.points)}"
    if summary.points:
        assert estimate(digested) <= min(sum(map(estimate, texts)) // 3, 600)
    assert bool(summary.points) != (summary.fault is not None)


@pytest.mark.requirement("JB-01")
def test_digest_of_a_day_has_period_people_decisions_and_open_points() -> None:
    sources = a_day()

    summary = digest(sources, claims_max=8)

    assert summary.headline.startswith("2026-03-02: ")
    assert "price import" in summary.headline
    lines = body_of(summary.points).split("\n")
    assert "ana: a payment is retried at most 3 times" in lines[lines.index("Decided:") :]
    authors = {author for _, author, _ in DAY}
    assert all(line.endswith(":") or line.partition(": ")[0] in authors for line in lines)
    assert any("retry job is still missing" in line for line in lines[lines.index("Open:") :])
    digested = "\n".join(lines)
    for left_out in ("Good morning", "Started work", "Looking into", "Working on", "See you"):
        assert left_out not in digested
    tokens = sum(estimate(one.text) for one in sources)
    assert estimate(f"{summary.headline}\n{digested}") <= tokens // 3


@pytest.mark.requirement("JB-01")
def test_progress_greetings_and_questions_are_no_candidate_facts() -> None:
    claims = [point.text for point in digest(a_day(), claims_max=32).claims]

    assert claims == [
        "We decided that a payment is retried at most 3 times.",
        "The price import failed because the supplier sends 1.2 million rows.",
    ]


def test_period_of_a_digest_is_in_minutes_or_in_days() -> None:
    def title(*hours: float) -> str:
        texts = [SourceText(text="x", at=NOON + timedelta(hours=hour)) for hour in hours]
        return titled("tea", texts)

    assert title(0) == "2026-03-02 12:00: tea"
    assert title(0, 1.5) == "2026-03-02 12:00-13:30: tea"
    assert title(-3, 5) == "2026-03-02: tea"
    assert title(0, 24) == "2026-03-02 to 2026-03-03: tea"


def test_digest_repeats_no_statement() -> None:
    twice = "The harbour crane broke at noon and the ferry waited."
    idle = "Ann sat on the bench and watched the gulls for an hour."
    texts = [twice, twice, *[f"{idle} {n} boats came and went." for n in range(9)]]

    summary = digest([SourceText(text=text) for text in texts])

    assert [point.text for point in summary.points].count(twice.rstrip(".")) == 1


OPEN = (
    "The Dutch address validation still rejects house numbers with a letter.",
    "The skip permit from the council hasn't arrived and the skip is booked for Thursday.",
    "Two people got a rash from the gloves and we need to know what they are made of.",
    "Ticket 55810 shows deleted data again, engineering hasn't picked it up.",
    "We still have no Polish speaker for August, as the replacement fell through.",
)


@pytest.mark.requirement("JB-15")
def test_no_open_point_is_left_out_for_its_length() -> None:
    texts = [*OPEN, "Lunch is at noon.", "The van was washed.", "The parrot photo came."]

    summary = digest([SourceText(text=text) for text in texts])

    assert {of for point in summary.points for of in point.of} >= set(range(len(OPEN)))
    tokens = estimate(f"{summary.headline}\n{body_of(summary.points)}")
    assert tokens <= sum(map(estimate, texts))


def test_settled_open_point_is_left_out_of_the_digest() -> None:
    question = "Which certificate vendor do we use for the public hosts?"
    answer = "We use Let's Encrypt as the certificate vendor for the public hosts."
    rest = [f"The gulls of pier {n} ate the sandwiches of {n + 3} sailors." for n in range(9)]

    summary = digest([SourceText(text=text) for text in (question, answer, *rest)])

    texts = [point.text for point in summary.points]
    assert answer.rstrip(".") in texts
    assert question not in texts


IDLE = ("Ann sat on the bench and watched the gulls for an hour while boats came and went.",) * 9


TWELVE = (
    "The ferry to Aland left an hour late because of fog.",
    "Ben oiled the hinges of the north gate.",
    "The bakery delivered forty loaves at six.",
    "A tourist lost a green suitcase near the pier.",
    "The harbour crane lifted nine crates of copper.",
    "Ann repaired the violin of the school band.",
    "Rain flooded the cellar of the old library.",
    "The mayor opened the winter market at noon.",
    "Two swans nested under the iron bridge.",
    "The post office received a parcel without a stamp.",
    "The choir rehearsed in the chapel until nine.",
    "A storm broke the window of the lighthouse.",
)


@pytest.mark.requirement("JB-16")
def test_digest_of_twelve_unrelated_events_has_several_of_them() -> None:
    summary = digest([SourceText(text=text, at=NOON) for text in TWELVE])

    assert len({of for point in summary.points for of in point.of}) > 1


@pytest.mark.requirement("JB-17")
def test_digest_has_an_open_question_that_a_label_marks() -> None:
    texts = (
        "We decided that scripts on production tables run in batches of 5,000 rows.",
        "We decided that a second person approves every script before it runs.",
        "Still open: who tells the supplier that we take no more than 2 million rows?",
        *TWELVE[:2],
    )

    points = digest([SourceText(text=text) for text in texts]).points

    assert {of for point in points if point.role is ClauseType.OPEN for of in point.of} == {2}


@pytest.mark.requirement("JB-01")
def test_decisions_and_open_points_that_differ_in_a_number_or_negation_are_retained(
    subtests: pytest.Subtests,
) -> None:
    cases: list[tuple[str, str]] = [
        ("Deploy 41 failed.", "Deploy 42 failed."),
        ("Open: deploy 41 waits for a review.", "Open: deploy 42 waits for a review."),
        ("We will not use Redis.", "We will use Redis."),
        ("We will use Redis.", "We will not use Redis."),
        ("We retry a payment at most 3 times.", "We retry a refund at most 3 times."),
        ("Open: raise limit to 30.", "Raised limit to 20."),
        ("Open: rotate the key of web-03.", "Rotated the key of web-04."),
        ("Open: deploy the shop.", "The deploy of the shop failed."),
    ]
    for pair in cases:
        with subtests.test(pair=pair):
            summary = digest([SourceText(text=text) for text in (*pair, *IDLE)])

            assert {0, 1} <= {of for point in summary.points for of in point.of}


def test_short_summary_has_the_reversal_and_not_the_decision() -> None:
    texts = ["We will use Redis for the queue.", "We will not use Redis for the queue."]

    summaries = [digest([SourceText(text=text) for text in (*texts, *IDLE[:n])]) for n in range(9)]

    included = [
        {of for point in one.points for of in point.of if of < len(texts)} for one in summaries
    ]
    assert {1} in included
    assert {0} not in included


def test_digest_has_only_the_last_run_of_passed_tests() -> None:
    runs = [f"CI run {number} passed on the main branch." for number in (4471, 4472, 4473)]

    summary = digest([SourceText(text=text) for text in (*runs, *IDLE)])

    assert {of for point in summary.points for of in point.of} & {0, 1, 2} == {2}


def test_label_marks_an_open_point() -> None:
    summary = digest([SourceText(text=text) for text in ("Open: renew the contract.", *IDLE[:4])])

    assert body_of(summary.points).splitlines()[-2:] == ["Open:", "renew the contract"]


def test_texts_that_are_too_short_have_no_digest() -> None:
    assert digest([SourceText(text="The crane broke at noon.", at=NOON)]).fault == "too_short"


def test_marked_statement_is_digested_without_its_mark() -> None:
    idle = "Ann sat on the bench and watched the gulls for an hour while boats came and went."
    texts = ["@decision We keep the ferry timetable of last winter.", *[idle] * 4]

    summary = digest([SourceText(text=text) for text in texts])

    assert "We keep the ferry timetable of last winter" in body_of(summary.points).split("\n")


def test_lasting_statement_is_proposed_as_a_fact(subtests: pytest.Subtests) -> None:
    for text in [
        "We decided to keep Postgres for the billing service.",
        "Caroline prefers tea with lemon in the morning.",
        "The cause was an expired certificate of the proxy.",
    ]:
        with subtests.test(text=text):
            assert is_durable(text)


def test_question_order_guess_or_dependent_sentence_is_not_proposed(
    subtests: pytest.Subtests,
) -> None:
    for text in [
        "It was decided by then, because of that.",
        "Should we prefer Postgres over MySQL for billing?",
        "Never deploy the billing service on Friday.",
        "Maybe the cause was an expired certificate of the proxy.",
        "Lunch came late today, as on most days.",
        "Started work on the payment retry feature for the shop.",
        "Looking into the failed import, which runs on db-2.",
        "Working on the table that the retry job uses.",
        "Bergfix still uses the old certificate.",
        "The retry job runs on db-2 for now.",
    ]:
        with subtests.test(text=text):
            assert not is_durable(text)


def test_changed_number_name_or_negation_is_not_supported_by_sources() -> None:
    sources = ["The backup of Orders took 41 minutes last night.", "It ended before noon."]

    assert is_stated("The Orders backup took 41 minutes.", sources)
    assert not is_stated("The Orders backup took 14 minutes.", sources)
    assert not is_stated("The Invoices backup took 41 minutes.", sources)
    assert not is_stated("The Orders backup never took 41 minutes.", sources)


def test_correction_counts_when_three_sessions_repeat_it() -> None:
    def correction(text: str, session: str) -> Correction:
        return Correction(of=1, text=text, by=("ann", session))

    same = ["Use the staging proxy for the tests.", "use staging proxy for our tests"]
    corrections = [
        correction(same[0], "s1"),
        correction(same[1], "s2"),
        correction(same[0], "s2"),
        correction("outdated", "s3"),
    ]

    assert repeated(corrections) == []
    assert repeated([*corrections, correction(same[1], "s3")]) == [
        tuple(one for one in (*corrections, correction(same[1], "s3")) if one.text != "outdated")
    ]
