"""Consolidate: a report on what says nearly the same, which changes nothing and names no text."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.consolidation.near_duplicates import cliques
from commonbrain.model.kinds import Kind
from commonbrain.model.limits import CONSOLIDATED_RULES_MAX
from commonbrain.testing.builders import a_brain, a_memory
from tests.asking import stored
from tests.working import Fragile, a_worker

WHY = "because a test says so"
SAME = (
    "Never push straight to the main branch",
    "Never push straight to the main branch please",
    "Never push straight to the main branch again",
)
PAIRS = st.tuples(st.integers(1, 8), st.integers(1, 8)).filter(lambda pair: pair[0] < pair[1])


def reported(brain: Brain, **options: object) -> dict[str, Any]:
    job = brain.jobs.run("consolidate", options)
    a_worker(brain, kinds=["consolidate"]).sweep()
    done = brain.jobs.show(job.id)
    assert done.state == "done", done.reason
    return dict(done.result or {})


@pytest.mark.requirement("LC-20")
def test_near_duplicate_rules_are_reported_with_calls_and_left_unchanged(
    brain: Brain,
) -> None:
    near = [stored(brain, text, kind="rule", distinct_because="a test says so") for text in SAME]
    stored(brain, "Water the plants on Mondays", kind="rule")
    often = stored(brain, "The kettle is blue", kind="fact")
    for colour in ("green", "yellow"):
        often = brain.revise.supersede(often, f"The kettle is {colour}", reason=WHY).id or ""
    before = brain.status().by_state

    reply = reported(brain)

    [clique] = reply["cliques"]
    assert set(clique["ids"]) == set(near)
    newest, *rest = clique["ids"]
    assert clique["settle"] == [
        f"revise supersede {newest} TEXT --reason WHY", f"forget {' '.join(rest)} --reason WHY",
    ]  # fmt: skip
    assert reply["revised"] == [{"id": often, "revisions": 2}]
    assert brain.status().by_state == before
    assert "push" not in str(reply)
    assert reported(brain, project="elsewhere")["cliques"] == []

    brain.revise.link(near[0], near[1], type="relates_to")
    brain.revise.link(near[0], near[2], type="relates_to")
    assert [len(one["ids"]) for one in reported(brain)["cliques"]] == [2]


@pytest.mark.requirement("LC-20")
def test_report_embeds_only_rules_without_vectors_and_is_the_same_with_them(
    path: Path,
) -> None:
    embedder = Fragile()
    with a_brain(path, embedder=embedder) as brain:
        for text in SAME[:2]:
            stored(brain, text, kind="rule", distinct_because="a test says so")
        embedder.is_down = True
        stored(brain, SAME[2], kind="rule")
        embedder.is_down, embedder.calls = False, 0

        reply = reported(brain)
        assert embedder.calls == 1
        [clique] = reply["cliques"]
        assert len(clique["ids"]) == 3

        brain.embed_pending()
        embedder.is_down, embedder.calls = True, 0
        again = reported(brain)
        assert embedder.calls == 0
        # A stored vector is one of half precision.
        assert again["cliques"][0].pop("weakest") == pytest.approx(clique.pop("weakest"), abs=1e-3)
        assert again == reply


@pytest.mark.requirement("LC-20")
def test_report_on_too_many_rules_is_refused_with_the_limit(brain: Brain) -> None:
    with brain.services.store.begin(brain.caller.tenant) as tx:
        for number in range(1, CONSOLIDATED_RULES_MAX + 2):
            tx.memories.add(a_memory(number, f"Rule {number}", kind=Kind.RULE))
    job = brain.jobs.run("consolidate")
    a_worker(brain).sweep()
    done = brain.jobs.show(job.id)
    assert (done.state, done.error) == ("dead", "invalid")
    assert "more than 500 rules" in (done.reason or "")


@given(st.dictionaries(PAIRS, st.floats(0, 1), max_size=20))
def test_cliques_are_complete_maximal_and_cover_every_pair(
    near: dict[tuple[int, int], float],
) -> None:
    matches = [set(one.ids) for one in cliques(near)]
    for clique_members in matches:
        assert all(
            (one, other) in near
            for one in clique_members
            for other in clique_members
            if one < other
        )
        assert not any(clique_members < other for other in matches)
    assert all(any(set(pair) <= clique_members for clique_members in matches) for pair in near)
