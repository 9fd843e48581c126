"""A day of three agents, each a process of its own, through one memory: over MCP and by command."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from typer.testing import CliRunner

from commonbrain.cli.main import app
from tests.processes import PATIENCE_S, clean_environment, command

PROJECT = "harbour"
RULE = "Never deploy on a Friday; the pager is alone at the weekend."
DUTY = "Read the freeze notice before you touch the release branch."
DECISION = "@decision The harbour releases ship from the branch release/9."


def agent(store: Path, name: str) -> Client:
    """A client whose server acts for one agent."""
    program, *arguments = command(store, "mcp")
    arguments[arguments.index("--store") : arguments.index("--store")] = ["--agent", name]
    parameters = StdioServerParameters(command=program, args=arguments, env=clean_environment())
    return Client(parameters, read_timeout_seconds=PATIENCE_S)


async def said(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    """Call a tool that succeeds; give what it answers as JSON."""
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def refused(client: Client, tool: str, **arguments: object) -> str:
    """Call a tool that refuses; give what it says."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return " ".join(getattr(part, "text", "") for part in result.content)


_BYSTANDER = """
import anyio, sys
from pathlib import Path
from tests.stories.test_a_working_day import PROJECT, agent, said

async def main():
    async with agent(Path(sys.argv[1]), "cy") as cy:
        await said(cy, "boot", project=PROJECT, task="watch the tide")
        print("booted", flush=True)
        await anyio.Event().wait()

anyio.run(main)
"""


@contextmanager
def bystander(store: Path) -> Generator[subprocess.Popen[bytes]]:
    """A client process of its own with its server, in a group that can be killed at one blow."""
    with subprocess.Popen(
        [sys.executable, "-c", _BYSTANDER, str(store)],
        stdout=subprocess.PIPE,
        env=clean_environment(),
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"booted\n"
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def siblings(briefing: dict[str, Any]) -> set[str]:
    return {one["agent"] for one in briefing.get("siblings", [])}


@pytest.mark.requirement("SE-04", "SE-05", "SE-06", "SE-12", "MS-01")
@pytest.mark.skipif(sys.platform == "win32", reason="process groups")
async def test_a_day_of_three_agents_over_mcp(path: Path) -> None:
    async with agent(path, "ann") as ann, agent(path, "bo") as bo:
        # The morning: what binds is set, and who comes later wakes knowing it.
        await said(ann, "boot", project=PROJECT, task="prepare the release")
        await said(ann, "remember", text=RULE, kind="rule", severity="BLOCKER", project=PROJECT)
        duty = await said(ann, "remember", text=DUTY, kind="task", project=PROJECT, must_ack=True)
        duty_id = duty["items"][0]["id"]
        with bystander(path) as cy:
            woken = await said(bo, "boot", project=PROJECT, task="tag the release")
            assert [one["headline"] for one in woken["blockers"]] == [RULE]
            assert [one["id"] for one in woken["action_items"]] == [duty_id]
            assert woken["writes_blocked"]
            assert siblings(woken) == {"ann", "cy"}

            # A duty blocks until it is answered, and reading stays open.
            note = "The release notes live in docs/releases."
            complaint = await refused(bo, "remember", text=note, project=PROJECT)
            assert "action_items_pending" in complaint
            assert duty_id in complaint
            assert (await said(bo, "recall", query="when may I deploy?"))["items"]
            await said(bo, "revise", op="ack", id=duty_id, value="will_execute")
            await said(bo, "remember", text=note, project=PROJECT)

            # They talk, and what they agree is kept.
            asked = await said(
                ann, "message", op="send", to=["all"], text="Which branch?", subject="Release"
            )
            [letter] = (await said(bo, "message", op="inbox"))["messages"]
            assert letter["id"] == asked["sent"]["id"]
            await said(bo, "message", op="reply", id=[letter["id"]], text=DECISION)
            [answer] = (await said(ann, "message", op="inbox"))["messages"]
            read = await said(ann, "message", op="read", id=[answer["id"]])
            assert "release/9" in json.dumps(read["messages"])

            # Work is handed on, and reported back.
            await said(ann, "message", op="delegate", to=["bo"], text="Tag release/9 as v9.0.")
            [owed] = (await said(bo, "message", op="delegated"))["delegated"]
            await said(bo, "revise", op="status", id=owed["task"], value="done", reason="Tagged.")
            [done] = (await said(ann, "message", op="delegated"))["delegated"]
            assert done["status"] == "done"

            # One of them is killed, without a word.
            os.killpg(cy.pid, signal.SIGKILL)
            cy.wait(PATIENCE_S)
        seen = await said(ann, "session", op="list")
        assert {one["agent"] for one in seen["sessions"]} == {"bo"}

        # The evening: what is left is handed over.
        handed = await said(
            bo,
            "session",
            op="handoff",
            text="Tagged v9.0.",
            next_steps=["Announce it"],
            blockers=["The tide table is late"],
        )
        assert handed
        await said(bo, "session", op="end")

    # The next morning: whoever comes finds it, and finds out why.
    async with agent(path, "dee") as dee:
        woken = await said(dee, "boot", project=PROJECT, task="announce the release")
        assert "Announce it" in json.dumps(woken["handoff"])
        found = await said(dee, "recall", query="which branch do the harbour releases ship from?")
        [kept] = [one for one in found["items"] if one["kind"] == "decision"]
        assert "release/9" in json.dumps(kept)
        shown = await said(dee, "get", id=[kept["id"]], views=["provenance"])
        assert "discussed it in the thread" in json.dumps(shown)


def brain(store: Path, who: str, *words: str) -> dict[str, Any]:
    """Run a command as an agent in its session in this process; return its JSON."""
    own = ["--agent", who, "--session", f"{who}-1", "--store", str(store)]
    result = CliRunner().invoke(app, [*own, *words, "--json"], catch_exceptions=False)
    return json.loads(result.stdout)


def refused_by_command(store: Path, who: str, *words: str) -> str:
    """Run a command that fails as a process; return the code of its error."""
    line = command(store, *words, "--json")
    at = line.index("--store")
    line[at:at] = ["--agent", who, "--session", f"{who}-1"]
    ran = subprocess.run(
        line, capture_output=True, timeout=PATIENCE_S, env=clean_environment(), check=False
    )
    return json.loads(ran.stdout)["error"]["code"]


@pytest.mark.requirement("SE-16", "MS-04")
def test_the_same_day_by_command(path: Path) -> None:
    def ann(*words: str) -> dict[str, Any]:
        return brain(path, "ann", *words)

    def bo(*words: str) -> dict[str, Any]:
        return brain(path, "bo", *words)

    ann("boot", "--project", PROJECT, "--task", "prepare the release")
    ann("remember", RULE, "--kind", "rule", "--severity", "BLOCKER", "--project", PROJECT)
    duty = ann("remember", DUTY, "--kind", "task", "--project", PROJECT, "--must-ack")
    duty_id = duty["items"][0]["id"]

    woken = bo("boot", "--project", PROJECT, "--task", "tag the release")
    assert woken["writes_blocked"]
    assert siblings(woken) == {"ann"}
    note = ("remember", "The release notes live in docs/releases.", "--project", PROJECT)
    assert refused_by_command(path, "bo", *note) == "action_items_pending"
    bo("task", "ack", duty_id, "will_execute")
    assert bo(*note)["items"][0]["status"] == "stored"

    asked = ann("message", "send", "Which branch?", "--to", "all", "--subject", "Release")
    [letter] = bo("message", "inbox")["messages"]
    assert letter["id"] == asked["sent"]["id"]
    bo("message", "reply", letter["id"], DECISION)
    [answer] = ann("message", "inbox")["messages"]
    ann("message", "read", answer["id"])
    assert ann("message", "inbox")["messages"] == []
    ann("message", "delegate", "Tag release/9 as v9.0.", "--to", "bo")
    [owed] = bo("message", "delegated")["delegated"]
    bo("task", "done", owed["task"], "--reason", "Tagged.")
    [done] = ann("message", "delegated")["delegated"]
    assert (done["status"], done["result"]) == ("done", "Tagged.")

    bo("session", "handoff", "Tagged v9.0.", "--next", "Announce it")
    bo("session", "end")
    assert ann("session", "list")["sessions"] == []
    woken = brain(path, "dee", "boot", "--project", PROJECT, "--task", "announce the release")
    assert "Announce it" in json.dumps(woken["handoff"])
    found = brain(path, "dee", "recall", "which branch do the harbour releases ship from?")
    [kept] = [one for one in found["items"] if one["label"] == "decision"]
    shown = brain(path, "dee", "get", kept["id"], "--view", "provenance")
    assert "discussed it in the thread" in json.dumps(shown)
