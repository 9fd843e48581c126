import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.search_words import count_words
from commonbrain.text.segmentation import (
    CHUNK_WORDS_MAX,
    CHUNK_WORDS_MIN,
    passages,
    split,
    split_sentences,
)

PIECES = st.sampled_from(
    [
        *("one", "two.", "Three!", "\n", "\n\n", " ", "```", "等等。", "word " * 90, "See also:"),
        *("\n# Title\n", "\n\n## Part", "\n**Bold:**\n", "\n---\n", "Port: 8080", "\n### \n"),
    ]
)
WORD = re.compile(r"\w+")


@pytest.mark.requirement("WP-39")
@given(st.lists(PIECES, max_size=40).map("".join) | st.lists(PIECES).map(" ".join) | st.text())
def test_every_word_of_a_text_is_in_a_chunk_or_its_section(text: str) -> None:
    chunks = split(text)
    parts = Counter(WORD.findall("\n".join(f"{one.text}\n{one.section}" for one in chunks)))
    assert Counter(WORD.findall(text)) <= parts
    assert all(count_words(one.text) <= CHUNK_WORDS_MAX + CHUNK_WORDS_MIN for one in chunks)


@given(st.lists(PIECES).map(" ".join) | st.text())
def test_passages_have_the_whole_text_in_order(text: str) -> None:
    joined = "".join(passages(text))
    assert re.sub(r"[\W_]", "", joined) == re.sub(r"[\W_]", "", text)


def test_short_passage_joins_its_neighbour(subtests: pytest.Subtests) -> None:
    for text, parts in [
        (
            "The API is written in Go.\n\nPort: 8080\n\nRegion: fra\n\nThe UI is written in Elm.",
            [
                ("The API is written in Go.\n\nPort: 8080\n\nRegion: fra", ""),
                ("The UI is written in Elm.", ""),
            ],
        ),
        (
            "Hi!\n\nNever deploy on a Friday evening.\n\nBye.",
            [("Hi!\n\nNever deploy on a Friday evening.\n\nBye.", "")],
        ),
        (
            "Steps to rotate the key of the vault:\n\n1. make one\n2. deploy\n\nOwner: platform",
            [
                (
                    "Steps to rotate the key of the vault:\n\n1. make one\n2. deploy"
                    "\n\nOwner: platform",
                    "",
                )
            ],
        ),
        ("Call me back.\n\n---\n\n好的。", [("Call me back.\n\n好的。", "")]),
    ]:
        with subtests.test(text=text):
            assert [(one.text, one.section) for one in split(text)] == parts


def test_titles_are_the_section_of_the_passages_below_them(subtests: pytest.Subtests) -> None:
    for text, parts in [
        (
            "# Postmortem 12\n\n## Cause\nThe disk of the database was full.\n\n"
            "It filled at night, every day.\n"
            "**Lessons:**\nAlert at 80% of its size.\n\n## Fix\nLogs rotate.\n\n# End",
            [
                (
                    "# Postmortem 12\n\n## Cause\n\nThe disk of the database was full.",
                    "Postmortem 12 > Cause",
                ),
                ("It filled at night, every day.", "Postmortem 12 > Cause"),
                (
                    "**Lessons:**\n\nAlert at 80% of its size.",
                    "Postmortem 12 > Cause > Lessons",
                ),
                ("## Fix\n\nLogs rotate.\n\n# End", "Postmortem 12 > Fix"),
            ],
        ),
        (
            "# Port\n\n8080\n\n# Region\n\nfra",
            [("# Port\n\n8080", "Port"), ("# Region\n\nfra", "Region")],
        ),
        (
            "# Notes of today\n\n# Rules\n\nNever deploy on a Friday evening.",
            [("# Notes of today\n\n# Rules\n\nNever deploy on a Friday evening.", "Rules")],
        ),
        ("```\n# no title\n\nls\n```", [("```\n# no title\n\nls\n```", "")]),
        (
            "# This line has so many words that it is a statement and no title at all",
            [("# This line has so many words that it is a statement and no title at all", "")],
        ),
    ]:
        with subtests.test(text=text):
            assert [(one.text, one.section) for one in split(text)] == parts


def test_long_paragraph_is_split_at_lines_then_sentences_then_words() -> None:
    sentence = "The ferry leaves at dawn and comes back at night. "
    lines = f"A first line of five words\n{sentence * 60}"
    texts = [one.text for one in split(lines)]
    assert texts[0] == "A first line of five words"
    assert all(one.endswith(".") for one in texts[1:])
    assert max(map(count_words, texts)) <= CHUNK_WORDS_MAX
    assert max(count_words(one.text) for one in split("word " * 1000)) <= CHUNK_WORDS_MAX


def test_sentences_end_at_marks_and_lines_and_not_after_titles() -> None:
    text = "Dr. Vance is ill, e.g. today. Mr. Ho is in!\n\nCall 3.5 times? 好。是。"
    assert split_sentences(text) == [
        *("Dr. Vance is ill, e.g. today.", "Mr. Ho is in!", "Call 3.5 times?", "好。", "是。"),
    ]


def test_blank_lines_of_a_block_of_code_do_not_cut_it() -> None:
    code = "```\ndef one(): return 1\n\n\ndef two(): return 2\n```"
    assert [one.text for one in split(f"We ran some code today.\n\n{code}")] == [
        "We ran some code today.",
        code,
    ]


def test_megabyte_of_text_is_split_in_linear_time() -> None:
    # Were it quadratic, this would take hours.
    assert len(split("a b c d e f\n\n" * 70_000)) == 70_000
    for text in ("a" * 1_000_000, "a\n\n" * 30_000, "# a\n\n" * 30_000, "a:\n\n" * 30_000):
        assert sum(count_words(one.text) for one in split(text)) <= 2 * count_words(text)


def test_comment_of_a_fenced_block_in_a_list_is_no_title() -> None:
    text = (
        "1. Install it on the new host:\n\n    ```bash\n    # install the packages\n"
        "    apt install nginx redis postgres\n    ```\n\n2. Then check the logs for any errors."
    )
    assert {one.section for one in split(text)} == {""}


def test_lines_of_a_long_block_are_filled_with_their_indentation() -> None:
    lines = [f"    if value_{n} == {n} and other_{n} < 3: return {n}" for n in range(60)]
    chunks = split("```python\ndef f():\n" + "\n".join(lines) + "\n```")
    assert len(chunks) <= 3
    assert all(line in "\n".join(one.text for one in chunks) for line in lines[1:])
