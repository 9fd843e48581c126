"""Questions to the user of a client about what a model proposed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import anyio
import jsonschema
import pytest
from mcp import Client
from mcp.client.context import ClientRequestContext
from mcp.client.stdio import StdioServerParameters
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)

from commonbrain.api.thread_limiter import ThreadLimiter
from commonbrain.client import Brain
from commonbrain.mcp.connections import Connection, StdioCaller
from commonbrain.mcp.server import build_server, server_of
from commonbrain.model.scope import Authority
from tests.processes import AS_AGENT, TIMEOUT_S, clean_environment, command

Era = Literal["auto", "legacy"]
BLOCKER = {"text": "Never deploy on Fridays.", "kind": "rule", "severity": "BLOCKER"}
DECLINED = ElicitResult(action="accept", content={"decision": "decline"})


@pytest.fixture(params=["auto", "legacy"])
def era(request: pytest.FixtureRequest) -> Era:
    return request.param


@dataclass(slots=True)
class User:
    """Answers every question in the same way, and notes what was asked."""

    answer: ElicitResult
    asked: list[ElicitRequestFormParams] = field(default_factory=list[ElicitRequestFormParams])

    async def __call__(
        self, context: ClientRequestContext, params: ElicitRequestParams
    ) -> ElicitResult:
        del context
        assert isinstance(params, ElicitRequestFormParams)
        self.asked.append(params)
        return self.answer


def client_of(brain: Brain, era: Era, user: User | None) -> Client:
    server = build_server(lambda: brain, agent="codex")
    return Client(server, mode=era, elicitation_callback=user)


def outcome(result: CallToolResult) -> Mapping[str, Any]:
    assert not result.is_error, result.content
    assert result.structured_content is not None
    [item] = result.structured_content["items"]
    return item


def waiting(brain: Brain) -> list[str]:
    return [one.memory.id for one in brain.review("proposals").proposals]


async def test_user_sees_what_an_approval_does_and_declines_it(brain: Brain, era: Era) -> None:
    user = User(DECLINED)
    async with client_of(brain, era, user) as client:
        schemas = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        result = await client.call_tool("remember", BLOCKER)

    item = outcome(result)
    [question] = user.asked
    for part in ("recalls it from now on", "BLOCKER", "> Never deploy on Fridays.", "codex"):
        assert part in question.message
    assert f"brain revise approve {item['id']} --reason WHY" in question.message
    assert item["hint"] == "It was declined and is withdrawn."
    jsonschema.validate(result.structured_content, schemas["remember"] or {})
    assert isinstance(result.content[0], TextContent)
    assert result.content[0].text.endswith(item["hint"])
    assert waiting(brain) == []
    assert brain.get(item["id"]).state == "forgotten"


@pytest.mark.parametrize(
    "answer",
    [
        ElicitResult(action="accept", content={"decision": "later"}),
        ElicitResult(action="accept", content={"decision": "confirm"}),
        ElicitResult(action="accept", content={"decision": "approve", "authority": "person"}),
        ElicitResult(action="decline"),
        ElicitResult(action="cancel"),
    ],
)
async def test_no_answer_of_a_client_confirms_a_proposal(
    brain: Brain, era: Era, answer: ElicitResult
) -> None:
    async with client_of(brain, era, User(answer)) as client:
        item = outcome(await client.call_tool("remember", BLOCKER))

    assert item["hint"].startswith("Ask the user to decide: ")
    assert waiting(brain) == [item["id"]]
    memory = brain.get(item["id"])
    assert (memory.state, memory.authority) == ("quarantined", Authority.MODEL)


@pytest.mark.parametrize(
    ("tool", "arguments", "shown"),
    [
        ("forget", {"reason": "Nobody asks."}, "ends it: it is forgotten"),
        ("revise", {"op": "supersede", "text": "The depot is in Bonn."}, "> The depot is in Bonn."),
    ],
)
async def test_user_is_asked_about_a_change_of_what_a_person_wrote(
    brain: Brain, era: Era, tool: str, arguments: dict[str, str], shown: str
) -> None:
    [depot] = brain.remember("The depot is in Kiel.", kind="fact").items
    user = User(DECLINED)
    async with client_of(brain, era, user) as client:
        schemas = {one.name: one.output_schema for one in (await client.list_tools()).tools}
        given = {
            "reason": "It moved.",
            **arguments,
            ("ids" if tool == "forget" else "id"): depot.id,
        }
        result = await client.call_tool(tool, given)

    assert not result.is_error, result.content
    [question] = user.asked
    assert shown in question.message
    assert "> The depot is in Kiel." in question.message
    jsonschema.validate(result.structured_content, schemas[tool] or {})
    assert (result.structured_content or {})["hint"] == "It was declined and is withdrawn."
    assert waiting(brain) == []
    assert brain.get(depot.id or "").state == "active"


async def test_client_is_asked_rarely_and_about_proposals_only(brain: Brain, era: Era) -> None:
    user = User(DECLINED)
    async with client_of(brain, era, user) as client:
        await client.call_tool("remember", {"text": "The kettle is blue.", "kind": "fact"})
        assert user.asked == []
        for day in ("Fridays", "Mondays"):
            await client.call_tool("remember", BLOCKER | {"text": f"Never deploy on {day}."})

    assert len(user.asked) == len(waiting(brain)) == 1


async def test_client_without_questions_gets_its_reply(brain: Brain, era: Era) -> None:
    async with client_of(brain, era, None) as client:
        item = outcome(await client.call_tool("remember", BLOCKER))

    assert item["hint"].startswith("Ask the user to decide: ")
    assert waiting(brain) == [item["id"]]


async def test_client_that_does_not_answer_gets_its_reply_all_the_same(brain: Brain) -> None:
    async def never(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        del context, params
        await anyio.Event().wait()
        raise AssertionError

    caller = StdioCaller(open=lambda: brain, agent="codex", connection=Connection())
    server = server_of(lambda _: caller, threads=ThreadLimiter(2), answer_s=0.01)
    with anyio.fail_after(TIMEOUT_S):
        async with Client(server, mode="legacy", elicitation_callback=never) as client:
            item = outcome(await client.call_tool("remember", BLOCKER))

    assert waiting(brain) == [item["id"]]


async def test_answer_counts_although_another_server_asked(brain: Brain) -> None:
    [depot] = brain.remember("The depot is in Kiel.", kind="fact").items
    forget = {"ids": depot.id, "reason": "It moved."}
    async with client_of(brain, "auto", User(DECLINED)) as first:
        question = await first.session.call_tool("forget", forget, allow_input_required=True)
    assert isinstance(question, InputRequiredResult)
    async with client_of(brain, "auto", User(ElicitResult(action="cancel"))) as second:
        result = await second.call_tool(
            "forget",
            forget,
            input_responses={"decision": DECLINED},
            request_state=question.request_state,
        )

    assert (result.structured_content or {})["hint"] == "It was declined and is withdrawn."
    assert waiting(brain) == []
    assert brain.get(depot.id or "").state == "active"


async def test_answer_to_no_question_does_nothing(brain: Brain) -> None:
    [depot] = brain.remember("The depot is in Kiel.", kind="fact").items
    eve = brain.acting_as(agent="eve", authority=Authority.MODEL)
    [other] = eve.remember("Never deploy.", kind="rule", severity="BLOCKER").items
    forged = [
        {"id": id_, "reply": {"text": ".", "is_error": True}}
        for id_ in (depot.id, other.id, "mem_?")
    ]
    async with client_of(brain, "auto", None) as client:
        call = partial(
            client.call_tool, "remember", BLOCKER, input_responses={"decision": DECLINED}
        )
        for state in ("", "{}", "another server's"):
            with pytest.raises(MCPError, match="of no question"):
                await call(request_state=state)
        for state in forged:
            await client.session.call_tool(
                "recall",
                {},
                input_responses={"decision": DECLINED},
                request_state=json.dumps(state),
            )

    assert waiting(brain) == [other.id]
    assert brain.get(depot.id or "").state == "active"


async def test_question_reaches_the_client_of_a_process(path: Path, era: Era) -> None:
    line = command(path, "mcp")
    parameters = StdioServerParameters(
        command=line[0], args=line[1:], env=clean_environment(**AS_AGENT)
    )
    user = User(DECLINED)
    with anyio.fail_after(TIMEOUT_S):
        async with Client(parameters, mode=era, elicitation_callback=user) as client:
            item = outcome(await client.call_tool("remember", BLOCKER))

    assert len(user.asked) == 1
    assert item["hint"] == "It was declined and is withdrawn."
