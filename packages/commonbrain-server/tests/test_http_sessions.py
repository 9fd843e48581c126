"""Sessions over HTTP: a connection is a session, in both protocol eras and over REST."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest
from commonbrain_server.http.app import make_app
from commonbrain_server.http.authentication import ProtectedResource
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, Implementation
from sqlalchemy import event
from starlette.testclient import TestClient

from commonbrain.client import Brain
from commonbrain.model.scope import Admission, Caller, Role
from commonbrain.model.sessions import Ending
from commonbrain.storage.store import Store as SqlStore
from commonbrain.testing.builders import FakeClock, a_brain
from tests.processes import TIMEOUT_S
from tests.serving import (
    Era,
    Hosted,
    KeyRing,
    an_app,
    calling,
    client_at,
    free_port,
    listening,
    started,
)

KEY = "key-of-ann"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of `brain serve` in a process of its own."""
    port = free_port()
    with started(tmp_path_factory.mktemp("running") / "brain.db", port=port):
        yield f"http://127.0.0.1:{port}"


def structured(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, result.content
    assert result.structured_content is not None
    return result.structured_content


def pass_a_second(brain: Brain) -> None:
    """Let the server's clock go on, so that one of two sessions booted last."""
    assert isinstance(brain.services.clock, FakeClock)
    brain.services.clock.move(timedelta(seconds=1))


async def boots(client: Client, task: str, **more: str) -> dict[str, Any]:
    return structured(await client.call_tool("boot", {"project": "api", "task": task, **more}))


async def others(client: Client, **more: str) -> dict[str, str | None]:
    """Other active sessions by key, each with its task."""
    listed = structured(await client.call_tool("session", {"op": "list", **more}))
    return {one["session"]: one.get("task") for one in listed["sessions"]}


@pytest.mark.requirement("SE-34")
async def test_two_connections_with_one_key_have_separate_sessions(url: str, era: Era) -> None:
    async with client_at(url, key=KEY, era=era) as one, client_at(url, key=KEY, era=era) as two:
        first = await boots(one, "Mend the parser")
        second = await boots(two, "Paint the page")
        assert first["session"] != second["session"]
        assert [peer["task"] for peer in second["siblings"]] == ["Mend the parser"]
        assert await others(one) == {second["session"]: "Paint the page"}

        structured(await one.call_tool("session", {"op": "task", "text": "Bench the parser"}))
        structured(await one.call_tool("session", {"op": "note", "key": "at", "text": "line 7"}))
        assert await others(two) == {first["session"]: "Bench the parser"}
        assert await others(one) == {second["session"]: "Paint the page"}
        assert structured(await two.call_tool("session", {"op": "notes"}))["notes"] == []


@pytest.mark.requirement("SE-34", "SE-04")
async def test_handoff_is_shown_to_the_next_connection_with_the_same_key(
    path: Path, clock: FakeClock, era: Era
) -> None:
    minute = timedelta(minutes=1)
    with listening(an_app(a_brain(path, clock=clock))) as url:
        async with client_at(url, key=KEY, era=era) as one:
            await boots(one, "Mend the parser")
            handoff = {"op": "handoff", "text": "The lexer is done.", "next_steps": ["bench it"]}
            structured(await one.call_tool("session", handoff))
            clock.move(minute)
            async with client_at(url, key=KEY, era=era) as two:
                briefing = await boots(two, "Go on")
                assert "bench it" in briefing["handoff"]["text"]
                ended = {"op": "end", "text": "The bench is done.", "next_steps": ["ship it"]}
                structured(await two.call_tool("session", ended))
        clock.move(minute)
        async with client_at(url, key=KEY, era=era) as three:
            assert "ship it" in (await boots(three, "Ship"))["handoff"]["text"]
            # The connection boots again, as after a compaction, and sees what it left itself.
            structured(await three.call_tool("session", {"op": "handoff", "text": "Shipped."}))
            assert "Shipped." in (await boots(three, "Rest"))["handoff"]["text"]


@pytest.mark.requirement("SE-34")
async def test_two_clients_of_a_running_server_list_each_others_sessions(
    running: str, era: Era
) -> None:
    async with (
        client_at(running, key="none", era=era) as one,
        client_at(running, key="none", era=era) as two,
    ):
        project = f"api-{era}"
        await boots(one, "Mend the parser", project=project)
        seen = await boots(two, "Paint the page", project=project)
        assert [peer["task"] for peer in seen["siblings"]] == ["Mend the parser"]
        assert list((await others(one, project=project)).values()) == ["Paint the page"]


@pytest.mark.requirement("SE-34")
async def test_closing_a_connection_ends_its_session(shared: tuple[Brain, str]) -> None:
    brain, url = shared
    async with client_at(url, key=KEY, era="legacy") as one:
        key = (await boots(one, "Mend the parser"))["session"]
    brain.services.journal.flush()
    with brain.services.store.snapshot(brain.caller.tenant) as tx:
        session = tx.sessions.get("ann", key)
    assert session is not None
    assert (session.ending, session.client) == (Ending.CLOSED, "codex")


async def test_client_name_sent_when_a_connection_starts_is_listed_for_its_session(
    shared: tuple[Brain, str], era: Era
) -> None:
    brain, url = shared
    async with client_at(url, key=KEY, era=era, name="Codex CLI") as one:
        key = (await boots(one, "Mend the parser"))["session"]
        peers = brain.acting_as(agent="ben").session.list().sessions or ()
        name = "Codex CLI/1" if era == "auto" else "codex-cli"
        assert [(peer.session, peer.client) for peer in peers] == [(key, name)]


class _NoCookies(httpx2.AsyncClient):
    """A client that returns no cookie, as those of most languages do."""

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:  # noqa: ANN401 as given
        request.headers.pop("cookie", None)
        return await super().send(request, **options)


@pytest.mark.requirement("SE-34")
async def test_client_without_cookies_names_its_session_by_an_argument_of_each_call(
    shared: tuple[Brain, str],
) -> None:
    brain, url = shared
    headers = {"Authorization": f"Bearer {KEY}"}
    named = Implementation(name="node", version="1")
    async with _NoCookies(headers=headers, timeout=TIMEOUT_S) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, client_info=named) as client:
            for tool in (await client.list_tools()).tools:
                assert "as_session" in tool.input_schema["properties"]
            booted = await client.call_tool("boot", {"project": "api", "task": "One"})
            one = structured(booted)["session"]
            assert f"as_session {one}" in str(booted.content)
            pass_a_second(brain)
            two = (await boots(client, "Two"))["session"]
            assert await others(client, as_session=one) == {two: "Two"}
            own = {"op": "task", "text": "Still one", "as_session": one}
            structured(await client.call_tool("session", own))
            assert await others(client, as_session=two) == {one: "Still one"}
            # One that forgets to is taken for the one that booted last.
            assert await others(client) == {one: "Still one"}


async def test_clients_with_one_session_per_connection_are_offered_no_session_argument(
    url: str,
) -> None:
    async with client_at(url, key=KEY, era="legacy") as one:
        for tool in (await one.list_tools()).tools:
            assert "as_session" not in tool.input_schema["properties"]
        refused = await one.call_tool("boot", {"as_session": "s1"})
        assert "as_session" in str(refused.content)


@pytest.mark.requirement("SE-34")
def test_session_header_selects_the_session_of_a_rest_call(ann: TestClient, hosted: Hosted) -> None:
    def call(operation: str, session: str | None = None, **body: object) -> httpx2.Response:
        headers = {"Commonbrain-Session": session} if session else {}
        reply = ann.post(f"/v1/{operation}", json=body, headers=headers)
        assert reply.status_code == 200, reply.text
        return reply

    first = call("boot", project="api", task="One")
    one = first.headers["Commonbrain-Session"]
    assert first.json()["session"] == one
    pass_a_second(hosted.brain)
    second = call("boot", project="api", task="Two").json()
    assert [peer["session"] for peer in second["siblings"]] == [one]
    call("session", one, op="task", text="Still one")
    listed = call("session", second["session"], op="list").json()["sessions"]
    assert [(peer["session"], peer["task"]) for peer in listed] == [(one, "Still one")]
    # A program that names none goes on where it booted last.
    assert call("session", op="list").json()["session"] == second["session"]


@pytest.mark.requirement("SE-34", "SE-38")
def test_rest_call_must_name_the_session_that_it_ends(ann: TestClient) -> None:
    booted = ann.post("/v1/boot", json={"project": "api", "task": "One"}).json()["session"]
    for is_booted in (True, False):
        client = "testclient" if is_booted else "other/1.0"
        unnamed = {"User-Agent": client}
        refused = ann.post("/v1/session", json={"op": "end"}, headers=unnamed)
        assert (refused.status_code, refused.json()["code"]) == (422, "session_unnamed")
        key = booted if is_booted else "http_other"
        assert f"Commonbrain-Session: {key} " in refused.json()["hint"]
        named = {**unnamed, "Commonbrain-Session": key}
        assert ann.post("/v1/session", json={"op": "end"}, headers=named).status_code == 200


@pytest.mark.requirement("SE-34")
def test_calls_without_a_session_have_separate_sessions_per_credential(path: Path) -> None:
    callers = {
        f"key-{number}": Caller(
            agent="ann",
            role=Role.WRITER,
            admission=Admission(credential=f"prefix-{number}", role=Role.WRITER),
        )
        for number in (1, 2)
    }
    resource = ProtectedResource(url="http://127.0.0.1:8377")
    app = make_app(a_brain(path), KeyRing(callers), resource=resource)
    with calling(app, "key-1") as client:

        def session(number: int, operation: str, **body: str) -> str:
            credential = {"Authorization": f"Bearer key-{number}"}
            return client.post(f"/v1/{operation}", json=body, headers=credential).json()["session"]

        first = session(1, "boot", project="api")
        assert session(1, "session", op="list") == first
        own = session(2, "session", op="list")
        second = session(2, "boot", project="api")
        assert len({first, own, second}) == 3
        assert session(1, "session", op="list") == first


def test_call_begins_one_transaction_with_and_without_a_named_session(path: Path) -> None:
    brain = a_brain(path)
    assert isinstance(brain.services.store, SqlStore)
    begun: list[object] = []
    with calling(an_app(brain)) as client:
        named = {"Commonbrain-Session": client.post("/v1/boot", json={}).json()["session"]}
        brain.services.journal.flush()
        event.listen(brain.services.store.dialect.engine, "begin", begun.append)
        counts: list[int] = []
        for headers in (named, {}, {"User-Agent": "other"}):
            before = len(begun)
            reply = client.post("/v1/session", json={"op": "tasks"}, headers=headers)
            assert reply.status_code == 200
            counts.append(len(begun) - before)
    assert counts == [1, 1, 1]


def test_all_calls_of_a_program_without_a_boot_share_one_session(
    ann: TestClient,
) -> None:
    keys = {ann.post("/v1/session", json={"op": "list"}).json()["session"] for _ in range(3)}
    assert keys == {"http_testclient"}


@pytest.mark.requirement("SE-34")
async def test_idle_session_is_not_listed_after_the_configured_time_until_its_next_call(
    path: Path, clock: FakeClock, era: Era
) -> None:
    brain = a_brain(path, clock=clock)
    idle = brain.services.http_session_idle
    with listening(an_app(brain)) as url:
        async with client_at(url, key=KEY, era=era) as one, client_at(url, key=KEY) as two:
            key = (await boots(one, "Mend the parser"))["session"]
            brain.services.journal.flush()
            clock.move(idle - timedelta(seconds=1))
            assert key in await others(two, project="api")
            clock.move(timedelta(seconds=1))
            assert key not in await others(two, project="api")
            # A later call takes it up again, with its task.
            clock.move(timedelta(seconds=1))
            await others(one)
            brain.services.journal.flush()
            assert (await others(two, project="api"))[key] == "Mend the parser"


@pytest.mark.requirement("DM-35")
async def test_branch_and_model_sent_over_mcp_or_rest_are_listed_with_the_session(url: str) -> None:
    key = {"Authorization": f"Bearer {KEY}"}
    async with client_at(url, key=KEY) as one, httpx2.AsyncClient(headers=key) as http:
        about = {"branch": "fix/parser", "model": "opus"}
        given = {"project": "api", "metadata": about}
        first = structured(await one.call_tool("boot", given))["session"]
        sent = {"project": "api", "metadata": {"model": "gpt"}}
        second = (await http.post(f"{url}/v1/boot", json=sent)).json()
        assert [peer["note"] for peer in second["siblings"]] == ["branch fix/parser, model opus"]
        changed = {"op": "task", "metadata": {"branch": "main"}}
        structured(await one.call_tool("session", changed))
        listed = (await http.post(f"{url}/v1/session", json={"op": "list"})).json()["sessions"]
        assert [(peer["session"], peer["metadata"]) for peer in listed] == [
            (first, {"branch": "main", "model": "opus"})
        ]


def test_two_agents_with_the_same_session_name_have_separate_sessions(ann: TestClient) -> None:
    headers = {"Commonbrain-Session": "s1"}
    note = {"op": "note", "key": "at", "text": "line 7"}
    assert ann.post("/v1/session", json=note, headers=headers).status_code == 200
    theirs = {**headers, "Authorization": "Bearer key-of-ben"}
    read = ann.post("/v1/session", json={"op": "notes"}, headers=theirs)
    assert json.loads(read.content)["notes"] == []
