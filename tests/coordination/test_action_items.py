"""Action items: who is held up by what, and by which answer no longer."""

import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.api.operations.revise import REVISE, ReviseRequest
from commonbrain.client import Brain
from commonbrain.history.change_plan import ChangeStatus
from commonbrain.ingestion.pending_acks import OPEN_ITEMS_MAX
from commonbrain.ingestion.result import ItemResult, ItemStatus
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.kinds import TaskStatus
from commonbrain.model.memory import Draft, State
from commonbrain.model.scope import Role, Trust
from commonbrain.testing.builders import FakeClock
from tests.asking import bodies, remember_one, stored

TASK = "Rotate the deploy key before friday"
RULE = "Never push to main on a friday"
OTHER = "The kettle is blue"


@pytest.fixture
def bo(brain: Brain) -> Brain:
    """Another agent with a session on the same store."""
    return brain.acting_as(agent="bo", session="s1")


def blocked(call: Callable[[], object]) -> str:
    """Give the words with which a call is refused for action items."""
    with pytest.raises(RejectedError) as refusal:
        call()
    assert refusal.value.code == "action_items_pending"
    return str(refusal.value)


def task(brain: Brain, text: str = TASK, **known: str) -> str:
    return stored(brain, text, kind="task", must_ack=True, **known)  # pyright: ignore[reportArgumentType]


def rule(brain: Brain, text: str = RULE, **known: str) -> str:
    return stored(brain, text, kind="rule", must_ack=True, **known)  # pyright: ignore[reportArgumentType]


def a_writer(brain: Brain) -> Brain:
    """Act as the same agent without the rights of an admin."""
    return Brain(services=brain.services, caller=replace(brain.caller, role=Role.WRITER))


@pytest.mark.requirement("SE-06")
def test_action_item_blocks_writes_until_it_is_acknowledged(brain: Brain, bo: Brain) -> None:
    id_ = task(brain)
    words = blocked(lambda: bo.remember(OTHER))
    assert id_ in words
    assert TASK in words
    assert f"revise ack {id_}" in words
    assert bodies(bo, "deploy key") == [TASK]
    bo.revise.ack(id_, "will_execute")
    assert remember_one(bo, OTHER).status is ItemStatus.STORED


def test_one_answer_settles_all_action_items_that_a_refusal_names(brain: Brain, bo: Brain) -> None:
    items = [task(brain), task(brain, "Water the plants of the office"), rule(brain)]
    words = blocked(lambda: bo.remember(OTHER))
    (named,) = re.findall(r"revise ack (\S+), value will_execute", words)
    assert sorted(named.split(",")) == sorted(items)

    request = ReviseRequest(op="ack", id=",".join(items), value="will_execute")
    reply = REVISE.handle(bo, request)

    assert [line.split()[0] for line in reply.changed] == items
    assert remember_one(bo, OTHER).status is ItemStatus.STORED


SUBJECTS = ("key", "lamp", "door", "tap", "roof", "wall", "desk", "chair", "oven", "sink", "stair")


@pytest.mark.parametrize("kind", ["task", "rule"])
def test_one_agent_blocks_others_by_few_action_items_a_project(bo: Brain, kind: str) -> None:
    def put(subject: str, **fields: str) -> ItemResult:
        text = f"Look after the {subject} of building {len(subject)}{subject[::-1]}"
        return remember_one(bo, text, kind=kind, must_ack=True, **fields)  # pyright: ignore[reportArgumentType]

    outcomes = [put(one, project="kitchen") for one in SUBJECTS[:OPEN_ITEMS_MAX]]
    assert {one.status for one in outcomes} == {ItemStatus.STORED}

    refused = put("stair", project="kitchen")
    assert (refused.status, refused.code) == (ItemStatus.REJECTED, "limit_exceeded")
    (named,) = re.findall(r"revise ack (\S+), value withdraw", refused.hint or "")
    assert named in {one.id for one in outcomes}
    # What is stored already is no further one; other projects and agents have their own.
    assert put(SUBJECTS[0], project="kitchen").status is ItemStatus.EXISTS
    assert put("stair", project="garden").status is ItemStatus.STORED

    bo.revise.ack(str(named), "withdraw")
    assert put("stair", project="kitchen").status is ItemStatus.STORED


def test_action_items_never_block_the_owner_of_the_store(brain: Brain, bo: Brain) -> None:
    task(bo)
    owned = replace(brain.services, owner="ann")
    for role, is_owner in ((Role.ADMIN, True), (Role.WRITER, False)):
        ann = Brain(owned, replace(brain.caller, agent="ann", role=role))
        if is_owner:
            assert remember_one(ann, OTHER).status is ItemStatus.STORED
            assert not ann.boot().writes_blocked
        else:
            blocked(lambda ann=ann: ann.remember("The tap drips"))
    other = Brain(owned, replace(brain.caller, agent="cy"))
    blocked(lambda: other.remember("The tap drips"))


@pytest.mark.requirement("SE-26")
def test_action_item_blocks_every_way_of_writing(brain: Brain, bo: Brain) -> None:
    fact, old = stored(brain, OTHER), stored(brain, "Tea is at four", kind="fact")
    task(brain)
    for write in (
        lambda: bo.remember("Coffee is at nine", kind="fact"),
        lambda: bo.revise.supersede(fact, "The kettle is red", reason="painted"),
        lambda: bo.revise.pin(fact),
        lambda: bo.revise.annotate(fact, "seen it"),
        lambda: bo.revise.resolve(fact, other=old, reason="so it is"),
        lambda: bo.forget(fact, reason="gone"),
        lambda: bo.erase(fact, reason="gone", confirm=1),
        lambda: bo.undo(agent="ann", reason="no", confirm=3),
    ):
        blocked(write)
    assert brain.get(fact).state is State.ACTIVE
    assert bo.forget([fact, old], reason="only looking").count == 2


def test_action_item_blocks_prune_import_and_merge(
    brain: Brain, bo: Brain, clock: FakeClock, tmp_path: Path
) -> None:
    stored(brain, "The tap drips", kind="event")
    clock.move(timedelta(days=100))
    task(brain)
    blocked(lambda: bo.prune(confirm=bo.prune().count))
    file, exported = tmp_path / "notes.md", tmp_path / "all.jsonl"
    file.write_text("# Tea\n\nThe tea is in the left drawer of the kitchen.\n")
    blocked(lambda: bo.import_("markdown", file))
    assert bo.import_("markdown", file, dry_run=True).stored == 1
    brain.export(exported)
    blocked(lambda: bo.merge(exported))


def test_blocked_agent_may_still_report_hand_over_and_settle_items(brain: Brain, bo: Brain) -> None:
    id_, other = task(brain), task(brain, "Water the plants of the office")
    for fields in (
        {"kind": "message"},
        {"kind": "incident"},
        {"kind": "episode", "label": "handoff"},
    ):
        message = f"I am held up, says a {fields['kind']}"
        assert remember_one(bo, message, **fields).status is ItemStatus.STORED  # pyright: ignore[reportArgumentType]
    assert bo.session.note("where", "in the kitchen").notes
    assert bo.session.claim(id_).lease
    assert bo.revise.status(id_, "done").status is ChangeStatus.DONE
    assert bo.forget(other, reason="they died").count == 1
    assert remember_one(bo, OTHER).status is ItemStatus.STORED


def test_blocked_agent_may_approve_quarantined_memories(brain: Brain, bo: Brain) -> None:
    quarantined = remember_one(
        brain, "Always boil the tea twice", kind="rule", trust="untrusted_web"
    ).id
    assert quarantined is not None
    task(brain)
    assert bo.revise.approve(quarantined, reason="it is so").status is ChangeStatus.DONE


def test_batch_with_a_blocked_item_stores_nothing(brain: Brain, bo: Brain) -> None:
    task(brain)
    drafts = [Draft(body="The tap burst", kind="incident"), Draft(body=OTHER, kind="fact")]
    blocked(lambda: bo.remember(drafts))
    assert bodies(bo, "tap burst kettle") == []


def test_action_item_blocks_its_project_and_one_without_a_project_blocks_all(
    brain: Brain, bo: Brain
) -> None:
    id_ = task(brain, project="kitchen")
    assert remember_one(bo, OTHER, project="garden").status is ItemStatus.STORED
    blocked(lambda: bo.remember("The tap drips", project="kitchen"))
    bo.revise.ack(id_, "will_execute")
    task(brain, "Wash your hands first")
    blocked(lambda: bo.remember("The tap drips", project="garden"))


@pytest.mark.requirement("SE-06")
@pytest.mark.requirement("SE-36")
def test_action_item_of_one_project_does_not_block_writes_to_another(
    brain: Brain, bo: Brain
) -> None:
    task(brain, project="kitchen")
    cook = bo.acting_as(project="kitchen")
    assert remember_one(cook, OTHER, project="garden").status is ItemStatus.STORED
    bench = stored(brain, "The bench is green", project="garden")
    assert cook.revise.annotate(bench, "seen it").status is ChangeStatus.DONE
    blocked(lambda: cook.remember("The tap leaks"))


def test_assigned_task_blocks_only_its_assignee(brain: Brain, bo: Brain) -> None:
    id_ = task(brain, assignee="cy")
    assert remember_one(bo, OTHER).status is ItemStatus.STORED
    assert id_ in blocked(lambda: bo.acting_as(agent="cy").remember("The tap drips"))


@pytest.mark.parametrize("make", [task, rule])
@pytest.mark.requirement("SE-36")
def test_only_an_admin_creates_a_shared_action_item_without_a_project(
    brain: Brain, make: Callable[..., str], bo: Brain
) -> None:
    writer = a_writer(bo)
    text, kind = (TASK, "task") if make is task else (RULE, "rule")
    refused = remember_one(writer, text, kind=kind, must_ack=True)
    assert (refused.status, refused.code) == (ItemStatus.REJECTED, "scope_denied")
    assert "project" in (refused.hint or "")
    assert remember_one(brain, OTHER).status is ItemStatus.STORED
    assert make(writer, project="kitchen")
    assert make(writer, "Only I read this: feed the cat", scope="private")
    assert make(brain, "Wash your hands before you cook")


@pytest.mark.requirement("SE-36")
@pytest.mark.parametrize("way", ["approve", "restore", "reopen", "undo"])
def test_only_an_admin_restores_an_action_item_without_a_project(
    brain: Brain, bo: Brain, clock: FakeClock, way: str
) -> None:
    writer = a_writer(bo)
    trusted = Brain(bo.services, replace(writer.caller, trust_ceiling=Trust.TRUSTED_TOOL))
    if way == "approve":
        quarantined = remember_one(brain, TASK, kind="task", must_ack=True, trust="untrusted_web")
        assert quarantined.status is ItemStatus.QUARANTINED
        id_ = quarantined.id or ""
    else:
        id_ = task(brain)
        clock.move(timedelta(minutes=1))
    if way == "reopen":
        brain.revise.status(id_, "done")
    elif way != "approve":
        brain.forget(id_, reason="no more")

    def put_back(one: Brain) -> object:
        match way:
            case "approve":
                return one.revise.approve(id_, reason="it binds")
            case "restore":
                return one.revise.restore(id_, reason="it binds")
            case "reopen":
                return one.revise.status(id_, "open")
            case _:
                since = brain.services.clock.now()
                preview = one.undo(agent="ann", since=since, reason="it binds")
                confirm = preview.count or None
                done = one.undo(agent="ann", since=since, reason="it binds", confirm=confirm)
                assert done.count or "admin" in (preview.skipped[0].why or "")
                return done

    if way == "undo":
        put_back(trusted)
    else:
        with pytest.raises(RejectedError, match="needs the role admin") as refusal:
            put_back(trusted)
        assert refusal.value.code == "scope_denied"
    assert remember_one(trusted, OTHER).status is ItemStatus.STORED
    put_back(brain.acting_as(session="s2"))
    assert id_ in blocked(lambda: trusted.remember("The tap drips"))


def test_writer_restores_an_action_item_of_a_project(brain: Brain, bo: Brain) -> None:
    id_ = task(brain, project="kitchen")
    brain.forget(id_, reason="no more")
    writer = a_writer(bo).acting_as(project="kitchen")
    assert writer.revise.restore(id_, reason="it binds").status is ChangeStatus.DONE


@pytest.mark.requirement("SE-06")
def test_refusal_names_the_blocking_item_its_author_project_and_the_call_to_make(
    brain: Brain, bo: Brain
) -> None:
    why = "The key leaked in a log.\nRotate it before the next deployment."
    id_ = task(brain, why, headline="Rotate the deploy key", project="kitchen")
    words = blocked(lambda: bo.remember(OTHER, project="kitchen"))
    for part in (
        f"{id_} (Rotate the deploy key)",
        "set by ann on 2026-03-02 for project kitchen",
        "The key leaked in a log. Rotate it",
        f"revise ack {id_}, value will_execute",
        f"in a shell, brain task ack {id_} will_execute",
    ):
        assert part in words


def test_only_author_and_admins_withdraw_an_action_item(brain: Brain, bo: Brain) -> None:
    author, other, text = a_writer(brain), a_writer(bo), "Never deploy on a sunday"
    law, job = rule(author, project="kitchen"), task(author, project="kitchen")
    cook = other.acting_as(project="kitchen")
    with pytest.raises(RejectedError) as refusal:
        cook.revise.ack(law, "withdraw")
    assert refusal.value.code == "insufficient_role"
    later = author.acting_as(session="later", project="kitchen")
    rule(brain, text, project="kitchen")
    assert later.revise.ack(law, "withdraw", reason="done with").status is ChangeStatus.DONE
    assert bo.revise.ack(job, "withdraw").status is ChangeStatus.DONE
    words = blocked(lambda: cook.remember(OTHER))
    assert text in words
    assert law not in words
    assert job not in words
    binding_rule = brain.get(law)
    assert (binding_rule.state, binding_rule.detail["must_ack"]) == (State.ACTIVE, False)
    brain.undo(agent="bo", reason="it stands", confirm=1)
    assert job in blocked(lambda: cook.remember(OTHER))


def test_action_item_blocks_its_author_only_in_later_sessions(brain: Brain) -> None:
    ann = brain.acting_as(session="s1")
    task(ann)
    assert remember_one(ann, OTHER).status is ItemStatus.STORED
    blocked(lambda: ann.acting_as(session="s2").remember("The tap drips"))
    blocked(lambda: ann.acting_as(agent="bo").remember("The tap drips"))


def test_acknowledgement_of_a_task_holds_for_all_and_of_a_rule_for_one_session(
    brain: Brain, bo: Brain
) -> None:
    job, rule_id = task(brain), rule(brain)
    bo.revise.ack(job, "will_execute")
    bo.revise.ack(rule_id, "will_execute")
    assert remember_one(bo, OTHER).status is ItemStatus.STORED
    words = blocked(lambda: bo.acting_as(session="s2").remember("The tap drips"))
    assert rule_id in words
    assert job not in words


@pytest.mark.requirement("SE-27")
def test_rule_cannot_be_acknowledged_as_already_done(brain: Brain, bo: Brain) -> None:
    rule_id = rule(brain)
    with pytest.raises(InvalidInputError, match="never done"):
        bo.revise.ack(rule_id, "already_done", reason="did it")


@pytest.mark.requirement("SE-26", "DM-65")
@pytest.mark.parametrize("decision", ["already_done", "not_relevant"])
def test_some_acknowledgements_need_a_reason_which_the_audit_records(
    brain: Brain, bo: Brain, decision: str
) -> None:
    id_ = task(brain)
    with pytest.raises(InvalidInputError, match="needs a reason"):
        bo.revise.ack(id_, decision)
    blocked(lambda: bo.remember(OTHER))
    bo.revise.ack(id_, decision, reason="the key is new")
    history = brain.get(id_, views=["history"]).history
    assert history is not None
    [answer] = [one for one in history if one.action == "ack"]
    assert (answer.agent, answer.reason) == ("bo", f"{decision}: the key is new")


def test_acknowledging_a_task_as_already_done_closes_it(brain: Brain, bo: Brain) -> None:
    id_ = task(brain)
    reply = bo.revise.ack(id_, "already_done", reason="last week")
    assert brain.get(id_).detail["status"] == TaskStatus.DONE
    assert any("status: open -> done" in line for line in reply.changed)
    again = bo.revise.ack(id_, "already_done", reason="last week")
    assert again.status is ChangeStatus.UNCHANGED


@pytest.mark.requirement("SE-26")
def test_repeated_acknowledgement_changes_nothing(brain: Brain, bo: Brain) -> None:
    id_ = task(brain)
    assert bo.revise.ack(id_, "will_execute").status is ChangeStatus.DONE
    assert bo.revise.ack(id_, "will_execute").status is ChangeStatus.UNCHANGED
    assert bo.revise.ack(id_, "not_relevant", reason="no key").status is ChangeStatus.DONE


def test_deferred_action_item_blocks_again_after_its_date(
    brain: Brain, bo: Brain, clock: FakeClock
) -> None:
    id_ = task(brain)
    bo.revise.ack(id_, "deferred", until=clock.now() + timedelta(hours=2))
    assert remember_one(bo, OTHER).status is ItemStatus.STORED
    clock.move(timedelta(hours=2))
    blocked(lambda: bo.remember("The tap drips"))


@pytest.mark.parametrize("hours", [0, -1, 31 * 24])
def test_deferral_into_the_past_or_beyond_the_limit_is_refused(
    brain: Brain, bo: Brain, clock: FakeClock, hours: int
) -> None:
    id_ = task(brain)
    with pytest.raises(InvalidInputError):
        bo.revise.ack(id_, "deferred", until=clock.now() + timedelta(hours=hours))
    for decision, until in (("deferred", None), ("will_execute", "2026-03-03")):
        with pytest.raises(InvalidInputError, match="needs a time"):
            bo.revise.ack(id_, decision, until=until)


def test_memory_that_is_no_action_item_cannot_be_acknowledged(brain: Brain, bo: Brain) -> None:
    id_ = stored(brain, TASK, kind="task")
    with pytest.raises(RejectedError) as refusal:
        bo.revise.ack(id_, "will_execute")
    assert refusal.value.code == "not_an_action_item"


def test_undo_of_acknowledgements_makes_the_action_item_block_again(
    brain: Brain, bo: Brain
) -> None:
    id_ = task(brain)
    bo.revise.ack(id_, "deferred", until="2026-03-03")
    bo.revise.ack(id_, "will_execute")
    ann = brain.acting_as(session="s9")
    assert ann.undo(agent="bo", reason="they did not").count == 1
    ann.undo(agent="bo", reason="they did not", confirm=1)
    blocked(lambda: bo.remember(OTHER))
    brain.undo(session="s9", reason="they did", confirm=1)
    assert remember_one(bo, OTHER).status is ItemStatus.STORED
    assert bo.revise.ack(id_, "will_execute").status is ChangeStatus.UNCHANGED


@pytest.mark.requirement("SE-26")
def test_only_a_trusted_source_sets_an_action_item(brain: Brain, bo: Brain) -> None:
    for fields in ({"auto_captured": True}, {"trust": "untrusted_web"}):
        for kind in ("task", "rule"):
            outcome = remember_one(brain, f"{kind} {fields}", kind=kind, must_ack=True, **fields)  # pyright: ignore[reportArgumentType]
            assert outcome.status is ItemStatus.QUARANTINED
    text = "The tap burst. We must call the plumber. @remember call them today #task"
    stored(brain, text, kind="incident", extract_tasks=True)
    assert remember_one(bo, OTHER).status is ItemStatus.STORED


@pytest.mark.parametrize("state", ["done", "forgotten", "expired", "private"])
def test_ended_or_hidden_action_item_blocks_no_agent(
    brain: Brain, bo: Brain, clock: FakeClock, state: str
) -> None:
    fields = {"private": {"scope": "private"}, "expired": {"expires_at": "2026-03-02T10:00:00Z"}}
    id_ = task(brain, **fields.get(state, {}))
    if state == "done":
        brain.revise.status(id_, "done")
    if state == "forgotten":
        brain.forget(id_, reason="no more")
    clock.move(timedelta(hours=2))
    assert remember_one(bo, OTHER).status is ItemStatus.STORED


def test_new_wording_of_an_action_item_needs_a_new_acknowledgement(brain: Brain, bo: Brain) -> None:
    id_ = task(brain)
    bo.revise.ack(id_, "will_execute")
    new = brain.revise.supersede(id_, "Rotate both deploy keys before friday", reason="two").id
    assert str(new) in blocked(lambda: bo.remember(OTHER))


@pytest.mark.requirement("SE-27")
def test_refusal_names_ten_action_items_and_counts_the_rest(brain: Brain, bo: Brain) -> None:
    for number in range(12):
        fields = {"distinct_because": "another"} | ({} if number > 1 else {"project": "kitchen"})
        task(brain, f"Water plant number {number} in room {number}", **fields)
    words = blocked(lambda: bo.remember(OTHER, project="kitchen"))
    assert words.startswith("12 action items must be acknowledged")
    assert words.count("mem_") == 20
    assert "and 2 more" in words


def test_action_item_without_a_kind_is_a_task_unless_its_text_is_a_rule(brain: Brain) -> None:
    assert remember_one(brain, "The plants of the office", must_ack=True).kind == "task"
    assert remember_one(brain, RULE, must_ack=True).kind == "rule"


def test_repeated_call_returns_its_first_reply_despite_a_newer_action_item(
    brain: Brain, bo: Brain
) -> None:
    first = bo.remember(OTHER, idempotency_key="k")
    task(brain)
    assert bo.remember(OTHER, idempotency_key="k").items == first.items


def test_erasing_an_action_item_erases_its_acknowledgements(brain: Brain, bo: Brain) -> None:
    id_ = task(brain)
    bo.revise.ack(id_, "not_relevant", reason="a word that must go")
    done = brain.erase(id_, reason="asked to", confirm=1)
    assert done.receipt["acks"] == 1
    history = brain.get(id_, views=["history"]).history
    assert history is not None
    assert all("a word" not in (one.reason or "") for one in history)


def test_pending_action_items_block_memories_marked_in_a_report(brain: Brain, bo: Brain) -> None:
    task(brain)
    words = "The build is red.\n@decision Zebras ship the build from now on."
    left = bo.session.handoff(words).outcome
    assert left is not None
    reports = (
        bo.message.send("ann", words).derived,
        bo.remember(words, kind="incident", chunks=False).items[0].derived,
        left.derived,
    )
    for derived in reports:
        assert [(one.status, one.code) for one in derived] == [
            (ItemStatus.REJECTED, "action_items_pending")
        ]
    assert bodies(bo, "zebras", kinds=["fact"]) == []
