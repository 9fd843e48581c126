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
from tests.asking import stored
from tests.observability.reading import TOOLS, an_event, call, events


@pytest.mark.requirement("OB-06", "DM-12")
def test_each_call_leaves_an_event_with_agent_tool_and_outcome(brain: Brain) -> None:
    named = brain.acting_as(agent="bob", session="s1")
    call(named, "remember", text="The gate opens at six", kind="fact")
    with pytest.raises(CommonbrainError):
        call(named, "get", id=["mem_0000000000000"], transport=Transport.REST)
    failed, event = sorted(events(brain), key=lambda event: event.tool)
    assert (event.agent, event.session, event.tool, event.transport) == (
        "bob",
        "s1",
        "remember",
        "mcp",
    )
    assert (event.outcome, failed.outcome) == ("ok", "not_found")
    assert (failed.tool, failed.transport) == ("get", "rest")


def test_event_without_a_session_has_an_empty_one(brain: Brain) -> None:
    call(brain, "status")
    [event] = events(brain)
    assert event.session == ""


def test_event_of_a_reader_is_not_of_the_session_of_what_it_reads(brain: Brain) -> None:
    one = stored(brain.acting_as(session="s1"), "The kettle is on the stove")
    call(brain, "get", id=one)
    [event] = events(brain)
    assert event.session == ""


def test_event_of_a_rejected_memory_is_refused_but_not_failed(brain: Brain) -> None:
    call(brain, "remember", text="The token is ghp_" + "a1B2" * 9)
    [event] = events(brain)
    assert event.outcome == "refused"
    assert not event.is_failed


def test_denied_call_leaves_an_event(brain: Brain) -> None:
    reader = Brain(brain.services, replace(brain.caller, role=Role.READER))
    with pytest.raises(RejectedError):
        call(reader, "remember", text="The gate opens at six")
    [event] = events(brain)
    assert event.outcome == "insufficient_role"


def test_event_has_the_duration_of_its_call(path: Path) -> None:
    clock = FakeClock()
    with a_brain(path, clock=clock) as brain:

        def dawdle(*_: object) -> object:
            clock.move(timedelta(seconds=11))
            return None

        slow = replace(TOOLS["status"], handle=dawdle)
        dispatch(slow, brain, request=slow.request.model_validate({}))
        [event] = events(brain)
    assert event.duration_ms == 11_000
    assert event.is_slow


def test_event_contains_no_text_of_the_arguments(brain: Brain) -> None:
    secret = "ghp_" + "a1B2" * 9
    call(brain, "remember", text=f"The token is {secret}", tags=["harbour"])
    call(brain, "recall", query=f"which token is {secret}", kinds=["fact"], max_items=3)
    second, first = (event.args for event in sorted(events(brain), key=lambda one: one.tool))
    assert first == f"tags=<1> text=<{13 + len(secret)} characters>"
    assert second.startswith("kinds=<1> max_items=3 query=<")


def test_visible_arguments_are_ids_numbers_and_words_of_closed_sets() -> None:
    id_ = ids.show(ids.MEMORY, ids.make_id(NOON, 5))
    given = {"id": id_, "limit": 3, "force": True, "text": "a b", "mode": "fast"}
    line = visible_parameters(given, words={"mode": frozenset({"fast"})})
    assert visible_parameters({"of": ["a", "b"], "ids": [id_, id_]}) == f"of=<2> ids={id_},{id_}"
    assert line == f"id={id_} limit=3 force=true text=<3 characters> mode=fast"


@pytest.mark.requirement("OB-11")
def test_visible_arguments_have_80_characters_at_most() -> None:
    line = visible_parameters({f"field_{n}": n for n in range(30)})
    assert len(line) == 80
    assert line.endswith("...")


@pytest.mark.requirement("DM-66")
def test_event_that_is_recorded_twice_is_stored_once(brain: Brain) -> None:
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


def test_events_older_than_a_month_are_deleted(brain: Brain, clock: FakeClock) -> None:
    call(brain, "status")
    brain.services.journal.flush()
    clock.move(timedelta(days=31))
    call(brain, "doctor")
    assert [event.tool for event in events(brain)] == ["doctor"]


@pytest.mark.requirement("OB-01")
def test_process_lists_its_last_failed_calls_newest_first(brain: Brain) -> None:
    for n in range(502):
        brain.services.journal.note(an_event(id=n, outcome="not_found"))
    brain.services.journal.note(an_event(id=1000, outcome="not_found", tenant="other"))
    mine = brain.services.journal.faults("default")
    assert len(mine) == 499
    assert mine[0].id == 501
