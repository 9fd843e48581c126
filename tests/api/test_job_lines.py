"""Results of jobs as people read them: sentences, without names of fields."""

from pathlib import Path

import pytest

from commonbrain.api.operations.job import describe_result, render_entries, render_single_job
from commonbrain.api.operations.reflect import REFLECT, ReflectResponse
from commonbrain.jobs.registry import JOBS
from commonbrain.testing.builders import a_brain
from tests.working import a_worker

MODEL = "mdl_38G5VPQMFGCMX"
FARED = {"model": MODEL, "nDCG@10": "0.500 to 0.600", "gain": "+0.010 to +0.190"}
RESULTS: list[tuple[str, dict[str, object], str]] = [
    ("embed", {"embedded": 1}, "Embedded 1 memory."),
    ("atomize", {"read": 2, "atoms": 3, "rejected": 1}, "found 3 atoms, 1 refused."),
    ("train_reranker", {"outcome": "better", **FARED}, f"{MODEL} is better (nDCG@10 0.500 to"),
    ("train_reranker", {"outcome": "too_slow", **FARED}, "but too slowly"),
    ("train_salience", {"outcome": "not_better", "auc": "0.5 to 0.5"}, "not proven better (auc"),
    ("train_salience", {"outcome": "too_little_data", "why": "has 1"}, "this store has 1."),
    ("reflect", {"read": 9, "episodes": 1, "known": 2}, "made 1 episode, proposed 0 facts and"),
    ("reflect", {"reflector": "m", "calls": 2, "tokens_in": 5}, "m was asked 2 times, 5 tok"),
    ("eval", {"hit_1": 0.5, "hit_5": 0.75, "abstained": None}, "first in 50% of questions"),
    ("import", {"read": 3, "source": "a.md", "stored": 2, "rejected": 1}, ": 2 stored, 1 refused."),
    ("respace", {"space": "s", "missing": 0}, "brain embeddings switch s"),
    ("respace", {"space": "s", "missing": 2}, "2 memories still without vectors of s"),
    ("consolidate", {"read": 9, "near_pairs": 1, "cliques": [{}]}, "1 pair says nearly the same"),
    ("maintain", {"expired": 2, "stale": 0}, "2 expired."),
    ("maintain", {"expired": 0}, "Nothing was due."),
]  # fmt: skip


@pytest.mark.requirement("JB-05")
def test_result_of_a_job_is_a_sentence(subtests: pytest.Subtests) -> None:
    for kind, result, sentence in RESULTS:
        with subtests.test(kind=kind, result=result):
            assert sentence in describe_result(kind, result)


def test_every_kind_of_job_has_a_sentence_for_an_empty_result(subtests: pytest.Subtests) -> None:
    for kind in JOBS:
        with subtests.test(kind=kind):
            sentence = describe_result(kind, {})
            assert sentence.endswith(".")
            assert sentence[0].isupper() or sentence.startswith("None")


def test_result_of_an_unknown_kind_of_job_is_its_counts() -> None:
    assert describe_result("dream", {"sheep": 3, "seen": [1, 2]}) == "sheep 3, seen 2"
    assert list(render_entries({"seen": [1]})) == ["seen: 1"]


def test_preview_of_a_job_is_marked_as_a_dry_run() -> None:
    assert describe_result("maintain", {"expired": 2}, is_preview=True) == "Dry run: 2 expired."
    assert describe_result("maintain", {}, is_preview=True) == "Nothing was due."


def test_entries_of_a_report_have_the_calls_that_settle_them() -> None:
    clique = {"ids": ["mem_b", "mem_a"], "weakest": 0.9, "settle": ["forget mem_a --reason WHY"]}
    lines = list(
        render_entries({"read": 2, "cliques": [clique], "revised": [{"id": "x", "revisions": 2}]})
    )
    assert lines == [
        "nearly the same (cosine 0.9 or more): mem_b, mem_a",
        "to merge them: brain forget mem_a --reason WHY",
        "corrected 2 times: x",
    ]
    assert list(render_entries({"refusals": [{"where": "line 3", "reason": "r"}]})) == ["line 3: r"]


@pytest.mark.requirement("JB-06")
@pytest.mark.requirement("JB-13")
def test_queued_job_names_the_commands_that_run_and_show_it(path: Path) -> None:
    with a_brain(path) as brain:
        job = brain.jobs.run("reflect")

        [line, step] = render_single_job(job).split("\n")
        assert line == f"{job.id} | reflect | queued 0%"
        assert "brain worker --once runs it" in step
        assert f"brain job show {job.id} shows the result" in step
        assert REFLECT.render_text(ReflectResponse(job=job)) == render_single_job(job)

        a_worker(brain).sweep()
        assert "\n" not in render_single_job(brain.jobs.show(job.id))
