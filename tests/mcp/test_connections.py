"""Which session a client's calls are of: connections, hooks next to servers, folders, commands."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.types import Implementation

from commonbrain.client import Brain
from commonbrain.mcp.server import Connection, build_server
from commonbrain.model import ids
from commonbrain.model.sessions import ClientInfo, Ending, Process
from commonbrain.testing.builders import FakeClock, a_brain
from tests.at_work import FOLDER, at_work, boots, ending_of, heard, processes_of, seen, shown

FACT = "The kettle is in the blue cupboard."


@dataclass(frozen=True)
class Server:
    """A server as one client is connected to it."""

    client: Client
    connection: Connection
    brain: Brain

    async def call(self, tool: str, **arguments: str) -> dict[str, Any]:
        """Call a tool, and let what it leaves be written."""
        reply = await self.client.call_tool(tool, arguments)
        assert not reply.is_error, reply.content
        self.brain.services.journal.flush()
        assert reply.structured_content is not None
        return reply.structured_content

    async def session(self) -> str:
        """Give the key of the session that its calls are of."""
        return (await self.call("session", op="list"))["session"]


@asynccontextmanager
async def served(
    brain: Brain,
    *,
    process: Process | None = None,
    cwd: str = FOLDER,
    reported_session: str | None = None,
) -> AsyncGenerator[Server]:
    """A server of a client that has a process, and may have told its session's id."""
    connection = Connection(
        find=lambda _: ClientInfo(cwd=cwd, process=process),
        reported_session=lambda _: reported_session,
    )
    server = build_server(lambda: brain, agent="ann", connection=connection)
    named = Implementation(name="codex", version="1.2")
    async with Client(server, client_info=named) as client:
        yield Server(client, connection, brain)


async def test_ten_connections_of_one_process_are_ten_sessions(brain: Brain) -> None:
    client = processes_of(brain).start(7)
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(served(brain, process=client)) for _ in range(10)
        ]
        keys = [await server.session() for server in servers]
        for server, key in zip(servers, keys, strict=True):
            boots(at_work(brain, key, process=client, server=processes_of(brain).own()))
            assert await server.session() == key

        assert len(set(keys)) == 10
        assert set(seen(brain)) == set(keys)


async def test_first_call_begins_the_session_of_its_memories(brain: Brain) -> None:
    async with served(brain) as server:
        [stored] = (await server.call("remember", text=FACT, kind="fact"))["items"]
        key = await server.session()
        memory = brain.get(stored["id"])

    assert memory.session == key
    assert ids.parse(ids.SESSION, key)
    [peer] = shown(brain)
    assert (peer.session, peer.agent, peer.client) == (key, "ann", "codex 1.2")


async def test_project_of_a_boot_is_that_of_later_calls(brain: Brain) -> None:
    async with served(brain) as server:
        boots(at_work(brain, await server.session()), project="api")
        [stored] = (await server.call("remember", text=FACT, kind="fact"))["items"]

    assert brain.get(stored["id"]).project == "api"


@pytest.mark.requirement("SE-24")
async def test_call_after_the_end_of_a_session_begins_a_new_one(brain: Brain) -> None:
    async with served(brain) as server:
        before = await server.session()
        assert (await server.call("session", op="end"))["session"] == before
        after = await server.session()

    assert after != before
    assert ending_of(brain, before) is Ending.ENDED
    assert seen(brain) == [after]


async def test_session_closed_by_its_connection_is_reopened_by_a_call(
    brain: Brain, clock: FakeClock
) -> None:
    async with served(brain) as server:
        key = await server.session()
        server.connection.close()
        brain.services.journal.flush()
        assert ending_of(brain, key) is Ending.CLOSED
        assert seen(brain) == []

    clock.move(timedelta(seconds=1))
    heard(at_work(brain, key))
    assert seen(brain) == [key]


async def test_session_of_an_earlier_hook_is_that_of_the_server(brain: Brain) -> None:
    client = processes_of(brain).start(7)
    boots(at_work(brain, "k1", process=client), project="api")
    async with served(brain, process=client) as server:
        assert await server.session() == "k1"

    assert seen(brain) == ["k1"]


@pytest.mark.parametrize("is_booted", [True, False])
async def test_session_of_a_later_hook_becomes_that_of_the_server(
    brain: Brain, *, is_booted: bool
) -> None:
    client = processes_of(brain).start(7)
    hook = at_work(brain, "k1", process=client)
    async with served(brain, process=client) as server:
        before = await server.session()
        if is_booted:
            boots(hook)
        heard(hook)
        assert await server.session() == "k1"

    assert ending_of(brain, before) is Ending.REBOOTED
    assert seen(brain) == ["k1"]


async def test_unwritten_session_that_a_hook_replaces_is_never_listed(
    brain: Brain,
) -> None:
    client = processes_of(brain).start(7)
    connection = Connection(find=lambda _: ClientInfo(cwd=FOLDER, process=client))
    before = connection.view(brain).caller.session
    boots(at_work(brain, "k1", process=client))
    after = connection.view(brain).caller.session
    brain.services.journal.flush()

    assert before != after == "k1"
    assert seen(brain) == ["k1"]


async def test_two_clients_in_one_folder_are_two_sessions(brain: Brain) -> None:
    processes = processes_of(brain)
    one, two = processes.start(7), processes.start(8)
    boots(at_work(brain, "k1", process=one))
    boots(at_work(brain, "k2", process=two))
    async with served(brain, process=one) as first, served(brain, process=two) as second:
        assert await first.session() == "k1"
        assert await second.session() == "k2"


async def test_two_folders_of_one_client_do_not_share_a_session(brain: Brain) -> None:
    client = processes_of(brain).start(7)
    boots(at_work(brain, "k1", process=client, cwd="/home/ann/web"))
    async with served(brain, process=client) as server:
        assert await server.session() != "k1"


async def test_two_servers_of_one_client_have_the_session_that_it_booted(brain: Brain) -> None:
    client = processes_of(brain).start(7)
    async with served(brain, process=client) as one, served(brain, process=client) as two:
        assert await one.session() != await two.session()
        boots(at_work(brain, "k1", process=client))
        assert await one.session() == await two.session() == "k1"

    assert seen(brain) == ["k1"]


async def test_session_of_a_client_with_two_sessions_is_not_guessed(brain: Brain) -> None:
    client = processes_of(brain).start(7)
    heard(at_work(brain, "k1", process=client))
    heard(at_work(brain, "k2", process=client))
    async with served(brain, process=client) as server:
        assert await server.session() not in {"k1", "k2"}


async def test_cleared_conversation_continues_under_its_new_session(brain: Brain) -> None:
    client = processes_of(brain).start(7)
    boots(at_work(brain, "k1", process=client))
    async with served(brain, process=client, reported_session="k1") as server:
        assert await server.session() == "k1"
        boots(at_work(brain, "k2", process=client))
        assert await server.session() == "k2"

    assert ending_of(brain, "k1") is Ending.REBOOTED
    assert seen(brain) == ["k2"]


async def test_session_reported_by_the_client_is_used_without_a_hook(
    brain: Brain,
) -> None:
    async with served(brain, reported_session="k1") as server:
        assert await server.session() == "k1"
        await server.call("session", op="end")
        assert await server.session() not in {"k1", None}


async def test_session_of_a_killed_server_is_closed_though_its_client_lives(brain: Brain) -> None:
    processes = processes_of(brain)
    client, server = processes.start(7), processes.start(8)
    contact = ClientInfo(cwd=FOLDER, process=client, server=server)
    key = heard(brain.acting_as(contact=contact))
    assert seen(brain) == [key]

    processes.kill(server)

    assert seen(brain) == []
    assert ending_of(brain, key) is Ending.CLOSED


async def test_session_of_the_environment_is_that_of_every_call(path: Path) -> None:
    with a_brain(path) as brain:
        client = processes_of(brain).start(7)
        boots(at_work(brain, "k2", process=client))
        async with served(brain.acting_as(session="k1"), process=client) as server:
            assert await server.session() == "k1"


def test_two_agents_of_one_connection_share_its_session_key(brain: Brain) -> None:
    connection = Connection()
    ann = connection.view(brain)
    bob = connection.view(brain.acting_as(agent="bob"))
    brain.services.journal.flush()

    assert ann.caller.session == bob.caller.session
    assert len(seen(brain)) == 2
