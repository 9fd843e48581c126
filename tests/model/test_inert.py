import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.escaping import escaped, inert, inert_line

OBEYED = [0x1B, 0x07, 0x9B, 0x0D, 0x85, 0x061C, 0x202E, 0x2028, 0x2066, 0x2069, 0xFEFF, 0xE0041]


def test_invisible_control_characters_are_removed(subtests: pytest.Subtests) -> None:
    for code in OBEYED:
        with subtests.test(code=code):
            assert inert(f"a{chr(code)}b") == "ab"


@given(st.text("abc äß\u200d\t\n👩🏽"))
def test_text_without_control_characters_stays_unchanged(text: str) -> None:
    assert inert(text) == text


def test_inert_line_contains_no_line_break() -> None:
    assert inert_line(" a\n\tb\x1b[2J ") == "a b[2J"


@given(st.text())
def test_escaped_json_is_equivalent_and_has_no_control_characters(text: str) -> None:
    written = escaped(json.dumps({"text": text}, ensure_ascii=False))
    assert json.loads(written) == {"text": text}
    assert inert(written) == written
