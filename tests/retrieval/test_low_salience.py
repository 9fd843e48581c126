"""What was archived as it was written, since it says nothing, answers only where nothing else does.

Run with `--engine postgres`, the tests hold for that engine too.
"""

from dataclasses import replace

import pytest

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.memory import Draft, State
from tests.asking import stored

NOISE = "lol"
NOTE = "archived: low salience"
FACT = "The deploy of the shop takes 40 minutes"


def low_event(brain: Brain, text: str) -> str:
    """Store an event that its author calls unimportant."""
    return stored(brain, text, kind="event", importance=0.05)


def shown(brain: Brain, query: str = "", **options: object) -> list[str]:
    return [str(item.id) for item in brain.recall(query, bump=False, **options).items]  # pyright: ignore[reportArgumentType]


@pytest.mark.requirement("RT-38")
def test_low_salience_is_left_out_while_something_else_answers(brain: Brain) -> None:
    low = low_event(brain, "The deploy of the shop began")
    noise = stored(brain, NOISE)
    fact = stored(brain, FACT)
    assert {brain.get(one).state for one in (low, noise)} == {"archived"}
    assert shown(brain, "deploy of the shop") == [fact]
    assert shown(brain) == [fact], "nor in a list"


@pytest.mark.requirement("RT-38")
def test_low_salience_is_shown_with_a_note_where_nothing_else_answers(brain: Brain) -> None:
    low = low_event(brain, "The deploy of the shop began")
    [item] = brain.recall("deploy of the shop").items
    assert (item.id, item.notes) == (low, (NOTE,))
    assert NOTE in brain.recall("deploy of the shop").evidence


@pytest.mark.requirement("RT-38")
def test_low_salience_is_shown_to_whoever_asks_for_the_archived(brain: Brain) -> None:
    low = low_event(brain, "The deploy of the shop began")
    fact = stored(brain, FACT)
    assert set(shown(brain, "deploy of the shop", states=["active", "archived"])) == {low, fact}
    assert shown(brain, "deploy of the shop", states=["archived"]) == [low]


@pytest.mark.requirement("RT-38")
def test_what_was_archived_later_stays_searchable(brain: Brain) -> None:
    one = stored(brain, "The deploy of the shop began at noon", kind="event")
    other = stored(brain, FACT)
    with brain.services.store.begin(brain.caller.tenant) as tx:
        [memory] = tx.memories.get([ids.parse(ids.MEMORY, one)]).values()
        tx.memories.update(memory, replace(memory, state=State.ARCHIVED))
    assert set(shown(brain, "deploy of the shop")) == {one, other}


@pytest.mark.requirement("RT-38")
def test_neither_boot_nor_a_hook_shows_low_salience(brain: Brain) -> None:
    low_event(brain, "The deploy of the shop began")
    stored(brain, NOISE)
    assert "began" not in repr(brain.boot(task="deploy of the shop"))
    assert not shown(brain, "The deploy of the shop began", proactive=True)


@pytest.mark.requirement("RT-38")
@pytest.mark.parametrize(
    ("query", "options"),
    [
        ("", {}),
        ("", {"order": "timeline"}),
        ("warehouse keys", {}),
        ("where are the warehouse keys", {}),
        ("warehouse keys", {"since": "yesterday"}),
    ],
)
def test_many_of_low_salience_hide_no_answer(
    brain: Brain, query: str, options: dict[str, str]
) -> None:
    fact = stored(brain, "Anna keeps the keys of the warehouse in Kiel")
    noise = [f"warehouse keys check number {number} done" for number in range(90)]
    brain.remember([Draft(body=text, kind="event", columns={"importance": 0.05}) for text in noise])
    assert shown(brain, query, **options) == [fact]
    assert len(shown(brain, query, **options, states=["archived"])) > 1


@pytest.mark.requirement("RT-38")
def test_pages_of_a_list_have_low_salience_only_if_they_have_nothing_else(brain: Brain) -> None:
    lows = {low_event(brain, f"The deploy of shop {number} began") for number in range(3)}
    first = brain.recall(max_items=2)
    second = brain.recall(max_items=2, cursor=first.next)
    assert {str(item.id) for item in (*first.items, *second.items)} == lows
    fact = stored(brain, FACT)
    page = brain.recall(max_items=1)
    assert ([str(item.id) for item in page.items], page.next) == ([fact], None)


def test_pinned_text_that_says_nothing_is_not_archived(brain: Brain) -> None:
    [item] = brain.remember(Draft(body=NOISE, pinned=True)).items
    assert brain.get(str(item.id)).state == "active"


@pytest.mark.requirement("RT-38")
def test_no_correction_rule_or_task_starts_archived(brain: Brain) -> None:
    port = stored(brain, "The build machine listens on port 8022", kind="fact")
    changed = brain.revise.supersede(port, "ok", reason="moved")
    assert changed.id is not None
    all_ids = [
        changed.id,
        stored(brain, "Again", kind="rule", severity="BLOCKER"),
        stored(brain, "Do it", kind="task"),
        stored(brain, "It is on 3000", kind="fact"),
    ]
    assert {brain.get(one).state for one in all_ids} == {"active"}


@pytest.mark.requirement("RT-38", "SE-42")
def test_pinning_makes_what_started_archived_current(brain: Brain) -> None:
    low = stored(brain, NOISE)
    brain.revise.pin(low)
    assert brain.get(low).state == "active"
    assert [one.id for one in brain.boot().pinned] == [low]
