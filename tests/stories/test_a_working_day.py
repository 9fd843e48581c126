"""A day of three agents, each a process of its own to the store: over MCP and by command."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from typer.testing import CliRunner

from commonbrain.cli.main import app
from commonbrain.client import Brain
from commonbrain.mcp.server import Connection, build_server
from commonbrain.model.errors import CommonbrainError
from commonbrain.model.sessions import ClientInfo, Process
from tests.at_work import FOLDER, processes_of

PROJECT = "harbour"
RULE = "Never deploy on a Friday; the pager is alone at the weekend."
ACTION_ITEM = "Read the freeze notice before you touch the release branch."
DECISION = "@decision The harbour releases ship from the branch release/9."


@asynccontextmanager
async def agent(
    brain: Brain, name: str, *, process: Process | None = None
) -> AsyncGenerator[Client]:
    """Connect a client of one agent to a server of its own on the store."""
    connection = Connection(
        find=lambda _: ClientInfo(cwd=FOLDER, process=process), reported_session=lambda _: None
    )
    async with Client(build_server(lambda: brain, agent=name, connection=connection)) as client:
        yield client


async def call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    """Call a tool that succeeds; give its reply as JSON."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: object) -> str:
    """Call a tool that refuses; give the text of its reply."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return " ".join(getattr(part, "text", "") for part in result.content)


def siblings(briefing: dict[str, Any]) -> set[str]:
    return {one["agent"] for one in briefing.get("siblings", [])}


@pytest.mark.requirement("SE-04", "SE-05", "SE-06", "SE-12", "MS-01")
async def test_three_agents_share_a_working_day_over_mcp(brain: Brain) -> None:
    processes = processes_of(brain)
    client_of_cy = processes.start(7)
    async with (
        agent(brain, "ann", process=processes.start(5)) as ann,
        agent(brain, "bo", process=processes.start(6)) as bo,
    ):
        # The morning: what binds is set, and who comes later wakes knowing it.
        await call(ann, "boot", project=PROJECT, task="prepare the release")
        held = await call(
            ann, "remember", text=RULE, kind="rule", severity="BLOCKER", project=PROJECT
        )
        assert held["items"][0]["status"] == "quarantined"
        # A person decides what an agent proposes to bind everyone.
        brain.revise.approve(held["items"][0]["id"], reason="agreed")
        item = await call(
            ann, "remember", text=ACTION_ITEM, kind="task", project=PROJECT, must_ack=True
        )
        item_id = item["items"][0]["id"]
        async with agent(brain, "cy", process=client_of_cy) as cy:
            await call(cy, "boot", project=PROJECT, task="watch the tide")
            briefing = await call(bo, "boot", project=PROJECT, task="tag the release")
            assert [one["headline"] for one in briefing["blockers"]] == [RULE]
            assert [one["id"] for one in briefing["action_items"]] == [item_id]
            assert briefing["writes_blocked"]
            assert siblings(briefing) == {"ann", "cy"}

            # An action item blocks until it is answered, and reading stays open.
            note = "The release notes live in docs/releases."
            complaint = await refused(bo, "remember", text=note, project=PROJECT)
            assert "action_items_pending" in complaint
            assert item_id in complaint
            assert (await call(bo, "recall", query="when may I deploy?"))["items"]
            await call(bo, "revise", op="ack", id=item_id, value="will_execute")
            await call(bo, "remember", text=note, project=PROJECT)

            # They talk, and what they agree is kept.
            question = await call(
                ann, "message", op="send", to=["all"], text="Which branch?", subject="Release"
            )
            [received] = (await call(bo, "message", op="inbox"))["messages"]
            assert received["id"] == question["sent"]["id"]
            await call(bo, "message", op="reply", id=[received["id"]], text=DECISION)
            [answer] = (await call(ann, "message", op="inbox"))["messages"]
            read = await call(ann, "message", op="read", id=[answer["id"]])
            assert "release/9" in json.dumps(read["messages"])

            # Work is handed on, and reported back.
            await call(ann, "message", op="delegate", to=["bo"], text="Tag release/9 as v9.0.")
            [delegated] = (await call(bo, "message", op="delegated"))["delegated"]
            await call(
                bo, "revise", op="status", id=delegated["task"], value="done", reason="Tagged."
            )
            [done] = (await call(ann, "message", op="delegated"))["delegated"]
            assert done["status"] == "done"

            # The client of one of them is killed.
            processes.kill(client_of_cy)
            listed = await call(ann, "session", op="list")
            assert {one["agent"] for one in listed["sessions"]} == {"bo"}

        # The evening: what is left is handed over.
        handed = await call(
            bo,
            "session",
            op="handoff",
            text="Tagged v9.0.",
            next_steps=["Announce it"],
            blockers=["The tide table is late"],
        )
        assert handed
        await call(bo, "session", op="end")

    # The next morning: whoever comes finds it, and finds out why.
    async with agent(brain, "dee") as dee:
        briefing = await call(dee, "boot", project=PROJECT, task="announce the release")
        assert "Announce it" in json.dumps(briefing["handoff"])
        results = await call(dee, "recall", query="which branch do the harbour releases ship from?")
        [decision] = [one for one in results["items"] if one["kind"] == "decision"]
        assert "release/9" in json.dumps(decision)
        memory = await call(dee, "get", id=[decision["id"]], views=["provenance"])
        assert "discussed it in the thread" in json.dumps(memory)


def run(store: Path, who: str, *words: str) -> dict[str, Any]:
    """Run a command as an agent in its session in this process; return its JSON."""
    options = ["--agent", who, "--session", f"{who}-1", "--store", str(store)]
    result = CliRunner().invoke(app, [*options, *words, "--json"], catch_exceptions=False)
    return json.loads(result.stdout)


def refused_by_command(store: Path, who: str, *words: str) -> str:
    """Run a command that fails; return the code of its error."""
    options = ["--agent", who, "--session", f"{who}-1", "--store", str(store)]
    result = CliRunner().invoke(app, [*options, *words, "--json"])
    assert isinstance(result.exception, CommonbrainError)
    return result.exception.code


@pytest.mark.requirement("SE-16", "MS-04")
def test_agents_share_the_same_working_day_by_command_line(path: Path) -> None:
    def ann(*words: str) -> dict[str, Any]:
        return run(path, "ann", *words)

    def bo(*words: str) -> dict[str, Any]:
        return run(path, "bo", *words)

    ann("boot", "--project", PROJECT, "--task", "prepare the release")
    ann("remember", RULE, "--kind", "rule", "--severity", "BLOCKER", "--project", PROJECT)
    item = ann("remember", ACTION_ITEM, "--kind", "task", "--project", PROJECT, "--must-ack")
    item_id = item["items"][0]["id"]

    briefing = bo("boot", "--project", PROJECT, "--task", "tag the release")
    assert briefing["writes_blocked"]
    assert siblings(briefing) == {"ann"}
    note = ("remember", "The release notes live in docs/releases.", "--project", PROJECT)
    assert refused_by_command(path, "bo", *note) == "action_items_pending"
    bo("task", "ack", item_id, "will_execute")
    assert bo(*note)["items"][0]["status"] == "stored"

    question = ann("message", "send", "Which branch?", "--to", "all", "--subject", "Release")
    [received] = bo("message", "inbox")["messages"]
    assert received["id"] == question["sent"]["id"]
    bo("message", "reply", received["id"], DECISION)
    [answer] = ann("message", "inbox")["messages"]
    ann("message", "read", answer["id"])
    assert ann("message", "inbox")["messages"] == []
    ann("message", "delegate", "Tag release/9 as v9.0.", "--to", "bo")
    [delegated] = bo("message", "delegated")["delegated"]
    bo("task", "done", delegated["task"], "--reason", "Tagged.")
    [done] = ann("message", "delegated")["delegated"]
    assert (done["status"], done["result"]) == ("done", "Tagged.")

    bo("session", "handoff", "Tagged v9.0.", "--next", "Announce it")
    bo("session", "end")
    assert ann("session", "list")["sessions"] == []
    briefing = run(path, "dee", "boot", "--project", PROJECT, "--task", "announce the release")
    assert "Announce it" in json.dumps(briefing["handoff"])
    results = run(path, "dee", "recall", "which branch do the harbour releases ship from?")
    [decision] = [one for one in results["items"] if one["label"] == "decision"]
    memory = run(path, "dee", "get", decision["id"], "--view", "provenance")
    assert "discussed it in the thread" in json.dumps(memory)
