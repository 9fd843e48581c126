"""Times in words and timelines, as people and agents ask for them."""

import json
from datetime import timedelta
from typing import Any

import pytest
from mcp import Client
from mcp.types import CallToolResult

from commonbrain.client import Brain
from commonbrain.mcp.server import build_server
from commonbrain.testing.builders import FakeClock
from tests.asking import stored
from tests.conftest import Command

EARLY = "The shop's deploy failed"
LATE = "The shop's deploy went through"


def remembered(command: Command, text: str, occurred_at: str) -> None:
    code, _ = command("remember", text, "--kind", "event", "--occurred-at", occurred_at)
    assert code == 0


def bodies_of(reply: CallToolResult) -> list[str]:
    known: dict[str, Any] = reply.structured_content or {}
    return [item["body"] for item in known["items"]]


def test_timeline_is_in_order_and_names_the_days(command: Command) -> None:
    remembered(command, LATE, "2026-03-04T09:30:00")
    remembered(command, EARLY, "2026-03-02T17:05:00")
    for query in ("timeline deploy", "recall deploy --order timeline", "timeline"):
        code, out = command(*query.split())
        assert code == 0
        shown = ["2026-03-02", EARLY, "2026-03-04", LATE]
        places = [out.index(text) for text in shown]
        assert places == sorted(places)


def test_timeline_is_limited_by_time_and_printed_as_json(command: Command) -> None:
    remembered(command, LATE, "2026-03-04")
    remembered(command, EARLY, "2026-03-02")
    query = ("timeline", "--since", "march 2026", "--until", "3 march 2026", "--json")
    code, out = command(*query)
    assert code == 0
    assert [item["body"] for item in json.loads(out)["items"]] == [EARLY]


@pytest.mark.parametrize("bound", ["--since", "--until", "--as-of"])
def test_invalid_time_is_reported_with_examples(command: Command, bound: str) -> None:
    code, out = command("recall", "deploy", bound, "soon")
    assert code == 2
    assert "'soon' is not a time" in out
    assert "yesterday or 2 weeks ago" in out


def test_undo_and_forget_take_times_in_words(command: Command) -> None:
    remembered(command, EARLY, "2026-03-02")
    code, out = command("undo", "--since", "an hour ago", "--reason", "a slip")
    assert (code, EARLY in out) == (3, True)
    code, out = command("forget", "--since", "march 2026", "--reason", "a slip")
    assert (code, EARLY in out) == (0, True)
    assert command("undo", "--since", "some day", "--reason", "a slip")[0] == 2


async def test_agent_recalls_by_times_in_words_in_order_of_time(
    brain: Brain, clock: FakeClock
) -> None:
    stored(brain, LATE, kind="event", occurred_at=clock.now() - timedelta(days=1))
    stored(brain, EARLY, kind="event", occurred_at=clock.now() - timedelta(days=5))
    async with Client(build_server(lambda: brain)) as client:
        query = {"query": "deploy", "order": "timeline", "since": "a week ago"}
        reply = await client.call_tool("recall", query)
        recent = await client.call_tool("recall", {"since": "2 days ago", "until": "now"})
    assert bodies_of(reply) == [EARLY, LATE]
    assert bodies_of(recent) == [LATE]
