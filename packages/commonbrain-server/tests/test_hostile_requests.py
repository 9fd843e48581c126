"""Requests made to hurt: they are refused before they cost much, and they count as calls."""

import json
from collections.abc import Iterator
from dataclasses import replace
from secrets import token_hex
from typing import Any

import pytest
from starlette.testclient import TestClient

from commonbrain.model.limits import ARGUMENT_DEPTH_MAX, LIST_VALUES_MAX
from commonbrain.model.scope import Admission, Policy, Role
from commonbrain.testing.builders import a_brain
from tests.serving import CALLERS, KeyRing, an_app, calling

CALLS = 5
LIMITED = Admission(
    credential="00000001", role=Role.WRITER, policy=Policy(key_calls_per_minute=CALLS)
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[TestClient, KeyRing]]:
    path = tmp_path_factory.mktemp("limited") / "brain.db"
    keys = KeyRing()
    with calling(an_app(a_brain(path), keys=keys)) as client:
        yield client, keys


@pytest.fixture
def limited(server: tuple[TestClient, KeyRing]) -> TestClient:
    """A client that may call five times a minute, by a credential that was not used before."""
    client, keys = server
    admission = replace(LIMITED, credential=token_hex(4))
    keys.callers = {"key-of-ann": replace(CALLERS["key-of-ann"], admission=admission)}
    return client


def nested(depth: int) -> Any:  # noqa: ANN401 lists of lists
    return json.loads("[" * depth + "]" * depth)


@pytest.mark.parametrize(
    ("route", "body", "message"),
    [
        ("recall", {"query": "x", "tags": [1] * 300_000}, "A list has 300000 values"),
        ("recall", {"query": "x", "tags": ["a"] * (LIST_VALUES_MAX + 1)}, "A list has 1001"),
        ("remember", {"items": [{"tags": [1] * 900}] * 100}, "more than 20000 values"),
        ("remember", {"text": "x", "tags": nested(ARGUMENT_DEPTH_MAX + 1)}, "nested more than"),
    ],
)
def test_too_many_or_too_deeply_nested_values_are_refused_before_validation(
    ann: TestClient, route: str, body: dict[str, Any], message: str
) -> None:
    reply = ann.post(f"/v1/{route}", json=body)

    assert reply.status_code == 422
    assert reply.json()["code"] == "limit_exceeded"
    assert message in reply.json()["detail"]
    assert "errors" not in reply.json()


def test_refusal_lists_twenty_invalid_fields_and_counts_the_others(ann: TestClient) -> None:
    reply = ann.post("/v1/recall", json={"query": "x", "tags": [1] * 500})

    assert reply.status_code == 422
    assert len(reply.json()["errors"]) == 20
    assert "480 more errors" in reply.json()["detail"]


@pytest.mark.requirement("ST-08")
@pytest.mark.parametrize(
    ("route", "body"),
    [
        ("/v1/recall", b"{"),
        ("/v1/recall", b'{"tags": 1}'),
        ("/v1/recall", b'{"nothing": 1}'),
        ("/v1/nothing", b"{}"),
        ("/mcp", b"{}"),
        ("/mcp", b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "?"}}'),
    ],
)
def test_refused_requests_count_against_the_rate_limit(
    limited: TestClient, route: str, body: bytes
) -> None:
    replies = [limited.post(route, content=body, headers=JSON) for _ in range(CALLS + 2)]

    statuses = [reply.status_code for reply in replies]
    assert 429 not in statuses[: CALLS + 1]
    assert statuses[CALLS + 1] == 429
    blocked = limited.post("/v1/recall", json={"query": "x"})
    assert blocked.status_code == 429
    assert blocked.headers["connection"] == "close"


JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}


def test_each_call_counts_once_against_the_rate_limit(limited: TestClient) -> None:
    replies = [limited.post("/v1/recall", json={"query": "x"}) for _ in range(CALLS + 1)]

    assert [reply.status_code for reply in replies] == [200] * CALLS + [429]


def test_attachment_with_many_values_within_the_byte_limit_is_stored(ann: TestClient) -> None:
    body = {"text": "The vector of the logo.", "attachment": {"vector": [0.25] * 5000}}

    assert ann.post("/v1/remember", json=body).status_code == 200
