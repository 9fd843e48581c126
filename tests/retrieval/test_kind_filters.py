"""A filter by kinds means the same with names and aliases, mixed, in every operation."""

from collections.abc import Collection, Iterator

import pytest
from commonbrain_causes.atomize import atomizer_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from commonbrain.model.kinds import ALIASES, KINDS, Kind, parse_kind_filter
from commonbrain.model.query import KindFilter
from commonbrain.storage.retention_rules import Retention
from commonbrain.testing.builders import a_brain
from tests.asking import stored

WRITTEN = tuple(kind for kind in Kind if kind not in {Kind.ATOM, Kind.MESSAGE})
NAMES = (*Kind, *sorted(ALIASES))
some_names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Brain]:
    """One memory of each kind without a label, and one by each alias."""
    with a_brain(tmp_path_factory.mktemp("varied") / "brain.db") as brain:
        for number, name in enumerate((*WRITTEN, *sorted(ALIASES)), 1):
            stored(
                brain,
                f"Kettle number {number} boils after {number} minutes",
                kind=name,
                distinct_because="Every kettle is another one",
            )
        yield brain


def recalled(brain: Brain, *kinds: str, order: str = "relevance") -> set[str]:
    reply = brain.recall(kinds=kinds, order=order, max_items=100, max_tokens=32_000, bump=False)
    return {item.id for item in reply.items}


def selected(brain: Brain, *kinds: str) -> int:
    return brain.forget(kinds=kinds, reason="No kettle is left", dry_run=True).count


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=some_names)
@pytest.mark.requirement("RT-35")
def test_mix_of_kinds_and_aliases_matches_the_union_of_each(
    varied: Brain, names: list[str]
) -> None:
    single = [recalled(varied, name) for name in names]
    union = set[str]().union(*single)

    assert recalled(varied, *names) == union
    assert recalled(varied, *names, order="timeline") == union
    assert selected(varied, *names) == len(union)


def test_synonym_matches_its_whole_kind_and_subtype_its_label(
    varied: Brain, subtests: pytest.Subtests
) -> None:
    for alias in sorted(ALIASES):
        with subtests.test(alias=alias):
            kind = ALIASES[alias]
            matches = recalled(varied, alias)

            if alias in KINDS[kind].synonyms:
                assert matches == recalled(varied, kind)
            else:
                assert len(matches) == 1
                [item] = varied.recall(kinds=[alias], bump=False).items
                assert (item.kind, item.label) == (kind, alias)


def test_filter_with_types_of_another_system_matches_all_named_types(brain: Brain) -> None:
    fact = stored(brain, "The kettle holds two litres", kind="fact")
    rule = stored(brain, "Never boil the kettle dry", kind="rule")
    policy = stored(brain, "Always descale the kettle in May", kind="policy")
    stored(brain, "Buy a kettle", kind="task")

    assert recalled(brain, "fact", "episode", "policy") == {fact, rule, policy}
    assert {item.id for item in brain.recall("kettle", kinds=["fact", "policy"]).items} == {
        fact,
        rule,
        policy,
    }


def test_kinds_and_labels_must_both_match(brain: Brain) -> None:
    stored(brain, "We chose the blue kettle", kind="decision")
    loud = stored(brain, "The kettle whistles", kind="fact", label="noise")

    assert recalled(brain, "fact", "decision") != {loud}
    labelled = brain.recall(kinds=["fact", "decision"], labels=["noise"]).items
    assert [item.id for item in labelled] == [loud]


@pytest.mark.part("causes")
def test_prune_and_atomize_accept_aliases_of_kinds(brain: Brain) -> None:
    stored(brain, "The kettle failed because the fuse blew", kind="meeting")
    stored(brain, "The toaster failed because the plug melted", kind="event")

    assert atomizer_of(brain)(kinds=["meeting"]).read == 1
    assert atomizer_of(brain)(kinds=["observation", "meeting"]).read == 2
    assert brain.prune(kinds=["meeting", "observation"]).count == 0
    with pytest.raises(InvalidInputError):
        atomizer_of(brain)(kinds=["todo"])


def test_retention_rules_accept_aliases_of_kinds() -> None:
    assert Retention.read("kind=stm days=30") == Retention(kind=Kind.EVENT, days=30)
    assert Retention.read("kind=meeting days=30").label == "meeting"
    with pytest.raises(InvalidInputError):
        Retention.read("kind=meeting label=standup days=30")


@given(names=some_names)
def test_parsed_kind_filter_covers_exactly_the_kinds_of_its_names(names: Collection[str]) -> None:
    parsed = KindFilter.parse(tuple(names))
    kinds = {parse_kind_filter(name)[0] for name in names}

    assert set(parsed.touched) == kinds
    assert not set(parsed.kinds) & {kind for kind, _ in parsed.subtypes}
