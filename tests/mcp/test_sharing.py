"""Agents that share one process of their store, and what happens when it ends."""

import signal
import sys
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.types import CallToolResult

import commonbrain
from commonbrain.storage.sqlite.driver import driver
from tests.hooks.test_hooks_served import is_served, prompt
from tests.in_process import run_brain
from tests.processes import AS_AGENT, TIMEOUT_S, clean_environment, command, until
from tests.stdio_servers import Server, locked, served, socket_folder

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="/proc shows what a process has loaded"
)
KETTLE = "The kettle is in the blue cupboard."
ANN = "Ann is off on Fridays."
MEGABYTES_MAX = 40
"""Twice the 20 MB measured, for other builds of Python."""
CLEAN = (0, b"", b"")
"""What a server leaves that ended well: its exit code, the rest of stdout, and stderr."""


def agent_of(
    store: Path, name: str, *options: str, **settings: str
) -> AbstractContextManager[Server]:
    return served(store, *options, folder=store.parent, COMMONBRAIN_AGENT=name, **settings)


def is_bridge(server: Server) -> bool:
    return "pydantic_core" not in Path(f"/proc/{server.process.pid}/maps").read_text()


def has_opened_the_store(server: Server) -> bool:
    maps = Path(f"/proc/{server.process.pid}/maps").read_text()
    return f"{server.store.resolve()}-shm" in maps


def megabytes(server: Server) -> float:
    lines = Path(f"/proc/{server.process.pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("Rss:"))


def kill(server: Server) -> None:
    server.process.kill()
    server.process.wait(TIMEOUT_S)


def stored_texts(store: Path) -> list[str]:
    with closing(driver().connect(str(store))) as connection:
        return [body for (body,) in connection.execute("SELECT body FROM facts")]


def sessions_of(server: Server) -> list[str]:
    return [one["session"] for one in server.call("session", op="list")["sessions"]]


def has_sessions(server: Server, keys: list[str]) -> bool:
    return sessions_of(server) == keys


@pytest.mark.requirement("CL-14", "SE-08")
def test_further_agent_takes_little_memory_and_has_its_own_session_until_it_ends(
    stdio_server: Server, tenant: str, tmp_path: Path
) -> None:
    store, shop = stdio_server.store, tmp_path / "shop"
    (shop / ".git").mkdir(parents=True)
    with served(store, tenant=tenant, COMMONBRAIN_AGENT="ann") as ann:
        ann.shake_hands()
        earlier: list[str] = []
        for signals in ((), (signal.SIGTERM,), (signal.SIGINT,), (signal.SIGKILL,)):
            with served(store, tenant=tenant, folder=shop, COMMONBRAIN_AGENT="bob") as bob:
                bob.shake_hands()
                # A session that only read is listed too.
                bob.call("recall", query="where is the kettle?")
                own = bob.call("session", op="list")["session"]
                assert own not in earlier
                until(partial(has_sessions, ann, [own]))
                bob.call("boot")
                text = f"The kettle {len(earlier)} is in the blue cupboard."
                [stored] = bob.call("remember", text=text)["items"]
                [shown] = ann.call("session", op="list")["sessions"]
                assert (shown["agent"], shown["project"]) == ("bob", "shop")
                assert is_bridge(bob)
                assert megabytes(bob) < MEGABYTES_MAX
                with commonbrain.open(store, tenant=tenant) as brain:
                    memory = brain.get(stored["id"])
                assert (memory.agent, memory.session) == ("bob", shown["session"])
                ended = bob.end_by(*signals)
                assert ended == CLEAN or signals == (signal.SIGKILL,)
                earlier.append(own)
                until(partial(has_sessions, ann, []))


def client_of(store: Path, tenant: str, mode: Literal["auto", "legacy"]) -> Client:
    program, *arguments = command(store, "--tenant", tenant, "mcp")
    parameters = StdioServerParameters(
        command=program, args=arguments, env=clean_environment(**AS_AGENT)
    )
    return Client(parameters, mode=mode, read_timeout_seconds=TIMEOUT_S)


def ids_in(result: CallToolResult) -> list[str]:
    assert result.structured_content is not None
    return [item["id"] for item in result.structured_content["items"]]


@pytest.mark.requirement("DO-05")
async def test_clients_of_both_protocol_eras_share_their_memories_at_once(
    stdio_server: Server, tenant: str
) -> None:
    store = stdio_server.store
    async with client_of(store, tenant, "auto") as one, client_of(store, tenant, "legacy") as two:
        for client in (one, two):
            assert "remember" in [tool.name for tool in (await client.list_tools()).tools]
        kettle = ids_in(await one.call_tool("remember", {"text": KETTLE}))
        assert ids_in(await two.call_tool("recall", {"query": "where is the kettle?"})) == kettle
        ann = ids_in(await two.call_tool("remember", {"text": ANN}))
        assert ids_in(await one.call_tool("recall", {"query": "when is Ann off?"})) == ann


def test_agent_that_stops_reading_delays_no_other(stdio_server: Server, tenant: str) -> None:
    store = stdio_server.store
    with served(store, tenant=tenant) as slow, served(store, tenant=tenant) as other:
        slow.shake_hands()
        numbers = [slow.request("tools/list", {}) for _ in range(80)]
        # Its pipe is full by now, and so is what lies between it and the server.
        other.shake_hands()
        assert other.call("remember", text=KETTLE)["items"]
        assert stdio_server.call("recall", query="postgres")["items"]
        assert slow.result_of(numbers[-1])["tools"]


def test_server_listens_on_no_network(stdio_server: Server) -> None:
    own = Path(f"/proc/{stdio_server.process.pid}")
    descriptors = set[str]()
    for one in (own / "fd").iterdir():
        # It closes files in the meantime.
        with suppress(FileNotFoundError):
            descriptors.add(str(one.readlink()))
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        if (own / "net" / name).exists()
        for line in (own / "net" / name).read_text().splitlines()[1:]
    ]
    listening = {f"socket:[{row[9]}]" for row in rows if row[3] == "0A"}

    assert descriptors
    assert not descriptors & listening


def assert_last_takes_over(last: Server, others: list[Server]) -> None:
    """End all others, of which one serves: the last takes over though its client called nothing."""
    others.sort(key=is_bridge, reverse=True)
    assert [server.end_by() for server in others] == [CLEAN] * len(others)
    until(lambda: has_opened_the_store(last))
    until(lambda: is_served(prompt(last.store)))
    assert last.end_by(signal.SIGINT, signal.SIGTERM) == CLEAN


@pytest.mark.requirement("CL-13", "CL-14")
def test_no_write_is_lost_or_done_twice_when_servers_end(store: Path) -> None:
    calls, names = 12, ("bob", "cat")
    # Warnings of the server go to stderr: stdout carries the protocol alone.
    with agent_of(store, "ann", "-X", "dev", "-W", "always") as first, ExitStack() as stack:
        assert first.shake_hands()["serverInfo"]["name"] == "commonbrain"
        first.call("remember", text="Tea is at noon.", kind="fact")
        first.request_call("dream")
        assert first.result_of(first.request("tools/list", {}))["tools"]
        killed = first.call("session", op="list")["session"]
        # It does not shake hands.
        last = stack.enter_context(agent_of(store, "eve"))
        last.result_of(last.request("ping", {}))
        others = [stack.enter_context(agent_of(store, name)) for name in names]
        for server in others:
            server.shake_hands()
        bob = others[0]
        assert is_bridge(bob)
        session = bob.call("session", op="note", key="lamp", text="green")["session"]
        sent = [
            (server, server.request_call(
                "remember", text=f"The lamp {n} of {name} is green.", kind="fact",
                distinct_because="it has a number",
            ))
            for n in range(calls)
            for name, server in zip(names, others, strict=True)
        ]  # fmt: skip
        server, number = sent[0]
        server.result_of(number)
        with locked(store):
            remember = bob.request_call("remember", text=KETTLE, kind="fact")
            note = bob.request_call("session", op="note", key="lamp", text="red")
            bob.result_of(bob.request("ping", {}))
            first.process.send_signal(signal.SIGSTOP)
            notes = bob.request_call("session", op="notes")
            inbox = bob.request_call("message", op="inbox")
            first.process.kill()
            code, rest, _ = first.leave()

        assert {message["jsonrpc"] for message in first.received} == {"2.0"}
        assert (code, rest) == (-signal.SIGKILL, b"")
        # A call in progress is repeated only if that does nothing twice.
        refused = bob.result_of(note)
        assert refused["isError"]
        assert refused["content"][0]["text"].startswith("interrupted: ")
        [shown] = bob.result_of(notes)["structuredContent"]["notes"]
        assert (shown["key"], shown["value"]) == ("lamp", "green")
        assert bob.result_of(inbox)["structuredContent"]["messages"] == []
        [stored] = bob.result_of(remember)["structuredContent"]["items"]
        assert stored["status"] == "stored"
        replies = [server.result_of(number) for server, number in sent]
        assert [reply for reply in replies if reply.get("isError")] == []
        acknowledged = [
            item["id"] for reply in replies for item in reply["structuredContent"]["items"]
        ]
        texts = stored_texts(store)
        lamps = [text for text in texts if "lamp" in text]
        assert len(acknowledged) == len(set(acknowledged)) == len(sent)
        assert len(lamps) == len(set(lamps)) == len(sent)
        assert (texts.count(KETTLE), texts.count("Tea is at noon.")) == (1, 1)
        assert [is_bridge(server) for server in (*others, last)].count(False) == 1
        # The connection keeps its session; that of the killed server is over.
        assert bob.call("session", op="list")["session"] == session
        assert killed not in sessions_of(bob)
        # Hooks are answered by the next server too.
        until(lambda: is_served(prompt(store)))

        assert_last_takes_over(last, others)
    assert not [one for one in socket_folder(store).iterdir() if one.is_socket()]


def test_agents_serve_themselves_next_to_a_stopped_server_and_share_their_memories(
    stdio_server: Server, tenant: str
) -> None:
    """One waits for an answer of the server until it sees that it is stopped; two cannot share."""
    store = stdio_server.store
    not_shared = {"COMMONBRAIN_MCP_SHARED": "off"}
    other_settings = {"COMMONBRAIN_RECALL_ITEMS": "5"}
    assert not is_bridge(stdio_server)
    with ExitStack() as stack:
        second = stack.enter_context(served(store, tenant=tenant))
        second.shake_hands()
        second.call("recall", query="kettle")
        assert is_bridge(second)
        stdio_server.stop_between_writes()
        try:
            waiting = second.request_call("remember", text=KETTLE)
            assert not is_served(prompt(store))
            own, other = (
                stack.enter_context(served(store, tenant=tenant, **settings))
                for settings in (not_shared, other_settings)
            )
            for server in (own, other):
                server.shake_hands()
            [ann] = own.call("remember", text=ANN)["items"]
            [kettle] = second.result_of(waiting)["structuredContent"]["items"]
            assert not is_bridge(second)
        finally:
            stdio_server.process.send_signal(signal.SIGCONT)
        assert stdio_server.call("recall", query="postgres")["items"]

        shared = stack.enter_context(served(store, tenant=tenant))
        shared.shake_hands()
        for server in (own, other, second, shared):
            # The processes see each other's memories.
            [seen] = server.call("recall", query="where is the kettle?")["items"]
            assert seen["id"] == kettle["id"]
            assert server.call("recall", query="when is Ann off?")["items"][0]["id"] == ann["id"]
        assert [is_bridge(server) for server in (own, other, shared)] == [False, False, True]
        for server, end in ((own, signal.SIGTERM), (other, signal.SIGINT)):
            session = server.call("session", op="list")["session"]
            until(lambda session=session: session in sessions_of(shared))
            # Its stdin is still open: it does not wait for the client to close it.
            assert server.end_by(end) == CLEAN
            assert session not in sessions_of(shared)


def test_agent_serves_itself_where_no_socket_can_be_made(store: Path) -> None:
    socket_folder(store).write_text("a file in its place")
    with agent_of(store, "ann") as own:
        own.shake_hands()
        assert own.call("session", op="list")["session"]
        assert not is_bridge(own)
        assert not is_served(hook := prompt(store))
        assert (hook.status, hook.out) == (0, "")
        assert run_brain("--store", str(store), "status").status == 0
        # A client that only starts the program takes a second one.
        assert own.end_by(signal.SIGINT, signal.SIGTERM) == CLEAN


def test_invalid_setting_is_reported_at_the_start(store: Path) -> None:
    done = run_brain("--store", str(store), "mcp", COMMONBRAIN_RECALL_ITEMS="many")

    assert (done.status, done.out) == (2, "")
    assert "COMMONBRAIN_RECALL_ITEMS" in done.err


def test_subscription_goes_on_with_the_next_server(tmp_path: Path) -> None:
    store = tmp_path / "m.db"
    with agent_of(store, "ann") as first, agent_of(store, "bo") as bo:
        first.shake_hands()
        first.call("status")
        bo.shake_hands()
        bo.result_of(bo.request("resources/subscribe", {"uri": "inbox://unread"}))
        kill(first)
        run_brain("--store", str(store), "--agent", "ann", "message", "send", "--to", "bo", "Tea?")
        updated = bo.answer_to(b"")

    assert updated["method"] == "notifications/resources/updated"
    assert updated["params"]["uri"] == "inbox://unread"
