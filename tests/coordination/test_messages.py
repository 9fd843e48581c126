from dataclasses import replace
from datetime import timedelta

import pytest

from commonbrain.api.operations.message import MESSAGE
from commonbrain.client import Brain
from commonbrain.coordination.inbox import MessagePage, unread_of
from commonbrain.model import ids
from commonbrain.model.errors import InvalidInputError, NotFoundError, RejectedError
from commonbrain.model.kinds import Kind, MessageDetail, MessagePriority
from commonbrain.model.memory import ThreadRef
from commonbrain.model.messages import UNREAD_COUNTED_MAX
from commonbrain.model.scope import Caller, Role, Scope
from commonbrain.testing.builders import NOON, FakeClock, a_memory
from tests.asking import FailingEmbedder, bodies
from tests.secrets import SECRETS

TEXT, SECRET = SECRETS["github classic"]


def crew(brain: Brain) -> tuple[Brain, Brain, Brain]:
    return brain, brain.acting_as(agent="bo"), brain.acting_as(agent="cy")


def headlines(page: MessagePage) -> list[str]:
    return [one.headline for one in page.messages]


@pytest.mark.requirement("MS-01", "MS-05", "DM-40")
def test_message_to_an_agent_is_unread_in_its_inbox_until_read(brain: Brain) -> None:
    ann, bo, cy = crew(brain)

    sent = ann.message.send("bo", "The ferry leaves at nine.", subject="Ferry")

    [received] = bo.message.inbox().messages
    assert (received.id, received.sender, received.to) == (sent.id, "ann", ("bo",))
    assert (received.subject, received.is_unread, received.body) == ("Ferry", True, None)
    [read] = bo.message.read(sent.id).messages
    assert read.body == "The ferry leaves at nine."
    assert bo.message.inbox().messages == ()
    assert bo.message.inbox(all=True).messages[0].is_unread is False
    assert cy.message.inbox(all=True).messages == ()
    assert ann.message.inbox(all=True).messages == ()


@pytest.mark.requirement("MS-05", "MS-08")
@pytest.mark.parametrize("to", ["all", "*", ["bo", "all"]])
def test_broadcast_reaches_all_agents_but_its_sender_and_is_read_separately_by_each(
    brain: Brain, to: str | list[str]
) -> None:
    ann, bo, cy = crew(brain)
    sent = ann.message.send(to, "The kettle is mended.")

    bo.message.read(sent.id)

    assert sent.to == ("*",)
    assert bo.message.inbox().messages == ()
    assert headlines(cy.message.inbox()) == ["The kettle is mended."]
    assert ann.message.inbox().messages == ()


def test_message_to_several_agents_reaches_only_them(brain: Brain) -> None:
    ann, bo, cy = crew(brain)
    dee = brain.acting_as(agent="dee")

    sent = ann.message.send(["bo", "cy", "bo", "ann"], "Tea at four.")

    assert sent.to == ("bo", "cy")
    assert [len(one.message.inbox().messages) for one in (ann, bo, cy, dee)] == [0, 1, 1, 0]


def test_message_without_a_recipient_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    recipients: tuple[str | list[str], ...] = ([], "", "ann", "x" * 129)
    for to in recipients:
        with subtests.test(to=to), pytest.raises(InvalidInputError):
            brain.message.send(to, "Hello?")


def test_agent_cannot_have_the_name_of_the_broadcast_recipient(subtests: pytest.Subtests) -> None:
    for name in ("all", "*"):
        with subtests.test(name=name), pytest.raises(InvalidInputError):
            Caller(agent=name)


@pytest.mark.requirement("MS-05")
def test_inbox_is_paged_with_urgent_messages_first_and_then_the_newest(
    brain: Brain, clock: FakeClock
) -> None:
    ann, bo, _ = crew(brain)
    for number in range(7):
        priority = MessagePriority.URGENT if number in {1, 4} else MessagePriority.INFO
        ann.message.send("bo" if number % 2 else "all", f"Note {number}", priority=priority)
        clock.move(timedelta(seconds=1))
    bo.message.read([bo.message.inbox().messages[-1].id])

    headlines_read: list[str] = []
    cursor = None
    while True:
        page = bo.message.inbox(all=True, limit=2, cursor=cursor)
        headlines_read += headlines(page)
        if (cursor := page.next) is None:
            break

    expected = [4, 1, 6, 5, 3, 2, 0]
    assert headlines_read == [f"Note {number}" for number in expected]
    assert bo.message.inbox().unread == "6"


def test_broadcast_reaches_its_project_and_a_direct_message_its_recipient_in_any_project(
    brain: Brain,
) -> None:
    ann = brain.acting_as(project="api")
    ann.message.send("all", "The schema is frozen.")
    ann.message.send("bo", "Look at the schema, please.")
    brain.message.send("all", "Lunch is here.")

    def inbox(project: str | None) -> list[str]:
        return headlines(brain.acting_as(agent="bo", project=project).message.inbox())

    everywhere = ["Lunch is here.", "Look at the schema, please."]
    assert inbox("web") == inbox(None) == everywhere
    assert inbox("api") == [*everywhere, "The schema is frozen."]


def test_new_agent_receives_the_broadcasts_of_the_last_seven_days(
    brain: Brain, clock: FakeClock
) -> None:
    day_s = 24 * 3600
    brain.message.send("all", "Long ago.")
    clock.move(timedelta(seconds=day_s))
    brain.message.send("all", "Lately.")
    clock.move(timedelta(seconds=6.5 * day_s))
    new = brain.acting_as(agent="new")

    assert headlines(new.message.inbox()) == ["Lately."]
    new.message.send("ann", "Hello, I am new.")
    clock.move(timedelta(seconds=30 * day_s))
    assert headlines(new.message.inbox()) == ["Lately."]


def test_forgotten_or_expired_message_is_no_longer_unread(brain: Brain, clock: FakeClock) -> None:
    ann, bo, _ = crew(brain)
    removed = ann.message.send("bo", "Never mind.")
    ann.message.send("all", "Cake until three.", expires_at="2026-03-02T15:00:00Z")
    assert bo.message.inbox().unread == "2"

    ann.forget([removed.id], reason="sent by mistake")
    clock.move(timedelta(seconds=24 * 3600))

    assert bo.message.inbox(all=True).messages == ()
    assert bo.message.inbox().unread == "0"


@pytest.mark.requirement("MS-05")
def test_reply_goes_to_the_sender_and_the_other_recipients_in_the_same_thread(brain: Brain) -> None:
    ann, bo, cy = crew(brain)
    query = ann.message.send(["bo", "cy"], "Shall we ship?", subject="Release")

    answer = bo.message.reply(query.id, "Yes.")
    rest = cy.message.reply(query.id, "He is too fast.", to="ann")

    assert answer.thread == query.thread == rest.thread
    assert answer.to == ("ann", "cy")
    assert rest.to == ("ann",)
    text = [(one.sender, one.headline) for one in ann.message.history(thread=query.thread).messages]
    assert text == [("ann", "Release"), ("bo", "Yes."), ("cy", "He is too fast.")]
    senders = [one.sender for one in bo.message.history(thread=query.thread).messages]
    assert senders == ["ann", "bo"]
    [reply] = [one for one in cy.message.inbox().messages if one.sender == "bo"]
    assert (reply.reply_to, reply.subject) == (query.id, "Release")


def test_reply_to_ones_own_message_goes_to_the_same_recipients(brain: Brain) -> None:
    ann, bo, cy = crew(brain)
    first = ann.message.send("bo", "And another thing.")
    text = cy.message.send("all", "The build is red.")

    assert ann.message.reply(first.id, "Or two.").to == ("bo",)
    assert bo.message.reply(text.id, "On it.").to == ("*",)


@pytest.mark.requirement("MS-05", "MS-08")
def test_history_is_chronological_and_paged_backwards(brain: Brain, clock: FakeClock) -> None:
    ann, bo, cy = crew(brain)
    for number in range(5):
        one, other = (ann, "bo") if number % 2 else (bo, "ann")
        one.message.send(other, f"Note {number}")
        cy.message.send("ann", "Between them")
        clock.move(timedelta(seconds=1))

    last = ann.message.history(agent="bo", limit=3)
    before = ann.message.history(agent="bo", limit=3, cursor=last.next)

    assert headlines(last) == ["Note 2", "Note 3", "Note 4"]
    assert headlines(before) == ["Note 0", "Note 1"]
    assert before.next is None


@pytest.mark.requirement("DM-41", "MS-05")
def test_acknowledgement_and_its_text_are_shown_with_the_message(brain: Brain) -> None:
    ann, bo, cy = crew(brain)
    sent = ann.message.send(["bo", "cy"], "The freeze begins.")

    bo.message.ack(sent.id, "Understood, I stop.")
    cy.message.ack(sent.id)

    [message] = ann.message.read(sent.id).messages
    assert [(one.agent, one.answer) for one in message.acks] == [
        ("bo", "Understood, I stop."),
        ("cy", None),
    ]
    assert bo.message.inbox().messages == ()
    with pytest.raises(RejectedError) as refusal:
        ann.message.ack(sent.id)
    assert refusal.value.code == "not_addressed"


@pytest.mark.requirement("MS-05")
def test_threads_are_listed_latest_first_with_unread_counts(brain: Brain, clock: FakeClock) -> None:
    ann, bo, _ = crew(brain)
    first = ann.message.send("bo", "One.", subject="First")
    clock.move(timedelta(seconds=1))
    second = ann.message.send("all", "Two.", subject="Second")
    clock.move(timedelta(seconds=1))
    bo.message.reply(first.id, "One and a half.")

    page = bo.message.threads(limit=1)
    rest = bo.message.threads(limit=1, cursor=page.next)

    [one], [two] = page.threads, rest.threads
    assert (one.id, one.subject, one.messages, one.unread) == (first.thread, "First", "2", 1)
    assert one.participants == ("ann", "bo")
    assert (two.id, two.unread, two.last) == (second.thread, 1, "Second")
    assert rest.next is None


@pytest.mark.requirement("MS-03", "RT-14", "PV-01")
def test_recall_finds_a_message_and_the_decision_marked_in_it(brain: Brain) -> None:
    ann, bo, _ = crew(brain)
    sent = ann.message.send("bo", "Talked to ops. @decision Billing runs on Postgres 16.")

    results = bodies(bo, "what does billing run on?")
    [part] = sent.derived
    provenance = bo.get(part.id or "", views=["provenance"]).provenance

    assert "Billing runs on Postgres 16." in results
    assert provenance is not None
    assert brain.get(part.id or "").kind is Kind.FACT
    assert bodies(bo, "who talked to ops?", thread=sent.thread) == [
        "Talked to ops. @decision Billing runs on Postgres 16."
    ]


def test_message_with_a_secret_is_not_sent(brain: Brain) -> None:
    _, bo, _ = crew(brain)
    with pytest.raises(RejectedError) as refusal:
        brain.message.send("bo", TEXT)

    assert refusal.value.code == "secret_detected"
    assert SECRET not in str(refusal.value)
    assert bo.message.inbox().messages == ()
    sent = brain.message.send("bo", "Use the key in the vault.")
    with pytest.raises(RejectedError):
        bo.message.ack(sent.id, TEXT)


def test_identical_messages_are_stored_as_two_messages(brain: Brain) -> None:
    _, bo, _ = crew(brain)
    first, second = (brain.message.send("bo", "Ping.") for _ in range(2))

    assert first.id != second.id
    assert len(bo.message.inbox().messages) == 2


def test_message_is_sent_while_the_embedder_is_down(brain: Brain) -> None:
    embedder = FailingEmbedder()
    embedder.is_down = True
    ann = Brain(replace(brain.services, embedder=embedder), brain.caller)

    sent = ann.message.send("bo", "The light is out.")

    assert sent.embedding_pending
    assert bodies(brain.acting_as(agent="bo"), "light") == ["The light is out."]


def test_malformed_cursor_is_refused(brain: Brain, subtests: pytest.Subtests) -> None:
    for cursor in ("1", "late:mem_375DRTD81GG99", "unread:x"):
        with subtests.test(cursor=cursor), pytest.raises(InvalidInputError):
            brain.message.inbox(cursor=cursor)


def test_message_cannot_join_a_thread_hidden_from_its_sender(brain: Brain) -> None:
    ann, _, cy = crew(brain)
    sent = ann.message.send("bo", "Between us.")

    with pytest.raises(InvalidInputError):
        cy.message.send("all", "Listen to this!", thread=sent.thread)
    with pytest.raises(NotFoundError):
        cy.message.reply(sent.id, "What is it?")


@pytest.mark.parametrize("count", [0, 3, 60])
def test_boot_counts_unread_messages_and_names_urgent_ones(brain: Brain, count: int) -> None:
    for number in range(count):
        priority = "urgent" if number % 2 else "info"
        brain.message.send("bo", f"Note {number}.", priority=priority)
    bo, now = Caller(agent="bo"), brain.services.clock.now()

    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        unread = unread_of(tx, bo, project="api", now=now)

    expected = [f"Note {number}." for number in range(count - 1, -1, -1) if number % 2]
    assert unread.count == count
    assert [one.headline for one in unread.urgent] == expected


def test_only_the_sender_supersedes_a_broadcast_and_the_new_message_is_unread(
    brain: Brain,
) -> None:
    bo = brain.acting_as(agent="bo")
    sent = brain.message.send("all", "Lunch is at noon")
    bo.message.read(sent.id)
    with pytest.raises(RejectedError) as refusal:
        bo.revise.supersede(sent.id, "Lunch is off", reason="no cook")
    assert refusal.value.code == "scope_denied"
    brain.revise.supersede(sent.id, "Lunch is at one", reason="the cook is late")
    for agent in ("bo", "cy"):
        waiting = brain.acting_as(agent=agent).message.inbox().messages
        assert [(one.sender, one.headline) for one in waiting] == [("ann", "Lunch is at one")]


@pytest.mark.requirement("DM-67")
def test_thread_has_an_author_a_status_and_tags(brain: Brain) -> None:
    sent = brain.message.send("bo", "Which store?", subject="Storage")
    other = brain.message.send("bo", "Which key?", subject="Keys")
    bo = brain.acting_as(agent="bo")
    bo.message.reply(sent.id, "SQLite.")

    [thread, _] = bo.message.threads().threads
    assert (thread.id, thread.by, thread.status, thread.tags) == (sent.thread, "ann", "open", ())
    closed = bo.message.thread(sent.thread, status="closed", tags=["store", "store", "q1"])
    assert (closed.status, closed.tags, closed.by) == ("closed", ("store", "q1"), "ann")
    assert [one.id for one in brain.message.threads(status="open").threads] == [other.thread]
    assert [one.id for one in brain.message.threads(status="closed").threads] == [sent.thread]
    assert brain.message.thread(sent.thread) == replace(closed, unread=1)


@pytest.mark.requirement("DM-67")
def test_new_message_reopens_a_closed_thread(brain: Brain) -> None:
    sent = brain.message.send("bo", "Which store?")
    brain.message.thread(sent.thread, status="closed", tags=["store"])
    brain.acting_as(agent="bo").message.reply(sent.id, "It is not settled.")

    thread = brain.message.thread(sent.thread)
    assert (thread.status, thread.tags) == ("open", ("store",))


@pytest.mark.requirement("DM-67", "DM-74")
def test_later_reader_of_a_thread_sees_only_metadata_of_visible_messages(brain: Brain) -> None:
    ann, bo, cy = crew(brain)
    sent = ann.message.send("bo", "The salaries rise in May.")
    ann.message.thread(sent.thread, tags=["salaries"])
    rest = bo.message.reply(sent.id, "Can you book a room?", to="cy")

    thread = cy.message.thread(sent.thread)
    assert (thread.by, thread.subject, thread.tags) == ("bo", "Can you book a room?", ())
    assert (thread.participants, thread.messages) == (("bo", "cy"), "1")
    assert cy.message.threads().threads == (thread,)
    [message] = cy.message.inbox().messages
    whole = cy.get(rest.id, views=["provenance"])
    replies = (message, whole, cy.recall("book a room"), cy.get(rest.id, views=["links"]))
    assert "salar" not in str(replies).lower()
    for status, tags in (("closed", None), (None, ["rooms"])):
        with pytest.raises(RejectedError) as refusal:
            cy.message.thread(sent.thread, status=status, tags=tags)
        assert refusal.value.code == "not_addressed"
    for one in (ann, bo):
        view = one.message.thread(sent.thread)
        assert (view.by, view.tags) == ("ann", ("salaries",))
        assert view.subject.startswith("The salaries rise")


@pytest.mark.requirement("DM-74")
@pytest.mark.parametrize("is_erased", [False, True])
@pytest.mark.parametrize("subject", [None, "Salaries of May"])
def test_removed_first_message_leaves_no_text_in_its_thread(
    brain: Brain, subject: str | None, *, is_erased: bool
) -> None:
    ann, bo, cy = crew(brain)
    sent = ann.message.send("bo", "The salaries rise in May.", subject=subject)
    ann.message.thread(sent.thread, tags=["pay"])
    rest = bo.message.reply(sent.id, "Can you book a room?", to=["ann", "cy"])
    before = cy.message.thread(sent.thread)
    if is_erased:
        ann.erase(sent.id, reason="law", confirm=1)
    else:
        ann.forget(sent.id, reason="sent to the wrong thread")

    assert cy.message.thread(sent.thread) == before
    for one in (ann, bo, cy):
        item = one.get(rest.id, views=["provenance"])
        replies = (one.message.threads(), one.message.inbox(all=True), item, one.recall("a room"))
        assert "salar" not in str(replies).lower()
    with pytest.raises(RejectedError) as refusal:
        cy.message.thread(sent.thread, status="closed", tags=["rooms"])
    assert refusal.value.code == "not_addressed"
    closed = ann.message.thread(sent.thread, status="closed")
    assert (closed.status, closed.by) == ("closed", "ann")
    assert closed.tags == (() if is_erased else ("pay",))
    if not is_erased:
        bo.message.thread(sent.thread, tags=["room"])
        ann.revise.restore(sent.id, reason="it was right")
        view = bo.message.thread(sent.thread)
        assert view.subject == (subject or "The salaries rise in May.")
        assert view.tags == ("room",)
        assert cy.message.thread(sent.thread).subject == before.subject


@pytest.mark.requirement("DM-67")
def test_thread_with_more_messages_than_are_counted_names_its_author(brain: Brain) -> None:
    first = a_memory(1, "First of all", kind=Kind.MESSAGE, agent="zoe", scope=Scope.TEAM)
    later = (
        a_memory(number, f"Message {number}", kind=Kind.MESSAGE, agent="ann", scope=Scope.TEAM)
        for number in range(2, UNREAD_COUNTED_MAX + 5)
    )
    with brain.services.store.begin(brain.caller.tenant) as tx:
        ref = ThreadRef(key="long", subject="Long")
        thread = tx.threads.open(ref, None, new_id=7, now=NOON)
        for one in (first, *later):
            detail = MessageDetail(thread_id=thread, sender=one.agent)
            tx.memories.add(replace(one, detail=detail))
    view = brain.message.thread(ids.show(ids.THREAD, thread))
    assert (view.by, view.messages) == ("zoe", "1000+")


@pytest.mark.requirement("DM-67", "DM-75")
def test_changing_a_thread_needs_a_writer_and_is_audited(brain: Brain) -> None:
    sent = brain.message.send("all", "Which store?")
    reader = Brain(brain.services, replace(brain.caller, agent="bo", role=Role.READER))
    with pytest.raises(RejectedError) as refusal:
        reader.message.thread(sent.thread, status="closed")
    assert refusal.value.code == "insufficient_role"
    assert reader.message.thread(sent.thread).status == "open"

    brain.message.thread(sent.thread, status="closed", tags=["store"])
    brain.message.thread(sent.thread, status="closed", tags=["store"])
    lines = [one for one in brain.audit().lines if one.action.startswith("thread")]
    assert {(one.action, one.agent, one.subject) for one in lines} == {
        ("thread_status", "ann", sent.thread), ("thread_tags", "ann", sent.thread)
    }  # fmt: skip
    assert len(lines) == 2


def test_only_changing_a_thread_consumes_quota() -> None:
    for change, takes in (({}, False), ({"status": "closed"}, True), ({"tags": ["a"]}, True)):
        request = MESSAGE.request.model_validate({"op": "thread", "thread": "thr_1", **change})
        assert MESSAGE.consumes_quota(request) is takes


@pytest.mark.requirement("DM-67")
def test_only_readers_of_a_thread_read_or_change_it(brain: Brain) -> None:
    sent = brain.message.send("bo", "Which store?")
    cy = brain.acting_as(agent="cy")

    with pytest.raises(NotFoundError):
        cy.message.thread(sent.thread)
    with pytest.raises(NotFoundError):
        cy.message.thread(sent.thread, status="closed")
    with pytest.raises(InvalidInputError, match="open, closed"):
        brain.message.thread(sent.thread, status="settled")
    assert brain.message.thread(sent.thread).status == "open"


def test_message_to_an_agent_that_was_never_seen_says_so_and_waits_for_it(brain: Brain) -> None:
    ann, bo, _ = crew(brain)
    first = ann.message.send(["bo", "dee"], "The ferry leaves at nine.")
    assert first.warnings == ("No agent bo or dee has been seen here; check the name.",)
    assert bo.message.inbox().messages[0].id == first.id

    bo.remember("The ferry is blue.")
    brain.acting_as(agent="dee", session="s-1").session.task("Paint the ferry")
    brain.services.journal.flush()
    assert ann.message.send(["bo", "dee"], "The ferry leaves at ten.").warnings == ()
    assert ann.message.delegate("ed", "Paint the ferry").warnings
    assert ann.message.send("all", "The ferry left.").warnings == ()


def test_agent_reads_the_number_of_unread_messages_as_a_number(brain: Brain) -> None:
    ann, bo, _ = crew(brain)
    request = MESSAGE.request.model_validate({"op": "inbox"})
    assert MESSAGE.to_agent_json(MESSAGE.handle(bo, request))["unread"] == 0
    ann.message.send("bo", "The ferry leaves at nine.")
    assert MESSAGE.to_agent_json(MESSAGE.handle(bo, request))["unread"] == 1
    many = MESSAGE.reply(op="inbox", messages=(), unread="1,000+")
    assert MESSAGE.to_agent_json(many)["unread"] == UNREAD_COUNTED_MAX == 1000


def test_inbox_says_how_many_messages_are_left(brain: Brain) -> None:
    ann, bo, _ = crew(brain)
    for number in range(5):
        ann.message.send("bo", f"Call {number}.")
    first = bo.message.inbox(limit=2)
    second = bo.message.inbox(limit=2, cursor=first.next)
    bo.message.read([one.id for one in first.messages])
    rest = bo.message.inbox(limit=2)
    whole = bo.message.inbox(limit=2, all=True)
    assert [(page.unread, page.more) for page in (first, second, rest, whole)] == [
        ("5", 3), ("5", 1), ("3", 1), ("3", 3)
    ]  # fmt: skip
