"""Who is at work, threads and the boot preview on the page, without a browser."""

import re
from dataclasses import dataclass

import pytest

from commonbrain.client import Brain
from commonbrain.model.kinds import TaskStatus
from commonbrain.model.scope import Role
from commonbrain.text.tokens import estimate
from tests.web.demo import HOSTILE, Demo
from tests.web.visitors import Markup, Visitor, as_role, visitor


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters:
    """What codex wrote to the person, and its thread."""

    message: str
    thread: str


@pytest.fixture
def letters(brain: Brain, demo: Demo) -> Letters:
    assert demo.task
    sent = brain.acting_as(agent="codex").message.send(
        brain.caller.agent, f"Shall I set the timeout? {HOSTILE}", subject="Lock timeout"
    )
    return Letters(message=sent.id, thread=sent.thread)


def act(of: Visitor, operation: str, **fields: str) -> str:
    """Send a form of the screen; return the page that shows its notice."""
    response = of.post(f"/do/{operation}", {"next": "/work", **fields})
    assert response.status_code == 303, response.text
    return of.get(response.headers["location"]).text


def undo(of: Visitor, page: str) -> None:
    """Send the undo of a page's notice."""
    form = page.split('role="status">', 1)[1].split("</form>", 1)[0]
    action = form.split('action="', 1)[1].split('"', 1)[0]
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form))
    assert of.client.post(action, data=fields).status_code == 303


def test_sessions_tasks_handoffs_and_inbox_are_shown(
    brain: Brain, ann: Visitor, demo: Demo, letters: Letters
) -> None:
    claude = brain.acting_as(agent="claude-code", project="shop", session="claude-1")
    claude.session.handoff("Orders are moved.", next_steps=["Move the invoices"])
    view = ann.json("/work").json()
    assert {one["agent"]: one["task"] for one in view["sessions"]} == {
        "claude-code": "Move the orders to Postgres 17",
        "codex": "Fix the slow checkout",
    }
    assert [one["id"] for one in view["tasks"]] == [demo.task]
    assert letters.message in {one["id"] for one in view["inbox"]}
    assert view["unread"] == "2"
    page = ann.get("/work").text
    assert "Orders are moved." in page
    assert "Move the invoices" in page
    assert Markup(page).handlers == []


def test_project_filters_sessions_tasks_and_handoffs(ann: Visitor) -> None:
    view = ann.json("/work?project=farm").json()
    assert (view["sessions"], view["tasks"], view["handoffs"]) == ([], [], [])


def test_claimed_task_is_released_by_undo(ann: Visitor, demo: Demo) -> None:
    page = act(ann, "session", op="claim", id=demo.task)
    [task] = ann.json("/work").json()["tasks"]
    assert task["holder"] == ann.json("/work").json()["holder"]
    assert "Release" in "".join(Markup(page).buttons)
    undo(ann, page)
    assert ann.json("/work").json()["tasks"][0]["holder"] is None


@pytest.mark.parametrize("status", [TaskStatus.DONE, TaskStatus.BLOCKED])
def test_status_of_a_task_can_be_set_and_undone(
    brain: Brain, ann: Visitor, demo: Demo, status: TaskStatus
) -> None:
    page = act(ann, "revise", op="status", id=demo.task, value=status)
    assert brain.get(demo.task, bump=False).detail["status"] == status
    undo(ann, page)
    assert brain.get(demo.task, bump=False).detail["status"] == TaskStatus.OPEN


def test_visitor_can_reply_to_and_acknowledge_messages_of_a_thread(
    brain: Brain, ann: Visitor, letters: Letters
) -> None:
    path = f"/thread/{letters.thread}"
    view = ann.json(path).json()
    assert (view["unread"], view["unanswered"]) == ([letters.message], [letters.message])
    act(ann, "message", op="reply", id=letters.message, text="Yes, tonight.", next=path)
    act(ann, "message", op="ack", id=letters.message, text="Seen", next=path)
    view = ann.json(path).json()
    assert [one["sender"] for one in view["messages"]] == ["codex", brain.caller.agent]
    assert (view["unread"], view["unanswered"]) == ([], [])
    assert view["messages"][0]["acks"][0]["answer"] == "Seen"
    assert view["reply_to"] == view["messages"][-1]["id"]
    page = ann.get(path).text
    assert Markup(page).handlers == []
    assert "\u202e" not in page


def test_opening_a_thread_does_not_mark_messages_as_read(ann: Visitor, letters: Letters) -> None:
    for _ in range(2):
        assert ann.get(f"/thread/{letters.thread}").status_code == 200
        assert ann.get("/work").status_code == 200
    assert ann.json("/work").json()["unread"] == "2"
    act(ann, "message", op="read", id=letters.message)
    assert ann.json("/work").json()["unread"] == "1"


def test_undo_removes_a_sent_message(brain: Brain, ann: Visitor) -> None:
    codex = brain.acting_as(agent="codex")
    before = codex.message.inbox().unread
    page = act(ann, "message", op="send", to="codex", text="Deploy now.", subject="Deploy")
    assert codex.message.inbox().messages[0].subject == "Deploy"
    undo(ann, page)
    assert codex.message.inbox().unread == before


def test_closed_thread_is_reopened_by_undo(brain: Brain, ann: Visitor) -> None:
    thread = brain.message.send("codex", "Is it done?", subject="Question").thread
    page = act(ann, "message", op="thread", thread=thread, status="closed")
    assert brain.message.thread(thread).status == "closed"
    undo(ann, page)
    assert brain.message.thread(thread).status == "open"


def test_thread_of_others_is_not_found(brain: Brain, ann: Visitor) -> None:
    hidden = brain.acting_as(agent="codex").message.send("claude-code", "Secret plan").thread
    unknown = ann.get("/thread/thr_0000000000000")
    other = ann.get(f"/thread/{hidden}")
    assert unknown.status_code == other.status_code == 404
    assert "Secret plan" not in other.text


def test_reader_cannot_open_the_work_screen_and_has_no_link_to_it(
    brain: Brain, ann: Visitor
) -> None:
    reader = visitor(brain, as_role(brain, agent="rea", role=Role.READER))
    assert 'href="/work"' not in reader.get("/").text
    assert 'href="/work"' in ann.get("/").text
    assert reader.get("/work").status_code == 403


@pytest.mark.requirement("CL-20")
def test_boot_preview_shows_the_briefing_with_tokens_by_section(brain: Brain, ann: Visitor) -> None:
    task = "Deploy the shop"
    view = ann.json(f"/boot?project=shop&task={task}").json()
    named = {one["name"]: one["text"] for one in view["sections"]}
    assert "Never deploy without a backup" in named["blockers"]
    assert "Write the runbook for migrations" in named["tasks"]
    text = "\n".join(one["text"] for one in view["sections"])
    booted = brain.boot("shop", task)
    session_ids = view["briefing"]["session"], booted.session
    assert text.replace(session_ids[0] or "", "") == booted.text.replace(session_ids[1] or "", "")
    # The text's own tokens, without those of the JSON form, which may be more.
    assert view["tokens"] == estimate(text)
    assert sum(one["tokens"] for one in view["sections"]) == pytest.approx(view["tokens"], rel=0.05)


def test_boot_preview_on_the_page_starts_no_session(brain: Brain, ann: Visitor) -> None:
    bob = brain.acting_as(agent="bob")
    before = bob.session.list().sessions
    for _ in range(3):
        assert ann.get("/boot?project=shop&task=Deploy").status_code == 200
    assert bob.session.list().sessions == before
