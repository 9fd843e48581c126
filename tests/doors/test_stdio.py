"""The MCP door as clients start it: a real process that speaks over stdin and stdout."""

import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import CallToolResult

from commonbrain.storage.sqlite.driver import driver
from tests.doors.stdio_servers import served
from tests.processes import PATIENCE_S, command

posix_only = pytest.mark.skipif(
    sys.platform == "win32", reason="signals and pipes that can be waited for"
)
KETTLE = "The kettle is in the blue cupboard."
ANN = "Ann is off on Fridays."


def client_of(store: Path, mode: Literal["auto", "legacy"] = "auto") -> Client:
    program, *arguments = command(store, "mcp")
    parameters = StdioServerParameters(command=program, args=arguments)
    return Client(parameters, mode=mode, read_timeout_seconds=PATIENCE_S)


def ids_in(result: CallToolResult) -> list[str]:
    assert result.structured_content is not None
    return [item["id"] for item in result.structured_content["items"]]


@pytest.mark.requirement("DO-05")
async def test_two_servers_on_one_file_see_each_other_s_memories_in_the_next_recall(
    path: Path,
) -> None:
    async with client_of(path) as one, client_of(path, "legacy") as two:
        kettle = ids_in(await one.call_tool("remember", {"text": KETTLE}))
        assert ids_in(await two.call_tool("recall", {"query": "where is the kettle?"})) == kettle
        ann = ids_in(await two.call_tool("remember", {"text": ANN}))
        assert ids_in(await one.call_tool("recall", {"query": "when is Ann off?"})) == ann
    async with client_of(path) as later:
        assert ids_in(await later.call_tool("recall", {"query": "where is the kettle?"})) == kettle


@posix_only
@pytest.mark.parametrize(
    "signals",
    [(), (signal.SIGTERM,), (signal.SIGINT,), (signal.SIGINT, signal.SIGTERM)],
    ids=["hang up", "SIGTERM", "SIGINT", "SIGINT then SIGTERM as Claude Code does"],
)
def test_a_server_leaves_cleanly_however_it_is_told_to(
    path: Path, signals: Sequence[signal.Signals]
) -> None:
    with served(path) as server:
        assert server.shake_hands()["serverInfo"]["name"] == "commonbrain"
        stored = server.call("remember", {"text": KETTLE}, number=2)
        for one in signals:
            server.process.send_signal(one)
        if signals:
            # Its stdin is still open: it must not wait for the client to hang up.
            server.process.wait(PATIENCE_S)
        code, rest, complaints = server.leave()

    assert (code, rest, complaints) == (0, b"", b"")
    assert stored["items"][0]["status"] == "stored"


@posix_only
def test_a_server_told_to_stop_does_not_wait_for_the_lock_that_its_call_waits_for(
    path: Path,
) -> None:
    with served(path, COMMONBRAIN_LOCK_TIMEOUT_S="600") as server:
        server.shake_hands()
        server.call("remember", {"text": KETTLE}, number=2)
        other = driver().connect(str(path), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        server.call("recall", {"query": "where is the kettle?"}, number=3)
        server.tell("tools/call", {"name": "remember", "arguments": {"text": ANN}}, number=4)
        server.call("status", {}, number=5)
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(PATIENCE_S)
        code, rest, _ = server.leave()
        other.execute("ROLLBACK")
        (count,) = other.execute("SELECT count(*) FROM memories").fetchone()
        other.close()

    assert (code, rest) == (0, b"")
    assert count == 1


@posix_only
def test_what_was_acknowledged_before_a_kill_is_there_afterwards(path: Path) -> None:
    with served(path) as server:
        server.shake_hands()
        stored = server.call("remember", {"text": KETTLE}, number=2)
        server.process.kill()
        server.process.wait(PATIENCE_S)
    with served(path) as server:
        server.shake_hands()
        found = server.call("recall", {"query": "where is the kettle?"}, number=2)

    assert [item["id"] for item in found["items"]] == [stored["items"][0]["id"]]


@posix_only
def test_stdout_carries_the_protocol_alone_even_when_warnings_are_raised(path: Path) -> None:
    with served(path, "-X", "dev", "-W", "always") as server:
        server.shake_hands()
        server.call("remember", {"text": KETTLE}, number=2)
        server.tell("tools/call", {"name": "dream", "arguments": {}}, number=3)
        server.tell("tools/list", {}, number=4)
        assert server.answer_to(4)["tools"]
        code, rest, _ = server.leave()

    assert (code, rest) == (0, b"")
    assert {message["jsonrpc"] for message in server.said} == {"2.0"}


@pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who listens on Linux only")
def test_the_server_listens_on_no_network(path: Path) -> None:
    with served(path) as server:
        server.shake_hands()
        server.call("status", {}, number=2)
        own = Path(f"/proc/{server.process.pid}")
        held = {str(one.readlink()) for one in (own / "fd").iterdir()}
        rows = [
            line.split()
            for name in ("tcp", "tcp6")
            if (own / "net" / name).exists()
            for line in (own / "net" / name).read_text().splitlines()[1:]
        ]
        listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}

    assert held
    assert not held & listening
