"""What recall needs of a text is read from it once, as data."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.reading import Reading
from commonbrain.model.timestamps import to_millis
from commonbrain.storage.repositories.memory_rows import decode_reading, encode_reading
from commonbrain.text.reading import read_text

NOW = datetime(2026, 3, 4, 12, tzinfo=UTC)


def reading_of(body: str, *, headline: str | None = None, keywords: str = "") -> Reading:
    return read_text(
        body[:80] if headline is None else headline, body, keywords=keywords, occurred_at=NOW
    )


def test_stems_are_of_the_words_of_headline_body_and_keywords() -> None:
    read = reading_of("We moved the reports.", headline="Reporting", keywords="harbour Ann")

    assert read.stems == {"we", "move", "report", "harbor", "ann"}


def test_code_is_found_as_it_is_written_and_by_its_words() -> None:
    read = reading_of("Run src/app.py with --dry-run on v1.2 of the mirror.")

    assert {"src/app.py", "app", "--dry-run", "dri", "v1.2", "mirror"} <= read.stems


def test_words_beyond_the_first_4000_characters_are_not_read() -> None:
    read = reading_of(f"{'tea ' * 1000}kettle", headline="tea", keywords=f"{'x ' * 2000}spoon")

    assert "tea" in read.stems
    assert read.stems.isdisjoint({"kettle", "spoon"})


@pytest.mark.parametrize(
    ("body", "share"),
    [("Is it open?", 1.0), ("It is. Is it? Why?", 0.6667), ("No.", 0.0), ("?!?", 1.0)],
)
def test_share_of_questions_counts_sentences(body: str, share: float) -> None:
    assert reading_of(body).question_share == share


def test_times_are_read_from_when_it_occurred() -> None:
    read = reading_of("The audit is on 6 March 2026. The fair was from 9 to 11 February.")
    days = [(6, 7, 3), (9, 12, 2)]

    assert read.names_time
    assert read.times == tuple(
        (
            to_millis(datetime(2026, month, first, tzinfo=UTC)),
            to_millis(datetime(2026, month, last, tzinfo=UTC)),
        )
        for first, last, month in days
    )


def test_text_without_a_time_names_none() -> None:
    read = reading_of("The kettle is blue.")

    assert not read.names_time
    assert read.times == ()


@pytest.mark.parametrize(
    ("one", "other", "are_two"),
    [
        ("Grandma takes 5 mg in the evening.", "Grandpa takes 10 mg in the evening.", True),
        ("Grandma takes 5 mg in the evening.", "Grandma takes 10 mg in the evening.", False),
        ("The limit is 5 MB.", "It is 10 MB now.", False),
        ("The limit is 5 MB.", "Is it open?", False),
    ],
)
def test_texts_are_of_two_things_if_each_names_one_that_the_other_does_not(
    one: str, other: str, *, are_two: bool
) -> None:
    ours, theirs = reading_of(one), reading_of(other)

    assert ours.is_of_another_thing(theirs) == are_two
    assert theirs.is_of_another_thing(ours) == are_two


@given(st.text(), st.text(), st.text())
def test_encoded_reading_is_decoded_as_it_was(headline: str, body: str, keywords: str) -> None:
    read = reading_of(body, headline=headline, keywords=keywords)

    assert decode_reading(encode_reading(read)) == read


@pytest.mark.parametrize("other", [None, "", "[0]", "[99,1,2]", "[1,2]", "[1,0.0,1,16,19,"])
def test_missing_damaged_or_other_reading_is_none(other: str | None) -> None:
    assert decode_reading(other) is None
