"""Direct messages are seen by their sender and readers only, in every operation."""

from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.client import Brain
from commonbrain.coordination.sending import SendResult
from commonbrain.history.selection import Phase
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.scope import Scope
from commonbrain.testing.builders import FakeClock, a_brain
from tests.asking import bodies, stored

WORDS = "Zephyr salary is secret. @decision Zephyr gets a raise in May."


@pytest.fixture
def sent(brain: Brain) -> SendResult:
    return brain.message.send("bo", WORDS, subject="Zephyr affair", share="none")


def derived(sent: SendResult) -> str:
    [part] = sent.derived
    assert part.id is not None
    return part.id


@pytest.mark.requirement("RT-14", "MS-03")
def test_sender_and_reader_of_a_message_recall_it_and_its_derived_memories(
    brain: Brain, sent: SendResult
) -> None:
    for agent in ("ann", "bo"):
        reader = brain.acting_as(agent=agent)
        assert len(bodies(reader, "zephyr")) == 2
        assert reader.get(sent.id).scope is Scope.PRIVATE
        assert reader.get(derived(sent)).scope is Scope.PRIVATE


def test_third_agent_sees_nothing_of_a_direct_message(brain: Brain, sent: SendResult) -> None:
    cy = brain.acting_as(agent="cy")
    note = stored(cy, "Zephyr is a wind.", kind="fact")

    assert bodies(cy, "zephyr salary raise") == ["Zephyr is a wind."]
    assert bodies(cy, "zephyr", thread=sent.thread) == []
    assert bodies(cy, "", agent="ann") == []
    assert cy.message.threads().threads == ()
    assert cy.message.history(agent="ann").messages == ()
    assert cy.message.delegated().delegated == ()
    for id_ in (sent.id, derived(sent)):
        with pytest.raises(NotFoundError):
            cy.get(id_)
        with pytest.raises(NotFoundError):
            cy.message.read(id_)
        with pytest.raises(NotFoundError):
            cy.revise.link(note, id_, type="about")
    with pytest.raises(NotFoundError):
        cy.message.history(thread=sent.thread)
    with pytest.raises(NotFoundError):
        cy.remember("Zephyr is paid well.", kind="fact", source_message=sent.id)


def test_duplicate_check_reveals_no_direct_message_to_a_third_agent(
    brain: Brain, sent: SendResult
) -> None:
    [outcome] = brain.acting_as(agent="cy").remember("Zephyr gets a raise in May.").items

    assert outcome.status == "stored"
    assert (outcome.similar, outcome.conflicts) == ((), ())
    assert sent.derived


def test_shared_memory_is_not_compared_with_memories_hidden_from_its_readers(brain: Brain) -> None:
    """What only the sender keeps to itself may not stand in the place of what both share."""
    note = stored(brain, "Zephyr gets a raise in May.", scope="private")

    sent = brain.message.send("bo", "Good news. @decision Zephyr gets a raise in May.")

    assert derived(sent) != note
    assert "Zephyr gets a raise in May." in bodies(brain.acting_as(agent="bo"), "zephyr raise")


def test_reader_of_a_message_may_store_a_conclusion_privately(
    brain: Brain, sent: SendResult
) -> None:
    bo = brain.acting_as(agent="bo")

    id_ = stored(bo, "The budget grows in May.", kind="fact", source_message=sent.id)

    assert bo.get(id_).scope is Scope.PRIVATE
    with pytest.raises(NotFoundError):
        brain.get(id_)
    note = stored(bo, "My budget is small.", kind="fact", scope="private")
    with pytest.raises(RejectedError) as refusal:
        bo.remember("Both.", kind="fact", source_message=sent.id, derived_from=[note])
    assert refusal.value.code == "scope_denied"


def test_correction_of_a_shared_memory_stays_shared(brain: Brain, sent: SendResult) -> None:
    bo = brain.acting_as(agent="bo")

    new = bo.revise.supersede(derived(sent), "Zephyr gets a raise in June.", reason="HR said so")

    assert brain.get(new.id or "").body == "Zephyr gets a raise in June."
    assert "Zephyr gets a raise in June." in bodies(brain, "zephyr raise")
    assert bodies(brain.acting_as(agent="cy"), "zephyr raise") == []
    with pytest.raises(RejectedError):
        bo.revise.supersede(sent.id, "Zephyr is fired.", reason="to make trouble")


@pytest.mark.requirement("DM-41")
def test_export_contains_messages_and_read_receipts(
    brain: Brain, sent: SendResult, tmp_path: Path, clock: FakeClock
) -> None:
    saved = brain.message.send("all", "The house moves.")
    bo = brain.acting_as(agent="bo")
    bo.message.ack(sent.id, "Quiet, please.")
    brain.export(tmp_path / "all.jsonl")

    with a_brain(tmp_path / "new.db", clock=clock) as new:
        for _ in range(2):
            new.merge(tmp_path / "all.jsonl")
        there = new.acting_as(agent="bo")
        [unread] = there.message.inbox().messages
        [received] = there.message.history(thread=sent.thread).messages
        assert unread.id == saved.id
        assert (received.subject, received.acks[0].answer) == ("Zephyr affair", "Quiet, please.")
        assert len(bodies(there, "zephyr")) == 2
        assert bodies(new.acting_as(agent="cy"), "zephyr") == []
        assert [one.id for one in there.message.threads().threads] == [saved.thread, sent.thread]


def test_merge_joins_read_receipts_of_both_stores(
    brain: Brain, sent: SendResult, tmp_path: Path, clock: FakeClock
) -> None:
    brain.export(tmp_path / "unread.jsonl")
    with a_brain(tmp_path / "new.db", clock=clock) as new:
        new.merge(tmp_path / "unread.jsonl")
        new.acting_as(agent="bo").message.read(sent.id)
        new.export(tmp_path / "read.jsonl")

    brain.merge(tmp_path / "read.jsonl")

    assert brain.acting_as(agent="bo").message.inbox().messages == ()


def test_erasing_a_message_removes_its_derived_memories_and_receipts(
    brain: Brain, sent: SendResult
) -> None:
    bo = brain.acting_as(agent="bo")
    bo.message.ack(sent.id, "Quiet, please.")

    done = brain.erase([sent.id], reason="private", confirm=1 + len(sent.derived))

    assert {one.id for one in done.items} == {sent.id, *(one.id for one in sent.derived)}
    assert bo.message.inbox(all=True).messages == ()
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        assert all(
            not receipts for receipts in tx.messages.of([ids.parse(ids.MEMORY, sent.id)]).values()
        )


def test_undo_of_an_agent_removes_its_messages(brain: Brain, sent: SendResult) -> None:
    preview = brain.undo(agent="ann", since="2026-03-01", reason="ran wild")
    brain.undo(agent="ann", since="2026-03-01", reason="ran wild", confirm=preview.count)

    assert brain.acting_as(agent="bo").message.inbox(all=True).messages == ()
    assert bodies(brain.acting_as(agent="bo"), "zephyr") == []
    assert sent.id


@pytest.mark.requirement("MS-06")
def test_delegated_task_is_visible_to_both_agents_and_reports_its_result(
    brain: Brain, clock: FakeClock
) -> None:
    bo, cy = (brain.acting_as(agent=agent) for agent in ("bo", "cy"))
    sent = brain.message.delegate(
        "bo", "Write the guide for billing.", due_at="2026-03-20", expires_at="2026-04-01"
    )
    assert [one.id for one in bo.message.inbox().messages] == [sent.id]

    bo.revise.status(sent.task or "", "done", reason="It is in docs/billing.md.")

    [one] = brain.message.delegated().delegated
    assert (one.task, one.message, one.by, one.to) == (sent.task, sent.id, "ann", "bo")
    assert (one.status, one.result) == ("done", "It is in docs/billing.md.")
    assert bo.message.delegated().delegated == (one,)
    assert cy.message.delegated().delegated == ()
    links = bo.get(sent.id, views=["links"]).links
    assert [(link.type, link.id) for link in links or ()] == [("about", sent.task)]
    with pytest.raises(NotFoundError):
        cy.revise.status(sent.task or "", "open")
    clock.move(timedelta(days=60))
    [later] = brain.message.delegated().delegated
    assert later.is_expired


def test_delegated_task_refused_by_the_gate_is_not_sent(brain: Brain) -> None:
    with pytest.raises(RejectedError):
        brain.message.delegate("bo", "word " * 401)

    assert brain.acting_as(agent="bo").message.inbox().messages == ()


@pytest.mark.usefixtures("sent")
def test_recalled_evidence_cannot_be_sent_as_a_message(brain: Brain) -> None:
    bo = brain.acting_as(agent="bo")
    reply = bo.recall("zephyr").evidence

    with pytest.raises(RejectedError) as refusal:
        bo.message.send("ann", reply)

    assert refusal.value.code == "own_evidence"


def test_reply_to_a_private_message_without_recipients_is_refused(brain: Brain) -> None:
    saved = stored(brain, "Zephyr is tired of it all.", kind="message", scope="private")
    with pytest.raises(InvalidInputError, match="No other agent"):
        brain.message.reply(saved, "Still tired.")
    assert brain.acting_as(agent="cy").message.inbox().messages == ()


def test_delegated_task_superseded_by_its_assignee_still_reports_to_its_sender(
    brain: Brain,
) -> None:
    task = brain.message.delegate("bo", "Descale the kettle").task
    assert task is not None
    bo = brain.acting_as(agent="bo")
    bo.revise.supersede(task, "Descale the kettle and the pot", reason="both are")
    [one] = brain.message.delegated().delegated
    assert (one.by, one.to, one.headline) == ("ann", "bo", "Descale the kettle and the pot")
    assert bo.message.delegated().delegated == (one,)


def test_recipient_cannot_forget_a_message_for_other_recipients(brain: Brain) -> None:
    sent = brain.message.send(["bo", "cy"], "The door code changes at noon.")
    bo = brain.acting_as(agent="bo")

    refused = bo.forget(sent.id, reason="read it")

    assert refused.status is Phase.UNCHANGED
    assert "ann" in (refused.skipped[0].why or "")
    assert len(brain.acting_as(agent="cy").message.inbox().messages) == 1
    assert brain.forget(sent.id, reason="wrong door").status is Phase.DONE
    assert brain.acting_as(agent="cy").message.inbox().messages == ()
