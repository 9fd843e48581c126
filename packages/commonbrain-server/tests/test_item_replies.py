"""Up to 100 items in one call of remember, each with its own result, on MCP and REST."""

from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.serving import client_at

ITEMS: list[dict[str, Any]] = [
    {"text": "Tea is at noon", "kind": "fact", "tags": ["tea"]},
    {"text": "", "kind": "fact"},
    {"text": "Boil it twice", "kind": "gossip"},
    {"text": "The pot is old", "colour": "red"},
    {"text": "The pot is blue", "confidence": "sure"},
    {"text": "Everybody drinks tea", "scope": "global"},
    {"text": "The pot leaks", "trust": "certain"},
    {"text": "The pot is from Delft", "derived_from": ["mem_0000000000000"]},
    {"text": "The pot was bought in May", "since": "May"},
    {"text": "Never boil it twice", "kind": "rule", "severity": "BLOCKER"},
]
CODES = [
    None,
    "gate_headline",
    "gate_kind",
    "invalid",
    "invalid",
    "scope_denied",
    "invalid",
    "not_found",
    "invalid",
    None,
]


def results(reply: dict[str, Any]) -> list[str | None]:
    """Each item's code, or None if it was stored."""
    return [one.get("code") if one["status"] != "stored" else None for one in reply["items"]]


@pytest.mark.requirement("WP-28")
def test_remember_over_rest_returns_one_result_per_item(ann: TestClient) -> None:
    reply = ann.post("/v1/remember", json={"items": ITEMS, "project": "kitchen"})

    assert reply.status_code == 200, reply.text
    assert results(reply.json()) == CODES
    assert all(one["hint"] for one in reply.json()["items"] if one["status"] == "rejected")
    items = ann.post("/v1/recall", json={"project": "kitchen"}).json()["items"]
    # A BLOCKER by a writer's key waits for a person.
    assert [one["body"] for one in items] == ["Tea is at noon"]


@pytest.mark.requirement("WP-28")
async def test_remember_over_mcp_returns_one_result_per_item(url: str) -> None:
    async with client_at(url, key="key-of-ann") as client:
        reply = await client.call_tool("remember", {"items": ITEMS})

    assert not reply.is_error, reply.content
    assert reply.structured_content is not None
    assert results(reply.structured_content) == CODES
    assert str(reply.content).count("rejected") == len(CODES) - 2


def test_arguments_of_the_call_are_the_defaults_of_its_items(ann: TestClient) -> None:
    items = [{"text": "Tea is at noon"}, {"text": "Coffee is at two", "project": "office"}]
    ann.post("/v1/remember", json={"items": items, "kind": "event", "project": "kitchen"})

    recalled = ann.post("/v1/recall", json={}).json()["items"]
    assert {(one["body"], one["kind"], one["project"]) for one in recalled} == {
        ("Tea is at noon", "event", "kitchen"),
        ("Coffee is at two", "event", "office"),
    }


@pytest.mark.parametrize(
    ("given", "status", "code"),
    [
        ({}, 422, "invalid"),
        ({"text": "Tea", "items": [{"text": "Tea"}]}, 422, "invalid"),
        ({"items": [{"text": f"Cup {one}"} for one in range(101)]}, 403, "limit_exceeded"),
        ({"items": [{"text": "Tea"}], "colour": "red"}, 422, "invalid"),
    ],
)
def test_call_with_an_error_outside_its_items_is_refused_and_stores_nothing(
    ann: TestClient, given: dict[str, Any], status: int, code: str
) -> None:
    reply = ann.post("/v1/remember", json=given)

    assert (reply.status_code, reply.json()["code"]) == (status, code)
    assert ann.post("/v1/recall", json={}).json()["items"] == []


def test_repeated_idempotency_key_with_the_same_items_returns_the_first_reply(
    ann: TestClient,
) -> None:
    given = {"items": ITEMS[:1], "idempotency_key": "once"}
    first = ann.post("/v1/remember", json=given).json()

    assert ann.post("/v1/remember", json=given).json()["items"] == first["items"]
    other = ann.post("/v1/remember", json=given | {"items": [{"text": "Other tea"}]})
    assert other.json()["code"] == "idempotency_conflict"
