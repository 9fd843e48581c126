from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.timestamps import from_millis, to_millis

# 42 bits of milliseconds reach from 1970 to 2109.
MILLIS = st.integers(0, (1 << 42) - 1)
BITS = st.integers(0, (1 << ids.RANDOM_BITS) - 1)
IDS = st.integers(0, (1 << 63) - 1)


@given(MILLIS, BITS, MILLIS, BITS)
def test_ids_sort_by_their_creation_time(one: int, bits: int, other: int, other_bits: int) -> None:
    earlier, later = sorted([(one, bits), (other, other_bits)])
    made = [ids.make_id(from_millis(at), drawn) for at, drawn in (earlier, later)]
    assert made == sorted(made)


@given(MILLIS, BITS)
def test_id_contains_its_creation_time(millis: int, bits: int) -> None:
    assert ids.make_id(from_millis(millis), bits) >> ids.RANDOM_BITS == millis


@given(st.integers(0, 1 << 40))
def test_random_bits_of_an_id_do_not_change_its_time(bits: int) -> None:
    now = datetime(2026, 3, 2, tzinfo=UTC)
    assert ids.make_id(now, bits) >> ids.RANDOM_BITS == to_millis(now)


@given(IDS)
def test_id_is_parsed_from_its_displayed_form(id_: int) -> None:
    displayed = ids.show(ids.MEMORY, id_)
    assert ids.parse(ids.MEMORY, displayed) == id_
    assert ids.parse(ids.MEMORY, f" {displayed.lower()}\n") == id_


@given(IDS, IDS)
def test_displayed_ids_sort_like_their_numbers(one: int, other: int) -> None:
    assert (ids.show("mem", one) < ids.show("mem", other)) == (one < other)


@given(IDS)
def test_displayed_id_has_a_prefix_and_13_unambiguous_digits(id_: int) -> None:
    prefix, _, digits = ids.show(ids.TRACE, id_).partition("_")
    assert prefix == "trc"
    assert len(digits) == 13
    assert not set("ILOU") & set(digits)


def test_confusable_letters_of_an_id_are_accepted() -> None:
    assert ids.parse("mem", "mem_00000000000IO") == ids.parse("mem", "mem_0000000000010")
    assert ids.parse("mem", "mem_000000000000l") == 1


def test_invalid_id_is_refused_with_an_example(subtests: pytest.Subtests) -> None:
    for text in [
        "",
        "mem",
        "mem_",
        "thr_0000000000001",
        "mem_000000000001",
        "mem_00000000000001",
        "mem_000000000000U",
        "mem_00000000000 1",
        "mem_ZZZZZZZZZZZZZ",
        "0000000000001",
        "mem_" + 13 * "\N{DEVANAGARI DIGIT ZERO}",
    ]:
        with (
            subtests.test(text=text),
            pytest.raises(InvalidInputError, match="expected mem_ and 13 characters"),
        ):
            ids.parse(ids.MEMORY, text)


@given(st.text(max_size=30))
def test_arbitrary_text_is_parsed_or_refused_as_an_id(text: str) -> None:
    with suppress(InvalidInputError):
        assert ids.parse(ids.MEMORY, text) < 1 << 63
