"""The routes `/v0/memory` take and give the bodies of Brainstem."""

from dataclasses import replace
from typing import Any

import pytest
from commonbrain_server.http.app import make_app
from commonbrain_server.http.authentication import ProtectedResource
from commonbrain_server.tenants import AgentRequest, KeyRequest, admin_of, tenants_of
from httpx2 import Response
from starlette.testclient import TestClient

from commonbrain.client import Brain
from commonbrain.model.scope import Role, Trust
from tests.guarded import an_access
from tests.serving import calling

REMEMBER: dict[str, Any] = {
    "agent_id": "ann",
    "scope": "team",
    "items": [
        {
            "type": "fact",
            "text": "The bakery must open before the April market.",
            "source_ref": "trace_17",
            "trust_level": "trusted_tool",
        }
    ],
    "idempotency_key": "6f2c1f7e-1d1b-4c4a-9b0e-3f0f6a1c2d11",
}
RECALL: dict[str, Any] = {
    "agent_id": "ann",
    "query": "When must the bakery open?",
    "scope": "team",
    "budget": {"max_items": 12, "max_tokens": 1400},
    "filters": {"trust_min": 0.5, "types": ["fact", "episode", "policy"]},
}


SPECIFIED_WRITE: dict[str, Any] = {
    "tenant_id": "t_123",
    "agent_id": "a_ops",
    "scope": "team",
    "items": [
        {
            "type": "event",
            "text": "User requires migration completion before April planning cycle.",
            "source_ref": "trace_8742",
            "trust_level": "trusted_tool",
        }
    ],
    "idempotency_key": "f6f8f2dd-5d78-4ec4-bfc5-d6ab6e7dc64b",
}
SPECIFIED_RECALL: dict[str, Any] = {
    "tenant_id": "t_123",
    "agent_id": "a_planner",
    "query": "What constraints did the user give for migration?",
    "scope": "team",
    "budget": {"max_items": 12, "max_tokens": 1400},
    "filters": {"trust_min": 0.5, "types": ["fact", "episode", "policy"]},
}
"""The sample bodies of Brainstem's specification."""


def written(client: TestClient, *items: dict[str, Any], **more: object) -> dict[str, Any]:
    reply = client.post("/v0/memory/remember", json={**more, "items": list(items)})
    assert reply.status_code == 200, reply.text
    return reply.json()


@pytest.mark.requirement("DO-10")
def test_brainstem_client_recalls_the_memory_that_it_stored(ann: TestClient, tenant: str) -> None:
    named = {"tenant_id": tenant}
    stored = ann.post("/v0/memory/remember", json=REMEMBER | named).json()
    again = ann.post("/v0/memory/remember", json=REMEMBER | named).json()
    recalled = ann.post("/v0/memory/recall", json=RECALL | named).json()

    assert (stored["accepted"], stored["rejected"], stored["warnings"]) == (1, 0, [])
    assert again == stored
    [item] = recalled["items"]
    [id_] = stored["memory_ids"]
    assert (item["memory_id"], item["type"]) == (id_, "fact")
    assert item["text"] == REMEMBER["items"][0]["text"]
    assert item["source_ref"] == "trace_17"
    assert 0 < item["confidence"] <= 1
    assert 0 < item["salience"] <= 1
    assert 0 < recalled["composed_tokens_estimate"] <= 1400
    assert recalled["conflicts"] == []
    assert recalled["confidence"]["lowest"] == item["confidence"]
    assert recalled["trace_id"].startswith("trc_")


@pytest.mark.requirement("DO-10")
def test_recall_filters_by_type_and_policy_is_one_of_the_types(ann: TestClient) -> None:
    reply = written(
        ann,
        {"type": "policy", "text": "Never sell yesterday's bread as fresh bread."},
        {"type": "event", "text": "The bread oven was repaired today."},
        {"type": "fact", "text": "The bread oven holds forty loaves of bread."},
    )
    assert reply["accepted"] == 3

    recalled = ann.post("/v0/memory/recall", json={**RECALL, "query": "bread"}).json()
    assert {one["type"] for one in recalled["items"]} == {"policy", "fact"}
    only = {**RECALL, "query": "bread", "filters": {"types": ["event"]}}
    [event] = ann.post("/v0/memory/recall", json=only).json()["items"]
    assert event["memory_id"] == reply["memory_ids"][1]


@pytest.mark.requirement("DO-10")
def test_refused_items_are_counted_and_named_by_index_in_the_warnings(ann: TestClient) -> None:
    reply = written(
        ann,
        {"type": "fact", "text": "The mill is by the river."},
        {"type": "fact", "text": "The mill grinds rye.", "scope": "global"},
        {"type": "gossip", "text": "The miller is late."},
        {"text": "The miller is Ada.", "colour": "red"},
        {"type": "fact", "text": "The mill closes at five."},
    )

    assert (reply["accepted"], reply["rejected"], len(reply["memory_ids"])) == (2, 3, 2)
    assert [one.partition(":")[0] for one in reply["warnings"]] == [
        "items[1]",
        "items[2]",
        "items[3]",
    ]
    assert "scope_denied" in reply["warnings"][0]
    assert "colour" in reply["warnings"][2]


@pytest.mark.requirement("DO-10", "ST-04")
@pytest.mark.parametrize(
    ("claim", "code"),
    [({"tenant_id": "t_other"}, "tenant_mismatch"), ({"agent_id": "ben"}, "agent_mismatch")],
)
def test_request_for_a_tenant_or_agent_other_than_that_of_the_key_is_refused(
    ann: TestClient, claim: dict[str, str], code: str
) -> None:
    [id_] = written(ann, {"text": "The mill is by the river."})["memory_ids"]
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("POST", "/v0/memory/remember", {"json": {**REMEMBER, **claim}}),
        ("POST", "/v0/memory/recall", {"json": {**RECALL, **claim}}),
        ("POST", "/v0/memory/reflect", {"json": claim}),
        ("GET", f"/v0/memory/{id_}", {"params": claim}),
        ("DELETE", f"/v0/memory/{id_}", {"params": claim}),
    ]
    for method, path, body in calls:
        refused = ann.request(method, path, **body)
        assert (refused.status_code, refused.json()["code"]) == (403, code), path
    assert not ann.get(f"/v0/memory/{id_}").json()["is_tombstoned"]
    assert len(ann.post("/v0/memory/recall", json={}).json()["items"]) == 1


@pytest.mark.requirement("DO-10")
def test_memory_is_returned_with_provenance_revisions_and_policy(
    ann: TestClient, tenant: str
) -> None:
    [id_] = ann.post("/v0/memory/remember", json=REMEMBER).json()["memory_ids"]
    shown = ann.get(f"/v0/memory/{id_}", params={"tenant_id": tenant, "agent_id": "ann"})
    one = shown.json()

    assert (one["memory_id"], one["tenant_id"], one["agent_id"]) == (id_, tenant, "ann")
    assert (one["type"], one["scope"], one["trust_level"]) == ("fact", "team", "trusted_tool")
    assert [change["action"] for change in one["revisions"]] == ["create"]
    assert one["policy"]["seen_by"]
    assert one["provenance"] is not None
    assert ann.get(f"/v0/memory/{id_}", params={"colour": "red"}).status_code == 422

    def is_known(reply: Response) -> bool:
        tag = {"If-None-Match": reply.headers["ETag"]}
        return ann.get(f"/v0/memory/{id_}", headers=tag).status_code == 304

    # What a read counts is written later, and may be between two of them.
    assert any(is_known(ann.get(f"/v0/memory/{id_}")) for _ in range(5))


@pytest.mark.requirement("DO-10", "JB-02")
@pytest.mark.parametrize("model_kind", ["reranker", "salience"])
def test_train_request_queues_a_training_job_for_the_named_model(
    ann: TestClient, tenant: str, model_kind: str
) -> None:
    body = {"tenant_id": tenant, "agent_id": "ada", "model_kind": model_kind}
    ada = {"Authorization": "Bearer key-of-ada"}
    job = ann.post("/v0/memory/train", json=body, headers=ada).json()

    assert (job["kind"], job["state"]) == (f"train_{model_kind}", "queued")


def test_body_of_another_shape_is_refused_with_422(
    ann: TestClient, subtests: pytest.Subtests
) -> None:
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("remember", {"text": "The mill is by the river."}),
        ("remember", {"items": []}),
        ("recall", {"query": "mill", "max_items": 3}),
        ("recall", {"query": "mill", "filters": {"kinds": ["fact"]}}),
    ]
    for route, body in bodies:
        with subtests.test(route=route, body=body):
            assert ann.post(f"/v0/memory/{route}", json=body).status_code == 422


@pytest.mark.requirement("DO-10", "DO-26")
def test_sample_bodies_of_the_specification_work_as_they_are(brain: Brain) -> None:
    tenants_of(brain).make("t_123")
    admin = admin_of(Brain(brain.services, replace(brain.caller, tenant="t_123")))
    admin.set_agent("a_ops", AgentRequest(role=Role.WRITER, trust_ceiling=Trust.TRUSTED_TOOL))
    keys = {
        name: str(admin.create_key(KeyRequest(agent=name, role=Role.WRITER)).text)
        for name in ("a_ops", "a_planner")
    }
    ops, planner = ({"Authorization": f"Bearer {key}"} for key in keys.values())
    resource = ProtectedResource(url="http://127.0.0.1:8377")
    with calling(make_app(brain, an_access(brain), resource=resource), key=None) as client:
        stored = client.post("/v0/memory/remember", json=SPECIFIED_WRITE, headers=ops).json()
        facts = client.post("/v0/memory/recall", json=SPECIFIED_RECALL, headers=planner).json()
        filters = {"filters": {"trust_min": 0.5, "types": ["event"]}}
        events = client.post(
            "/v0/memory/recall", json=SPECIFIED_RECALL | filters, headers=planner
        ).json()
        [id_] = stored["memory_ids"]
        named = {"tenant_id": "t_123", "agent_id": "a_planner"}
        shown = client.get(f"/v0/memory/{id_}", params=named, headers=planner).json()

    assert stored == {"accepted": 1, "rejected": 0, "memory_ids": [id_], "warnings": []}
    assert (facts["items"], facts["conflicts"]) == ([], [])
    [event] = events["items"]
    assert (event["memory_id"], event["source_ref"]) == (id_, "trace_8742")
    assert (shown["tenant_id"], shown["agent_id"]) == ("t_123", "a_ops")
    assert shown["trust_level"] == "trusted_tool"


@pytest.mark.requirement("DO-26")
def test_json_payload_is_returned_as_it_was_stored(ann: TestClient) -> None:
    payload = {"ticket": "OPS-7", "owners": ["ada", None], "window": {"days": 3, " note ": " x "}}
    plain, full = (
        {"type": "event", "text": text, "json_payload": given}
        for text, given in (("The mill was cleaned.", None), ("The mill was painted.", payload))
    )
    reply = written(ann, plain, full)
    shown = [ann.get(f"/v0/memory/{id_}").json() for id_ in reply["memory_ids"]]

    assert [one["json_payload"] for one in shown] == [None, payload]
    assert "importance" in shown[0]["detail"]
