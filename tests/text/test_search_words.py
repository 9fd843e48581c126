"""The words that full text is given for what it does not split or leaves out, in every script."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.search_words import (
    PARTICLE,
    extra_words,
    indexed_text,
    names_to_repeat,
    spaced,
)

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
        ("\u26a0", ("u26a0",)),
        ("\U0001f469\u200d\U0001f4bb", ("u1f469", "u1f4bb")),
    ],
)
def test_words_for_hashes_and_emoji(text: str, words: tuple[str, ...]) -> None:
    assert extra_words(text) == words
    assert indexed_text(text) == " ".join((text, *words))


@pytest.mark.parametrize(
    "text",
    ["port 8080", "3.11", "facade", "20240131", "a81bc8", "caf\u00e9 \u00fcber", "\u0414\u0430"],
)
def test_other_texts_are_indexed_as_they_are(text: str) -> None:
    assert (extra_words(text), indexed_text(text)) == ((), text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("我们用React写前端", "我们 们用 React 写前 前端"),
        ("10月v2.14版", "10 月 v2 14 版"),
        ("サーバーを止めた", "サー ーバ バー を 止 めた"),
        ("React에서 값을", "React 에서 값을"),
        ("ที่นี่ใช้Redis", "ทนใ นใช Redis"),
        ("ខ្មែរ", "ខមរ"),
        ("हिंदी में", "हद म"),
        ("بـRedis وGo", "بـ Redis و Go"),
        ("ｖ２ ﬁle ｶﾞｲﾄﾞ", "v2 file ガイ イド"),  # noqa: RUF001 compatible letters
        ("2½ Foo™ m²", "2 1 2 Foo TM m 2"),
        ("Жж3 2й Größe", "Жж3 2й Größe"),
    ],
)
def test_words_of_scripts_without_blanks_and_of_compatible_letters(text: str, words: str) -> None:
    assert re.findall(r"\w+", spaced(text)) == words.split()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("部署 react 服务", ["react"]),
        ("กบ redis", ["redis"] * 3),
        ("redis cache", []),
        ("部署", []),
    ],
)
def test_name_among_pairs_counts_as_much_as_the_pairs_of_a_word(
    words: str, names: list[str]
) -> None:
    assert names_to_repeat(words.split()) == names


def test_endings_of_japanese_and_particles_of_chinese_are_not_searched_for() -> None:
    words = "して の 的服 服务 了 バー 止 the"
    assert [word for word in words.split() if PARTICLE.fullmatch(word)] == [
        "して",
        "の",
        "的服",
        "了",
    ]


@given(st.text("ab1 我们サで값ข\u0e34½²ﬁ\u200dم\U0001f680", max_size=60))
def test_spaced_text_stays_as_it_is(text: str) -> None:
    assert re.findall(r"\w+", spaced(spaced(text))) == re.findall(r"\w+", spaced(text))


@given(st.text("ab01 -\u6211\U0001f680", max_size=80))
def test_text_has_the_words_of_each_part_between_blanks(text: str) -> None:
    assert set(extra_words(text)) <= set(extra_words(f"before {text} after"))


@pytest.mark.parametrize("text", ["Ti\u1ebfng Vi\u1ec7t d\u00f9ng", "STRA\u1e9eE", "\u1ecdm\u1ecd"])
def test_latin_word_with_letters_beyond_the_first_blocks_stays_whole(text: str) -> None:
    assert spaced(text) == text
    assert spaced(f"{text} \u03bc").split()[:-1] == text.split()
