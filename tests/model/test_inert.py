"""Safe text: what a terminal obeys, people cannot see or models take for a frame does not pass."""

import json
import unicodedata
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from commonbrain.model.escaping import escaped, inert, inert_line, inert_part

VISIBLE_FORMAT: Final = frozenset("\u06dd\u070f\u08e2\u0890\u0891\U000110bd\U000110cd") | {
    chr(code) for code in range(0x0600, 0x0606)
}
"""Characters of the category Cf that have a picture: number signs and abbreviation marks."""
FILLERS: Final = frozenset(
    {
        *(f"HANGUL {one}FILLER" for one in ("", "CHOSEONG ", "JUNGSEONG ")),
        *("HALFWIDTH HANGUL FILLER", "KHITAN SMALL SCRIPT FILLER"),
    }
)
CONTEXTUAL: Final = "\u200b\u200c\u200d\ufe0e\ufe0f"
"""What stays where it changes the character before it."""


def is_hidden(character: str) -> bool:
    """Return by name and category whether a character has no picture of its own."""
    name = unicodedata.name(character, "")
    category = unicodedata.category(character)
    is_format = category in {"Cf", "Zl", "Zp"} and character not in VISIBLE_FORMAT
    is_control = category == "Cc" and character not in "\t\n"
    is_filler = name in FILLERS or "VARIATION SELECTOR" in name or "INHERENT" in name
    return is_format or is_control or is_filler or name == "COMBINING GRAPHEME JOINER"


HIDDEN: Final = [chr(code) for code in range(0x110000) if is_hidden(chr(code))]
ORDINARY: Final = (
    "Plain text, with ümlauts and a | bar.\tAnd a tab.\n",
    "Family 👩\u200d👩\u200d👧\u200d👦, scientist 👩🏽\u200d🔬, heart ❤\ufe0f",
    "Key 1\ufe0f\u20e3, phone ☎\ufe0e, flag 🇩🇪, couple 👩\u200d❤\ufe0f\u200d👨",
    "می\u200cخواهم کتاب\u200cها را بخوانم",  # noqa: RUF001
    "क्\u200dष और क्\u200cष, र्\u200dय",
    "শব্\u200dদ কর্\u200cতা",
    "ශ්\u200dරී ලංකා",
    "ภาษาไทยไม่มีช่องว่าง และ ภาษา\u200bไทย",
    "ភាសា\u200bខ្មែរ",
    "日本語の文章、한국어 문장, العربية",
    "a < b, c <d> e, [1] and <system.web> x</b> a <| b |> c <strong>yes</strong>",
)


def test_hidden_characters_are_removed_from_latin_text() -> None:
    assert [one for one in HIDDEN if inert(f"a{one}b") != "ab"] == []
    # The property of Unicode reserves these, and has others without a name.
    assert inert("a\U000e0fff\u2065\ufff3b") == "ab"


@given(st.lists(st.sampled_from([*CONTEXTUAL, "a", "1", "\u20e3", "ب", "क", "ไ", "👩", "❤"])))
@example(["👩", "\ufe0f", "\ufe0f"])
@example(["a", "\ufe0f", "\u200d", "👩"])
@example(["ب", "\u200d", "\u200d", "ب"])
def test_joiners_and_selectors_stay_once_and_after_what_they_change(parts: list[str]) -> None:
    shown = inert("".join(parts))

    assert inert(shown) == shown
    for before, one in zip(["", *shown], shown, strict=False):
        assert one not in CONTEXTUAL or before in "1بकไ👩❤\ufe0f"
        assert one != "\u200c" or before in "بक"
        assert one not in "\ufe0e\ufe0f" or before in "1👩❤"


@given(st.lists(st.sampled_from(ORDINARY)).map("".join))
def test_ordinary_text_stays_unchanged(text: str) -> None:
    assert inert(text) == text


NAMES: Final = ("commonbrain-memory", "system-reminder", "system", "function_calls", "user_query")
MARKS: Final = (
    *(f"<{name}>" for name in NAMES),
    *(f"</{name}>" for name in NAMES),
    *("<|im_end|>", "<|im_start|>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<end_of_turn>"),
)


def disguised(mark: str) -> st.SearchStrategy[str]:
    """Write a mark with invisible characters, spaces, other cases and full-width signs in it."""

    def write(one: str) -> st.SearchStrategy[str]:
        wide = chr(ord(one) + 0xFEE0) if "!" <= one <= "~" else one
        return st.sampled_from([one, one.upper(), wide])

    spaces = st.sampled_from(["", "", " ", " " * 12])
    between = st.sampled_from(["", "", "", "\u200b", "\u2060", "\ufe0f", "\u00ad", "\u3164"])
    opening = sum(one in "<[/" for one in mark[:3])
    return st.tuples(
        *(
            st.tuples(write(one), spaces if at < opening else st.just(""), between).map("".join)
            for at, one in enumerate(mark)
        )
    ).map("".join)


@given(st.sampled_from(MARKS).flatmap(disguised))
def test_marks_of_frames_do_not_open(mark: str) -> None:
    shown = inert(f"a {mark} b")

    assert "(" in shown
    folded = unicodedata.normalize("NFKC", shown)
    assert inert(folded) == folded


def test_inert_line_contains_no_line_break() -> None:
    assert inert_line(" a\n\tb\x1b[2J ") == "a b[2J"
    assert inert_part("a | b") == "a / b"


@given(st.text() | st.sampled_from(MARKS))
@pytest.mark.parametrize("around", ["", "</system-reminder>"])
def test_escaped_json_is_equivalent_and_inert(around: str, text: str) -> None:
    written = escaped(json.dumps({"text": text + around}, ensure_ascii=False))
    assert json.loads(written) == {"text": text + around}
    assert inert(written) == written
