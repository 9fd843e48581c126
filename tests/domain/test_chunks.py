import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.segmentation import (
    CHUNK_WORDS_MAX,
    CHUNK_WORDS_MIN,
    count_words,
    split,
    split_sentences,
)

PIECES = st.sampled_from(
    ["one", "two.", "Three!", "\n", "\n\n", " ", "```", "等等。", "word " * 90]
)


@pytest.mark.requirement("WP-39")
@given(st.lists(PIECES).map(" ".join) | st.text())
def test_chunks_contain_the_whole_text_in_order(text: str) -> None:
    joined = "".join(one.text for one in split(text))
    assert re.sub(r"\s", "", joined) == re.sub(r"\s", "", text)


@given(st.lists(PIECES, max_size=60).map("".join))
def test_slight_chunk_has_fewer_than_five_words(text: str) -> None:
    for one in split(text):
        assert one.is_slight == (count_words(one.text) < CHUNK_WORDS_MIN)


def test_long_paragraph_is_split_at_lines_then_sentences_then_words() -> None:
    sentence = "The ferry leaves at dawn and comes back at night. "
    lines = f"A first line of five words\n{sentence * 60}"
    passages = [one.text for one in split(lines)]
    assert passages[0] == "A first line of five words"
    assert all(passage.endswith(".") for passage in passages[1:])
    assert max(map(count_words, passages)) <= CHUNK_WORDS_MAX
    assert max(count_words(one.text) for one in split("word " * 1000)) <= CHUNK_WORDS_MAX


def test_sentences_end_at_marks_and_lines_and_not_after_titles() -> None:
    text = "Dr. Vance is ill, e.g. today. Mr. Ho is in!\n\nCall 3.5 times? 好。是。"
    assert split_sentences(text) == [
        *("Dr. Vance is ill, e.g. today.", "Mr. Ho is in!", "Call 3.5 times?", "好。", "是。"),
    ]


def test_blank_lines_of_a_block_of_code_do_not_cut_it() -> None:
    code = "```\ndef one(): return 1\n\n\ndef two(): return 2\n```"
    assert [one.text for one in split(f"Some code that we ran today:\n\n{code}")][1] == code


def test_megabyte_of_text_is_split_in_linear_time() -> None:
    # Were it quadratic, this would take hours.
    assert len(split("a b c d e f\n\n" * 70_000)) == 70_000
    assert split("a" * 1_000_000)[0].is_slight
