"""`brain serve` on a distributed store, while a worker is killed and comes back."""

import asyncio
import json
from http import HTTPStatus

import httpx2
import pytest
from citus_tenants import citus, distributed_store, names_on_each_worker
from command_output import output_of

from tests.citus import CitusServer
from tests.postgres import Database
from tests.processes import TIMEOUT_S, until
from tests.serving import client_at, free_port, started

__all__ = ["citus", "distributed_store"]
pytestmark = [pytest.mark.citus, pytest.mark.part("distributed")]

QUESTION = {"query": "Where is the store?"}


def key_of(tenant: str) -> str:
    """Create a tenant; return the key of an agent of it."""
    output_of("tenant", "create", tenant)
    made = output_of("--tenant", tenant, "key", "create", "ann", "--role", "writer", "--json")
    return json.loads(made)["secret"]


def an_agent(url: str, *, key: str) -> httpx2.Client:
    """Return a client of the REST API."""
    headers = {"Authorization": f"Bearer {key}"}
    return httpx2.Client(base_url=f"{url}/v1/", headers=headers, timeout=TIMEOUT_S)


def remember(http: httpx2.Client, text: str, *, key: str) -> httpx2.Response:
    return http.post(
        "remember", json={"text": text, "kind": "fact"}, headers={"Idempotency-Key": key}
    )


def recalled(http: httpx2.Client) -> list[str]:
    answer = http.post("recall", json=QUESTION)
    assert answer.is_success, answer.text
    return [one["headline"] for one in answer.json()["items"]]


async def recalled_by_mcp(url: str, *, key: str) -> str:
    async with client_at(url, key=key) as client:
        return str((await client.call_tool("recall", QUESTION)).content)


@pytest.mark.requirement("DO-25")
def test_server_asks_tenants_of_a_lost_worker_to_retry_and_serves_the_others(
    citus: CitusServer, distributed_store: Database
) -> None:
    lost, other = names_on_each_worker(citus, distributed_store)
    worker = citus.place_of(lost, database=distributed_store.name)
    keys = {tenant: key_of(tenant) for tenant in (lost, other)}
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with (
        started(distributed_store.program, "--workers", "2", port=port, is_open=False),
        an_agent(url, key=keys[lost]) as waiting,
        an_agent(url, key=keys[other]) as served,
    ):
        for tenant, http in ((lost, waiting), (other, served)):
            assert remember(http, f"The store of {tenant} is on db1.", key="first").is_success
            assert recalled(http) == [f"The store of {tenant} is on db1."]
        worker.kill()
        again = f"The backups of {lost} are on db2."
        refused = remember(waiting, again, key="second")
        assert refused.status_code == HTTPStatus.SERVICE_UNAVAILABLE
        assert refused.json()["code"] == "store_down"
        assert "Retry-After" in refused.headers
        assert remember(served, f"The backups of {other} are on db2.", key="2").is_success
        assert len(recalled(served)) == 2
        worker.start()
        until(lambda: remember(waiting, again, key="second").is_success)
        assert sorted(recalled(waiting)) == [again, f"The store of {lost} is on db1."]
        assert again in asyncio.run(recalled_by_mcp(url, key=keys[lost]))
