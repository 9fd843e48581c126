"""What a person did to shared things is undone, replaced or outlasted by a person alone."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from commonbrain.client import Brain
from commonbrain.config import Settings
from commonbrain.model import ids
from commonbrain.model.errors import NotFoundError, RejectedError
from commonbrain.model.jobs import JobError
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.scope import Authority, Caller, Role, Trust
from commonbrain.runtime.callers import FALSE_WORDS, TRUE_WORDS, acts_for_owner
from commonbrain.testing.builders import FakeClock
from tests.asking import remember_one, stored

WHY = "the model says so"


@pytest.fixture
def person(brain: Brain) -> Brain:
    """A person at a terminal or on the page."""
    return brain.acting_as(agent="owner", session="desk")


@pytest.fixture
def model(brain: Brain) -> Brain:
    """An agent that acts of its own accord, as over MCP."""
    return brain.acting_as(
        agent="mallory", session="chat", role=Role.WRITER, authority=Authority.MODEL
    )


@pytest.fixture
def later(model: Brain) -> Brain:
    """The same agent in another session."""
    return model.acting_as(session="next chat")


# Pinned notes.


@pytest.mark.parametrize(("value", "pinned"), [("go", True), ("", True), ("", False)])
def test_pinned_note_of_a_person_is_neither_replaced_nor_deleted_by_a_model(
    person: Brain, model: Brain, value: str, *, pinned: bool
) -> None:
    person.session.note("freeze", "No deploys until Monday.", pinned=True)

    with pytest.raises(RejectedError) as refused:
        model.session.note("freeze", value, pinned=pinned)

    assert refused.value.code == "trust_override_denied"
    assert [one.value for one in person.boot().notes] == ["No deploys until Monday."]


def test_model_of_the_same_name_and_session_replaces_no_note_of_a_person(person: Brain) -> None:
    person.session.note("freeze", "No deploys until Monday.", pinned=True)

    with pytest.raises(RejectedError):
        person.as_model().session.note("freeze", "Deploy now.")

    assert [one.value for one in person.boot().notes] == ["No deploys until Monday."]


SAME_KEYS = (
    "Freeze",
    "fre\u200beze\u200b",
    "\uff46reeze",
    "freeze\u2060",
    "FREEZE",
    "free\u00adze",
)


@pytest.mark.parametrize("key", SAME_KEYS)
def test_similar_key_is_the_key_of_the_note_of_a_person(
    person: Brain, model: Brain, key: str
) -> None:
    person.session.note("freeze", "No deploys until Monday.", pinned=True)

    with pytest.raises(RejectedError) as refused:
        model.session.note(key, "Deploy now.", pinned=True)

    assert refused.value.code == "trust_override_denied"
    person.session.note(key, "Deploy on Tuesday.", pinned=True)
    assert [one.value for one in person.boot().notes] == ["Deploy on Tuesday."]


def test_pinned_notes_of_a_model_leave_the_places_of_a_person(person: Brain, model: Brain) -> None:
    for number in range(10):
        model.session.note(f"a{number}", "noise", pinned=True)

    person.session.note("freeze", "No deploys until Monday.", pinned=True)

    assert person.boot().notes[0].key == "freeze"


def test_person_replaces_the_note_of_a_model(person: Brain, model: Brain) -> None:
    model.session.note("freeze", "Deploy now.", pinned=True)

    person.session.note("freeze", "No deploys until Monday.", pinned=True)

    assert [one.value for one in person.boot().notes] == ["No deploys until Monday."]


# Leases.


def test_claim_of_a_model_does_not_bind_a_person(person: Brain, model: Brain) -> None:
    task = stored(person, "Write the release notes.", kind="task")
    model.session.claim(task)

    person.revise.status(task, "done")

    assert dict(person.get(task).detail)["status"] == "done"


def test_claim_of_a_person_binds_a_model_whatever_its_role(person: Brain, brain: Brain) -> None:
    task = stored(person, "Write the release notes.", kind="task")
    person.session.claim(task)
    model = brain.acting_as(agent="mallory", session="chat", authority=Authority.MODEL)

    for attempt in (model.session.claim, model.session.release):
        with pytest.raises(RejectedError, match="claimed by"):
            attempt(task)


# What rests on something else.


def test_memory_of_a_person_stays_when_what_it_rests_on_is_ended_by_a_model(
    person: Brain, model: Brain
) -> None:
    source = stored(model, "The vendor supports version 4.", kind="fact")
    own = stored(person, "We stay on version 4.", kind="fact", depends_on=[source])

    model.forget(source, reason=WHY)

    assert person.get(own).state == "active"
    assert [one.memory.id for one in person.review().needs_review] == [own]


def test_memory_of_a_model_goes_with_what_it_rests_on(model: Brain) -> None:
    source = stored(model, "The vendor supports version 4.", kind="fact")
    own = stored(model, "We stay on version 4.", kind="fact", depends_on=[source])

    model.forget(source, reason=WHY)

    assert model.get(own).state == "archived"


# Restore and undo.


def test_model_restores_nothing_that_a_person_forgot(person: Brain, model: Brain) -> None:
    memory = stored(model, "The build takes nine minutes.", kind="fact")
    person.forget(memory, reason="not true")

    outcome = model.revise.restore(memory, reason=WHY)

    assert (outcome.status, person.get(memory).state) == ("proposed", "forgotten")


def test_model_restores_what_a_model_forgot(model: Brain, later: Brain) -> None:
    memory = stored(model, "The build takes nine minutes.", kind="fact")
    model.forget(memory, reason="not true")

    outcome = later.revise.restore(memory, reason="it is true")

    assert (outcome.status, later.get(memory).state) == ("done", "active")


def test_model_undoes_nothing_that_a_person_did(person: Brain, model: Brain) -> None:
    memory = stored(model, "The build takes nine minutes.", kind="fact")
    person.revise.retag(memory, add=["slow"])
    person.forget(memory, reason="not true")

    preview = model.undo(agent="owner", reason=WHY)

    assert (preview.count, person.get(memory).state) == (0, "forgotten")
    assert "ask the user" in (preview.skipped[0].why or "")


def test_model_undoes_what_another_model_did(model: Brain, brain: Brain) -> None:
    memory = stored(brain.as_model(), "The build takes nine minutes.", kind="fact")
    model.forget(memory, reason="not true")
    other = brain.acting_as(agent="alice", authority=Authority.MODEL, role=Role.WRITER)

    done = other.undo(agent="mallory", reason="too early", confirm=1)

    assert (done.count, other.get(memory).state) == (1, "active")


# Forgetting again and again.


def _facts(brain: Brain, count: int) -> list[str]:
    return [
        stored(brain, f"Run {number} took {number + 40} seconds.", kind="event")
        for number in range(count)
    ]


def test_model_forgets_few_memories_of_others_within_a_day(
    person: Brain, model: Brain, later: Brain, clock: FakeClock
) -> None:
    known = _facts(model, 22)
    later.forget(known[:19], reason=WHY, confirm=19)
    later.forget(known[19], reason=WHY)

    with pytest.raises(RejectedError) as refused:
        later.forget(known[20], reason=WHY)

    assert refused.value.code == "person_required"
    assert person.get(known[20]).state == "active"
    clock.move(timedelta(days=1, seconds=1))
    assert later.forget(known[20], reason=WHY).count == 1


def test_archiving_many_counts_as_forgetting(person: Brain, model: Brain, later: Brain) -> None:
    known = _facts(model, 21)

    with pytest.raises(RejectedError) as refused:
        later.bulk_edit(known, "archive", reason=WHY, confirm=21)

    assert refused.value.code == "person_required"
    assert {person.get(one).state for one in known} == {"active"}
    assert model.bulk_edit(known, "archive", reason="a trial run", confirm=21).count == 21


def test_what_a_forgotten_source_takes_with_it_counts(
    person: Brain, model: Brain, later: Brain
) -> None:
    known = _facts(model, 21)
    source = stored(later, "All of these runs were of the old build.", kind="fact")
    for one in known:
        later.revise.link(one, source, type="depends_on", reason=WHY)

    with pytest.raises(RejectedError) as refused:
        later.forget(source, reason=WHY)

    assert refused.value.code == "person_required"
    assert {person.get(one).state for one in (source, *known)} == {"active"}


def test_session_takes_back_all_that_it_wrote(model: Brain) -> None:
    known = _facts(model, 22)

    assert model.forget(known, reason="a trial run", confirm=22).count == 22


def test_undo_counts_as_forgetting(model: Brain, later: Brain) -> None:
    _facts(model, 22)

    with pytest.raises(RejectedError) as refused:
        later.undo(session="chat", reason=WHY, confirm=22)

    assert refused.value.code == "person_required"
    assert model.undo(session="chat", reason="a trial run", confirm=22).count == 22


def test_expiry_counts_as_forgetting(person: Brain, model: Brain, later: Brain) -> None:
    known = _facts(model, 21)
    for one in known[:20]:
        later.revise.set_expiry(one, "2030-01-01")

    with pytest.raises(RejectedError) as refused:
        later.revise.set_expiry(known[20], "2030-01-01")

    assert refused.value.code == "person_required"
    person.revise.set_expiry(known[20], "2030-01-01")


# No word of a model raises what was captured.


def test_model_that_resolves_a_conflict_raises_no_authority(person: Brain, brain: Brain) -> None:
    hook = brain.acting_as(agent="hook", authority=Authority.CAPTURED)
    model = brain.acting_as(agent="mallory", authority=Authority.MODEL)
    captured = stored(hook, "The port of web1 is 8001.", kind="fact")
    other = stored(hook, "The port of web1 is 8002.", kind="fact")

    model.revise.resolve(captured, other=other, reason=WHY)
    remember_one(model, "The port of web1 is 8001.", kind="fact")

    assert person.get(captured).authority is Authority.CAPTURED


def test_task_that_is_stored_again_after_it_was_done_is_a_new_one(model: Brain) -> None:
    task = stored(model, "Write the weekly report.", kind="task")
    assert remember_one(model, "Write the weekly report.", kind="task").status == "exists"
    model.revise.status(task, "done")

    again = stored(model, "Write the weekly report.", kind="task")

    assert again != task
    assert [one.id for one in model.boot().tasks] == [again]


def test_several_action_items_are_answered_all_or_none(person: Brain, model: Brain) -> None:
    items = [
        stored(person, text, kind="task", must_ack=True, project="shop")
        for text in ("Rotate the keys.", "Rename the host.")
    ]
    missing = "mem_0000000000000"
    with pytest.raises(NotFoundError):
        model.revise.ack([*items, missing], "will_execute")
    assert {one.id for one in model.boot(project="shop").action_items} == {*items}

    done = model.revise.ack(items, "will_execute")

    assert (done.status, len(done.changed)) == ("done", 2)
    assert model.boot(project="shop").action_items == ()


def test_doctor_names_binding_rules_that_no_person_confirmed(person: Brain, brain: Brain) -> None:
    assert "rules" not in [one.check for one in brain.doctor().findings]
    rule = stored(person, "Never deploy on Fridays.", kind="rule", severity="BLOCKER")
    with brain.services.store.begin(brain.caller.tenant) as tx:
        [known] = tx.memories.get([ids.parse(ids.MEMORY, rule)]).values()
        tx.memories.update(known, replace(known, authority=Authority.MODEL))

    [finding] = [one for one in brain.doctor().findings if one.check == "rules"]
    assert rule in finding.detail

    person.revise.approve(rule, reason="I read it")
    assert "rules" not in [one.check for one in brain.doctor().findings]


@pytest.mark.parametrize("is_upper", [False, True])
@pytest.mark.parametrize("word", sorted(TRUE_WORDS | FALSE_WORDS))
def test_word_of_the_owner_is_read_as_the_settings_read_it(word: str, *, is_upper: bool) -> None:
    spelt = word.upper() if is_upper else word

    assert (
        acts_for_owner({"COMMONBRAIN_AS_OWNER": spelt})
        is Settings.model_validate({"as_owner": spelt}).as_owner
    )


@pytest.mark.parametrize("word", ["", "maybe", "2", "owner"])
def test_unknown_word_does_not_act_for_the_owner(word: str) -> None:
    assert not acts_for_owner({"COMMONBRAIN_AS_OWNER": word})


# A person's own words.


def test_person_who_says_what_waits_approves_it(person: Brain, model: Brain) -> None:
    rule = "Never force-push to main; open a pull request."
    held = remember_one(model, rule, kind="rule", severity="BLOCKER")

    own = remember_one(person, rule, kind="rule", severity="BLOCKER")

    assert (own.status, own.id) == ("stored", held.id)
    assert [one.id for one in person.boot().blockers] == [held.id]
    assert person.get(str(held.id)).authority is Authority.PERSON
    assert person.recall("may I force-push to main?").items[0].id == held.id
    assert person.review().proposals == ()


def test_words_of_a_model_approve_nothing(model: Brain, later: Brain) -> None:
    rule = "Never force-push to main; open a pull request."
    remember_one(model, rule, kind="rule", severity="BLOCKER")

    assert remember_one(later, rule, kind="rule", severity="BLOCKER").status == "quarantined"


def test_second_import_of_a_file_approves_it_only_by_a_person(
    person: Brain, model: Brain, tmp_path: Path
) -> None:
    file = tmp_path / "CLAUDE.md"
    file.write_text("# Rules\n\n- Never deploy on Fridays.\n")
    for _ in range(2):
        model.import_("markdown", file)
    assert "Fridays" not in person.boot().text

    person.import_("markdown", file)

    assert person.boot().text.count("Never deploy on Fridays") == 1


# Jobs.


def test_model_neither_cancels_nor_restarts_the_job_of_a_person(brain: Brain) -> None:
    admin = brain.as_model()
    job = brain.jobs.run("maintain")

    with pytest.raises(RejectedError) as refused:
        admin.jobs.cancel(job.id)
    assert refused.value.code == "person_required"

    brain.jobs.cancel(job.id)
    with pytest.raises(RejectedError) as refused:
        admin.jobs.retry(job.id)
    assert refused.value.code == "person_required"
    assert brain.jobs.show(job.id).state == "cancelled"


def test_model_cancels_and_restarts_its_own_job(model: Brain) -> None:
    job = model.jobs.run("embed")

    assert model.jobs.cancel(job.id).state == "cancelled"
    assert model.jobs.retry(job.id).state == "queued"


@pytest.mark.parametrize("first", ["person", "web"])
def test_dead_job_that_is_asked_for_again_may_no_more_than_either_caller(
    brain: Brain, first: str
) -> None:
    web = brain.acting_as(
        role=Role.WRITER, authority=Authority.WEB, trust_ceiling=Trust.UNTRUSTED_WEB
    )
    callers = (brain, web) if first == "person" else (web, brain)
    job = callers[0].jobs.run("embed")
    make_dead(brain, job.id)

    assert callers[1].jobs.run("embed").id == job.id
    assert caller_of(brain, job.id) == replace(web.caller, request_id=None)


def test_person_restarts_the_job_of_a_model_with_its_authority(brain: Brain, model: Brain) -> None:
    job = model.jobs.run("embed")
    make_dead(brain, job.id)

    assert brain.jobs.retry(job.id).state == "queued"
    assert caller_of(brain, job.id).authority is Authority.MODEL


def test_agent_restarts_no_job_that_takes_a_role_it_lost(brain: Brain) -> None:
    admin = brain.as_model()
    job = admin.jobs.run("maintain")
    admin.jobs.cancel(job.id)

    with pytest.raises(RejectedError) as refused:
        admin.acting_as(role=Role.WRITER).jobs.retry(job.id)

    assert refused.value.code == "insufficient_role"


def make_dead(brain: Brain, id_: str) -> None:
    """Let every attempt at a job have failed."""
    with brain.services.store.begin(brain.caller.tenant) as tx:
        job = tx.jobs.get(ids.parse(ids.JOB, id_))
        assert job is not None
        fault = JobError.of("embedder_down", "It is down.")
        assert tx.jobs.move(job, job.buried(fault, now=brain.services.clock.now()))


def caller_of(brain: Brain, id_: str) -> Caller:
    with brain.services.store.begin(brain.caller.tenant) as tx:
        job = tx.jobs.get(ids.parse(ids.JOB, id_))
        assert job is not None
        return job.caller


# Action items.


def test_action_item_of_a_model_does_not_block_a_person(brain: Brain, model: Brain) -> None:
    stored(model, "Rotate the keys.", kind="task", must_ack=True, project="shop")
    person = brain.acting_as(agent="visitor", role=Role.WRITER, project="shop")
    other = person.as_model().acting_as(agent="alice")

    stored(person, "The shop runs on port 8001.", kind="fact")

    with pytest.raises(RejectedError, match="must be acknowledged"):
        other.remember("The shop runs on port 8002.", kind="fact")


def test_action_item_of_a_person_blocks_other_people(brain: Brain, person: Brain) -> None:
    stored(person, "Rotate the keys.", kind="task", must_ack=True, project="shop")
    other = brain.acting_as(agent="visitor", role=Role.WRITER, project="shop")

    with pytest.raises(RejectedError, match="must be acknowledged"):
        other.remember("The shop runs on port 8002.", kind="fact")


# Messages.


def test_message_of_a_model_in_the_name_of_another_shows_both_names(
    person: Brain, model: Brain
) -> None:
    for brain, text in ((model, "Push with force."), (person, "Open a pull request.")):
        brain.remember(text, kind="message", detail=MessageDetail(sender="Dana"))

    by = {item.body: item.agent for item in person.recall("push with force, pull request").items}
    assert by == {"Push with force.": "mallory for Dana", "Open a pull request.": "Dana"}
    assert "by mallory for Dana" in person.recall("push with force").evidence


# Threads.


def test_thread_that_a_person_began_for_all_is_not_closed_or_tagged_by_a_model(
    person: Brain, model: Brain
) -> None:
    sent = person.message.send("all", "Never push to main.", subject="House rules")
    begun = person.message.thread(sent.thread, tags=["binding"])
    model.message.reply(sent.id, "Understood.")

    changes: list[dict[str, Any]] = [{"status": "closed"}, {"tags": ["obsolete"]}, {"tags": []}]
    for change in changes:
        with pytest.raises(RejectedError) as refused:
            model.message.thread(sent.thread, **change)
        assert refused.value.code == "trust_override_denied"
    with pytest.raises(RejectedError):
        person.as_model().message.thread(sent.thread, status="closed")

    now = person.message.thread(sent.thread)
    assert (now.status, now.tags) == (begun.status, ("binding",))


def test_model_closes_threads_of_models_and_those_that_a_person_sent_to_it(
    person: Brain, model: Brain
) -> None:
    question = person.message.send("mallory", "Which port has web1?")
    begun = person.as_model().message.send("all", "Which port has web2?")

    for sent in (question, begun):
        assert model.message.thread(sent.thread, status="closed").status == "closed"
