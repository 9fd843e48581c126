"""Subscriptions to the inbox, in the handshake era and in the one without sessions."""

from functools import partial

import anyio
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp.types import ResourceUpdatedNotification, SubscriptionFilter, TextResourceContents

from commonbrain.client import Brain
from commonbrain.mcp.resources import INBOX_URI
from commonbrain.mcp.server import build_server
from tests.processes import TIMEOUT_S

HELLO = "The paint is wet."


@pytest.fixture
def bo(brain: Brain) -> Brain:
    return brain.acting_as(agent="bo")


async def test_client_of_today_is_notified_of_an_arrival_and_reads_it(
    brain: Brain, bo: Brain
) -> None:
    async with Client(build_server(lambda: brain, agent="ann")) as client:
        [inbox] = (await client.list_resources()).resources
        with anyio.fail_after(TIMEOUT_S):
            async with client.listen(resource_subscriptions=[str(inbox.uri)]) as events:
                bo.message.send("ann", HELLO)
                assert await anext(events) == ResourceUpdated(uri=INBOX_URI)
        page = (await client.read_resource(INBOX_URI)).contents[0]

    assert isinstance(page, TextResourceContents)
    assert HELLO in page.text


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
async def test_client_of_the_handshake_era_is_notified_of_arrivals_until_it_unsubscribes(
    brain: Brain, bo: Brain
) -> None:
    updates: list[str] = []
    arrived = anyio.Event()

    async def note(message: object) -> None:
        nonlocal arrived
        if isinstance(message, ResourceUpdatedNotification):
            updates.append(str(message.params.uri))
            arrived.set()

    server = build_server(lambda: brain, agent="ann")
    async with Client(server, mode="legacy", message_handler=note) as client:
        assert client.server_capabilities.resources is not None
        assert client.server_capabilities.resources.subscribe
        bo.message.send("ann", HELLO)
        # The SDK marks what older protocols have as deprecated.
        await client.subscribe_resource(INBOX_URI)  # pyright: ignore[reportDeprecated]
        for text in ("It is dry.", "It is wet again."):
            with anyio.fail_after(TIMEOUT_S):
                await arrived.wait()
            arrived = anyio.Event()
            bo.message.send("ann", text, priority="urgent")
        with anyio.fail_after(TIMEOUT_S):
            await arrived.wait()
        await client.unsubscribe_resource(INBOX_URI)  # pyright: ignore[reportDeprecated]
        with pytest.raises(MCPError, match="not_found"):
            await client.subscribe_resource("memory://1")  # pyright: ignore[reportDeprecated]

    assert updates == [INBOX_URI] * 3


async def test_messages_to_others_and_read_ones_are_no_arrivals(brain: Brain, bo: Brain) -> None:
    for other in ("bo", "eve"):
        brain.message.send(other, f"Only for {other}.")
    ann = brain.acting_as(agent="ann")
    assert ann.message.newest_unread() == 0
    sent = [
        bo.message.send("ann", text, priority=how)
        for text, how in (("A.", "urgent"), ("B.", "info"))
    ]
    before = ann.message.newest_unread()
    ann.message.read([one.id for one in sent])
    assert 0 == ann.message.newest_unread() < before


async def test_lists_and_other_resources_have_no_subscriptions(brain: Brain) -> None:
    async with Client(build_server(lambda: brain, agent="ann")) as client:
        capabilities = client.server_capabilities
        for lists in (capabilities.tools, capabilities.prompts, capabilities.resources):
            assert lists is not None
            assert not lists.list_changed
        assert capabilities.resources is not None
        assert capabilities.resources.subscribe
        with anyio.fail_after(TIMEOUT_S):
            for listen in (
                client.listen(tools_list_changed=True),
                client.listen(resource_subscriptions=["memory://1"]),
                client.listen(resource_subscriptions=[INBOX_URI, "memory://1"]),
            ):
                with pytest.raises(MCPError, match="not_found"):
                    await listen.__aenter__()
            async with client.listen(
                tools_list_changed=True, resource_subscriptions=[INBOX_URI]
            ) as events:
                assert events.honored == SubscriptionFilter(resource_subscriptions=[INBOX_URI])


async def test_agent_has_a_bounded_number_of_streams(brain: Brain) -> None:
    async with Client(build_server(lambda: brain, agent="ann")) as client:
        listen = partial(client.listen, resource_subscriptions=[INBOX_URI])
        with anyio.fail_after(TIMEOUT_S):
            async with listen(), listen(), listen(), listen():
                with pytest.raises(MCPError, match="at most 4 streams"):
                    await listen().__aenter__()
