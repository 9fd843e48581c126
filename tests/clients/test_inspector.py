"""The Inspector lists and calls every tool in both eras of the protocol.

Each of its commands is a new client that starts a new server, so what one stores the next reads
from the file.
"""

import re
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tests.clients.inspector import ERAS, Inspector

pytestmark = pytest.mark.clients

TOOL_FAILED = 5
ABSENT_ID = "mem_0000000000000"
MEMORY_ID = re.compile(r"mem_\w+")

KEY_IS_IN_SLOT_7 = "The deploy key of Helios lives in vault slot 7."
KEY_IS_IN_SLOT_9 = "Since the move, the deploy key of Helios lives in vault slot 9."
TEA = "The team in Oslo prefers green tea at meetings."
ABOUT_BOTH = {"query": "deploy key of Helios, tea in Oslo"}
SUPERSEDE = {"op": "supersede", "text": KEY_IS_IN_SLOT_9, "reason": "it was moved"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One call and what its answer shows; `{n}` is the id of the n-th memory remembered."""

    tool: str
    arguments: dict[str, Any]
    shows: str
    hides: tuple[str, ...] = ()


# Every tool has a step here: for one that has none,
# test_every_tool_of_the_server_is_called_by_a_step_of_the_story fails.
STORY = (
    Step(tool="remember", arguments={"text": KEY_IS_IN_SLOT_7, "kind": "fact"}, shows="mem_"),
    Step(tool="remember", arguments={"text": TEA}, shows="mem_"),
    Step(tool="recall", arguments=ABOUT_BOTH, shows=KEY_IS_IN_SLOT_7),
    Step(tool="get", arguments={"id": "{0}"}, shows=KEY_IS_IN_SLOT_7),
    Step(tool="revise", arguments=SUPERSEDE | {"id": "{0}"}, shows="mem_"),
    Step(tool="forget", arguments={"ids": '["{1}"]', "reason": "of no use"}, shows="{1}"),
    Step(
        tool="recall",
        arguments=ABOUT_BOTH,
        shows=KEY_IS_IN_SLOT_9,
        hides=(KEY_IS_IN_SLOT_7, TEA),
    ),
    Step(tool="boot", arguments={"project": "locker"}, shows="BLOCKERS loaded"),
    Step(tool="session", arguments={"op": "list"}, shows="No other session"),
    Step(
        tool="message",
        arguments={"op": "send", "to": "bo", "text": "The key has moved."},
        shows="sent mem_",
    ),
    Step(tool="trace", arguments={"op": "causes", "text": "key"}, shows="causes: key"),
    Step(tool="job", arguments={"op": "list"}, shows="No job."),
    Step(tool="status", arguments={}, shows="memories"),
)


@pytest.fixture(params=ERAS)
def client(request: pytest.FixtureRequest, inspector: Inspector) -> Inspector:
    return replace(inspector, era=request.param)


def test_server_answers_with_the_protocol_version_of_the_client(client: Inspector) -> None:
    reply = client.initialize()

    assert reply["protocolVersion"] == ERAS[client.era]
    assert reply["serverInfo"]["name"] == "commonbrain"
    assert reply["instructions"]


def test_every_tool_of_the_server_is_called_by_a_step_of_the_story(client: Inspector) -> None:
    assert client.tools() == {step.tool for step in STORY}


def test_every_tool_works_on_memories_stored_by_earlier_client_processes(client: Inspector) -> None:
    remembered: list[str] = []
    for step in STORY:
        given = {name: value.format(*remembered) for name, value in step.arguments.items()}
        answer = client.call(step.tool, given)
        assert step.shows.format(*remembered) in answer, step
        assert not [text for text in step.hides if text in answer], step
        if step.tool == "remember":
            remembered.append(MEMORY_ID.findall(answer)[0])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("no_such_tool", {}), ("remember", {}), ("get", {"id": ABSENT_ID})],
)
def test_invalid_tool_call_ends_with_an_error_status(
    client: Inspector, tool: str, arguments: dict[str, Any]
) -> None:
    ended = client.run_call(tool, arguments)

    assert ended.status == TOOL_FAILED, ended
