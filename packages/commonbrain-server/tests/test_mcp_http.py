"""MCP over HTTP in both eras: who acts, what a caller is shown, and which session a call is of."""

from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult

from commonbrain.api.operations import Profile
from commonbrain.client import Brain
from commonbrain.mcp.resources import INBOX_URI
from commonbrain.mcp.server import tools_of
from commonbrain.model.scope import Caller, Role
from tests.processes import TIMEOUT_S
from tests.serving import CALLERS, Era, KeyRing, an_app, client_at, listening

TOOLS = tools_of(Profile.CORE)

KETTLE = "The kettle is in the blue cupboard."


def structured(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


async def remembered(client: Client, text: str = KETTLE, **more: str) -> str:
    stored = await client.call_tool("remember", {"text": text, "kind": "fact", **more})
    return structured(stored)["items"][0]["id"]


async def test_acting_agent_is_set_by_the_credential_and_not_by_the_client_name(
    url: str, era: Era
) -> None:
    async with (
        client_at(url, key="key-of-ann", era=era, name="ben") as ann,
        client_at(url, key="key-of-ben", era=era, name="ben") as ben,
    ):
        hers, his = await remembered(ann), await remembered(ben, "Ben is off on Fridays.")
        shown = structured(await ben.call_tool("recall", {"query": "kettle"}))["items"]
        assert [one["id"] for one in shown] == [hers]
        for id_, agent in ((hers, "ann"), (his, "ben")):
            memory = structured(await ann.call_tool("get", {"id": id_, "views": ["provenance"]}))
            assert memory["agent"] == agent


async def test_admins_key_over_mcp_is_a_models_unless_its_agent_is_fully_trusted(
    url: str, era: Era
) -> None:
    blocker = {"text": "Never deploy on Fridays.", "kind": "rule", "severity": "BLOCKER"}
    for key, status in (("key-of-ira", "quarantined"), ("key-of-ada", "stored")):
        async with client_at(url, key=key, era=era) as admin:
            reply = structured(await admin.call_tool("remember", blocker))
            assert [one["status"] for one in reply["items"]] == [status], key


async def test_reader_is_offered_what_reads_and_boot_and_cannot_call_others(
    url: str, era: Era
) -> None:
    async with client_at(url, key="key-of-rea", era=era) as reader:
        shown = [tool.name for tool in (await reader.list_tools()).tools]
        assert shown == [name for name, tool in TOOLS.items() if tool.role is Role.READER]
        assert {name for name in shown if not TOOLS[name].is_read_only} == {"boot"}
        refused = await reader.call_tool("remember", {"text": KETTLE})
        assert refused.is_error
        assert "insufficient_role" in str(refused.content)
        # A page shows what an operation gives, so it takes the same role.
        with pytest.raises(MCPError, match="insufficient_role"):
            await reader.read_resource("thread://thr_0000000000000")
    async with client_at(url, key="key-of-ann", era=era) as writer:
        assert [tool.name for tool in (await writer.list_tools()).tools] == list(TOOLS)


async def test_memory_of_a_tenant_is_not_found_by_another_tenant(url: str, era: Era) -> None:
    async with (
        client_at(url, key="key-of-ann", era=era) as ann,
        client_at(url, key="key-of-zoe", era=era) as zoe,
    ):
        id_ = await remembered(ann)
        results = structured(await zoe.call_tool("recall", {"query": KETTLE}))
        assert (results["items"], results["verdict"]) == ([], "nothing_stored")
        missed = await zoe.call_tool("get", {"id": id_})
        assert "not_found" in str(missed.content)
        with pytest.raises(MCPError, match="not_found"):
            await zoe.read_resource(f"memory://{id_}")
        page = await ann.read_resource(f"memory://{id_}")
        assert KETTLE in str(page.contents)


async def test_client_cannot_claim_more_trust_than_its_credential_has(url: str) -> None:
    async with client_at(url, key="key-of-web") as web, client_at(url, key="key-of-ann") as ann:
        id_ = await remembered(web)
        memory = structured(await ann.call_tool("get", {"id": id_}))
        assert memory["trust"] == "untrusted_web"
        for client, trust in ((web, "user_claim"), (ann, "trusted_tool")):
            claimed = await client.call_tool("remember", {"text": "It is so.", "trust": trust})
            assert "trust_override_denied" in str(claimed.content)


@pytest.mark.requirement("SE-31")
async def test_connection_has_one_session_for_all_its_calls(
    shared: tuple[Brain, str], era: Era
) -> None:
    brain, url = shared
    async with client_at(url, key="key-of-ann", era=era) as client:
        for _ in range(3):
            structured(await client.call_tool("session", {"op": "list"}))
        brain.services.journal.flush()
        with brain.services.store.snapshot(brain.caller.tenant) as tx:
            [live] = tx.sessions.live(project=None, agent="ann", limit=10)
    assert live.key.startswith("http_codex_")
    assert live.process is None


@pytest.mark.requirement("SE-31")
async def test_clients_that_name_their_sessions_list_each_other(
    shared: tuple[Brain, str], era: Era
) -> None:
    brain, url = shared
    async with (
        client_at(url, key="key-of-ann", era=era, session="one") as one,
        client_at(url, key="key-of-ann", era=era, session="two") as two,
    ):
        structured(await one.call_tool("boot", {"project": "api", "task": "The kettle."}))
        brain.services.journal.flush()
        seen = structured(await two.call_tool("session", {"op": "list", "project": "api"}))
        assert seen["session"] == "two"
        assert [peer["session"] for peer in seen["sessions"]] == ["one"]
        # What the session was booted in is where its memories belong.
        id_ = await remembered(one)
        memory = structured(await two.call_tool("get", {"id": id_}))
        assert (memory["project"], memory["session"]) == ("api", "one")


async def test_client_without_a_credential_is_refused_with_401(url: str) -> None:
    async with httpx2.AsyncClient() as http:
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        reply = await http.post(f"{url}/mcp", json=request)
        assert (reply.status_code, reply.json()["code"]) == (401, "missing_credential")
        assert reply.headers["WWW-Authenticate"] == "Bearer"
        for method in ("GET", "DELETE"):
            refused = await http.request(method, f"{url}/mcp")
            assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")


async def test_memory_stored_over_rest_is_recalled_over_mcp(url: str) -> None:
    async with client_at(url, key="key-of-ben") as ben, httpx2.AsyncClient() as http:
        sent = {"text": KETTLE, "kind": "fact"}
        key = {"X-API-Key": "key-of-ann"}
        stored = (await http.post(f"{url}/v1/remember", json=sent, headers=key)).json()
        items = structured(await ben.call_tool("recall", {"query": "kettle"}))["items"]
        assert [one["id"] for one in items] == [stored["items"][0]["id"]]


async def test_client_that_listens_is_notified_of_a_message_and_others_are_not(url: str) -> None:
    async with (
        client_at(url, key="key-of-ann") as ann,
        client_at(url, key="key-of-ben") as ben,
        client_at(url, key="key-of-rea") as rea,
    ):
        uris = [INBOX_URI]
        with anyio.fail_after(TIMEOUT_S):
            async with (
                ann.listen(resource_subscriptions=uris) as hers,
                ben.listen(resource_subscriptions=uris) as his,
            ):
                for text in ("Tea?", "Now?"):
                    structured(await ben.call_tool("message", message_to("ann", text)))
                    assert await anext(hers) == ResourceUpdated(uri=INBOX_URI)
                structured(await ann.call_tool("message", message_to("ben", "Yes.")))
                assert await anext(his) == ResourceUpdated(uri=INBOX_URI)
        # It may not read an inbox either.
        with pytest.raises(MCPError, match="insufficient_role"):
            await rea.listen(resource_subscriptions=uris).__aenter__()


@pytest.mark.parametrize("now", [None, Caller(agent="ann", role=Role.READER)])
async def test_stream_ends_when_its_credential_gives_less(brain: Brain, now: Caller | None) -> None:
    keys = dict(CALLERS)
    with listening(an_app(brain, keys=KeyRing(keys))) as url:
        async with client_at(url, key="key-of-ann") as ann, client_at(url, key="key-of-ben") as ben:
            with anyio.fail_after(TIMEOUT_S):
                async with ann.listen(resource_subscriptions=[INBOX_URI]) as events:
                    structured(await ben.call_tool("message", message_to("ann", "Tea?")))
                    assert await anext(events) == ResourceUpdated(uri=INBOX_URI)
                    if now is None:
                        del keys["key-of-ann"]
                    else:
                        keys["key-of-ann"] = now
                    structured(await ben.call_tool("message", message_to("ann", "Now?")))
                    assert [event async for event in events] == []


def message_to(agent: str, text: str) -> dict[str, str]:
    return {"op": "send", "to": agent, "text": text}
