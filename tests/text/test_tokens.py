"""The token estimator: near the truth, additive, and bounded.

The samples were written for these tests, the random identifiers drawn with a fixed seed. Their
true counts are those of o200k_base in npm gpt-tokenizer 4.0.0, and the same in npm tiktoken 1.0.22;
the docstring of benchmarks/calibrate_tokens.py tells how to count again.
"""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.text.tokens import estimate, upper_bound

SAMPLES = Path(__file__).with_name("token_samples")
TRUE_COUNTS: dict[str, int] = json.loads((SAMPLES / "counts.json").read_text(encoding="utf-8"))
ENGLISH_AND_CODE = [
    "conversation",
    "prose",
    "markdown",
    "python",
    "typescript",
    "json",
    "shell",
]
CHINESE_JAPANESE_KOREAN = ["chinese", "traditional", "japanese", "korean"]
OTHERS = [
    "russian",
    "arabic",
    "european",
    "emoji",
    "hex",
    "base64",
    "uuid",
]

# Random text seldom comes near the seams where pieces join, so half of it is made of them: every
# class of character, in runs.
RUNS: st.SearchStrategy[str] = st.lists(
    st.tuples(st.sampled_from("aA0 \n\t'.-=!éạжñ中體あก ع—가ῶ😀"), st.integers(1, 70)), max_size=8
).map(lambda runs: "".join(character * times for character, times in runs))
SEAMS = st.text(alphabet="abAB01 \n\t'.-=(é中體ж😀", max_size=60)
TEXTS: st.SearchStrategy[str] = RUNS | SEAMS | st.text(max_size=60)


def sample(name: str) -> str:
    # Read as bytes, so that no platform turns the line ends.
    return (SAMPLES / name).read_bytes().decode()


def names_of(kind: str) -> list[str]:
    return [name for name in TRUE_COUNTS if name.rpartition("-")[0] == kind]


def error_on(kind: str) -> float:
    true = sum(TRUE_COUNTS[name] for name in names_of(kind))
    return sum(estimate(sample(name)) for name in names_of(kind)) / true - 1


def test_estimate_of_english_code_and_cjk_is_within_a_tenth(
    subtests: pytest.Subtests,
) -> None:
    for kind in [*ENGLISH_AND_CODE, *CHINESE_JAPANESE_KOREAN]:
        with subtests.test(kind=kind):
            assert abs(error_on(kind)) <= 0.10


def test_estimate_of_other_scripts_errs_on_the_high_side(
    subtests: pytest.Subtests,
) -> None:
    for kind in OTHERS:
        with subtests.test(kind=kind):
            assert -0.10 <= error_on(kind) <= 0.30


def test_every_sample_belongs_to_a_tested_category() -> None:
    assert {path.name for path in SAMPLES.glob("*.txt")} == set(TRUE_COUNTS)
    assert {name.rpartition("-")[0] for name in TRUE_COUNTS} == set(
        ENGLISH_AND_CODE + CHINESE_JAPANESE_KOREAN + OTHERS
    )


def test_no_sample_costs_more_than_its_upper_bound(subtests: pytest.Subtests) -> None:
    for name in sorted(TRUE_COUNTS):
        with subtests.test(name=name):
            text, true = sample(name), TRUE_COUNTS[name]
            assert estimate(text) <= upper_bound(text)
            assert true <= upper_bound(text) <= 1.6 * true + 4


def test_empty_text_has_no_tokens() -> None:
    assert estimate("") == upper_bound("") == 0


@given(TEXTS)
def test_every_nonempty_text_has_tokens(text: str) -> None:
    assert (estimate(text) == 0) == (text == "")


@given(TEXTS, TEXTS)
def test_joined_text_costs_at_most_its_parts_and_one_token(left: str, right: str) -> None:
    assert estimate(left + right) <= estimate(left) + estimate(right) + 1


@given(TEXTS, TEXTS)
def test_joined_text_costs_at_least_each_part_less_one_token(left: str, right: str) -> None:
    assert estimate(left + right) >= max(estimate(left), estimate(right)) - 1


@given(TEXTS)
def test_upper_bound_is_not_below_the_estimate(text: str) -> None:
    assert upper_bound(text) >= estimate(text)


def test_lone_surrogate_is_counted_and_not_refused() -> None:
    assert estimate("broken \ud83d pair") > 0


def test_long_run_is_counted_in_linear_time(subtests: pytest.Subtests) -> None:
    for unit in [" ", "\n", "=", "a", "A", "0", "aA", " '", "中", " \n"]:
        with subtests.test(unit=unit):
            # A pattern that backtracks would need hours for these two million characters.
            assert estimate(unit * 1_000_000 + "!") > 0
