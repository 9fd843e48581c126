import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest

pytest.importorskip("agents", reason="openai-agents is not installed")

from agents import Agent, ModelResponse, RunConfig, Runner, Session, Usage, function_tool
from agents.items import TResponseInputItem, TResponseOutputItem, TResponseStreamEvent
from agents.memory.session_settings import SessionSettings
from agents.models.interface import Model
from commonbrain_adapters.openai_agents import CommonbrainSession
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from commonbrain.client import Brain
from commonbrain.model.errors import InvalidInputError, RejectedError
from commonbrain.model.limits import ATTACHMENT_BYTES_MAX, LIST_PAGE_MAX
from tests.secrets import SECRETS

_, SECRET = SECRETS["github classic"]


def user(content: object) -> TResponseInputItem:
    return cast("TResponseInputItem", {"role": "user", "content": content})


def test_session_implements_the_session_interface_of_the_sdk(brain: Brain) -> None:
    assert isinstance(CommonbrainSession("s", brain), Session)


@pytest.mark.requirement("CL-05")
async def test_items_are_returned_exactly_and_in_order(brain: Brain) -> None:
    items = cast(
        "list[TResponseInputItem]",
        [
            user("  leading, e\u0301, \r\n\x00 and trailing  "),
            user([{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]),
            user(""),
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "x" * 40_000},
            {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": None},
            {"role": "assistant", "content": [{"type": "output_text", "text": "a"}], "n": 1.5},
            user(""),
        ],
    )
    await CommonbrainSession("s", brain).add_items(items)
    results = await CommonbrainSession("s", brain).get_items()
    assert json.dumps(results) == json.dumps(items)


async def test_item_that_quotes_a_recall_is_returned_exactly(brain: Brain) -> None:
    brain.remember("Tea is green", kind="fact")
    evidence = user(brain.recall("tea").evidence)
    session = CommonbrainSession("s", brain)
    await session.add_items([evidence, evidence])
    assert await session.get_items() == [evidence, evidence]


async def test_limit_returns_the_latest_items_in_order(brain: Brain) -> None:
    session = CommonbrainSession("s", brain, session_settings=SessionSettings(limit=2))
    await session.add_items([user(str(n)) for n in range(4)])
    assert await session.get_items(3) == [user("1"), user("2"), user("3")]
    assert await session.get_items() == [user("2"), user("3")]
    assert await session.get_items(0) == []
    assert len(await session.get_items(9)) == 4


async def test_items_of_several_pages_are_returned_in_order(brain: Brain) -> None:
    items = [user(f"turn {n}") for n in range(LIST_PAGE_MAX + 3)]
    session = CommonbrainSession("s", brain)
    await session.add_items(items)
    assert await session.get_items() == items
    await session.clear_session()
    assert await session.get_items() == []


async def test_pop_returns_the_latest_item_and_forgets_it(brain: Brain) -> None:
    session = CommonbrainSession("s", brain)
    await session.add_items([user("one"), user("two")])
    assert await session.pop_item() == user("two")
    assert await session.get_items() == [user("one")]
    assert await session.pop_item() == user("one")
    assert await session.pop_item() is None


async def test_sessions_are_isolated_by_name_and_project(brain: Brain) -> None:
    long = "x" * 300
    shop = brain.acting_as(project="shop")
    for where, name in [(brain, "a"), (brain, "A"), (brain, long), (shop, "a")]:
        await CommonbrainSession(name, where).add_items([user(f"{where.caller.project} {name}")])
    await CommonbrainSession("A", brain).clear_session()

    assert await CommonbrainSession("a", brain).get_items() == [user("None a")]
    assert await CommonbrainSession("a", shop).get_items() == [user("shop a")]
    assert await CommonbrainSession("A", brain).get_items() == []
    assert await CommonbrainSession(long, brain).get_items() == [user(f"None {long}")]
    assert await CommonbrainSession(f"{long}x", brain).get_items() == []


async def test_private_session_is_hidden_from_other_agents(brain: Brain) -> None:
    other = brain.acting_as(agent="other")
    await CommonbrainSession("s", brain, scope="private").add_items([user("I like tea")])
    assert await CommonbrainSession("s", other).get_items() == []
    assert other.recall("tea").items == ()


async def test_call_with_a_secret_in_one_item_stores_none_of_its_items(
    brain: Brain,
) -> None:
    session = CommonbrainSession("s", brain)
    output = {"type": "function_call_output", "call_id": "c", "output": f"token {SECRET}"}
    with pytest.raises(RejectedError, match="secret"):
        await session.add_items([user("one"), cast("TResponseInputItem", output), user("two")])
    assert await session.get_items() == []


async def test_oversized_item_is_refused(brain: Brain) -> None:
    with pytest.raises(RejectedError, match="bytes"):
        await CommonbrainSession("s", brain).add_items([user("x" * ATTACHMENT_BYTES_MAX)])


def test_session_without_a_name_is_refused(brain: Brain) -> None:
    with pytest.raises(InvalidInputError):
        CommonbrainSession(" ", brain)


async def test_recall_finds_messages_but_no_tool_results(brain: Brain) -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": "zanzibar"}
    session = CommonbrainSession("s", brain)
    await session.add_items([user("I live in Lisbon"), cast("TResponseInputItem", output)])
    assert [item.body for item in brain.recall("Lisbon").items] == ["I live in Lisbon"]
    assert brain.recall("zanzibar").items == ()


async def test_corrected_message_stays_at_its_position_with_the_new_text(
    brain: Brain,
) -> None:
    session = CommonbrainSession("s", brain)
    await session.add_items([user("I live in Lisbon"), user("and work in Porto"), user("ok")])
    first = brain.list(order="recorded_oldest").memories[0].id
    brain.revise.supersede(first, "I live in Faro", reason="a slip")
    corrected = [user("I live in Faro"), user("and work in Porto"), user("ok")]
    assert await session.get_items() == corrected
    assert await session.get_items(2) == corrected[1:]
    assert await session.pop_item() == user("ok")


async def test_correction_of_a_part_of_a_long_message_leaves_the_message_unchanged(
    brain: Brain,
) -> None:
    session = CommonbrainSession("s", brain)
    await session.add_items([user("alpha beta gamma. " * 3000)])
    [memory] = brain.list().memories
    brain.revise.supersede(memory.id, "something else", reason="a slip")
    assert await session.get_items() == [user("alpha beta gamma. " * 3000)]


async def test_correction_of_a_message_does_not_change_an_equal_role_name(brain: Brain) -> None:
    session = CommonbrainSession("s", brain)
    await session.add_items([user("user")])
    [memory] = brain.list().memories
    brain.revise.supersede(memory.id, "human", reason="a slip")
    [item] = await session.get_items()
    assert item.get("role") == "user"


async def test_concurrent_pops_return_each_item_once(brain: Brain) -> None:
    session = CommonbrainSession("s", brain)
    await session.add_items([user(str(n)) for n in range(5)])
    popped = await asyncio.gather(*(session.pop_item() for _ in range(6)))
    # Each pop has a thread of its own, so that which pop takes which item is left open.
    taken = [one for one in popped if one is not None]
    assert sorted(taken, key=str) == [user(str(n)) for n in range(5)]


class Script(Model):
    """A model that gives the outputs of a script, and keeps what it was asked."""

    def __init__(self, *outputs: TResponseOutputItem) -> None:
        self.outputs = list(outputs)
        self.requests: list[Any] = []

    async def get_response(self, *given: object, **options: object) -> ModelResponse:
        self.requests.append(options["input"] if "input" in options else given[1])
        return ModelResponse(output=[self.outputs.pop(0)], usage=Usage(), response_id=None)

    def stream_response(
        self, *_given: object, **_options: object
    ) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError


def saying(text: str) -> TResponseOutputItem:
    content = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="m", type="message", role="assistant", status="completed", content=[content]
    )


async def test_agent_continues_its_session_in_another_run(brain: Brain) -> None:
    @function_tool
    def weather(city: str) -> str:
        return f"sun in {city}"

    call = ResponseFunctionToolCall(
        call_id="c1", name="weather", arguments='{"city": "Lisbon"}', type="function_call"
    )
    model = Script(call, saying("Sunny."), saying("Lisbon."))
    agent = Agent(name="guide", model=model, tools=[weather])
    silent = RunConfig(tracing_disabled=True)

    session = CommonbrainSession("trip", brain)
    await Runner.run(agent, "How is the weather in Lisbon?", session=session, run_config=silent)
    again = CommonbrainSession("trip", brain)
    done = await Runner.run(agent, "Which city was it?", session=again, run_config=silent)

    assert done.final_output == "Lisbon."
    kinds = [request.get("type") or request["role"] for request in model.requests[-1]]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user"]
    assert len(await again.get_items()) == 6
    assert brain.recall("weather in Lisbon").items[0].body == "How is the weather in Lisbon?"
