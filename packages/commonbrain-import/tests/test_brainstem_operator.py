"""An operator of Brainstem moves a tenant, and its agents go on with the calls of before."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from brainstem_store import fill_sqlite, memories
from commonbrain_server.http.app import make_app
from commonbrain_server.http.authentication import ProtectedResource
from commonbrain_server.tenants import KeyRequest, admin_of, tenants_of

from commonbrain.client import Brain
from commonbrain.model.scope import Role
from tests.guarded import a_guarded_brain, an_access
from tests.serving import calling

TENANT, AGENT = "t_77", "t_77_a_ops"
OWNER = {"tenant_id": TENANT, "agent_id": AGENT}


def recall_body(query: str, **filters: object) -> dict[str, Any]:
    budget = {"max_items": 12, "max_tokens": 1400}
    return {**OWNER, "query": query, "scope": "team", "budget": budget, "filters": filters}


@pytest.mark.requirement("MG-20")
def test_agents_of_an_imported_tenant_make_the_calls_that_they_made_before(tmp_path: Path) -> None:
    brain = a_guarded_brain(tmp_path / "brain.db")
    source = f"{fill_sqlite(tmp_path / 'brainstem.db')}#{TENANT}"
    tenants_of(brain).make(TENANT)
    operator = Brain(brain.services, replace(brain.caller, tenant=TENANT))
    assert operator.import_("brainstem", source).stored + 1 == 6  # One waits for a person.
    assert operator.import_("brainstem", source).stored == 0
    keys = {
        name: {"Authorization": f"Bearer {key.text}"}
        for name in (AGENT, "t_77_a_planner")
        for key in [admin_of(operator).create_key(KeyRequest(agent=name, role=Role.WRITER))]
    }
    fact = next(row for row in memories() if row["id"] == "mem_73")
    resource = ProtectedResource(url="http://127.0.0.1:8377")
    with calling(make_app(brain, an_access(brain), resource=resource), key=None) as client:
        client.headers.update(keys[AGENT])
        question = recall_body("Where does depot 73 keep its keys?", trust_min=0.5, types=["fact"])
        [item] = client.post("/v0/memory/recall", json=question).json()["items"]
        shown = client.get(f"/v0/memory/{item['memory_id']}", params=OWNER).json()
        mine = client.post("/v0/memory/recall", json=recall_body("pump 74") | {"scope": "private"})
        client.headers.update(keys["t_77_a_planner"])
        planner = {"agent_id": "t_77_a_planner", "scope": "private"}
        theirs = client.post("/v0/memory/recall", json=recall_body("pump 74") | planner)
        other = client.post("/v0/memory/recall", json=question | {"tenant_id": "t_9"})
        written = {**OWNER, "agent_id": "t_77_a_planner", "items": [{"text": "Pump 80 is new."}]}
        stored = client.post("/v0/memory/remember", json=written).json()

    same = ("type", "text", "confidence", "salience", "trust_level", "scope")
    assert {name: item[name] for name in same} == {name: fact[name] for name in same}
    assert shown["json_payload"] == fact["json_payload"]
    assert shown["source_ref"] == "brainstem#mem_73"
    assert shown["provenance"]["original_ref"] == fact["source_ref"]
    assert [one["text"] for one in mine.json()["items"]] == [
        "In week 74 the crew repaired pump 74 and ordered a gasket for it."
    ]
    assert [one["text"] for one in theirs.json()["items"] if "74" in one["text"]] == []
    assert (other.status_code, other.json()["code"]) == (403, "tenant_mismatch")
    assert stored["accepted"] == 1
