"""The people named in a text are searched by any form of their names."""

import pytest

from commonbrain.client import Brain
from tests.asking import stored


@pytest.mark.requirement("DM-30")
@pytest.mark.requirement("DM-72")
def test_person_is_found_by_first_full_and_account_name(
    brain: Brain, subtests: pytest.Subtests
) -> None:
    named = stored(brain, "Ann Lee decided that sessions stay in Redis", kind="fact")
    mentioned = stored(brain, "The retry limit is five, see @ann.lee", kind="fact")
    stored(brain, "Annabel Lee-Roy owns the parser", kind="fact", people=["annabel"])
    stored(brain, "Redis said that the port is in use", kind="event")
    for name in ("Ann", "@ann", "ann lee", "Ann.Lee", "@ann-lee"):
        with subtests.test(name=name):
            for query in ("", "redis retry limit"):
                items = brain.recall(query, people=[name]).items
                assert {item.id for item in items} == {named, mentioned}


@pytest.mark.requirement("DM-30")
def test_full_name_does_not_match_another_person_with_the_same_first_name(brain: Brain) -> None:
    lee = stored(brain, "Ann Lee approved the budget", kind="event")
    voss = stored(brain, "Ann Voss rejected the budget, as Ann Voss said", kind="event")
    assert [item.id for item in brain.recall(people=["ann lee"]).items] == [lee]
    assert {item.id for item in brain.recall(people=["ann"]).items} == {lee, voss}
    assert not brain.recall(people=["redis"]).items


@pytest.mark.requirement("DM-31")
def test_person_mentioned_as_subject_of_a_task_is_its_person_and_assignee(brain: Brain) -> None:
    text = "We met today. @maria needs to follow up with the bank. Tom Baker has to call, too."
    [outcome] = brain.remember(text, kind="event", extract_tasks=True).items
    tasks = [brain.get(str(part.id)) for part in outcome.derived]
    assert [(one.body, one.detail["assignee"]) for one in tasks] == [
        ("@maria needs to follow up with the bank.", "maria"),
        ("Tom Baker has to call, too.", None),
    ]
    assert [item.id for item in brain.recall("bank", people=["maria"], kinds=["task"]).items] == [
        tasks[0].id
    ]
    for text in ("@here must read it", "@everyone should go", "@Transactional must be public"):
        [one] = brain.remember(text, kind="task").items
        assert brain.get(str(one.id)).detail["assignee"] is None
    [given] = brain.remember("@maria must pay the rent", kind="task", assignee="bo").items
    assert brain.get(str(given.id)).detail["assignee"] == "bo"
