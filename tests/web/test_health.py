"""The health screen: figures over time, with their numbers, for each role."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from commonbrain.client import Brain
from commonbrain.model.scope import Role
from commonbrain.observability.tool_events import ToolEvent
from commonbrain.testing.builders import FakeClock
from tests.web.people import visiting


def test_empty_store_has_a_health_page(brain: Brain) -> None:
    with visiting(brain) as ann:
        page = ann.see("/health")

    assert "All answer" in page
    assert "0 memories in 0 of the last 30 days." in page
    assert "none known" in page


@pytest.mark.requirement("OB-08")
def test_figures_over_time_are_on_the_page_and_in_its_json(brain: Brain, clock: FakeClock) -> None:
    ferry = brain.remember("The ferry leaves at dawn.", kind="fact").items[0].id
    clock.move(timedelta(days=1))
    brain.remember("Dana left the team in May.", kind="event")
    brain.recall("when does the ferry leave?")
    assert ferry is not None
    brain.revise.rate(ferry, "up")
    brain.services.journal.flush()

    with visiting(brain) as ann:
        page = ann.see("/health")
        trends = ann.read("/health")["status"]["trends"]

    assert [one["by_kind"] for one in trends["stored"]] == [{"fact": 1}, {"event": 1}]
    [day] = trends["recalls"]
    assert (day["recalls"], day["helped"], day["misled"], day["unanswered"]) == (1, 1, 0, 0)
    assert trends["savings"]["recalls"] >= 1
    assert trends["savings"]["considered"] >= trends["savings"]["shown"] > 0
    # The library records no event of a call, and the page's own are left out.
    assert trends["calls"] == []
    for day in (trends["stored"][0]["day"], trends["stored"][1]["day"]):
        assert f'<th scope="row">{day}</th>' in page
    assert page.count("data-plot=") == 4


def test_health_page_of_a_reader_omits_parts_for_admins(brain: Brain) -> None:
    brain.jobs.cancel(brain.jobs.run("maintain").id)
    with visiting(brain, Role.READER) as rea:
        page, view = rea.see("/health"), rea.read("/health")

    assert "/admin" not in page
    assert view["upkeep"] is None
    assert (view["cards"], view["dead"]) == ({}, [])


def test_reader_does_not_see_failed_calls_of_others(brain: Brain, clock: FakeClock) -> None:
    event = ToolEvent(
        id=1 + (1 << 60),
        tenant=brain.caller.tenant,
        at=clock.now(),
        session=None,
        agent=brain.caller.agent,
        tool="recall",
        transport="mcp",
        duration_ms=12.0,
        outcome="not_found",
    )
    brain.services.journal.note(event)
    brain.services.journal.note(replace(event, id=event.id + 1, agent="bo", outcome="store_down"))
    with visiting(brain, Role.READER) as rea, visiting(brain) as ann:
        page, view = rea.see("/health"), rea.read("/health")
        everything = ann.read("/health")

    assert [one["code"] for one in view["status"]["errors"]] == ["not_found"]
    assert "Your recent errors" in page
    assert "store_down" not in page
    assert [one["code"] for one in everything["status"]["errors"]] == ["store_down", "not_found"]


def test_page_views_are_not_counted_as_calls_of_agents(brain: Brain) -> None:
    with visiting(brain) as ann:
        for path in ("/", "/search?query=tea", "/browse", "/health"):
            ann.see(path)
        brain.services.journal.flush()
        status = ann.read("/health")["status"]

    assert status["metrics"] == {}
    assert status["trends"]["calls"] == []


def test_failed_call_is_shown_as_escaped_text(brain: Brain, clock: FakeClock) -> None:
    event = ToolEvent(
        id=1 + (1 << 60),
        tenant=brain.caller.tenant,
        at=clock.now(),
        session=None,
        agent="<script>alert(1)</script>",
        tool="hook.<b>.prompt",
        transport="mcp",
        duration_ms=12.0,
        outcome="store_down",
    )
    brain.services.journal.note(event)

    with visiting(brain) as ann:
        page = ann.see("/health")

    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "store_down" in page
    assert "<script>alert" not in page
    # The content security policy allows neither styles nor handlers within the page.
    assert not re.search(r"<[^>]* (style|on\w+)=", page)
