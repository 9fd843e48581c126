"""The cases of `brain eval truth` are sound, and a few of them are judged as labelled."""

from collections import Counter

from commonbrain_evals.rows import Half
from commonbrain_evals.truth import CHANGES, evaluate, read_cases

from commonbrain.runtime.bootstrap import make_embedder
from commonbrain.runtime.settings_loading import load_settings


def test_every_label_refers_to_a_text_of_its_case() -> None:
    cases = read_cases()
    assert len(cases) >= 500
    for case in cases:
        assert len(case.texts) >= 2
        assert sorted(case.times) == list(case.times)
        assert case.current is None or case.current < len(case.texts)
        assert (case.sort in CHANGES) <= (case.current == len(case.texts) - 1)


def test_halves_of_every_sort_are_similar_in_size_and_no_question_repeats() -> None:
    cases = read_cases()
    sorts = Counter((case.sort, case.half) for case in cases)
    for sort in {case.sort for case in cases}:
        counts = [sorts[sort, half] for half in Half]
        assert min(counts) >= 0.4 * sum(counts), sort
    questions = [case.question for case in cases if case.question is not None]
    assert len(set(questions)) == len(questions)


def test_most_changes_rank_first_and_valid_memories_are_unmarked() -> None:
    chosen = [case for case in read_cases() if case.sort in {"change_without_cue", "additive"}]
    report = evaluate(chosen[::4], make_embedder(load_settings()))
    changes = [row.is_right for row in report.rows if row.sort == "change_without_cue"]
    assert sum(map(bool, changes)) > len(changes) / 2
    others = [row.is_outdated for row in report.rows if row.sort == "additive"]
    assert sum(others) < len(others) / 2
    assert report.figures
