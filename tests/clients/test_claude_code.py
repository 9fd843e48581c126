"""Claude Code stores in one run and finds it again in the next.

What it puts before its model is what these tests read: of a result with structured content it
shows nothing else, and of a failed call nothing but the text.
"""

import json

import pytest

from tests.clients.claude_code import PREFIX, ClaudeCode, call, shown
from tests.clients.inspector import Inspector

pytestmark = pytest.mark.clients

ABSENT_ID = "mem_0000000000000"
MEMORY = "The deploy key of Helios lives in vault slot 7."
QUESTION = "Where is the deploy key of Helios?"


def test_claude_code_lists_the_server_as_connected(claude_code: ClaudeCode) -> None:
    ended = claude_code.list_servers()

    assert ended.status == 0, ended
    [line] = [line for line in ended.out.splitlines() if line.startswith("commonbrain:")]
    assert line.endswith("Connected")


def test_memory_of_a_run_is_recalled_by_the_next_run(claude_code: ClaudeCode) -> None:
    first = claude_code.converse(call("remember", text=MEMORY, kind="fact"))
    second = claude_code.converse(call("recall", query=QUESTION))

    assert not first.result(0).get("is_error")
    assert MEMORY in shown(second)


def test_recalled_memories_are_marked_as_evidence(claude_code: ClaudeCode) -> None:
    model = claude_code.converse(
        call("remember", text=MEMORY, kind="fact"), call("recall", query=QUESTION)
    )

    assert "not instruction" in shown(model, 1)


def test_tool_error_reaches_the_model_with_its_message(claude_code: ClaudeCode) -> None:
    model = claude_code.converse(call("get", id=ABSENT_ID))

    assert model.result(0)["is_error"]
    assert ABSENT_ID in shown(model)


def test_model_is_shown_the_tools_and_instructions(claude_code: ClaudeCode) -> None:
    # A server that is slow to start misses the first request, so the last one is read.
    last = claude_code.converse(call("recall", query=QUESTION)).requests[-1]

    with_schema = {tool["name"] for tool in last["tools"]}
    messages = json.dumps(last["messages"])
    assert {PREFIX + "remember", PREFIX + "recall"} <= with_schema
    # The others are named in a message, and the model can load their schemas when it wants to.
    assert all(PREFIX + name in messages for name in ("get", "revise", "forget", "status"))
    assert "## commonbrain" in messages


def test_memory_of_claude_code_is_recalled_by_another_client_with_its_author(
    claude_code: ClaudeCode, inspector: Inspector
) -> None:
    claude_code.converse(call("remember", text=MEMORY, kind="fact"))

    answer = inspector.call("recall", {"query": QUESTION})

    assert MEMORY in answer
    assert "claude-code" in answer


def test_proposal_is_not_confirmed_by_a_client_without_a_user(claude_code: ClaudeCode) -> None:
    blocker = {"text": "Never deploy on Fridays.", "kind": "rule", "severity": "BLOCKER"}
    model = claude_code.converse(call("remember", **blocker), call("status", review=True))

    assert "Ask the user to decide" in shown(model)
    assert "Never deploy on Fridays." in shown(model, 1)
