"""Skills fire by themselves, whatever else is stored, for their own scope and project only."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model.errors import NotFoundError, RejectedError
from commonbrain.model.limits import SKILLS_MAX
from commonbrain.model.memory import Draft, State
from commonbrain.model.scope import Scope
from commonbrain.testing.builders import a_brain
from tests.asking import remember_one, stored

RULE = "Announce it in the channel and wait for a second pair of eyes"
QUERY = "how do we deploy the shop?"


def a_skill(brain: Brain, text: str = RULE, *, name: str = "release", **more: object) -> str:
    trigger = {"name": name, "keywords": ["deploy"], **more}
    return stored(brain, text, kind="rule", skill=trigger)


def firing(brain: Brain, query: str = QUERY, **where: str) -> list[str]:
    return [one.id for one in brain.skills.firing(query, **where).skills]


NUMBERS = itertools.count()
NOISE = st.lists(
    st.tuples(
        st.sampled_from(("fact", "event", "rule", "task", "message")),
        st.sampled_from((QUERY, RULE, "We deploy the shop", "The kettle is blue")),
        st.integers(1, 12),
    ),
    max_size=12,
)


@settings(
    # A store for each example makes shrinking take longer than reading a failure does.
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    noise=NOISE,
    skills=st.lists(st.integers(1, 25), min_size=1, max_size=SKILLS_MAX),
    max_items=st.integers(1, 12),
    max_tokens=st.integers(600, 1400),
)
@pytest.mark.requirement("RT-11", "RT-02")
def test_named_skill_is_recalled_from_any_store(
    tmp_path: Path,
    noise: list[tuple[str, str, int]],
    skills: list[int],
    max_items: int,
    max_tokens: int,
) -> None:
    with a_brain(tmp_path / f"{next(NUMBERS)}.db") as brain:
        brain.remember(
            [
                Draft(body=f"{text} {n} " * times, kind=kind, distinct_because="so it is")
                for n, (kind, text, times) in enumerate(noise)
            ]
            or [Draft(body="Nothing")]
        )
        made = [
            remember_one(
                brain, f"{RULE} as skill {n} " * times, kind="rule", distinct_because="it differs",
                skill={"name": f"s{n}", "keywords": ["deploy"]},
            ).id
            for n, times in enumerate(skills)
        ]  # fmt: skip
        items = brain.recall(QUERY, max_items=max_items, max_tokens=max_tokens).items
        first_items = items[: min(len(made), max_items)]
        assert len(first_items) == min(len(made), max_items)
        assert {item.id for item in first_items} <= set(made)
        assert all(item.headline for item in first_items)
        assert all(item.notes[0].startswith("skill:s") for item in first_items)


@pytest.mark.requirement("RT-11")
def test_skill_takes_the_only_item_of_an_answer(brain: Brain) -> None:
    stored(brain, QUERY, kind="fact")
    id_ = a_skill(brain, always_on=True)
    [item] = brain.recall(QUERY, max_items=1, max_tokens=64).items
    assert item.id == id_


def superseded(brain: Brain, id_: str) -> None:
    brain.revise.supersede(id_, "Ask nobody", reason="trust")


def forgotten(brain: Brain, id_: str) -> None:
    brain.forget(id_, reason="wrong")


def private(brain: Brain, id_: str) -> None:
    brain.forget(id_, reason="bob has one of his own")
    remember_one(
        brain.acting_as(agent="bob"), RULE, kind="rule", scope=Scope.PRIVATE,
        skill={"name": "release", "keywords": ["deploy"]},
    )  # fmt: skip


def quarantined(brain: Brain, id_: str) -> None:
    brain.forget(id_, reason="the web has another")
    outcome = remember_one(
        brain, RULE, kind="rule", trust="untrusted_web",
        skill={"name": "release", "keywords": ["deploy"]},
    )  # fmt: skip
    assert outcome.status is ItemStatus.QUARANTINED


@pytest.mark.requirement("RT-12")
@pytest.mark.parametrize(
    "hide",
    [
        superseded,
        forgotten,
        quarantined,
        private,
    ],
)
def test_skill_that_is_not_current_or_hidden_never_fires(
    brain: Brain, hide: Callable[[Brain, str], object]
) -> None:
    id_ = a_skill(brain)
    hide(brain, id_)
    assert firing(brain) == []
    assert brain.skills().skills == ()
    for states in ((), ("superseded",), ("quarantined",)):
        results = brain.recall(QUERY, states=states, trust_min=0).items
        assert not [note for item in results for note in item.notes if note.startswith("skill:")]
    with pytest.raises(NotFoundError, match="No skill"):
        brain.get(skill="release")


@pytest.mark.requirement("RT-12")
def test_rule_of_a_project_is_a_skill_of_that_project(brain: Brain) -> None:
    api = brain.acting_as(project="api")
    id_ = a_skill(api)
    assert firing(api) == firing(brain, project="api") == [id_]
    assert firing(brain) == firing(brain, project="web") == []
    wide = a_skill(api, "Tell everybody first", name="tell", projects=["web"])
    assert firing(brain, project="web") == [wide]


@pytest.mark.requirement("RT-11")
def test_skill_of_the_project_precedes_skills_for_all_projects(brain: Brain) -> None:
    project_skill = a_skill(brain, "Ask the api team before it", name="own", projects=["api"])
    wide = a_skill(brain)
    assert firing(brain, project="api") == [project_skill, wide]
    assert firing(brain, project="web") == [wide]


@pytest.mark.requirement("RT-28")
def test_skill_of_the_project_is_preferred_to_skills_of_the_same_name(
    brain: Brain,
) -> None:
    # What another may not see takes no name from him, nor does it tell him that it is there.
    bobs = a_skill(brain.acting_as(agent="bob"), "Bob deploys alone", projects=["api"])
    brain.forget(bobs, reason="it is to be his own")
    outcome = remember_one(
        brain.acting_as(agent="bob"), "Bob deploys by himself", kind="rule", scope="private",
        skill={"name": "release", "keywords": ["deploy"], "projects": ["api"]},
    )  # fmt: skip
    everybodys = a_skill(brain)
    skill = brain.get(skill="release")
    assert (skill.id, skill.namesakes) == (everybodys, None)
    bob = brain.acting_as(agent="bob", project="api")
    skill = bob.get(skill="Release")
    assert (skill.id, skill.namesakes) == (outcome.id, (everybodys,))
    assert bob.acting_as(project=None).get(skill="release").id == everybodys


@pytest.mark.requirement("DM-34")
def test_name_of_a_visible_skill_cannot_be_reused(brain: Brain) -> None:
    id_ = a_skill(brain)
    again = remember_one(
        brain, "Another text", kind="rule", skill={"name": "release", "keywords": ["ship"]}
    )
    assert (again.status, again.code) == (ItemStatus.REJECTED, "gate_skill")
    assert id_ in (again.reason or "")


@pytest.mark.requirement("DM-34", "WP-21")
def test_skill_cannot_be_restored_while_another_has_its_name(brain: Brain) -> None:
    old = a_skill(brain)
    new = brain.revise.supersede(old, "Ask nobody", reason="trust").id
    assert firing(brain) == []
    other = a_skill(brain, "Deploy before noon only")
    with pytest.raises(RejectedError, match="named release") as refused:
        brain.revise.restore(old, reason="we miss it")
    assert refused.value.code == "gate_skill"
    assert brain.get(old).state is State.SUPERSEDED
    assert brain.get(new or "").state is State.ACTIVE
    brain.forget(other, reason="it goes")
    brain.revise.restore(old, reason="we miss it")
    assert firing(brain) == [old]


def test_skills_are_listed_by_name_with_their_triggers(brain: Brain) -> None:
    one = a_skill(brain, projects=["api"])
    other = a_skill(brain, "Warm the kettle first", name="kettle", keywords=[], always_on=True)
    listed = brain.skills().skills
    assert [(x.name, x.id, x.keywords, x.projects, x.always_on) for x in listed] == [
        ("kettle", other, (), (), True),
        ("release", one, ("deploy",), ("api",), False),
    ]


def test_keyword_matches_in_any_case_and_across_line_breaks(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    id_ = a_skill(brain, keywords=["Deploy", "roll  back"])
    for query in ("DEPLOY", "re\u0301deploy", "roll\nback  now", "ROLL back"):
        with subtests.test(query=query):
            assert firing(brain, query) == [id_]


def test_identical_skill_remembered_again_exists_already(brain: Brain) -> None:
    trigger = {"name": "night-deploy", "keywords": ["deploy"]}
    text = "Never deploy at night without the pilot on call."
    first = brain.remember(text, kind="rule", severity="PATTERN", skill=trigger)
    again = brain.remember(text, kind="rule", severity="PATTERN", skill=trigger)
    assert again.items[0].status == "exists"
    assert again.items[0].id == first.items[0].id


@pytest.mark.requirement("DM-34")
def test_same_text_in_another_scope_or_project_cannot_reuse_the_skill_name(
    brain: Brain,
) -> None:
    trigger = {"name": "release", "keywords": ["deploy"]}
    id_ = stored(brain, RULE, kind="rule", skill=trigger, scope="private", project="api")
    for scope, project in (("team", "api"), ("private", "shop")):
        again = remember_one(brain, RULE, kind="rule", skill=trigger, scope=scope, project=project)
        assert (again.status, again.code) == (ItemStatus.REJECTED, "gate_skill")
    assert [one.id for one in brain.skills().skills] == [id_]
