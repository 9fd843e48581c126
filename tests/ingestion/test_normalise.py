import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model.memory import Draft
from commonbrain.text.normalisation import normalise, normalise_draft

ANYTHING = st.text(st.characters(exclude_categories=()))


@given(ANYTHING)
def test_normalisation_is_idempotent(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(ANYTHING)
def test_normalisation_removes_control_characters_except_tab_and_newline(text: str) -> None:
    left = {character for character in normalise(text) if unicodedata.category(character) == "Cc"}
    assert left <= {"\t", "\n"}


@given(ANYTHING)
def test_normalised_text_is_composed_trimmed_and_encodable(text: str) -> None:
    normal = normalise(text)
    assert unicodedata.is_normalized("NFC", normal)
    assert normal == normal.strip()
    assert not any(line.endswith((" ", "\t")) for line in normal.split("\n"))
    assert normal.encode().decode() == normal


def test_texts_of_equal_appearance_are_normalised_to_the_same(subtests: pytest.Subtests) -> None:
    for text, normal in (
        ("cafe\u0301", "caf\u00e9"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a  \nb\t\n", "a\nb"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("nul\x00 bell\x07 \x9bc1", "nul bell c1"),
        ("half \ud83d pair", "half ? pair"),
        ("👩‍🔬 works", "👩‍🔬 works"),
        ("\tdef f():\n\t\treturn 1", "def f():\n\t\treturn 1"),
    ):
        with subtests.test(text=text, normal=normal):
            assert normalise(text) == normal


def test_headline_is_a_single_line_and_none_when_empty() -> None:
    assert normalise_draft(Draft(body="x", headline=" One\r\ntwo ")).headline == "One two"
    assert normalise_draft(Draft(body="x", headline=" \x00 ")).headline is None


@given(ANYTHING)
def test_every_name_is_a_single_encodable_line(name: str) -> None:
    named = Draft(body="x", label=name, project=name, source_ref=name, tags=(name,))
    normal = normalise_draft(named)
    for text in (normal.label, normal.project, normal.source_ref, *normal.tags):
        assert text is None or (len(text.splitlines()) == 1 and text.encode())


def test_long_run_of_spaces_is_normalised_in_linear_time() -> None:
    # Read from each space on, a million of them would take an hour.
    text = f"a{' ' * 1_000_000}b"
    assert normalise(text) == text
