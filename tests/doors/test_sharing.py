"""Agents that share one process of their store, and what happens when it ends."""

import signal
import sys
from collections.abc import Generator
from contextlib import AbstractContextManager, ExitStack, closing
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Literal

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

import commonbrain
from commonbrain.storage.sqlite.driver import driver
from tests.doors.stdio_servers import Server, served
from tests.processes import PATIENCE_S, clean_environment, command

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="/proc shows what a process has loaded"
)
KETTLE = "The kettle is in the blue cupboard."
MEGABYTES_MAX = 40
"""Twice the 20 MB measured, for other builds of Python."""


@pytest.fixture
def store() -> Generator[Path]:
    """A store in a folder whose path is short enough for a socket next to it."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "brain.db"
        commonbrain.open(path).close()
        yield path


def agent_of(
    store: Path, name: str, *, folder: Path | None = None, **settings: str
) -> AbstractContextManager[Server]:
    return served(
        store,
        folder=folder or store.parent,
        COMMONBRAIN_AGENT=name,
        COMMONBRAIN_STATE=str(store.parent / "state"),
        **settings,
    )


@pytest.fixture
def first(store: Path) -> Generator[Server]:
    """The process that serves the store."""
    with agent_of(store, "ann") as server:
        server.shake_hands()
        server.call("recall", {"query": "kettle"}, number=2)
        yield server


def is_bridge(server: Server) -> bool:
    return "pydantic_core" not in Path(f"/proc/{server.process.pid}/maps").read_text()


def megabytes(server: Server) -> float:
    lines = Path(f"/proc/{server.process.pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Rss:"))


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait(PATIENCE_S)


def stored_texts(store: Path) -> list[str]:
    with closing(driver().connect(str(store))) as connection:
        return [body for (body,) in connection.execute("SELECT body FROM facts")]


@pytest.mark.requirement("CL-14")
def test_each_further_agent_takes_little_memory_and_is_itself(
    store: Path, first: Server, tmp_path: Path
) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    with agent_of(store, "bob", folder=tmp_path / "shop") as second:
        second.shake_hands()
        second.call("boot", {}, number=2)
        [stored] = second.call("remember", {"text": KETTLE}, number=3)["items"]
        first.call("boot", {}, number=4)
        listed = first.call("session", {"op": "list"}, number=5)
        assert is_bridge(second)
        assert megabytes(second) < MEGABYTES_MAX

        [bob] = listed["sessions"]
        assert (bob["agent"], bob["project"]) == ("bob", "shop")
        with commonbrain.open(store) as brain:
            memory = brain.get(stored["id"])
        assert (memory.agent, memory.session) == ("bob", bob["session"])
        assert second.leave() == (0, b"", b"")

        until = monotonic() + PATIENCE_S
        while first.call("session", {"op": "list"}, number=6)["sessions"]:
            assert monotonic() < until


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_clients_of_both_protocol_eras_share(
    store: Path, first: Server, mode: Literal["auto", "legacy"]
) -> None:
    program, *arguments = command(store, "mcp")
    environment = clean_environment(COMMONBRAIN_STATE=str(store.parent / "state"))
    parameters = StdioServerParameters(command=program, args=arguments, env=environment)
    async with Client(parameters, mode=mode, read_timeout_seconds=PATIENCE_S) as client:
        tools = await client.list_tools()
        result = await client.call_tool("remember", {"text": KETTLE})
    assert "remember" in [tool.name for tool in tools.tools]
    assert not result.is_error
    assert first.call("recall", {"query": "where is the kettle?"}, number=3)["items"]


@pytest.mark.requirement("CL-14")
def test_no_write_is_lost_or_stored_twice_when_the_server_is_killed(
    store: Path, first: Server
) -> None:
    calls = 12
    with ExitStack() as stack:
        names = ("bob", "cat", "dan")
        others = [stack.enter_context(agent_of(store, name)) for name in names]
        for server in others:
            server.shake_hands()
        for number in range(calls):
            for name, server in zip(names, others, strict=True):
                text = f"The lamp {number} of {name} is green."
                arguments = {"text": text, "kind": "fact", "distinct_because": "it has a number"}
                server.tell(
                    "tools/call", {"name": "remember", "arguments": arguments}, number=10 + number
                )
        others[0].answer_to(10)
        kill(first)

        acknowledged: list[str] = []
        for server in others:
            for number in range(10, 10 + calls):
                seen = [one["result"] for one in server.said if one.get("id") == number]
                result = seen[0] if seen else server.answer_to(number)
                acknowledged += [item["id"] for item in result["structuredContent"]["items"]]

        texts = stored_texts(store)
        assert len(acknowledged) == len(set(acknowledged)) == len(names) * calls
        assert len(texts) == len(set(texts)) == len(names) * calls
        assert [is_bridge(server) for server in others].count(False) == 1
        assert [server.leave() for server in others] == [(0, b"", b"")] * len(names)


def test_a_call_in_progress_is_repeated_only_if_that_does_nothing_twice(
    store: Path, first: Server
) -> None:
    with agent_of(store, "bob") as second:
        second.shake_hands()
        session = second.call("session", {"op": "list"}, number=2)["session"]
        with closing(driver().connect(str(store), isolation_level=None)) as writer:
            writer.execute("BEGIN IMMEDIATE")
            note = {"op": "note", "key": "lamp", "text": "green"}
            for number, (tool, arguments) in enumerate(
                [("remember", {"text": KETTLE, "kind": "fact"}), ("session", note)], start=3
            ):
                second.tell("tools/call", {"name": tool, "arguments": arguments}, number=number)
            second.tell("ping", {}, number=5)
            second.answer_to(5)
            kill(first)
            refused = second.answer_to(4)
            writer.execute("ROLLBACK")
        [stored] = second.answer_to(3)["structuredContent"]["items"]

        assert stored["status"] == "stored"
        assert stored_texts(store) == [KETTLE]
        assert refused["isError"]
        assert refused["content"][0]["text"].startswith("interrupted: ")
        # The connection keeps its session.
        assert second.call("session", {"op": "list"}, number=6)["session"] == session


@pytest.mark.requirement("CL-14")
def test_reads_in_progress_are_repeated_by_the_next_server(store: Path, first: Server) -> None:
    with agent_of(store, "bob") as second:
        second.shake_hands()
        second.call("session", {"op": "note", "key": "lamp", "text": "green"}, number=2)
        stop_between_writes(first, store)
        reads = {3: ("session", {"op": "notes"}), 4: ("message", {"op": "inbox"})}
        for number, (tool, arguments) in reads.items():
            second.tell("tools/call", {"name": tool, "arguments": arguments}, number=number)
        kill(first)
        [note] = second.answer_to(3)["structuredContent"]["notes"]
        assert (note["key"], note["value"]) == ("lamp", "green")
        assert second.answer_to(4)["structuredContent"]["messages"] == []


def test_an_agent_that_stops_reading_holds_up_nobody_else(store: Path, first: Server) -> None:
    last = 400
    with agent_of(store, "bob") as slow, agent_of(store, "cat") as other:
        slow.shake_hands()
        for number in range(2, last + 1):
            slow.tell("tools/list", {}, number=number)
        # Its pipe is full by now, and so is what lies between it and the server.
        other.shake_hands()
        assert other.call("remember", {"text": KETTLE}, number=2)["items"]
        assert first.call("recall", {"query": "where is the kettle?"}, number=3)["items"]
        assert slow.answer_to(last)["tools"]


def test_the_others_go_on_when_the_first_client_hangs_up(store: Path, first: Server) -> None:
    with agent_of(store, "bob") as second, agent_of(store, "cat") as third:
        for server in (second, third):
            server.shake_hands()
            server.call("recall", {"query": "kettle"}, number=2)
        assert first.leave() == (0, b"", b"")
        for server in (second, third):
            assert server.call("remember", {"text": KETTLE}, number=3)["items"]
        assert sorted(map(is_bridge, (second, third))) == [False, True]
        second.process.send_signal(signal.SIGTERM)
        second.process.wait(PATIENCE_S)
        assert third.call("recall", {"query": "where is the kettle?"}, number=4)["items"]
        assert second.leave()[0] == third.leave()[0] == 0
    assert not [one for one in socket_folder(store).iterdir() if one.is_socket()]


def has_opened(server: Server, store: Path) -> bool:
    """Return whether a process has opened the store."""
    return f"{store.resolve()}-shm" in Path(f"/proc/{server.process.pid}/maps").read_text()


def test_the_next_server_opens_the_store_though_its_client_has_not_shaken_hands(
    store: Path, first: Server
) -> None:
    with agent_of(store, "bob") as second:
        second.tell("ping", {}, number=1)
        second.answer_to(1)
        assert is_bridge(second)
        kill(first)
        until = monotonic() + PATIENCE_S
        while not has_opened(second, store):
            assert monotonic() < until


def socket_folder(store: Path) -> Path:
    return store.parent / f".{store.name}.local"


def is_locked(store: Path) -> bool:
    with closing(driver().connect(str(store), isolation_level=None, timeout=1)) as writer:
        try:
            writer.execute("BEGIN IMMEDIATE")
        except driver().OperationalError:
            return True
        writer.execute("ROLLBACK")
    return False


def stop_between_writes(server: Server, store: Path) -> None:
    """Stop a process while it does not hold the lock of writers, which it would keep."""
    until = monotonic() + PATIENCE_S
    server.process.send_signal(signal.SIGSTOP)
    while is_locked(store):
        assert monotonic() < until
        server.process.send_signal(signal.SIGCONT)
        server.process.send_signal(signal.SIGSTOP)


def test_a_client_does_not_wait_for_a_server_that_is_stopped(store: Path, first: Server) -> None:
    with agent_of(store, "bob") as second:
        second.shake_hands()
        second.call("recall", {"query": "kettle"}, number=2)
        stop_between_writes(first, store)
        assert second.call("remember", {"text": KETTLE}, number=3)["items"]
        assert not is_bridge(second)
        first.process.send_signal(signal.SIGCONT)
        assert first.call("recall", {"query": "where is the kettle?"}, number=3)["items"]


@pytest.mark.parametrize(
    "setting", [{"COMMONBRAIN_RECALL_ITEMS": "5"}, {"COMMONBRAIN_MCP_SHARED": "off"}]
)
def test_an_agent_with_other_settings_or_that_shares_nothing_serves_itself(
    store: Path, first: Server, setting: dict[str, str]
) -> None:
    assert not is_bridge(first)
    with agent_of(store, "bob", folder=store.parent, **setting) as second:
        second.shake_hands()
        assert second.call("remember", {"text": KETTLE}, number=2)["items"]
        assert not is_bridge(second)


def test_agents_serve_themselves_where_no_socket_can_be_made(store: Path) -> None:
    socket_folder(store).write_text("a file in its place")
    with agent_of(store, "ann") as one, agent_of(store, "bob") as other:
        for server in (one, other):
            server.shake_hands()
            assert server.call("recall", {"query": "kettle"}, number=2)
            assert not is_bridge(server)


def test_an_invalid_setting_is_reported_at_the_start(store: Path) -> None:
    with agent_of(store, "ann", COMMONBRAIN_RECALL_ITEMS="many") as server:
        code, out, complaints = server.leave()
    assert (code, out) == (2, b"")
    assert b"COMMONBRAIN_RECALL_ITEMS" in complaints
