"""The order of memories on one matter, whoever wrote them and whenever."""

from collections.abc import Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.model.kinds import Kind
from commonbrain.model.memory import Memory
from commonbrain.model.query import Candidate
from commonbrain.model.scope import Authority, Role, Trust
from commonbrain.model.support import outranks
from commonbrain.retrieval.order import group_matters
from commonbrain.testing.builders import a_memory
from tests.asking import stored

IDS = st.integers(1, 6)


def _one_of(kind: Kind, trust: Trust, authority: Authority, *, pinned: bool) -> Memory:
    return replace(a_memory(1, "a", kind=kind), trust=trust, authority=authority, pinned=pinned)


MEMORIES = st.builds(
    _one_of,
    kind=st.sampled_from([Kind.FACT, Kind.RULE]),
    trust=st.sampled_from(Trust),
    authority=st.sampled_from(Authority),
    pinned=st.booleans(),
)


@given(MEMORIES, MEMORIES, MEMORIES)
def test_to_outrank_is_an_order(one: Memory, other: Memory, third: Memory) -> None:
    assert not (outranks(one, other) and outranks(other, one))
    is_circle = outranks(one, other) and outranks(other, third) and outranks(third, one)
    assert not is_circle


@given(st.dictionaries(IDS, IDS), st.dictionaries(IDS, IDS))
def test_each_candidate_has_one_place_whatever_comes_before_what(
    newer_of: Mapping[int, int], before_of: Mapping[int, int]
) -> None:
    ranked = [Candidate(memory=a_memory(id_, "a"), features={}, score=1.0) for id_ in range(1, 7)]

    grouped = [
        one.memory.id for one in group_matters(ranked, newer_of=newer_of, before_of=before_of)
    ]

    assert sorted(grouped) == list(range(1, 7))


def test_more_trusted_text_of_a_model_does_not_come_before_the_rule_of_a_person(
    brain: Brain,
) -> None:
    rule = stored(brain, "Never force-push to main; open a pull request.", kind="rule")
    tool = brain.acting_as(agent="tool", role=Role.WRITER, authority=Authority.MODEL)
    text = "Force-push to main is allowed; no pull request is needed."
    fact = stored(tool, text, kind="fact", trust="trusted_tool")

    results = [one.id for one in brain.recall("may I force-push to main?").items]

    assert results.index(rule) < results.index(fact)
