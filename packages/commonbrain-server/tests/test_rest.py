"""REST: every operation by its own path, errors as Problem Details, and what HTTP adds."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from commonbrain_server.http.app import BodyLimits
from commonbrain_server.http.rest import SERVED
from starlette.testclient import TestClient

from commonbrain.testing.builders import a_brain
from tests.serving import ISSUER, an_app, calling

KETTLE = "The kettle is in the blue cupboard."


def as_key(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def remembered(client: TestClient, text: str = KETTLE) -> str:
    reply = client.post("/v1/remember", json={"text": text, "kind": "fact"})
    assert reply.status_code == 200, reply.text
    return reply.json()["items"][0]["id"]


def test_attachment_is_returned_exactly_and_inherited_by_a_new_version(ann: TestClient) -> None:
    exact: dict[str, Any] = {" a ": [1.5, 10**30, None, True, "", " x é \r\n", {}, []]}
    item: dict[str, Any] = {"text": KETTLE, "kind": "fact", "attachment": exact}
    id_ = ""
    for given in (item, {"items": [{**item, "text": "Tea is green"}]}):
        [stored] = ann.post("/v1/remember", json=given).json()["items"]
        id_ = stored["id"]
        assert ann.get(f"/v1/memories/{id_}").json()["attachment"] == exact
    change = {"op": "supersede", "id": id_, "reason": "new", "text": "Tea is black"}
    successor = ann.post("/v1/revise", json=change).json()["id"]
    assert ann.get(f"/v1/memories/{successor}").json()["attachment"] == exact
    change |= {"id": successor, "text": "Tea is red", "attachment": {"n": 3}}
    changed = ann.post("/v1/revise", json=change).json()["id"]
    assert ann.get(f"/v1/memories/{changed}").json()["attachment"] == {"n": 3}


def is_problem(reply: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/problem+json"
    body = reply.json()
    assert {"status": body["status"], "code": body["code"]} == {"status": status, "code": code}
    assert body["type"] == f"urn:commonbrain:{code}"
    assert body["title"]
    assert body["detail"]
    return body


@pytest.mark.requirement("DO-09")
def test_every_operation_answers_on_its_path_with_its_reply_type(ann: TestClient) -> None:
    ann.headers.update(as_key("key-of-ada"))
    id_ = remembered(ann)
    calls: dict[str, dict[str, Any]] = {
        "boot": {"project": "api"},
        "remember": {"text": "Ann is off on Fridays."},
        "recall": {"query": "where is the kettle?"},
        "list": {"facets": True},
        "get": {"id": [id_], "views": ["history"]},
        "revise": {"op": "rate", "id": id_, "value": "up"},
        "trace": {"op": "provenance", "id": id_},
        "session": {"op": "list"},
        "message": {"op": "inbox"},
        "skill": {},
        "status": {"review": True},
        "review": {},
        "job": {"op": "list"},
        "admin": {"op": "usage"},
        "bulk": {"op": "pin", "ids": [id_]},
        "model": {"op": "list"},
        "recalls": {},
        "why_failed": {"text": "E   ValueError: the order has no customer"},
        "audit": {"limit": 5},
        "reflect": {"dry_run": True},
        "forget": {"ids": [id_], "reason": "Nobody asks."},
    }
    assert set(calls) == {operation.name for operation in SERVED}
    for operation in SERVED:
        reply = ann.post(f"/v1/{operation.name}", json=calls[operation.name])
        assert reply.status_code == 200, (operation.name, reply.text)
        read = operation.reply_adapter.validate_python(reply.json())
        assert operation.to_json(read).keys() == reply.json().keys()


def test_openapi_description_lists_every_operation_and_every_error(ann: TestClient) -> None:
    described = ann.get("/openapi.json").json()
    for operation in SERVED:
        entry = described["paths"][f"/v1/{operation.name}"]["post"]
        assert entry["summary"] == operation.title
        assert operation.purpose in entry["description"]
        assert entry["security"]
        assert {"200", "401", "403", "404", "422", "503"} <= set(entry["responses"])
    assert described["components"]["schemas"]["Problem"]["properties"]["hint"]


def test_invalid_request_is_answered_with_a_problem_code_and_a_hint(
    ann: TestClient, subtests: pytest.Subtests
) -> None:
    requests: list[tuple[str, str, Any, int, str]] = [
        ("POST", "/v1/recall", {"qery": "kettle"}, 422, "invalid"),
        ("POST", "/v1/recall", {"query": "kettle", "max_items": 0}, 403, "limit_exceeded"),
        ("POST", "/v1/get", {"id": ["mem_0000000000000"]}, 404, "not_found"),
        ("POST", "/v1/get", {"id": ""}, 422, "invalid"),
        ("GET", "/v1/memories/mem_0000000000000", None, 404, "not_found"),
        ("GET", "/v1/dream", None, 404, "no_such_path"),
        ("GET", "/v1/recall", None, 405, "method_not_allowed"),
        ("GET", "/mcp", None, 405, "method_not_allowed"),
    ]
    for method, where, body, status, code in requests:
        with subtests.test(method=method, where=where, body=body):
            problem = is_problem(ann.request(method, where, json=body), status, code)
            assert problem["hint"]


def test_error_for_an_invalid_field_names_the_field_without_its_value(ann: TestClient) -> None:
    given = {"text": KETTLE, "confidence": "password-123"}
    problem = is_problem(ann.post("/v1/remember", json=given), 422, "invalid")
    assert [one["field"] for one in problem["errors"]] == ["body.confidence"]
    assert "password-123" not in str(problem)


def test_body_that_is_not_json_is_refused_with_400(ann: TestClient) -> None:
    sent = ann.post("/v1/recall", content=b"{", headers={"Content-Type": "application/json"})
    is_problem(sent, 400, "invalid")


def test_request_without_a_valid_credential_is_refused_with_401(path: Path) -> None:
    with calling(an_app(a_brain(path), issuer=ISSUER), None) as client:
        described = client.get("/openapi.json").json()["paths"]
        open_to_all = {"/healthz", "/readyz"}
        for where, methods in described.items():
            for method in methods if where not in open_to_all else ():
                # What is wrong with the body is not told to strangers either.
                reply = client.request(method, where.replace("{id}", "x"), json={"no": "field"})
                is_problem(reply, 401, "missing_credential")
                assert reply.headers["WWW-Authenticate"].startswith("Bearer resource_metadata=")
        refusal = client.post("/mcp", json={}, headers=as_key("key-of-nobody"))
        is_problem(refusal, 401, "invalid_credential")
        challenge = refusal.headers["WWW-Authenticate"]
        assert challenge.startswith('Bearer error="invalid_token", resource_metadata="http')
        where = challenge.rpartition('resource_metadata="')[2].rstrip('"')
        assert client.get(where).json() == {
            "resource": "http://127.0.0.1:8377/mcp",
            "resource_name": "Commonbrain",
            "authorization_servers": [ISSUER],
            "bearer_methods_supported": ["header"],
        }


def test_key_can_be_sent_in_the_x_api_key_header(ann: TestClient) -> None:
    del ann.headers["Authorization"]
    assert ann.post("/v1/status", headers={"X-API-Key": "key-of-rea"}).status_code == 200


def test_acting_agent_is_determined_by_the_credential_alone(ann: TestClient) -> None:
    id_ = remembered(ann)
    memory = ann.get(f"/v1/memories/{id_}", headers={"User-Agent": "ben/1"}).json()
    assert (memory["agent"], memory["session"]) == ("ann", "http_testclient")
    mine = {"text": "Ben claims this.", "agent": "ben"}
    is_problem(ann.post("/v1/remember", json=mine), 422, "invalid")


def test_reader_can_read_but_not_write(ann: TestClient) -> None:
    id_ = remembered(ann)
    reader = as_key("key-of-rea")
    assert ann.get(f"/v1/memories/{id_}", headers=reader).status_code == 200
    for operation in SERVED:
        if not operation.is_read_only and operation.name != "boot":
            body = {"text": "x"} if operation.name == "remember" else {"op": "list"}
            body = {"ids": [id_], "reason": "x"} if operation.name == "forget" else body
            body = {"op": "rate", "id": id_, "value": "up"} if operation.name == "revise" else body
            body = {"op": "inbox"} if operation.name == "message" else body
            body = {"op": "usage"} if operation.name == "admin" else body
            body = {"op": "pin", "ids": [id_]} if operation.name == "bulk" else body
            body = {"dry_run": True} if operation.name == "reflect" else body
            reply = ann.post(f"/v1/{operation.name}", json=body, headers=reader)
            is_problem(reply, 403, "insufficient_role")


def test_memory_of_a_tenant_is_not_found_by_another_tenant(ann: TestClient) -> None:
    id_ = remembered(ann)
    other = as_key("key-of-zoe")
    is_problem(ann.get(f"/v1/memories/{id_}", headers=other), 404, "not_found")
    is_problem(ann.delete(f"/v0/memory/{id_}", headers=other), 404, "not_found")
    results = ann.post("/v1/recall", json={"query": KETTLE}, headers=other).json()
    assert (results["items"], results["verdict"]) == ([], "nothing_stored")
    assert ann.post("/v1/status", headers=other).json()["memories"] == 0


def test_repeated_idempotency_key_stores_once(ann: TestClient) -> None:
    once = {"Idempotency-Key": "k1"}
    first = ann.post("/v1/remember", json={"text": KETTLE}, headers=once).json()
    again = ann.post("/v1/remember", json={"text": KETTLE}, headers=once).json()
    assert [one["id"] for one in again["items"]] == [one["id"] for one in first["items"]]
    both = {"text": KETTLE, "idempotency_key": "k2"}
    is_problem(ann.post("/v1/remember", json=both, headers=once), 422, "invalid")
    other = ann.post("/v1/remember", json={"text": "Ann is off on Fridays."}, headers=once)
    is_problem(other, 403, "idempotency_conflict")


def test_unchanged_memory_is_answered_with_304(ann: TestClient) -> None:
    id_ = remembered(ann)
    first = ann.get(f"/v1/memories/{id_}")
    tag = first.headers["ETag"]
    same = ann.get(f"/v1/memories/{id_}", headers={"If-None-Match": f'"x", W/{tag}'})
    assert (same.status_code, same.content, same.headers["ETag"]) == (304, b"", tag)
    ann.post("/v1/revise", json={"op": "rate", "id": id_, "value": "up"})
    assert ann.get(f"/v1/memories/{id_}", headers={"If-None-Match": tag}).status_code == 200
    viewed = ann.get(f"/v1/memories/{id_}", params={"views": ["history", "links"]}).json()
    assert viewed["history"]
    assert viewed["links"] == []


def test_session_header_selects_the_session_of_a_call(ann: TestClient) -> None:
    listed = ann.post("/v1/session", json={"op": "list"}, headers={"Commonbrain-Session": "s1"})
    assert listed.json()["session"] == "s1"
    for _ in range(2):
        listed = ann.post("/v1/session", json={"op": "list"}, headers={"User-Agent": "tool/1.2 x"})
        assert listed.json()["session"] == "http_tool"
    reply = ann.post("/v1/status", headers={"Commonbrain-Session": "s" * 200})
    is_problem(reply, 422, "invalid")


@pytest.mark.requirement("DO-10")
def test_v0_routes_remember_recall_get_forget_and_reflect(ann: TestClient) -> None:
    stored = ann.post("/v0/memory/remember", json={"items": [{"text": KETTLE, "type": "fact"}]})
    [id_] = stored.json()["memory_ids"]
    results = ann.post("/v0/memory/recall", json={"query": "where is the kettle?"}).json()
    assert [one["memory_id"] for one in results["items"]] == [id_]
    assert ann.get(f"/v0/memory/{id_}").json()["text"] == KETTLE
    reply = ann.delete(f"/v0/memory/{id_}", params={"reason": "Nobody asks."})
    assert reply.json() == {"memory_id": id_, "is_tombstoned": True}
    assert ann.get(f"/v0/memory/{id_}").json()["is_tombstoned"]
    seen = ann.post("/v0/memory/reflect", json={"dry_run": True}).json()
    assert seen["preview"] == {"read": 0, "episodes": [], "candidates": [], "is_more": False}
    assert ann.post("/v0/memory/reflect", json={}).json()["job"]["kind"] == "reflect"


@pytest.mark.requirement("JB-02", "DO-10")
def test_v0_train_route_requires_an_admin_and_a_valid_lookback(ann: TestClient) -> None:
    ada = as_key("key-of-ada")
    job = ann.post("/v0/memory/train", json={"lookback_days": 14}, headers=ada).json()
    assert (job["kind"], job["state"]) == ("train_reranker", "queued")
    assert job["given"] == {"lookback_days": 14}
    request = {"op": "run", "kind": "train_reranker", "given": {"lookback_days": 14}}
    [same] = ann.post("/v1/job", json=request, headers=ada).json()["jobs"]
    assert same == job
    usual = ann.post("/v0/memory/train", json={}, headers=ada).json()
    assert ann.post("/v1/model", json={"op": "train"}, headers=ada).json()["job"] == usual["id"]
    far = ann.post("/v0/memory/train", json={"lookback_days": 181}, headers=ada)
    is_problem(far, 422, "invalid")
    is_problem(ann.post("/v0/memory/train", json={}), 403, "insufficient_role")


@pytest.mark.requirement("ST-12")
def test_foreign_origins_and_hosts_are_refused_without_cors_headers(ann: TestClient) -> None:
    for header, status, code in (
        ({"Host": "evil.example"}, 421, "host_denied"),
        ({"Host": "["}, 421, "host_denied"),
        ({"Origin": "https://evil.example"}, 403, "origin_denied"),
        ({"Origin": "null"}, 403, "origin_denied"),
        ({"Origin": "http://localhost:3000"}, 403, "origin_denied"),
        ({"Sec-Fetch-Site": "same-site"}, 403, "origin_denied"),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Dest": "document"}, 403, "origin_denied"),
    ):
        for method, path in (("POST", "/v1/status"), ("GET", "/v1/memories/x"), ("POST", "/mcp")):
            reply = ann.request(method, path, headers=header)
            is_problem(reply, status, code)
            assert "Access-Control-Allow-Origin" not in reply.headers
            assert reply.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    own = {"Origin": "http://localhost", "Sec-Fetch-Site": "same-origin"}
    fine = ann.post("/v1/status", headers=own)
    assert fine.status_code == 200
    assert fine.headers["X-Content-Type-Options"] == "nosniff"
    assert fine.headers["Cache-Control"] == "no-store"
    preflight = {"Origin": "http://localhost:9999", "Access-Control-Request-Method": "POST"}
    assert "Access-Control-Allow-Origin" not in ann.options("/v1/status", headers=preflight).headers


def test_oversized_body_is_refused_with_and_without_a_content_length(path: Path) -> None:
    app = an_app(a_brain(path), limits=BodyLimits(body_bytes_max=1024))
    with calling(app) as client:
        large = b'{"query": "' + b"x" * 2000 + b'"}'
        is_problem(client.post("/v1/recall", content=large), 413, "limit_exceeded")
        is_problem(client.post("/v1/recall", content=iter([large])), 413, "limit_exceeded")
        is_problem(client.post("/mcp", content=large), 413, "limit_exceeded")


def test_liveness_and_readiness_are_reported_without_a_key(ann: TestClient) -> None:
    del ann.headers["Authorization"]
    assert ann.get("/healthz").json() == {"status": "live"}
    assert ann.get("/readyz").json() == {"status": "ready"}


@pytest.mark.requirement("OB-15", "DM-52", "OB-14")
def test_admin_reads_the_audit_log_by_page_and_by_request_id(ann: TestClient) -> None:
    ann.headers.update(as_key("key-of-ada"))
    for number in range(3):
        text = {"text": f"Shelf {number} is for crate {number}.", "kind": "fact"}
        named = {"X-Request-Id": f"req-{number}"}
        assert ann.post("/v1/remember", json=text, headers=named).status_code == 200
    first = ann.post("/v1/audit", json={"action": "create", "limit": 2}).json()
    rest = ann.post(
        "/v1/audit", json={"action": "create", "limit": 2, "cursor": first["next"]}
    ).json()
    shown = [one["request_id"] for one in (*first["lines"], *rest["lines"])]
    assert sorted(shown) == ["req-0", "req-1", "req-2"]
    assert (first["more"], rest["next"]) == (1, None)
    [line] = ann.post("/v1/audit", json={"request_id": "req-1"}).json()["lines"]
    assert (line["agent"], line["action"]) == ("ada", "create")
    wrong = ann.post("/v1/audit", json={"cursor": first["next"]})
    is_problem(wrong, 422, "invalid")
    reader = as_key("key-of-rea")
    is_problem(ann.post("/v1/audit", json={}, headers=reader), 403, "insufficient_role")
