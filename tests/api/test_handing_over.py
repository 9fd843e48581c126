"""Skills, handoffs and the way back as they are asked for: on the command line and by agents."""

import io
import json
import sys
from collections.abc import Callable

import pytest
from mcp import Client

from commonbrain.api.operations import load_operations
from commonbrain.api.schemas import compact_schema
from commonbrain.client import Brain
from commonbrain.mcp.server import build_server
from commonbrain.model.kinds import MessageDetail
from commonbrain.model.memory import ThreadRef
from commonbrain.text.tokens import estimate
from tests.asking import stored
from tests.conftest import Command

RULE = "Announce it in the channel first"


@pytest.mark.requirement("RT-02", "DM-09")
def test_skill_is_added_listed_tested_and_shown(command: Command) -> None:
    for name, more in (("release", ()), ("tell", ("--skill-project", "api", "--always-on"))):
        text = f"{RULE}: {name}"
        code, out = command("skill", "add", name, text, "--keyword", "deploy", *more, "--json")
        assert (code, json.loads(out)["items"][0]["kind"]) == (0, "rule")
    code, out = command("skill", "list")
    assert code == 0
    assert all(word in out for word in ("release", "tell", "always on", "deploy", "api"))
    _, out = command("skill", "test", "how to REDEPLOY?", "--json")
    assert [one["name"] for one in json.loads(out)["skills"]] == ["release"]
    _, out = command("skill", "test", "deploy", "--project", "api", "--json")
    assert [one["name"] for one in json.loads(out)["skills"]] == ["tell", "release"]
    _, out = command("skill", "test", "tea")
    assert "No skill." in out
    code, out = command("skill", "show", "release", "--view", "history")
    assert (code, RULE in out, "create" in out) == (0, True, True)
    code, out = command("skill", "show", "none")
    assert (code, "No skill 'none'" in out) == (4, True)


def test_missing_parts_of_a_skill_are_reported(command: Command) -> None:
    code, out = command("skill", "add", "release")
    assert (code, "Missing argument" in out) == (2, True)
    code, out = command("skill", "add", "release", RULE)
    assert (code, "keywords, or is always on" in out) == (3, True)
    code, out = command("skill", "add", "release", RULE, "--keyword", "ci")
    assert (code, "at least 3 letters" in out) == (3, True)
    code, out = command("skill")
    assert all(word in out for word in ("add", "list", "show", "test"))


@pytest.mark.requirement("WP-14", "SE-12")
def test_handoff_is_given_by_options_or_as_an_object(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = ("--session", "s1", "session")
    code, out = command(
        *session, "handoff", "Moved the parser", "--next", "bench it", "--next", "ship it",
        "--blocker", "the CI is red", "--context", "see docs",
    )  # fmt: skip
    assert (code, "Moved the parser" in out) == (0, True)
    _, out = command("recall", "bench parser", "--json")
    [item] = json.loads(out)["items"]
    assert (item["label"], item["body"].count("\n- ")) == ("handoff", 3)
    parts = {"summary": "Benched it", "next_steps": ["ship it"]}
    piped(monkeypatch, json.dumps(parts))
    code, out = command(*session, "end", "-", "--json")
    assert (code, json.loads(out)["outcome"]["status"]) == (0, "stored")
    assert command("get", item["id"])[1].count("uperseded")


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ('{"summary": 7}', 2, "summary"),
        ('{"summary": "x", "next": []}', 2, "next"),
        ("{", 2, "JSON"),
        ("x" * 2001, 3, "1 more than the 2,000"),
        ("AKIA" + "IOSFODNN7EXAMPLQ", 3, "secret"),
    ],
)
def test_invalid_handoff_is_rejected_with_its_reason(
    command: Command, monkeypatch: pytest.MonkeyPatch, text: str, code: int, word: str
) -> None:
    piped(monkeypatch, text)
    left, out = command("--session", "s1", "session", "handoff", "-")
    assert (left, word in out) == (code, True), out
    assert "IOSFODNN7" not in out


def piped(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


@pytest.mark.anyio
@pytest.mark.requirement("WP-14")
async def test_agents_hand_over_and_read_the_provenance_of_a_memory(brain: Brain) -> None:
    thread = ThreadRef(key="t1", subject="How many cores?\x1b[31m")
    detail = MessageDetail(sender="bob", recipients=("ann",))
    message = stored(brain, "Two cores", kind="message", thread=thread, detail=detail)
    fact = stored(brain, "The build has two cores", kind="fact", source_message=message)
    server = build_server(lambda: brain.acting_as(session="s1"))
    async with Client(server) as client:
        call = {"op": "handoff", "text": "Counted the cores", "next_steps": ["count again"]}
        reply = await client.call_tool("session", call)
        assert not reply.is_error
        shown = await client.call_tool("get", {"id": fact, "views": ["provenance"]})
    [text] = (block.text for block in shown.content if block.type == "text")
    assert f"  source_message {message} | message | by bob" in text
    assert 'Known because bob and ann discussed it in the thread "How many cores?' in text
    assert "\x1b" not in text
    assert (shown.structured_content or {})["provenance"]["origins"][0]["id"] == message


def test_command_draws_the_provenance_of_a_memory(command: Command) -> None:
    ids: list[str] = []
    for n in range(3):
        more = [part for id_ in ids[-1:] for part in ("--derived-from", id_)]
        _, out = command("remember", f"Step {n} of x{n}", "--kind", "event", *more, "--json")
        ids.append(json.loads(out)["items"][0]["id"])
    code, out = command("get", ids[-1], "--view", "provenance")
    assert code == 0
    assert f"\n  derived_from {ids[1]}" in out
    assert f"\n    derived_from {ids[0]}" in out


def test_tool_session_costs_at_most_330_tokens(
    record_property: Callable[[str, object], None],
) -> None:
    tool = next(one for one in load_operations() if one.name == "session")
    shown = {
        "name": "session",
        "description": tool.purpose,
        "inputSchema": compact_schema(tool.request),
    }
    cost = estimate(json.dumps(shown, separators=(",", ":")))
    record_property("tokens of session", cost)
    print(f"session: {cost} tokens")  # noqa: T201 the figure is wanted with -s
    assert cost <= 330
