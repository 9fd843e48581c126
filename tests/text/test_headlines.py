import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.limits import HEADLINE_CHARS_MAX, HEADLINE_WORDS_MAX
from commonbrain.model.memory import full_text
from commonbrain.text.headlines import derive_headline, shorten_to_headline
from commonbrain.text.search_words import count_words

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


def test_headline_of_a_short_text_is_the_text(subtests: pytest.Subtests) -> None:
    for body, headline in [
        ("The API timeout is 30 seconds. It was chosen in March.", None),
        ("Hi Bo, by the way, the lock gate closes at noon.", None),
        ("@maria needs to follow up with Kestrel #billing", None),
        ("Use pnpm, never npm.", None),
        ("Use pnpm.\nNever npm.", "Use pnpm. Never npm."),
        ("- [ ] Use uv. Soon.", "Use uv. Soon."),
        ("## Decision\n\nWe sign webhooks with Ed25519.", "We sign webhooks with Ed25519."),
        ("## Test\n\nThe suite runs on two cores.", "The suite runs on two cores."),
        ("```sh\nmake\n```\nThe tables need Python 3.12.", "The tables need Python 3.12."),
        ("2026-03-02 14:05:11 ERROR disk of db-4 is full", "disk of db-4 is full"),
    ]:
        with subtests.test(body=body):
            assert derive_headline(body) == (headline or body)


def test_headline_of_a_longer_text_is_the_clause_that_says_its_point(
    subtests: pytest.Subtests,
) -> None:
    for body, headline in [
        (
            "Hi Eva, thanks for the call of this morning. The warranty of the pump is void"
            " without the yearly service. Have a nice weekend!",
            "The warranty of the pump is void without the yearly service.",
        ),
        (
            "I started by reading the logs of the last three days. In the end it turned out that"
            " the slow queries come from a missing index on orders.customer_id. I changed nothing.",
            "the slow queries come from a missing index on orders.customer_id.",
        ),
        (
            "We drove up with two cars and had lunch at the pass. From now on no trip over 200 km"
            " with the old van. We were home at six.",
            "From now on no trip over 200 km with the old van.",
        ),
        (
            "Added retries to the failed runs page. Was exhausted by a slow report query. The pool"
            " of the dashboard has 20 connections and must not be raised above 25.",
            "The pool of the dashboard has 20 connections and must not be raised above 25.",
        ),
        (
            "We had soup and went home early that day. The crane is shared with the shipyard. It"
            " lifts 40 tons. Mia sang.",
            "The crane is shared with the shipyard. It lifts 40 tons.",
        ),
        (
            "The talk was fine and the room was full. Use pnpm in all repositories of the shop,"
            " never npm or yarn. Lunch was late.",
            "Use pnpm in all repositories of the shop, never npm or yarn.",
        ),
        (
            "@maria needs to follow up with the Kestrel team on the invoice of March, since the"
            " second reminder was never answered by anyone there.",
            "@maria needs to follow up with the Kestrel team on the invoice of March…",
        ),
        (
            "Melanie: Wow, Caroline! That is great to hear and I am so glad about it. I run a"
            " pottery class on Tuesdays in the old mill.",
            "Melanie: I run a pottery class on Tuesdays in the old mill.",
        ),
        (
            "The gateway of the northern harbour sends every request that fails\n"
            "to Malmö. It is slow, and the people of the harbour office complain.",
            "The gateway of the northern harbour sends every request that fails to Malmö.",
        ),
        (
            "Dear Mr Holm,\n\nthank you for your mail of Monday. Order 77 ships on 4 April from"
            " Hull.\n\nBest,\nEva",
            "Order 77 ships on 4 April from Hull.",
        ),
    ]:
        with subtests.test(body=body):
            assert derive_headline(body) == headline


def test_text_without_a_statement_has_its_best_line_as_headline(subtests: pytest.Subtests) -> None:
    for body, headline in [
        ("Thanks, Melanie!", "Thanks, Melanie!"),
        ("```python\nimport os\n\ndef retry(call):\n    ...\n```", "def retry(call)"),
        ("```sql\n-- Accounts without a login\nSELECT 1;\n```", "Accounts without a login"),
        ("| Port | Host |\n|---|---|\n| 8080 | web |\n| 1 | x |", "Port, Host: 8080, web"),
        ("https://example.org/x", "https://example.org/x"),
        ("---\ntitle: Tides\n---", "title: Tides"),
        ("@@ -4 +4 @@\n-RETRIES = 2\n+RETRIES = 5", "@@ -4 +4 @@ -RETRIES = 2 +RETRIES = 5"),
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
            "Deployments to production need the approval of two people from different teams"
            " unless the commander has declared an emergency.",
            "Deployments to production need the approval of two people from different teams…",
        ),
    ]:
        with subtests.test(sentence=sentence, headline=headline):
            assert shorten_to_headline(sentence) == headline


def test_headline_does_not_state_what_the_text_denies() -> None:
    clause = "that the router firmware 4.2 has the bug that drops packets larger than 1400 bytes"
    for opening in ["The vendor denied", "We rejected the claim", "Ann doubts"]:
        headline = derive_headline(f"{opening} {clause} on tunnels between the two offices.")
        assert headline.startswith(opening)


def test_line_of_marks_alone_joins_nothing() -> None:
    assert derive_headline(f"{'`' * 60}\nabc def is here") == "abc def is here"


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


@pytest.mark.requirement("RT-42")
@pytest.mark.parametrize(
    ("body", "headline"),
    [
        (
            "图形验证码只在同一个地址连续输错五次密码之后才出现\uff0c产品坚持不要一上来就弹。",
            "图形验证码只在同一个地址连续输错五次密码之后才出现…",
        ),
        (
            "รหัสผ่านของผู้ดูแล ต้องยาวอย่างน้อยสิบหกตัวอักษรและเปลี่ยนทุกสามเดือน",
            "รหัสผ่านของผู้ดูแล…",
        ),
        ("订单服务归青松组管\uff0c改表结构之前先评审。", None),
    ],
)
def test_words_of_a_headline_are_counted_in_scripts_without_blanks(
    body: str, headline: str | None
) -> None:
    assert derive_headline(body) == (headline or body)
    assert count_words(derive_headline(body)) <= HEADLINE_WORDS_MAX
