"""Searching one field of atoms as it is called: on the command line and by agents."""

import json
from pathlib import Path

import pytest
from mcp import Client

from commonbrain.mcp.server import build_server
from commonbrain.testing.builders import a_brain
from tests.asking import stored
from tests.conftest import Command

DISK = "@atom the disk of the broker | ran full overnight | orders were lost"
ORDERS = "@atom lost orders | were billed twice | support drowned in calls"


@pytest.mark.requirement("CT-04")
def test_command_line_searches_one_field(command: Command) -> None:
    command("remember", DISK)
    command("remember", ORDERS)

    code, out = command("recall", "lost orders", "--field", "outcome", "--max-items", "1")
    assert (code, "ran full" in out, "billed" in out) == (0, True, False)
    code, out = command("recall", "lost orders", "--field", "subject", "--json")
    reply, *_ = json.loads(out)["items"]
    assert (code, "billed" in reply["body"], reply["why"][0]) == (0, True, "field:subject")


@pytest.mark.requirement("CT-04")
def test_unknown_field_is_reported_with_the_known_ones(command: Command) -> None:
    code, out = command("recall", "orders", "--field", "verb")
    assert code == 2
    assert "Choose one of subject, action, outcome, consequences." in out
    code, out = command("recall", "orders", "--field", "outcome", "--kind", "fact")
    assert (code, "Only atoms have fields" in out) == (2, True)


@pytest.mark.requirement("CT-04")
async def test_agent_searches_one_field(path: Path) -> None:
    with a_brain(path) as brain:
        disk = stored(brain, DISK)
        stored(brain, ORDERS)
        async with Client(build_server(lambda: brain, agent="codex")) as client:
            query = {"query": "lost orders", "field": "outcome"}
            reply = await client.call_tool("recall", query)
            wrong = await client.call_tool("recall", query | {"field": "verb"})

    assert reply.structured_content is not None
    items = reply.structured_content["items"]
    assert [item["id"] for item in items] == [disk]
    assert wrong.is_error
    assert "consequences" in str(wrong.content)
