"""What the page says after an action: a sentence, a link to what was changed, and its undo."""

import re
from itertools import product

import pytest

from commonbrain.api.operation import VerbRequest
from commonbrain.api.operations.bulk import BulkRequest
from commonbrain.api.operations.forget import ForgetRequest
from commonbrain.api.operations.revise import ReviseRequest
from commonbrain.client import Brain
from commonbrain.history.bulk_edit import BulkAction
from commonbrain.history.change_plan import ChangeStatus, ReviseResult
from commonbrain.history.selection import BulkChangeResult, MemoryRef, Phase
from commonbrain.model.revision import Action
from commonbrain.model.scope import Role, Trust
from commonbrain.testing.builders import FakeClock
from commonbrain.web.outcomes import Done, describe_outcome, describe_preview
from tests.web.demo import HOSTILE, Demo
from tests.web.visitors import Visitor, as_role, notice, offers_undo, sentence, visitor

REDIS = "“Redis is used for the queue and the rate limits of the shop”"
TASK = "“Write the runbook for migrations”"


def test_mark_of_a_memory_is_a_sentence_with_its_headline_and_link(
    ann: Visitor, demo: Demo, subtests: pytest.Subtests
) -> None:
    for fields, text in (
        ({"op": "pin"}, "Pinned {}."),
        ({"op": "rate", "value": "up"}, "Rated {} as useful."),
        ({"op": "rate", "value": "down"}, "Rated {} as not useful."),
        ({"op": "annotate", "text": "Checked"}, "Added a note to {}."),
        ({"op": "retag", "tags": "queue"}, "Changed the tags of {}."),
        ({"op": "review", "reason": "x"}, "{} still holds."),
    ):
        with subtests.test(case=fields):
            done = notice(ann, "revise", id=demo.redis, **fields)
            assert sentence(done) == text.format(REDIS)
            assert f'<a href="/memory/{demo.redis}"><bdi>{REDIS}</bdi></a>' in done
            assert offers_undo(done)


def test_mark_without_a_change_is_reported_and_offers_no_undo(
    ann: Visitor, demo: Demo, subtests: pytest.Subtests
) -> None:
    for fields, text in (
        ({"op": "unpin"}, "{} was not pinned."),
        ({"op": "retag", "tags": "infrastructure"}, "{} had these tags already."),
    ):
        with subtests.test(case=fields):
            done = notice(ann, "revise", id=demo.redis, **fields)
            assert sentence(done) == text.format(REDIS)
            assert not offers_undo(done)


def test_notices_about_a_task_contain_its_name(ann: Visitor, demo: Demo) -> None:
    claimed = notice(ann, "session", op="claim", id=demo.task)
    assert sentence(claimed) == f"Claimed {TASK} for you. The claim ends in 30 minutes."
    assert offers_undo(claimed)
    again = notice(ann, "session", op="claim", id=demo.task)
    assert sentence(again).startswith(f"Renewed your claim of {TASK}.")
    assert not offers_undo(again)
    assert sentence(notice(ann, "session", op="release", id=demo.task)) == f"Released {TASK}."
    free = notice(ann, "session", op="release", id=demo.task)
    assert sentence(free) == f"{TASK} was not claimed."
    assert not offers_undo(free)
    done = notice(ann, "revise", op="status", id=demo.task, value="done")
    assert sentence(done) == f"Marked {TASK} as done."


def test_notice_of_a_correction_names_the_new_text(ann: Visitor, demo: Demo) -> None:
    text = "Valkey is used for the queue"
    done = notice(ann, "revise", op="supersede", id=demo.redis, text=text, reason="moved")
    assert sentence(done).startswith(f"Corrected: “{text}” holds now")
    assert "/memory/" in done


def test_notice_of_an_undo_names_the_restored_memory(ann: Visitor, demo: Demo) -> None:
    done = notice(ann, "revise", op="pin", id=demo.redis)
    fields = dict(re.findall(r'name="([^"]+)" value="([^"]*)"', done))
    undone = notice(ann, "forget", **fields)
    assert sentence(undone) == f"Undone: {REDIS} is as it was before."
    again = notice(ann, "forget", **fields)
    assert sentence(again) == "There was nothing to undo."
    assert not offers_undo(again)


def test_notice_about_many_memories_counts_them_and_explains_the_skipped(
    ann: Visitor, demo: Demo, brain: Brain
) -> None:
    brain.forget(demo.hostile, reason="hostile")
    options: dict[str, str | list[str]] = {"op": "archive", "confirmed": "yes", "confirm": "2"}
    text = sentence(notice(ann, "bulk", ids=[demo.redis, demo.incident, demo.hostile], **options))
    assert text.startswith("Archived 2 memories.")
    assert text.endswith("stays as it is. It is forgotten.")


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
    assert text.startswith("There is nothing to change.")
    assert text.endswith("It is forgotten.")


def test_closing_a_closed_thread_offers_no_undo(ann: Visitor, brain: Brain) -> None:
    thread = brain.message.send("codex", "Is it done?", subject="Question").thread
    fields = {"op": "thread", "thread": thread, "status": "closed"}
    closed = notice(ann, "message", **fields)
    assert sentence(closed) == "Closed “Question”."
    assert offers_undo(closed)
    again = notice(ann, "message", **fields)
    assert sentence(again) == "“Question” was closed already."
    assert not offers_undo(again)


def test_notice_of_a_message_names_its_recipients_and_links_to_the_thread(ann: Visitor) -> None:
    sent = notice(ann, "message", op="send", to="codex", text="Deploy now.", subject="Deploy")
    assert sentence(sent) == "Sent the message to codex."
    assert re.search(r'<a href="/thread/thr_\w+"><bdi>the message</bdi></a>', sent)


def test_notice_about_a_job_names_its_kind(ann: Visitor, brain: Brain) -> None:
    job = brain.jobs.run("maintain").id
    cancelled = notice(ann, "job", op="cancel", id=job)
    assert sentence(cancelled) == "Cancelled the maintain job. What it had completed stays."
    assert offers_undo(cancelled)
    assert not offers_undo(notice(ann, "job", op="cancel", id=job))


def test_notice_of_a_proposed_change_links_to_the_proposal(brain: Brain, demo: Demo) -> None:
    caller = as_role(brain, agent="will", role=Role.WRITER, trust_ceiling=Trust.UNTRUSTED_WEB)
    done = notice(visitor(brain, caller), "revise", op="pin", id=demo.redis)
    assert sentence(done).startswith("Your proposal waits in the review queue")
    assert re.search(r'<a href="/memory/mem_\w+"><bdi>Your proposal</bdi></a>', done)


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


def _verbs(request: type[VerbRequest]) -> list[str]:
    return [op for op, verb in request.VERBS.items() if not verb.is_read_only]


def test_each_revise_operation_has_sentences_for_every_status(
    clock: FakeClock, subtests: pytest.Subtests
) -> None:
    for op, status in product(_verbs(ReviseRequest), ChangeStatus):
        with subtests.test(op=op, status=status):
            request = ReviseRequest.model_construct(
                op=op, id="mem_1", value="supports", other="mem_2"
            )
            reply = ReviseResult(
                id="mem_1", action=Action.PIN, status=status, headline="Tea is green"
            )
            done = Done(request=request, reply=reply, is_changed=True, now=clock.now())
            text = describe_outcome("revise", done).text
            assert text.endswith(".")
            assert "{" not in text


def test_each_bulk_operation_has_sentences_for_every_count(
    clock: FakeClock, subtests: pytest.Subtests
) -> None:
    verbs = [
        *(("forget", ForgetRequest, op) for op in _verbs(ForgetRequest)),
        *(("bulk", BulkRequest, op) for op in BulkAction),
    ]
    for (name, request_type, op), count in product(verbs, (0, 1, 3)):
        with subtests.test(op=op, count=count):
            request = request_type.model_construct(op=op)
            items = tuple(MemoryRef(id=f"mem_{at}", headline=f"Tea {at}") for at in range(count))
            reply = BulkChangeResult(
                action=Action.FORGET, status=Phase.DONE, count=count, items=items
            )
            done = Done(request=request, reply=reply, is_changed=True, now=clock.now())
            assert describe_outcome(name, done).text.endswith(".")
            preview = describe_preview(request, reply)
            assert preview is not None
            assert preview.question.endswith("?")


def test_hostile_headline_is_inert_in_a_notice(ann: Visitor, demo: Demo) -> None:
    done = notice(ann, "revise", op="pin", id=demo.hostile)
    assert HOSTILE[:30] in sentence(done)
    assert "<script" not in done
    assert "\u202e" not in done
