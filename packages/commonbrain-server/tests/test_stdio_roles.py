"""MCP over stdio from end to end: what each role is shown, may do, and is charged in tokens."""

import json

import pytest
from mcp import Client
from test_bridge import bridged

from commonbrain.api.operations import Profile
from commonbrain.mcp.server import tools_of
from commonbrain.text.tokens import estimate
from tests.mcp.test_mcp import TOOL_TOKENS_MAX, as_read, structured, text_of

TOOLS = tools_of(Profile.CORE)

RULE = "Never push straight to the main branch of the zebra service."
KETTLE = "The zebra of the writer is in the blue cupboard."
BUDGET = 300
GIVEN = {
    "remember": {"text": KETTLE},
    "revise": {"op": "rate", "id": "mem_0000000000001", "value": "up"},
    "forget": {"ids": ["mem_0000000000001"], "reason": "Why not?"},
    "message": {"op": "send", "to": ["ann"], "text": KETTLE},
    "session": {"op": "list"},
    "job": {"op": "list"},
}
"""What makes sense to each tool that writes."""


def client_as(url: str, who: str) -> Client:
    """Start a process that speaks over stdin and stdout, as agents' clients do."""
    return bridged(url, "auto", COMMONBRAIN_KEY=f"key-of-{who}")


@pytest.mark.requirement("EV-10")
async def test_each_role_is_offered_its_tools_and_refused_the_others(url: str) -> None:
    async with client_as(url, "ann") as writer:
        tools = (await writer.list_tools()).tools
        assert {tool.name for tool in tools} == TOOLS.keys()
        assert sum(estimate(as_read(tool)) for tool in tools) <= TOOL_TOKENS_MAX
        reply = await writer.call_tool("remember", {"text": RULE, "kind": "rule"})
        [rule] = structured(reply)["items"]
        hidden = {"text": KETTLE, "kind": "fact", "scope": "private"}
        [secret] = structured(await writer.call_tool("remember", hidden))["items"]
        denied = await writer.call_tool("remember", {"text": "Use tabs.", "scope": "global"})
        assert denied.is_error
        assert "scope_denied" in text_of(denied)
        erase = {"ids": [rule["id"]], "op": "erase", "reason": "Why not?"}
        refused = await writer.call_tool("forget", erase)
        assert refused.is_error
        assert "insufficient_role" in text_of(refused)

    async with client_as(url, "rea") as reader:
        shown = {tool.name for tool in (await reader.list_tools()).tools}
        assert shown == {"boot", "recall", "get", "trace", "status"}
        for name in TOOLS.keys() - shown:
            refused = await reader.call_tool(name, GIVEN[name])
            assert refused.is_error, name
            assert "insufficient_role" in text_of(refused), name
        results = await reader.call_tool("recall", {"query": "zebra", "max_tokens": BUDGET})
        assert [item["id"] for item in structured(results)["items"]] == [rule["id"]]
        assert estimate(text_of(results)) <= BUDGET
        booted = await reader.call_tool("boot", {"task": "push the zebra service"})
        assert estimate(json.dumps(structured(booted))) <= 2000
        missing = await reader.call_tool("get", {"id": secret["id"]})
        assert missing.is_error
        assert "not_found" in text_of(missing)
