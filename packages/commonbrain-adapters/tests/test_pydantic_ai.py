from collections.abc import Callable

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from commonbrain_adapters.pydantic_ai import TOOLS, CommonbrainToolset
from pydantic_ai import Agent
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from commonbrain.api.operations import load_operation
from commonbrain.api.schemas import compact_schema
from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError
from tests.secrets import SECRETS

_, SECRET = SECRETS["github classic"]
Turn = Callable[[list[ModelMessage]], ModelResponse]


def call(tool: str, **arguments: object) -> Turn:
    return lambda _: ModelResponse(parts=[ToolCallPart(tool, arguments)])


def last_reply(messages: list[ModelMessage]) -> str:
    # The class of a refusal's part depends on the version.
    return str(getattr(messages[-1].parts[-1], "content", None))


def say(messages: list[ModelMessage]) -> ModelResponse:
    return ModelResponse(parts=[TextPart(last_reply(messages))])


async def run(brain: Brain, *turns: Turn) -> str:
    script = list(turns)

    def model(messages: list[ModelMessage], _: AgentInfo) -> ModelResponse:
        return script.pop(0)(messages)

    toolset = CommonbrainToolset(brain, tools=[*TOOLS, "status"])
    agent = Agent(FunctionModel(model), toolsets=[toolset])
    return (await agent.run("Go on.")).output


@pytest.mark.requirement("CL-05")
async def test_agent_remembers_recalls_corrects_and_forgets(brain: Brain) -> None:
    await run(brain, call("remember", text="Releases are cut on Tuesdays", kind="rule"), say)
    [known] = brain.recall("when are releases cut?").items
    reply = await run(brain, call("recall", query="when are releases cut?"), say)
    assert f"[1] {known.id}" in reply

    text = "Releases are cut on Thursdays"
    correction = call("revise", op="supersede", id=known.id, text=text, reason="moved")
    await run(brain, correction, say)
    [corrected] = brain.recall("when are releases cut?").items
    assert corrected.body == text

    await run(brain, call("forget", ids=[corrected.id], reason="abandoned"), say)
    assert brain.recall("when are releases cut?").items == ()


async def test_toolset_offers_the_tools_of_the_mcp_server(brain: Brain) -> None:
    model = TestModel(call_tools=[])
    await Agent(model, toolsets=[CommonbrainToolset(brain)]).run("hello")
    parameters = model.last_model_request_parameters
    assert parameters is not None
    tools = parameters.function_tools
    assert [tool.name for tool in tools] == list(TOOLS)
    for tool in tools:
        operation = load_operation(tool.name)
        assert tool.description == operation.purpose
        assert tool.parameters_json_schema == compact_schema(operation.request)


async def test_reply_stays_within_the_token_budget_of_the_call(brain: Brain) -> None:
    for n in range(30):
        brain.remember(f"Service {n} listens on port {9000 + n} behind the proxy", kind="fact")
    large = await run(brain, call("recall", query="which port?", max_items=30), say)
    small = await run(brain, call("recall", query="which port?", max_tokens=100), say)
    assert len(small) < 800 < len(large)


async def test_model_receives_an_error_for_wrong_arguments_and_corrects_its_call(
    brain: Brain,
) -> None:
    seen: list[str] = []

    def corrected(messages: list[ModelMessage]) -> ModelResponse:
        seen.append(last_reply(messages))
        return call("remember", text="Tea is green", kind="fact")(messages)

    await run(brain, call("remember", test="Tea is green"), corrected, say)
    assert "did you mean 'text'?" in seen[0]
    assert brain.recall("tea").items[0].body == "Tea is green"


async def test_secret_is_not_stored_and_the_model_receives_the_reason(brain: Brain) -> None:
    reply = await run(brain, call("remember", text=f"The token is {SECRET}", kind="fact"), say)
    assert "holds a secret" in reply
    assert brain.list().memories == ()


async def test_repeated_wrong_calls_end_the_run(brain: Brain) -> None:
    wrong = call("get", ids=["mem_x"])
    with pytest.raises(UnexpectedModelBehavior):
        await run(brain, *[wrong] * 4)


async def test_memories_belong_to_the_agent_and_project_of_the_brain(brain: Brain) -> None:
    shop = brain.acting_as(agent="guide", project="shop")
    await run(shop, call("remember", text="Tea is green", kind="fact"), say)
    [known] = brain.list().memories
    assert (known.agent, known.project) == ("guide", "shop")


def test_unknown_tool_is_refused(brain: Brain) -> None:
    with pytest.raises(InvalidInputError, match="There is no tool fly"):
        CommonbrainToolset(brain, tools=["recall", "fly"])


def test_toolset_id_has_a_default_and_can_be_set(brain: Brain) -> None:
    assert CommonbrainToolset(brain).id == "commonbrain"
    assert CommonbrainToolset(brain, id="other").id == "other"
