"""Faults inside a server are logged without a caller's words, hidden from callers, and outlived."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

import httpx2
import pytest
from commonbrain_server.http import problems

from commonbrain.api.thread_limiter import enter_lane
from commonbrain.model.errors import UnavailableError
from commonbrain.model.scope import Caller
from commonbrain.observability.logs import JsonLinesFormatter
from commonbrain.testing.builders import WordHashEmbedder, a_brain
from tests.serving import an_app, calling, listening

WORDS = "the passage behind the bookcase"


class Broken(WordHashEmbedder):
    """Has a fault that repeats what it was given."""

    def query(self, text: str) -> Any:  # noqa: ANN401 as the stand-in has it
        raise ValueError(text)

    def vectors(self, windows: Sequence[list[str]]) -> Any:  # noqa: ANN401 as the stand-in has it
        raise ValueError(windows)


@dataclass
class Down(WordHashEmbedder):
    """Cannot be reached, and says where, until it is back."""

    is_back: bool = False

    def query(self, text: str) -> Any:  # noqa: ANN401 as the stand-in has it
        if self.is_back:
            return super().query(text)
        raise UnavailableError("No answer from 10.1.2.3:5432.", code="embedder_down")


def test_internal_error_is_logged_without_text_of_the_caller(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with listening(an_app(a_brain(path, embedder=Broken()))) as url:
        reply = httpx2.post(
            f"{url}/v1/remember",
            json={"text": WORDS, "kind": "fact"},
            headers={"Authorization": "Bearer key-of-ann"},
        )
        assert reply.status_code == 500
        assert reply.json()["code"] == "internal"
    assert WORDS not in reply.text
    failed = [one for one in caplog.records if one.getMessage() == "a request failed"]
    assert '"error": "ValueError"' in JsonLinesFormatter().format(failed[0])
    assert WORDS not in JsonLinesFormatter().format(failed[0])
    assert not [one for one in caplog.records if one.name == "uvicorn.error"]


def test_readiness_reply_contains_no_address(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with calling(an_app(a_brain(path, embedder=Down())), None) as client:
        reply = client.get("/readyz")
    assert (reply.status_code, reply.json()["code"]) == (503, "embedder_down")
    assert "10.1.2.3" not in reply.text
    assert "10.1.2.3" in caplog.text


@dataclass
class Hanging(WordHashEmbedder):
    """Answers once it may."""

    may_answer: Event = field(default_factory=Event)

    def query(self, text: str) -> Any:  # noqa: ANN401 as the stand-in has it
        self.may_answer.wait()
        return super().query(text)


async def test_readiness_that_others_ask_for_too_is_no_limit_of_the_caller_before(
    path: Path,
) -> None:
    embedder = Hanging()
    app = an_app(a_brain(path, embedder=embedder))
    transport = httpx2.ASGITransport(app=app)
    # As with asyncio's own loop, where a request can begin in the context of the one before.
    enter_lane(Caller(agent="ann"))
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1:8377") as client,
    ):
        replies = await asyncio.gather(*[client.get("/readyz") for _ in range(3)])
        embedder.may_answer.set()
    assert [one.status_code for one in replies] == [503] * 3


def test_log_has_one_line_when_a_server_is_not_ready_and_one_when_it_recovers(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    embedder = Down()
    caplog.set_level(logging.WARNING)
    with calling(an_app(a_brain(path, embedder=embedder)), None) as client:
        statuses = [client.get("/readyz").status_code for _ in range(5)]
        embedder.is_back = True
        statuses += [client.get("/readyz").status_code for _ in range(3)]
    assert statuses == [503] * 5 + [200] * 3
    # The writer of an earlier test's store may still say what it lost.
    messages = [one.getMessage() for one in caplog.records if one.name == problems.__name__]
    assert [one.partition(":")[0] for one in messages] == ["not ready", "ready again"]


@pytest.mark.requirement("OB-01")
def test_callers_do_not_see_the_address_of_an_unreachable_store(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    brain = a_brain(path)
    call = {"name": "status", "arguments": {"health": True}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    with calling(an_app(brain)) as client:
        client.headers["Accept"] = "application/json, text/event-stream"
        assert client.get("/readyz").is_success
        brain.services.store.close()
        replies = [client.post("/v1/status"), client.post("/mcp", json=message)]
    assert replies[0].status_code == 503
    assert all("store_down" in one.text for one in replies)
    assert not [one for one in replies if str(path) in one.text]
    # Who runs the server is told, once.
    assert caplog.text.count(f"not ready: store_down: The store {path}") == 1
