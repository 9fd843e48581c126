import pytest
from commonbrain_evals.measures import Estimate
from commonbrain_evals.retrieval.ablation import (
    GROUPS,
    PARTS,
    PRIMARY,
    SIGNIFICANT,
    Trial,
    Worth,
    holm,
    judge,
    p_value,
    parts_of,
    worth,
)
from commonbrain_evals.retrieval.record import TESTED
from hypothesis import given
from hypothesis import strategies as st


def trial(mean: float, *, adjusted: float) -> Trial:
    return Trial(
        part="kind",
        measure="own R@1 any",
        difference=Estimate(mean=mean, low=mean, high=mean),
        changed=1,
        p=adjusted,
        adjusted=adjusted,
    )


def test_holm_multiplies_the_smallest_by_the_number_of_tries_and_the_next_by_one_less() -> None:
    assert holm([0.01, 0.04, 0.03, 0.5]) == pytest.approx([0.04, 0.09, 0.09, 0.5])
    assert holm([0.03]) == [0.03]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_never_rejects_more_than_uncorrected(p_values: list[float]) -> None:
    corrected = holm(p_values)

    assert all(before <= after <= 1 for before, after in zip(p_values, corrected, strict=True))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_holm_preserves_the_order_of_p_values_and_rejects_no_less_than_bonferroni(
    p_values: list[float],
) -> None:
    corrected = holm(p_values)
    by_p = sorted(zip(p_values, corrected, strict=True))

    assert [after for _, after in by_p] == sorted(corrected)
    assert all(after <= min(1, before * len(p_values)) for before, after in by_p)


def test_p_value_is_twice_the_share_of_resamples_without_what_changed() -> None:
    # Of 50 questions 4 get worse: only a resample without any of them has no loss.
    exact = 2 * (1 - 4 / 50) ** 50

    assert p_value([-1.0] * 4 + [0.0] * 46, seed=0) == pytest.approx(exact, rel=0.1)
    assert p_value([1.0] * 4 + [0.0] * 46, seed=0) == pytest.approx(exact, rel=0.1)


def test_p_value_is_one_without_a_difference() -> None:
    assert p_value([0.0] * 20, seed=0) == 1
    assert p_value([1.0, -1.0, 0.0, 0.0], seed=0) == pytest.approx(1, abs=0.01)


def test_what_changes_nothing_counts_as_no_try() -> None:
    one = {("lexical", "own R@1 any"): [-1.0] * 8 + [0.0] * 42}
    idle = {(f"idle{n}", "own R@1 any"): [0.0] * 50 for n in range(100)}
    [alone] = judge(one)
    together = {one.part: one for one in judge({**one, **idle})}

    assert together["lexical"].adjusted == alone.adjusted == alone.p < SIGNIFICANT
    assert together["idle0"].adjusted == 1
    assert together["idle0"].changed == 0


def test_more_tries_make_a_difference_less_sure() -> None:
    differences = {
        (f"part{n}", "own R@1 any"): [-1.0] * (n + 2) + [0.0] * (48 - n) for n in range(5)
    }
    trials = judge(differences)

    assert all(one.p <= one.adjusted for one in trials)
    assert trials[-1].adjusted == pytest.approx(5 * trials[-1].p)


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([trial(-0.1, adjusted=0.01), trial(0.0, adjusted=1.0)], Worth.HELPS),
        ([trial(-0.1, adjusted=0.01), trial(0.1, adjusted=0.01)], Worth.HURTS),
        ([trial(0.1, adjusted=0.01)], Worth.HURTS),
        ([trial(-0.1, adjusted=0.06), trial(0.1, adjusted=0.2)], Worth.NOTHING),
        ([], Worth.NOTHING),
    ],
)
def test_a_part_helps_if_it_is_missed_somewhere_and_harms_nowhere(
    trials: list[Trial], expected: Worth
) -> None:
    assert worth(trials) is expected


def test_measures_that_decide_are_in_records() -> None:
    assert {metric for measures in PRIMARY.values() for metric, _ in measures} <= set(TESTED)


def test_groups_name_parts_that_can_be_left_out() -> None:
    assert all(parts_of(name) <= set(PARTS) for name in GROUPS)
    assert all(len(parts_of(name)) > 1 for name in GROUPS)
