import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.limits import HEADLINE_CHARS_MAX, HEADLINE_WORDS_MAX
from commonbrain.model.memory import full_text
from commonbrain.text.headlines import derive_headline, shorten_to_headline

LINES = st.sampled_from(
    [
        "Thanks, Melanie!",
        "Hey Ana: we ship on Friday. OK?",
        "```python",
        "# Notes",
        "| a | b |",
        "|---|---|",
        "---",
        "2026-03-02 14:05:11 ERROR disk of db-4 is full",
        "@decision Use Postgres",
        "Ana: I think, since the tide (of May) turned, that we, who moved twice, leave; stay there",
        "> - [x] **Bold** claims, because __init__ said so",
        "On Monday Bo wrote:",
        "",
        "会議は月曜日。始まります。",
        "word " * 40,
        "x" * 300,
    ]
)


def test_headline_is_the_most_informative_clause(subtests: pytest.Subtests) -> None:
    for body, headline in [
        (
            "Hey Mel! Thanks so much. I passed the adoption interviews last Friday!",
            "I passed the adoption interviews last Friday!",
        ),
        (
            "The API timeout is 30 seconds. It was chosen in March.",
            "The API timeout is 30 seconds.",
        ),
        (
            "Melanie: Wow, Caroline! I run a pottery class on Tuesdays.",
            "Melanie: I run a pottery class on Tuesdays.",
        ),
        ("Hi Bo, by the way, the lock gate closes at noon.", "The lock gate closes at noon."),
        (
            "Talked for an hour | @decision We store vectors as int8 |",
            "We store vectors as int8",
        ),
        ("#payments The webhook is signed. #urgent", "The webhook is signed."),
        ("## Decision\n\nWe sign webhooks with Ed25519.", "We sign webhooks with Ed25519."),
        ("```sh\nmake\n```\nThe tables need Python 3.12.", "The tables need Python 3.12."),
        (
            "2026-03-02T14:05:11Z INFO started\n2026-03-02T14:05:12Z ERROR disk of db-4 is full",
            "Disk of db-4 is full",
        ),
        (
            "The gateway of the northern harbour sends every request that fails\n"
            "to Malmö. It is slow.",
            "The gateway of the northern harbour sends every request that fails to Malmö.",
        ),
        ("Dear Mr Holm,\n\nOrder 77 ships on 4 April.\n\nBest,\nEva", "Order 77 ships on 4 April."),
    ]:
        with subtests.test(body=body, headline=headline):
            assert derive_headline(body).casefold() == headline.casefold()


def test_text_without_a_statement_has_its_best_line_as_headline(subtests: pytest.Subtests) -> None:
    for body, headline in [
        ("Thanks, Melanie!", "Thanks, Melanie!"),
        ("```python\nimport os\n\ndef retry(call):\n    ...\n```", "def retry(call)"),
        ("```sql\n-- Accounts without a login\nSELECT 1;\n```", "Accounts without a login"),
        ("| Port | Host |\n|---|---|\n| 8080 | web |\n| 1 | x |", "Port, Host: 8080, web"),
        ("https://example.org/x", "https://example.org/x"),
        ("---\ntitle: Tides\n---", "Tides"),
        ("🎉", "🎉"),
    ]:
        with subtests.test(body=body, headline=headline):
            assert derive_headline(body) == headline


def test_headline_is_neither_a_code_fence_nor_a_table_row(subtests: pytest.Subtests) -> None:
    for body, headline in [
        ("```python\nprint(1)\n```", "print(1)"),
        ("- ```python\n  foo()\n  ```\n- The parser is slow.", "The parser is slow."),
        ("> ```python\n> foo()\n> ```", "foo()"),
        ("```python", "python"),
        (
            "```python print(1)```\nThe parser copies the buffer on each call.",
            "The parser copies the buffer on each call.",
        ),
        ("```sh\n# rotate the logs\nlogrotate -f\n```", "rotate the logs"),
        ("| a | b |", "a, b"),
        ("> | a | b |\n> |---|---|\n> | 1 | 2 |\nThe port is 80.", "The port is 80."),
        ("1. | a | b |", "a, b"),
    ]:
        with subtests.test(body=body, headline=headline):
            assert derive_headline(body) == headline


def test_headline_of_a_long_sentence_has_subject_predicate_and_value(
    subtests: pytest.Subtests,
) -> None:
    for sentence, headline in [
        (
            "After the third outage in two weeks, which woke Ana twice and cost us a customer,"
            " the platform team moved session storage from Redis to Postgres.",
            "the platform team moved session storage from Redis to Postgres.",
        ),
        (
            "My grandmother Alma, who was born in a village near Kaunas in 1931 and came by ship,"
            " baked rye bread every Saturday.",
            "My grandmother Alma … baked rye bread every Saturday.",
        ),
        (
            "Deployments to production need the approval of two people from different teams"
            " unless the commander has declared an emergency.",
            "Deployments to production need the approval of two people from different teams…",
        ),
    ]:
        with subtests.test(sentence=sentence, headline=headline):
            assert shorten_to_headline(sentence) == headline


@given(st.lists(LINES, max_size=12).map("\n".join).filter(str.strip))
def test_headline_fits_and_contains_only_words_of_the_text(body: str) -> None:
    headline = derive_headline(body)
    assert headline
    assert len(headline) <= HEADLINE_CHARS_MAX
    assert len(headline.split()) <= HEADLINE_WORDS_MAX
    assert full_text(headline, body) == body


def test_headline_with_other_words_is_added_to_the_full_text() -> None:
    assert full_text("Use C++", "Use C") == "Use C++\nUse C"
    assert full_text("Bob leads Ana", "Ana leads Bob") == "Bob leads Ana\nAna leads Bob"
