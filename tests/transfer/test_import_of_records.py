"""Notes, receipts and threads of a source: each is stored once, as its source has it."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from sqlalchemy import event

from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.limits import TAGS_MAX
from commonbrain.model.links import LinkType
from commonbrain.model.memory import Draft, ThreadRef
from commonbrain.model.messages import Receipt, ThreadStatus
from commonbrain.model.scope import Role
from commonbrain.retrieval.get import AnnotationView
from commonbrain.storage.store import Store
from commonbrain.transfer.importer import (
    Content,
    SourceAnnotation,
    SourceReceipt,
    SourceRelation,
    SourceThread,
)
from commonbrain.transfer.imports import ImportReport
from tests.transfer.test_import_of_history import agent_of, row
from tests.transfer.test_import_relations import NEW, OLD, id_of, piece, run

READ, ACKED = datetime(2025, 2, 1, 9, tzinfo=UTC), datetime(2025, 2, 1, 10, tzinfo=UTC)
NOTE = SourceAnnotation(about="a#1", text="Checked in May", author="charon", at=READ)
MAIL = Draft(
    body="The deploy is out",
    kind="message",
    source_ref="m#1",
    thread=ThreadRef(key="deploys", subject="Deploys"),
    detail=MessageDetail(sender="charon", recipients=("vision", "forge")),
)
ANSWERED = SourceReceipt(
    message="m#1", agent="vision", read_at=READ, acked_at=ACKED, answer="Seen, thanks"
)
CLOSED = SourceThread(key="deploys", is_closed=True, tags=("release",))


def give(brain: Brain, *contents: Content, dry_run: bool = False) -> ImportReport:
    return run(brain, [piece(one) for one in contents], dry_run=dry_run)


def notes(brain: Brain) -> Sequence[AnnotationView]:
    return brain.get(id_of(brain, OLD.body), views=["annotations"]).annotations or ()


def receipts(brain: Brain) -> dict[str, Receipt]:
    id_ = row(brain, MAIL.body).id
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        return {one.agent: one for one in tx.messages.of([id_])[id_]}


def unread(brain: Brain, agent: str) -> list[str]:
    return [one.headline for one in agent_of(brain, agent).message.inbox().messages]


def status(brain: Brain) -> tuple[ThreadStatus, tuple[str, ...]]:
    [thread] = brain.message.threads().threads
    return thread.status, thread.tags


@pytest.mark.requirement("MG-23")
def test_note_of_a_source_is_an_annotation_of_its_author_and_time(brain: Brain) -> None:
    report = give(brain, OLD, NOTE, replace(NOTE, about="a#9"))
    assert report.carried["annotations"] == 1
    assert report.omitted == {"notes, receipts and threads of what is not in the store": 1}
    [note] = notes(brain)
    assert (note.text, note.agent, note.at) == (NOTE.text, "charon", READ)


@pytest.mark.requirement("MG-23")
def test_repeated_import_adds_no_note_twice_and_brings_none_back(brain: Brain) -> None:
    give(brain, OLD, NOTE)
    assert "annotations" not in give(brain, OLD, NOTE).carried
    assert len(notes(brain)) == 1
    later = replace(NOTE, text="Wrong since June")
    give(brain, OLD, NOTE, later)
    with brain.services.store.begin(brain.caller.tenant) as tx:
        id_ = row(brain, OLD.body).id
        [wrong] = [one for one in tx.annotations.of([id_])[id_] if one.text == NOTE.text]
        tx.annotations.drop(wrong.id)
    give(brain, OLD, NOTE, later)
    assert [one.text for one in notes(brain)] == [later.text]


def test_note_that_no_admin_imports_is_the_importers_and_names_its_author(brain: Brain) -> None:
    eve = agent_of(brain, "eve", Role.WRITER)
    give(eve, OLD, NOTE)
    [note] = notes(brain)
    assert (note.agent, note.text) == ("eve", "charon: Checked in May")


def test_secret_in_a_note_or_an_answer_is_not_stored(brain: Brain) -> None:
    secret = "sk-ant-" + "a8Kd0" * 8
    give(
        brain,
        OLD,
        replace(NOTE, text=f"The key is {secret}"),
        MAIL,
        replace(ANSWERED, answer=secret),
    )
    assert secret not in str((notes(brain), receipts(brain)))


@pytest.mark.requirement("MG-23")
def test_mail_of_a_source_waits_in_no_inbox_unless_it_says_so(brain: Brain) -> None:
    broadcast = replace(
        MAIL,
        body="All hands at noon",
        source_ref="m#2",
        detail=MessageDetail(sender="charon", recipients=("*",)),
    )
    give(brain, MAIL, broadcast, SourceReceipt(message="m#1", agent="forge"))
    assert unread(brain, "vision") == []
    assert unread(brain, "forge") == [MAIL.body]
    assert unread(brain, "newcomer") == []


@pytest.mark.requirement("MG-23")
def test_receipt_of_a_source_has_reader_times_and_answer(brain: Brain) -> None:
    for _ in range(2):
        give(brain, MAIL, ANSWERED)
    vision = receipts(brain)["vision"]
    assert (vision.read_at, vision.acked_at, vision.answer) == (READ, ACKED, "Seen, thanks")
    assert "receipts" not in give(brain, MAIL, ANSWERED).carried


def test_repeated_import_leaves_what_was_read_here_since(brain: Brain) -> None:
    waits = SourceReceipt(message="m#1", agent="forge")
    give(brain, MAIL, waits)
    id_ = ids.show(ids.MEMORY, row(brain, MAIL.body).id)
    agent_of(brain, "forge").message.ack(id_, "done")
    give(brain, MAIL, waits)
    assert receipts(brain)["forge"].answer == "done"


def test_receipt_of_another_is_imported_by_an_admin_alone(brain: Brain) -> None:
    eve = agent_of(brain, "eve", Role.WRITER)
    report = give(eve, MAIL, ANSWERED)
    assert report.omitted["receipts of others: only an admin imports them"] == 1
    assert receipts(brain)["vision"].answer is None


@pytest.mark.requirement("MG-23")
def test_closed_thread_of_a_source_is_closed_and_tagged_once(brain: Brain) -> None:
    report = give(brain, MAIL, CLOSED, SourceThread(key="unknown", is_closed=True))
    assert report.carried["thread status"] == 1
    assert status(brain) == (ThreadStatus.CLOSED, ("release",))
    [thread] = brain.message.threads().threads
    brain.message.thread(thread.id, status="open")
    assert "thread status" not in give(brain, MAIL, CLOSED).carried
    assert status(brain)[0] is ThreadStatus.OPEN


def test_import_reads_once_which_threads_were_changed_here(brain: Brain) -> None:
    several = range(3)
    mails = [
        replace(MAIL, source_ref=f"m#{n}", thread=ThreadRef(key=f"t{n}", subject="It"))
        for n in several
    ]
    assert isinstance(brain.services.store, Store)
    done: list[str] = []
    engine = brain.services.store.dialect.engine
    event.listen(engine, "before_cursor_execute", lambda *given: done.append(given[2]))
    closed = [SourceThread(key=f"t{n}", is_closed=True) for n in several]
    assert give(brain, *mails, *closed).carried["thread status"] == len(closed)
    assert len([one for one in done if "FROM access_audit" in one]) == 1


def test_import_closes_no_thread_of_others(brain: Brain) -> None:
    give(brain, MAIL)
    again = replace(MAIL, body="It was rolled back", source_ref="m#2")
    give(agent_of(brain, "eve", Role.ADMIN), again, CLOSED)
    assert status(brain)[0] is ThreadStatus.OPEN


def test_dry_run_counts_records_as_the_import_does(brain: Brain) -> None:
    given = (OLD, NOTE, replace(NOTE, about="b#1"), MAIL, ANSWERED, CLOSED)
    dry = give(brain, *given, dry_run=True)
    assert dry == give(brain, *given)
    assert {"annotations", "receipts", "thread status"} <= dry.carried.keys()


@pytest.mark.requirement("MG-33")
def test_dry_run_of_a_second_import_counts_what_it_would_add(brain: Brain) -> None:
    old = replace(OLD, believed_since=READ)
    links = SourceRelation(first="a#2", second="a#1", type=LinkType.SUPPORTS)
    corrects = SourceRelation(first="a#2", second="a#1", type=None, reason="moved", at=ACKED)
    given = (old, NEW, NOTE, MAIL, ANSWERED, CLOSED, links, corrects)
    first = give(brain, *given).carried
    assert {"links", "supersessions", "annotations", "receipts", "thread status"} <= first.keys()
    added = replace(NOTE, text="Checked in June")
    dry = give(brain, *given, added, dry_run=True)
    assert dry.carried == {"annotations": 1}
    assert dry == give(brain, *given, added)


@pytest.mark.requirement("MG-33")
def test_dry_run_counts_no_open_thread_and_no_row_that_a_source_repeats(brain: Brain) -> None:
    given = (MAIL, SourceThread(key=CLOSED.key), MAIL)
    dry = give(brain, *given, dry_run=True)
    assert "thread status" not in dry.carried
    assert (dry.exists, dry.omitted) == (1, {})
    assert dry == give(brain, *given)


@pytest.mark.requirement("MG-34")
def test_records_of_messages_that_another_import_stored_are_counted(brain: Brain) -> None:
    give(brain, MAIL)
    mail = row(brain, MAIL.body)
    with brain.services.store.begin(brain.caller.tenant) as tx:
        # As an earlier version stored it.
        tx.memories.update(mail, replace(mail, payload={"imported": {"format": "lines"}}))
    for given in (ANSWERED, CLOSED):
        left = give(brain, MAIL, given).omitted
        assert left == {"receipts and threads of messages that this caller did not import": 1}
    assert (receipts(brain)["vision"].answer, status(brain)[0]) == (None, ThreadStatus.OPEN)


@pytest.mark.requirement("MG-28")
def test_report_counts_what_is_cut_or_redacted_in_records(brain: Brain) -> None:
    secret = "sk-ant-" + "a8Kd0" * 8
    given = (
        OLD,
        NEW,
        replace(NOTE, text="x" * 5_000),
        replace(NOTE, text=f"The key is {secret}"),
        MAIL,
        replace(ANSWERED, answer="y" * 5_000),
        SourceRelation(type=None, first="a#2", second="a#1", reason="z" * 3_000),
        replace(CLOSED, tags=tuple(f"tag {n}" for n in range(TAGS_MAX + 3))),
    )
    dry = give(brain, *given, dry_run=True)
    report = give(brain, *given)
    assert (
        report.omitted
        == dry.omitted
        == {
            "annotations cut to 2,000 characters": 1,
            "secrets and private parts in annotations, redacted": 1,
            "answers cut to 2,000 characters": 1,
            "reasons cut to 1,000 characters": 1,
            f"tags beyond the {TAGS_MAX} that a thread has": 3,
        }
    )


@pytest.mark.requirement("MG-23")
@pytest.mark.parametrize("author", [None, "charon"])
@pytest.mark.parametrize("roles", [(Role.ADMIN, Role.ADMIN), (Role.WRITER, Role.ADMIN)])
def test_second_importer_adds_no_note_twice(
    brain: Brain, author: str | None, roles: tuple[Role, Role]
) -> None:
    for name, role in zip(("eve", "mallory"), roles, strict=True):
        give(agent_of(brain, name, role), OLD, replace(NOTE, author=author))
    assert len(notes(brain)) == 1


@pytest.mark.requirement("MG-29")
def test_what_a_model_imports_is_its_own_and_waits_in_no_inbox(brain: Brain) -> None:
    model = brain.as_model()
    waits = SourceReceipt(message="m#1", agent="forge")
    gate = replace(OLD, body="The gate is red", source_ref="a#5", author="vision")
    report = give(model, OLD, NOTE, gate, MAIL, waits)
    assert unread(brain, "forge") == []
    assert row(brain, MAIL.body).agent == row(brain, gate.body).agent == model.caller.agent
    assert [one.agent for one in notes(brain)] == [model.caller.agent]
    assert report.omitted["receipts of others: only an admin imports them"] == 1


@pytest.mark.requirement("MG-27")
def test_report_counts_rows_whose_text_was_stored_before_under_another_id(brain: Brain) -> None:
    line = "ids of rows whose text was stored before: recall finds it"
    brain.remember(NEW.body)
    given = (OLD, replace(OLD, source_ref="a#7"), NEW)
    dry = give(brain, *given, dry_run=True)
    assert give(brain, *given).omitted == dry.omitted == {line: 2}
    assert give(brain, OLD).omitted == {}
