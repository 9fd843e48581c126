"""The words that full text is given for what it does not split or leaves out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.normalisation import extra_words, indexed_text

ROCKET, BUG = "\U0001f680", "\U0001f41b"
UUID = "5d2e953c-99db-4cb1-b9c5-e2ff2e704b4d"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("commit a81bc81de00b2f9b", ("a81bc81",)),
        ("A81BC81D broke it", ("a81bc81",)),
        (f"{UUID} or {UUID.replace('-', '')}", ("5d2e953",)),
        ("sha256:1e9d44a", ("1e9d44a",)),
        (f"{ROCKET}{ROCKET} and {BUG}", ("u1f680", "u1f41b")),
        ("\u26a0\ufe0f", ("u26a0",)),
        ("\U0001f469\u200d\U0001f4bb", ("u1f469", "u1f4bb")),
        ("\u6211\u4eec\u7528React\u5199\u524d\u7aef", ("react",)),
    ],
)
def test_words_for_hashes_emoji_and_embedded_names(text: str, words: tuple[str, ...]) -> None:
    assert extra_words(text) == words
    assert indexed_text(text) == " ".join((text, *words))


@pytest.mark.parametrize(
    "text",
    ["port 8080", "3.11", "facade", "20240131", "a81bc8", "caf\u00e9 \u00fcber", "\u6211\u4eec"],
)
def test_other_texts_are_indexed_as_they_are(text: str) -> None:
    assert (extra_words(text), indexed_text(text)) == ((), text)


@given(st.text("ab01 -\u6211\U0001f680", max_size=80))
def test_text_has_the_words_of_each_part_between_blanks(text: str) -> None:
    assert set(extra_words(text)) <= set(extra_words(f"before {text} after"))
