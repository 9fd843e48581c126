"""The prompts of `brain eval prompts` are sound, and a few of them are judged as labelled."""

from collections import Counter

from commonbrain_evals.prompts import evaluate, read_prompts
from commonbrain_evals.rows import Half

from commonbrain.runtime.bootstrap import make_embedder
from commonbrain.runtime.settings_loading import load_settings


def test_no_memory_is_in_both_halves_and_each_half_has_enough_prompts() -> None:
    stored, prompts = read_prompts()

    assert len({one.text for one in stored}) == len(stored) >= 120
    assert len({one.text for one in prompts}) == len(prompts)
    halves: dict[int, set[Half]] = {}
    for one in prompts:
        if one.memory is not None:
            halves.setdefault(one.memory, set()).add(one.half)
    assert all(len(those) == 1 for those in halves.values())
    assert set(halves) == set(range(len(stored)))
    counts = Counter((one.half, one.memory is None) for one in prompts)
    assert all(counts[half, is_unrelated] >= 150 for half in Half for is_unrelated in (True, False))


def test_most_related_and_unrelated_prompts_are_judged_right() -> None:
    stored, prompts = read_prompts()
    some = [one for one in prompts if one.sort in {"words", "smalltalk", "machine"}][::3]

    report = evaluate(stored, some, embedder=make_embedder(load_settings()))

    related = [row.is_right for row in report.rows if row.memory is not None]
    assert sum(related) >= 0.9 * len(related)
    unrelated = [row.is_right for row in report.rows if row.memory is None]
    assert sum(unrelated) >= 0.95 * len(unrelated)
    assert {figure["half"] for figure in report.figures} == {"calibrate", "check"}
