import pytest

from commonbrain.model.kinds import Kind, RuleDetail
from commonbrain.model.skills import Skill, read_skill, skill_of
from commonbrain.testing.builders import a_memory


@pytest.mark.requirement("RT-11")
def test_keyword_fires_in_any_case_and_as_part_of_a_word() -> None:
    skill = Skill(name="release", keywords=("deploy", "rollback"))
    assert skill.fires("How do we REDEPLOY it?", None)
    assert skill.fires("a rollback", "api")
    assert not skill.fires("a role", None)


@pytest.mark.requirement("RT-12")
def test_skill_limited_to_projects_fires_only_in_those() -> None:
    skill = Skill(name="release", keywords=("deploy",), projects=("api", "web"))
    assert [skill.fires("deploy", project) for project in ("api", "cli", None)] == [
        True,
        False,
        False,
    ]


def test_skill_trigger_is_read_with_odd_spacing_case_and_types() -> None:
    read = read_skill({"name": " release ", "keywords": ["Deploy ", "ci", 7], "projects": None})
    assert read == Skill(name="release", keywords=("deploy",))


def test_skill_trigger_without_a_name_is_ignored(subtests: pytest.Subtests) -> None:
    cases: list[dict[str, object]] = [{}, {"name": " "}, {"name": 3, "keywords": ["deploy"]}]
    for trigger in cases:
        with subtests.test(trigger=trigger):
            assert read_skill(trigger) is None


def test_only_a_rule_with_a_trigger_is_a_skill() -> None:
    detail = RuleDetail(skill={"name": "release", "keywords": ["deploy"]})
    assert skill_of(a_memory(1, "Deploy at noon", kind=Kind.RULE, detail=detail)) is not None
    assert skill_of(a_memory(1, "Deploy at noon", kind=Kind.RULE)) is None
    assert skill_of(a_memory(1, "Deploy at noon")) is None
