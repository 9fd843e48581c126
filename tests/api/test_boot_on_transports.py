"""Boot on the transports: the tool, the prompt, the resources, the command."""

import json
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp.types import TextContent, TextResourceContents

from commonbrain.api.operations import Profile
from commonbrain.api.schemas import compact_schema
from commonbrain.client import Brain
from commonbrain.mcp.server import INSTRUCTIONS, tools_of
from commonbrain.text.tokens import estimate
from tests.mcp.test_mcp import Era, client_of, era, structured, text_of

TOOLS = tools_of(Profile.CORE)

__all__ = ["era"]
BOOT_TOKENS_MAX = 110
RULE = "Never push to main without a review."


@pytest.fixture
def blocker(brain: Brain) -> str:
    (item,) = brain.remember(RULE, kind="rule", severity="BLOCKER").items
    assert item.id
    return item.id


def text_at(contents: Any) -> str:  # noqa: ANN401 a protocol's union
    (page,) = contents
    assert isinstance(page, TextResourceContents)
    return page.text


async def test_tool_boot_is_always_loaded_within_its_token_budget(brain: Brain) -> None:
    async with client_of(brain) as client:
        (tool,) = (one for one in (await client.list_tools()).tools if one.name == "boot")

    schema = json.dumps(compact_schema(TOOLS["boot"].request), separators=(",", ":"))
    assert estimate(f"{tool.name}\n{tool.description}\n{schema}") <= BOOT_TOKENS_MAX
    assert (tool.meta or {})["anthropic/alwaysLoad"] is True
    assert "Boot first" in INSTRUCTIONS


@pytest.mark.requirement("SE-28", "SE-30")
async def test_boot_reply_is_the_same_as_text_and_as_json(
    brain: Brain, era: Era, blocker: str
) -> None:
    async with client_of(brain, era) as client:
        result = await client.call_tool("boot", {"project": "shop", "task": "Mend the cart."})

    reply = structured(result)
    assert list(reply)[:4] == ["notice", "blockers", "skills", "notes"]
    assert reply["blockers"] == [{"id": blocker, "headline": RULE}]
    assert (reply["project"], reply["writes_blocked"]) == ("shop", False)
    assert reply["session"]
    assert f"- {blocker} {RULE}" in text_of(result)
    assert text_of(result).endswith("BLOCKERS loaded: 1, TASKS loaded: 0")


@pytest.mark.requirement("CL-07")
async def test_prompt_startup_boots_and_explains_how_to_work(
    brain: Brain, era: Era, blocker: str
) -> None:
    async with client_of(brain, era) as client:
        (prompt,) = (await client.list_prompts()).prompts
        given = await client.get_prompt(prompt.name, {"project": "shop", "task": "Mend it."})
        with pytest.raises(MCPError, match="invalid: There is no such prompt"):
            await client.get_prompt("shutdown", {})

    (message,) = given.messages
    assert isinstance(message.content, TextContent)
    assert blocker in message.content.text
    assert "YOUR TASK: Mend it." in message.content.text
    assert message.content.text.endswith("hand over with session end at the end.")


async def test_resources_are_templates_that_read_memories_threads_and_boot(
    brain: Brain, era: Era, blocker: str
) -> None:
    sent = brain.message.send("all", "The paint is wet.")
    async with client_of(brain, era) as client:
        templates = (await client.list_resource_templates()).resource_templates
        listed = (await client.list_resources()).resources
        memory = await client.read_resource(f"memory://{blocker}")
        thread = await client.read_resource(f"thread://{sent.thread}")
        boot = await client.read_resource("boot://my%20shop")

    assert [one.uri_template for one in templates] == [
        "memory://{id}",
        "thread://{id}",
        "boot://{project}",
    ]
    assert [str(one.uri) for one in listed] == ["inbox://unread"]
    assert f"> {RULE}" in text_at(memory.contents)
    assert "The paint is wet." in text_at(thread.contents)
    assert "project my shop." in text_at(boot.contents)


@pytest.mark.parametrize(
    "uri", ["memory://mem_0000000000000", "thread://thr_0000000000000", "weather://today"]
)
async def test_missing_resource_is_not_found(brain: Brain, era: Era, uri: str) -> None:
    async with client_of(brain, era) as client:
        with pytest.raises(MCPError, match="not_found: "):
            await client.read_resource(uri)


async def test_private_memory_of_another_agent_is_no_resource(brain: Brain, era: Era) -> None:
    (item,) = brain.remember("Ann's diary.", kind="event", scope="private").items
    async with client_of(brain, era, name="codex") as client:
        with pytest.raises(MCPError, match="not_found: "):
            await client.read_resource(f"memory://{item.id}")
