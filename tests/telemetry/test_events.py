from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from commonbrain.api.dispatch import dispatch
from commonbrain.api.operations import Transport
from commonbrain.client import Brain
from commonbrain.model import ids
from commonbrain.model.errors import CommonbrainError, RejectedError
from commonbrain.model.scope import Role
from commonbrain.observability.tool_events import visible_parameters
from commonbrain.testing.builders import NOON, FakeClock, a_brain
from tests.telemetry.reading import TOOLS, an_event, call, events


@pytest.mark.requirement("OB-06", "DM-12")
def test_every_call_leaves_who_asked_for_what_and_how_it_ended(brain: Brain) -> None:
    named = brain.acting_as(agent="bob", session="s1")
    call(named, "remember", text="The gate opens at six", kind="fact")
    with pytest.raises(CommonbrainError):
        call(named, "get", id=["mem_0000000000000"], transport=Transport.REST)
    failed, kept = sorted(events(brain), key=lambda event: event.tool)
    assert (kept.agent, kept.session, kept.tool, kept.transport) == ("bob", "s1", "remember", "mcp")
    assert (kept.outcome, failed.outcome) == ("ok", "not_found")
    assert (failed.tool, failed.transport) == ("get", "rest")


def test_who_has_no_session_leaves_events_of_the_empty_one(brain: Brain) -> None:
    call(brain, "status")
    [kept] = events(brain)
    assert kept.session == ""


def test_a_reply_that_says_no_is_told_from_one_that_says_yes(brain: Brain) -> None:
    call(brain, "remember", text="The token is ghp_" + "a1B2" * 9)
    [kept] = events(brain)
    assert kept.outcome == "refused"
    assert not kept.is_failed


def test_what_a_role_does_not_allow_is_an_event_too(brain: Brain) -> None:
    reader = Brain(brain.services, replace(brain.caller, role=Role.READER))
    with pytest.raises(RejectedError):
        call(reader, "remember", text="The gate opens at six")
    [kept] = events(brain)
    assert kept.outcome == "insufficient_role"


def test_an_event_tells_how_long_the_call_took(path: Path) -> None:
    clock = FakeClock()
    with a_brain(path, clock=clock) as brain:

        def dawdle(*_: object) -> object:
            clock.move(timedelta(seconds=11))
            return None

        slow = replace(TOOLS["status"], handle=dawdle)
        dispatch(slow, brain, request=slow.request.model_validate({}))
        [kept] = events(brain)
    assert kept.duration_ms == 11_000
    assert kept.is_slow


def test_no_word_of_what_was_given_is_kept(brain: Brain) -> None:
    secret = "ghp_" + "a1B2" * 9
    call(brain, "remember", text=f"The token is {secret}", tags=["harbour"])
    call(brain, "recall", query=f"which token is {secret}", kinds=["fact"], max_items=3)
    second, first = (event.args for event in sorted(events(brain), key=lambda one: one.tool))
    assert first == f"tags=<1> text=<{13 + len(secret)} characters>"
    assert second.startswith("kinds=<1> max_items=3 query=<")


def test_arguments_are_told_by_ids_numbers_and_closed_words_alone() -> None:
    id_ = ids.show(ids.MEMORY, ids.make_id(NOON, 5))
    given = {"id": id_, "limit": 3, "force": True, "text": "a b", "mode": "fast"}
    line = visible_parameters(given, words={"mode": frozenset({"fast"})})
    assert visible_parameters({"of": ["a", "b"], "ids": [id_, id_]}) == f"of=<2> ids={id_},{id_}"
    assert line == f"id={id_} limit=3 force=true text=<3 characters> mode=fast"


@pytest.mark.requirement("OB-11")
def test_what_is_told_of_arguments_has_80_characters_at_most() -> None:
    line = visible_parameters({f"field_{n}": n for n in range(30)})
    assert len(line) == 80
    assert line.endswith("...")


@pytest.mark.requirement("DM-66")
def test_an_event_that_is_told_twice_is_kept_once(brain: Brain) -> None:
    now = brain.services.clock.now()
    event = an_event(id=ids.make_id(now, 5), at=now)
    brain.services.journal.note_now("default", [event, event])
    brain.services.journal.note(event)
    assert events(brain) == [event]


def test_events_of_one_tenant_are_not_shown_to_another(brain: Brain) -> None:
    call(brain, "status")
    brain.services.journal.flush()
    with brain.services.store.snapshot("other") as tx:
        assert tx.events.latest(limit=10, since=NOON - timedelta(days=400)) == []


def test_old_events_are_dropped_when_new_ones_come(brain: Brain, clock: FakeClock) -> None:
    call(brain, "status")
    brain.services.journal.flush()
    clock.move(timedelta(days=31))
    call(brain, "doctor")
    assert [event.tool for event in events(brain)] == ["doctor"]


@pytest.mark.requirement("OB-01")
def test_failed_calls_are_remembered_by_the_process_newest_first(brain: Brain) -> None:
    for n in range(502):
        brain.services.journal.note(an_event(id=n, outcome="not_found"))
    brain.services.journal.note(an_event(id=1000, outcome="not_found", tenant="other"))
    mine = brain.services.journal.faults("default")
    assert len(mine) == 499
    assert mine[0].id == 501
