"""What the page says after an action: the text of its reply, and its undo."""

import re

import pytest

from commonbrain.client import Brain
from commonbrain.model.scope import Role, Trust
from tests.web.demo import HOSTILE, Demo
from tests.web.visitors import Visitor, as_role, notice, offers_undo, sentence, visitor

REDIS = "Redis is used for the queue and the rate limits of the shop"
TASK = "Write the runbook for migrations"


def test_notice_is_the_text_of_the_reply_with_its_ids_as_links(
    ann: Visitor, demo: Demo, subtests: pytest.Subtests
) -> None:
    for fields in (
        {"op": "pin"},
        {"op": "rate", "value": "up"},
        {"op": "annotate", "text": "Checked"},
        {"op": "retag", "tags": "queue"},
        {"op": "review", "reason": "x"},
    ):
        with subtests.test(case=fields):
            done = notice(ann, "revise", id=demo.redis, **fields)
            assert sentence(done).startswith(f"{fields['op']} done {demo.redis}: {REDIS}")
            assert f'<a href="/memory/{demo.redis}">{demo.redis}</a>' in done
            assert offers_undo(done)


def test_action_without_a_change_is_reported_and_offers_no_undo(
    ann: Visitor, demo: Demo, subtests: pytest.Subtests
) -> None:
    for fields in ({"op": "unpin"}, {"op": "retag", "tags": "infrastructure"}):
        with subtests.test(case=fields):
            done = notice(ann, "revise", id=demo.redis, **fields)
            assert sentence(done).startswith("Nothing was changed.")
            assert REDIS in sentence(done)
            assert not offers_undo(done)


def test_notices_about_a_task_contain_its_name(ann: Visitor, demo: Demo) -> None:
    claimed = notice(ann, "session", op="claim", id=demo.task)
    assert re.fullmatch(f"{demo.task} claimed by ann until .*: {TASK}", sentence(claimed))
    assert offers_undo(claimed)
    assert not offers_undo(notice(ann, "session", op="claim", id=demo.task))
    assert TASK in sentence(notice(ann, "session", op="release", id=demo.task))
    free = notice(ann, "session", op="release", id=demo.task)
    assert sentence(free).startswith("Nothing was changed.")
    assert not offers_undo(free)


def test_notice_of_a_correction_names_the_new_text(ann: Visitor, demo: Demo) -> None:
    text = "Valkey is used for the queue"
    done = notice(ann, "revise", op="supersede", id=demo.redis, text=text, reason="moved")
    assert text in sentence(done)
    assert "/memory/" in done


def test_notice_of_an_undo_names_the_restored_memory(ann: Visitor, demo: Demo) -> None:
    done = notice(ann, "revise", op="pin", id=demo.redis)
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', done))
    undone = notice(ann, "forget", **fields)
    assert sentence(undone).startswith("undo done: 1")
    assert REDIS in sentence(undone)
    again = notice(ann, "forget", **fields)
    assert sentence(again).startswith("Nothing was changed.")
    assert not offers_undo(again)


def test_notice_about_many_memories_counts_them_and_explains_the_skipped(
    ann: Visitor, demo: Demo, brain: Brain
) -> None:
    brain.forget(demo.hostile, reason="hostile")
    options: dict[str, str | list[str]] = {"op": "archive", "confirmed": "yes", "confirm": "2"}
    text = sentence(notice(ann, "bulk", ids=[demo.redis, demo.incident, demo.hostile], **options))
    assert " done: 2 (1 fact, 1 incident)" in text
    assert text.endswith("It is forgotten.")


def test_confirmation_asks_a_question_and_lists_the_memories(ann: Visitor, demo: Demo) -> None:
    fields = {"ids": [demo.redis, demo.task], "op": "forget", "reason": "old"}
    page = ann.post("/do/forget", {"next": "/browse", **fields}).text
    assert ">Forget 2 memories?</h1>" in page
    assert f'<a href="/memory/{demo.redis}"' in page
    assert "confirm=" not in page


def test_bulk_change_without_effect_asks_for_no_confirmation(
    ann: Visitor, demo: Demo, brain: Brain
) -> None:
    brain.forget(demo.hostile, reason="hostile")
    text = sentence(notice(ann, "bulk", op="archive", ids=demo.hostile))
    assert text.startswith("Nothing was changed.")
    assert text.endswith("It is forgotten.")


def test_closing_a_closed_thread_offers_no_undo(ann: Visitor, brain: Brain) -> None:
    thread = brain.message.send("codex", "Is it done?", subject="Question").thread
    fields = {"op": "thread", "thread": thread, "status": "closed"}
    closed = notice(ann, "message", **fields)
    assert "closed" in sentence(closed)
    assert "Question" in sentence(closed)
    assert offers_undo(closed)
    again = notice(ann, "message", **fields)
    assert sentence(again).startswith("Nothing was changed.")
    assert not offers_undo(again)


def test_notice_of_a_message_names_its_recipients_and_links_to_the_thread(ann: Visitor) -> None:
    sent = notice(ann, "message", op="send", to="codex", text="Deploy now.", subject="Deploy")
    assert re.match(r"sent mem_\w+ to codex in thr_\w+", sentence(sent))
    assert re.search(r'<a href="/thread/thr_\w+">thr_\w+</a>', sent)


def test_notice_of_a_message_that_was_read_has_no_line_for_models(
    ann: Visitor, brain: Brain
) -> None:
    sent = brain.acting_as(agent="codex").message.send(brain.caller.agent, "Deploy now.")
    read = sentence(notice(ann, "message", op="read", id=sent.id))
    assert read.startswith("[1] ")
    assert "Deploy now." in read


def test_notice_about_a_job_names_its_kind(ann: Visitor, brain: Brain) -> None:
    job = brain.jobs.run("maintain").id
    cancelled = notice(ann, "job", op="cancel", id=job)
    assert "maintain | cancelled" in sentence(cancelled)
    assert offers_undo(cancelled)
    assert not offers_undo(notice(ann, "job", op="cancel", id=job))


def test_notice_of_a_proposed_change_links_to_the_proposal(brain: Brain, demo: Demo) -> None:
    caller = as_role(brain, agent="will", role=Role.WRITER, trust_ceiling=Trust.UNTRUSTED_WEB)
    done = notice(visitor(brain, caller), "revise", op="pin", id=demo.redis)
    assert sentence(done).startswith("pin proposed mem_")
    assert re.search(r'<a href="/memory/mem_\w+">mem_\w+</a>', done)


def test_refusal_names_the_next_step_on_the_page(ann: Visitor, brain: Brain, demo: Demo) -> None:
    brain.forget(demo.redis, reason="old")
    response = ann.post("/do/revise", {"op": "pin", "id": demo.redis})
    assert response.status_code == 403
    assert "Open what holds now" in response.text
    assert "Get it to see" not in response.text


def test_form_of_a_reading_operation_is_not_found(ann: Visitor, subtests: pytest.Subtests) -> None:
    for operation, fields in (
        ("revise", {"op": "preview", "id": "mem_0000000000000"}),
        ("message", {"op": "inbox"}),
    ):
        with subtests.test(operation=operation):
            assert ann.post(f"/do/{operation}", fields).status_code == 404


def test_hostile_headline_is_inert_in_a_notice(ann: Visitor, demo: Demo) -> None:
    done = notice(ann, "revise", op="pin", id=demo.hostile)
    assert HOSTILE[:30] in sentence(done)
    assert "<script" not in done
    assert "\u202e" not in done
