"""What came of jobs as people read it: sentences, without a name of a field."""

from pathlib import Path

import pytest

from commonbrain.api.operations.job import describe_result, render_entries, render_single_job
from commonbrain.api.operations.reflect import REFLECT, ReflectResponse
from commonbrain.jobs.registry import JOBS
from commonbrain.testing.builders import a_brain
from tests.flows.working import a_worker

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
@pytest.mark.parametrize(("kind", "result", "told"), RESULTS)
def test_what_came_of_a_job_is_a_sentence(kind: str, result: dict[str, object], told: str) -> None:
    assert told in describe_result(kind, result)


@pytest.mark.parametrize("kind", JOBS)
def test_of_every_kind_something_is_said_whatever_its_result_lacks(kind: str) -> None:
    told = describe_result(kind, {})
    assert told.endswith(".")
    assert told[0].isupper() or told.startswith("None")


def test_of_a_kind_of_a_newer_program_its_counts_are_told() -> None:
    assert describe_result("dream", {"sheep": 3, "seen": [1, 2]}) == "sheep 3, seen 2"
    assert list(render_entries({"seen": [1]})) == ["seen: 1"]


def test_a_preview_says_that_it_is_one() -> None:
    assert describe_result("maintain", {"expired": 2}, is_preview=True) == "Dry run: 2 expired."
    assert describe_result("maintain", {}, is_preview=True) == "Nothing was due."


def test_what_a_report_lists_is_told_with_the_calls_that_settle_it() -> None:
    clique = {"ids": ["mem_b", "mem_a"], "weakest": 0.9, "settle": ["forget mem_a --reason WHY"]}
    told = list(
        render_entries({"read": 2, "cliques": [clique], "revised": [{"id": "x", "revisions": 2}]})
    )
    assert told == [
        "nearly the same (cosine 0.9 or more): mem_b, mem_a",
        "to merge them: brain forget mem_a --reason WHY",
        "corrected 2 times: x",
    ]
    assert list(render_entries({"refusals": [{"where": "line 3", "reason": "r"}]})) == ["line 3: r"]


@pytest.mark.requirement("JB-06")
@pytest.mark.requirement("JB-13")
def test_a_queued_job_says_what_runs_it_and_where_its_result_is(path: Path) -> None:
    with a_brain(path) as brain:
        job = brain.jobs.run("reflect")

        [line, step] = render_single_job(job).split("\n")
        assert line == f"{job.id} | reflect | queued 0%"
        assert "brain worker --once runs it" in step
        assert f"brain job show {job.id} shows the result" in step
        assert REFLECT.render_text(ReflectResponse(job=job)) == render_single_job(job)

        a_worker(brain).sweep()
        assert "\n" not in render_single_job(brain.jobs.show(job.id))
