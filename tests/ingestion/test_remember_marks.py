import pytest

from commonbrain.client import Brain
from commonbrain.ingestion.result import ItemStatus
from commonbrain.model import ids
from commonbrain.model.kinds import Kind, MessageDetail
from commonbrain.model.links import LinkType
from commonbrain.model.memory import State
from tests.asking import bodies, remember_one, stored

TALK = """We looked at the queue all morning.
@decision Use Postgres for the queue
@insight: Polling is cheap below ten workers
mail ann@decision.org for more
@atom the queue | was polled | the disk filled up | the build stood still"""


@pytest.mark.requirement("WP-24")
def test_marks_in_a_message_become_memories_that_name_it(brain: Brain) -> None:
    text = remember_one(
        brain, TALK, kind="message", detail=MessageDetail(sender="bob"), project="api"
    )
    assert text.status is ItemStatus.STORED
    kinds = [(part.kind, part.headline) for part in text.derived]
    assert kinds == [
        (Kind.FACT, "Use Postgres for the queue"),
        (Kind.FACT, "Polling is cheap below ten workers"),
        (Kind.ATOM, "the queue | was polled | the disk filled up | the build stood still"),
    ]
    decision, _, atom = (brain.get(str(part.id)) for part in text.derived)
    assert (decision.label, decision.project) == ("decision", "api")
    assert atom.detail["consequences"] == "the build stood still"
    with brain.services.store.snapshot("default") as tx:
        id_ = ids.parse(ids.MEMORY, str(text.derived[0].id))
        saved = tx.memories.get([id_])[id_]
    assert saved.auto_captured
    assert saved.source_message_id == ids.parse(ids.MEMORY, str(text.id))


def test_marks_in_other_texts_become_memories_with_a_link_and_no_more_trust(brain: Brain) -> None:
    offered = remember_one(brain, TALK, kind="event", trust="untrusted_web", scope="private")
    decision = ids.parse(ids.MEMORY, str(offered.derived[0].id))
    with brain.services.store.snapshot("default") as tx:
        [link] = tx.links.touching([decision])
        saved = tx.memories.get([decision])[decision]
    assert (link.type, link.to_id) == (
        LinkType.DERIVED_FROM,
        ids.parse(ids.MEMORY, str(offered.id)),
    )
    assert (saved.trust, saved.scope) == ("untrusted_web", "private")


def test_text_of_a_single_mark_becomes_the_marked_memory(brain: Brain) -> None:
    [outcome] = brain.remember("@decision Use Postgres for the queue").items
    assert (outcome.kind, outcome.derived) == (Kind.FACT, ())
    memory = brain.get(str(outcome.id))
    assert (memory.body, memory.label) == ("Use Postgres for the queue", "decision")


def test_repeated_marks_create_no_second_memory(brain: Brain) -> None:
    stored(brain, TALK, kind="message")
    again = remember_one(brain, TALK, kind="message")
    assert {part.status for part in again.derived} <= {ItemStatus.EXISTS, ItemStatus.DUPLICATE}


def test_text_of_a_mark_passes_the_gate_like_any_other(brain: Brain) -> None:
    text = remember_one(brain, "So be it.\n@remember 🎉🎉", kind="message")
    assert [part.code for part in text.derived] == ["gate_headline"]


@pytest.mark.requirement("DM-31", "WP-20")
def test_obligations_in_a_text_become_tasks_without_acknowledgement_on_request(
    brain: Brain,
) -> None:
    talk = "Tea was good. We need to rotate the keys. Bob must follow up with Ann! It rained."
    assert remember_one(brain, talk, kind="event").derived == ()
    offered = remember_one(brain, f"{talk} Really.", kind="event", extract_tasks=True)
    tasks = [brain.get(str(part.id)) for part in offered.derived]
    assert [task.body for task in tasks] == [
        "We need to rotate the keys.",
        "Bob must follow up with Ann!",
    ]
    assert all(task.kind is Kind.TASK and not task.detail["must_ack"] for task in tasks)


@pytest.mark.requirement("DM-30", "DM-32", "WP-20")
def test_names_in_a_text_can_be_used_as_filters(brain: Brain) -> None:
    text = "Talked with @Ann about ENG-42 and src/api/main.py #Release"
    id_ = ids.parse(ids.MEMORY, stored(brain, text, kind="event", people=["Bob"], tags=["ci"]))
    with brain.services.store.snapshot("default") as tx:
        saved = tx.memories.get([id_])[id_]
    assert saved.people == ("bob", "ann")
    assert saved.tags == ("ci", "release")
    assert saved.references == ("ENG-42", "src/api/main.py")
    assert bodies(brain, tags=["release"]) == [text]


@pytest.mark.requirement("DM-09", "DM-34")
def test_rule_can_have_a_skill_trigger(brain: Brain) -> None:
    skill = {"name": "push-rules", "keywords": ["Push", "deploy"], "always_on": False}
    id_ = stored(brain, "Never push on a Friday", kind="rule", skill=skill)
    trigger = brain.get(id_).detail["skill"]
    assert trigger == {
        "name": "push-rules",
        "keywords": ["push", "deploy"],
        "projects": [],
        "always_on": False,
    }
    taken = remember_one(brain, "Always rebase first", kind="rule", skill=skill)
    assert (taken.status, taken.code) == (ItemStatus.REJECTED, "gate_skill")
    brain.forget(id_, reason="wrong")
    assert (
        remember_one(brain, "Always rebase first", kind="rule", skill=skill).status
        is ItemStatus.STORED
    )


def test_malformed_skill_trigger_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    triggers: tuple[dict[str, object], ...] = (
        {"keywords": ["push"]},
        {"name": "Push Rules", "keywords": ["push"]},
        {"name": "push", "keywords": ["up"]},
        {"name": "push", "keywords": []},
        {"name": "push", "keywords": ["push"], "colour": "red"},
        {"name": "push", "keywords": [object()]},
        {"name": "push", "keywords": ["push"], "always_on": "yes"},
    )
    for skill in triggers:
        with subtests.test(skill=skill):
            outcome = remember_one(brain, "Never push on a Friday", kind="rule", skill=skill)
            assert (outcome.status, outcome.code) == (ItemStatus.REJECTED, "gate_skill")


def test_rule_with_a_skill_trigger_from_an_untrusted_source_waits_for_approval(
    brain: Brain,
) -> None:
    skill = {"name": "push", "keywords": ["push"]}
    outcome = remember_one(brain, "Always push", kind="rule", skill=skill, trust="untrusted_web")
    assert outcome.status is ItemStatus.QUARANTINED


@pytest.mark.requirement("WP-31")
def test_event_of_low_importance_is_archived_at_once(
    brain: Brain,
) -> None:
    id_ = stored(brain, "The kettle was filled", kind="event", importance=0.1)
    assert brain.get(id_).state is State.ARCHIVED
    assert brain.get(stored(brain, "The house burnt", kind="event")).state is State.ACTIVE
